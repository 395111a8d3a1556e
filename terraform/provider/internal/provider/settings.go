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
