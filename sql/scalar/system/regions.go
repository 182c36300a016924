package system

import (
	"slices"

	"meridian/sql/scalar"
	"meridian/sql/types"
)

// addRegions adds the functions about regions of nodes and databases.
func addRegions(r *scalar.Registry) {
	here := func(ctx *scalar.Context) types.Datum {
		if region := session(ctx).GatewayRegion(); region != "" {
			return types.NewString(region)
		}
		return types.Null
	}
	// inDatabase is a region if the database has it, else its primary region; NULL if it has no regions.
	inDatabase := func(ctx *scalar.Context, region types.Datum) (types.Datum, error) {
		primary, all, err := session(ctx).DatabaseRegions(statement(ctx))
		switch {
		case err != nil || primary == "":
			return types.Null, err
		case !region.IsNull() && slices.Contains(all, region.Str()):
			return region, nil
		}
		return types.NewString(primary), nil
	}
	r.Func("gateway_region() text", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return here(ctx), nil
	}).Stable()
	r.Func("default_to_database_primary_region(text) text", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		return inDatabase(ctx, a[0])
	}).Stable().WithNulls()
	r.Func("validate_multi_region_zone_configs() bool", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return types.NewBool(true), session(ctx).ValidateRegions(statement(ctx))
	}).Stable()
	r.Func("rehome_row() text", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return inDatabase(ctx, here(ctx))
	}).Stable()
}
