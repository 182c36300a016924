package movr

import (
	"fmt"
	"slices"
	"strings"

	"meridian/workload"
)

// CitiesOf are the cities of a region, as positions in Cities, in a cluster of some regions: cities of a region that the cluster does not have are spread over
// those that it has.
func CitiesOf(region string, regions []string) (out []int) {
	for i, c := range Cities {
		home := c.Region
		if !slices.Contains(regions, home) && len(regions) > 0 {
			home = regions[i*len(regions)/len(Cities)]
		}
		if home == region {
			out = append(out, i)
		}
	}
	return out
}

// homed are the tables whose rows have their home in the region of their city; promo codes are read everywhere.
var homed = [...]string{"users", "vehicles", "rides", "vehicle_location_histories", "user_promo_codes"}

// Localities are the statements that make the schema of one region serve several, the first of them primary (CRDB'22 table 2): three regions
// take fourteen.
func Localities(database string, regions []string) (out []string) {
	out = workload.DatabaseRegions(database, regions)
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("ALTER TABLE promo_codes SET LOCALITY GLOBAL")
	for _, t := range homed {
		add("ALTER TABLE %s ADD COLUMN crdb_region crdb_internal_region NOT NULL AS (%s) STORED", t, regionOfCity(regions))
		add("ALTER TABLE %s SET LOCALITY REGIONAL BY ROW", t)
	}
	return out
}

// regionOfCity is the expression of a row's home.
func regionOfCity(regions []string) string {
	var b strings.Builder
	b.WriteString("CASE")
	for _, r := range regions[1:] {
		var names []string
		for _, i := range CitiesOf(r, regions) {
			names = append(names, "'"+Cities[i].Name+"'")
		}
		if names != nil {
			fmt.Fprintf(&b, " WHEN city IN (%s) THEN '%s'", strings.Join(names, ", "), strings.ReplaceAll(r, "'", "''"))
		}
	}
	if b.Len() == len("CASE") {
		return "'" + strings.ReplaceAll(regions[0], "'", "''") + "'"
	}
	fmt.Fprintf(&b, " ELSE '%s' END", strings.ReplaceAll(regions[0], "'", "''"))
	return b.String()
}

// CreateDatabase is the statement that makes a database of some regions, unless it is there; the first is its primary one.
func CreateDatabase(name string, regions []string) string {
	s := "CREATE DATABASE IF NOT EXISTS " + name + " PRIMARY REGION " + quoted(regions[0])
	for i, r := range regions[1:] {
		if i == 0 {
			s += " REGIONS "
		} else {
			s += ", "
		}
		s += quoted(r)
	}
	return s
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Schema is the statements that make the tables and their indexes; with regions, in a database that has them, and with localities from the beginning.
func Schema(regions ...string) []string {
	if len(regions) == 0 {
		return slices.Clone(schema[:])
	}
	return regional(regions)
}

// regional is the schema with localities from the beginning.
func regional(regions []string) []string {
	out := slices.Clone(schema[:])
	for i, t := range Tables {
		if slices.Contains(homed[:], t) {
			head, _ := strings.CutSuffix(out[i], ")")
			out[i] = head + ",\n\tcrdb_region crdb_internal_region NOT NULL AS (" + regionOfCity(regions) + ") STORED) LOCALITY REGIONAL BY ROW"
		} else {
			out[i] += " LOCALITY GLOBAL"
		}
	}
	return out
}
