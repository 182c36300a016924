package scalar

// Parameters are the names of a function's arguments, and, as SQL, the defaults of those that may be left out, which are the last ones.
type Parameters struct {
	Names    []string
	Defaults []string
}

// parameters are PostgreSQL's pg_proc.proargnames and proargdefaults of the functions that Meridian has.
var parameters = map[string][]Parameters{
	"aclexplode":                {{Names: []string{"acl"}}},
	"json_array_element":        {{Names: []string{"from_json", "element_index"}}},
	"json_array_element_text":   {{Names: []string{"from_json", "element_index"}}},
	"json_array_elements":       {{Names: []string{"from_json"}}},
	"json_array_elements_text":  {{Names: []string{"from_json"}}},
	"json_each":                 {{Names: []string{"from_json"}}},
	"json_each_text":            {{Names: []string{"from_json"}}},
	"json_object_field":         {{Names: []string{"from_json", "field_name"}}},
	"json_object_field_text":    {{Names: []string{"from_json", "field_name"}}},
	"json_populate_record":      {{Names: []string{"base", "from_json", "use_json_as_text"}, Defaults: []string{"false"}}},
	"json_populate_recordset":   {{Names: []string{"base", "from_json", "use_json_as_text"}, Defaults: []string{"false"}}},
	"jsonb_array_element":       {{Names: []string{"from_json", "element_index"}}},
	"jsonb_array_element_text":  {{Names: []string{"from_json", "element_index"}}},
	"jsonb_array_elements":      {{Names: []string{"from_json"}}},
	"jsonb_array_elements_text": {{Names: []string{"from_json"}}},
	"jsonb_each":                {{Names: []string{"from_json"}}},
	"jsonb_each_text":           {{Names: []string{"from_json"}}},
	"jsonb_insert":              {{Names: []string{"jsonb_in", "path", "replacement", "insert_after"}, Defaults: []string{"false"}}},
	"jsonb_object_field":        {{Names: []string{"from_json", "field_name"}}},
	"jsonb_object_field_text":   {{Names: []string{"from_json", "field_name"}}},
	"jsonb_path_exists":         jsonPath,
	"jsonb_path_exists_tz":      jsonPath,
	"jsonb_path_match":          jsonPath,
	"jsonb_path_match_tz":       jsonPath,
	"jsonb_path_query":          jsonPath,
	"jsonb_path_query_array":    jsonPath,
	"jsonb_path_query_array_tz": jsonPath,
	"jsonb_path_query_first":    jsonPath,
	"jsonb_path_query_first_tz": jsonPath,
	"jsonb_path_query_tz":       jsonPath,
	"jsonb_set":                 {{Names: []string{"jsonb_in", "path", "replacement", "create_if_missing"}, Defaults: []string{"true"}}},
	"jsonb_set_lax": {{Names: []string{"jsonb_in", "path", "replacement", "create_if_missing", "null_value_treatment"},
		Defaults: []string{"true", "'use_json_null'"}}},
	"make_date":      {{Names: []string{"year", "month", "day"}}},
	"make_interval":  {{Names: []string{"years", "months", "weeks", "days", "hours", "mins", "secs"}, Defaults: []string{"0", "0", "0", "0", "0", "0", "0.0"}}},
	"make_time":      {{Names: []string{"hour", "min", "sec"}}},
	"make_timestamp": {{Names: []string{"year", "month", "mday", "hour", "min", "sec"}}},
	"make_timestamptz": {{Names: []string{"year", "month", "mday", "hour", "min", "sec"}},
		{Names: []string{"year", "month", "mday", "hour", "min", "sec", "timezone"}}},
	"parse_ident":            {{Names: []string{"str", "strict"}, Defaults: []string{"true"}}},
	"pg_get_object_address":  {{Names: []string{"type", "object_names", "object_args"}}},
	"pg_identify_object":     {{Names: []string{"classid", "objid", "objsubid"}}},
	"pg_options_to_table":    {{Names: []string{"options_array"}}},
	"pg_partition_ancestors": {{Names: []string{"partitionid"}}},
	"pg_partition_tree":      {{Names: []string{"rootrelid"}}},
	"pg_sequence_parameters": {{Names: []string{"sequence_oid"}}},
	"pg_terminate_backend":   {{Names: []string{"pid", "timeout"}, Defaults: []string{"0"}}},
}

var jsonPath = []Parameters{{Names: []string{"target", "path", "vars", "silent"}, Defaults: []string{"'{}'", "false"}}}

// ParametersOf are the names of a function's arguments, for each of the numbers of arguments that it takes; nil: they have none.
func ParametersOf(name string) []Parameters { return parameters[name] }
