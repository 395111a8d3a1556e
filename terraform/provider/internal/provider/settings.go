package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// settingsShown are values of JSON as text. What is null is left out.
func settingsShown(values map[string]any) map[string]attr.Value {
	shown := map[string]attr.Value{}
	for name, value := range values {
		if value != nil {
			shown[name] = types.StringValue(fmt.Sprint(value))
		}
	}
	return shown
}

// named are the elements of a map without those that are null: `name = var.x` with a variable that is null names nothing.
func named(all types.Map) map[string]attr.Value {
	elements := all.Elements()
	for name, value := range elements {
		if value.IsNull() {
			delete(elements, name)
		}
	}
	return elements
}

// limitsNamed are the limits of a configuration.
func limitsNamed(all types.Map) map[string]int64 {
	limits := map[string]int64{}
	for name, limit := range named(all) {
		limits[name] = limit.(types.Int64).ValueInt64()
	}
	return limits
}

// limitsShown are limits for the state. Those that the configuration names as null stay so unless there is one.
func limitsShown(limits map[string]int64, before types.Map) types.Map {
	shown := before.Elements()
	for name, value := range shown {
		if !value.IsNull() {
			delete(shown, name)
		}
	}
	for name, limit := range limits {
		shown[name] = types.Int64Value(limit)
	}
	return types.MapValueMust(types.Int64Type, shown)
}
