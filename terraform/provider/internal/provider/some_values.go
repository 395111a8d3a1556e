package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// someValues takes sets and lists with at least one value that is not null. Without any, what limits rights would limit
// nothing: a variable that is null must not give everything.
type someValues struct{}

func (someValues) Description(context.Context) string {
	return "at least one value that is not null"
}
func (v someValues) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (someValues) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	if !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() && noValue(req.ConfigValue.Elements()) {
		sayNoValue(&resp.Diagnostics, req.Path)
	}
}

func (someValues) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() && noValue(req.ConfigValue.Elements()) {
		sayNoValue(&resp.Diagnostics, req.Path)
	}
}

// noValue says whether all of them are null; what is not known yet may be a value.
func noValue(elements []attr.Value) bool {
	for _, element := range elements {
		if !element.IsNull() {
			return false
		}
	}
	return true
}

func sayNoValue(diags *diag.Diagnostics, at path.Path) {
	diags.AddAttributeError(at, "No value", at.String()+": at least one value that is not null is required, or null for the whole attribute")
}

// limiting are the values of a set that limits rights. Values that were not known to the plan may all be null after all.
func limiting(ctx context.Context, diags *diag.Diagnostics, at path.Path, set types.Set) []string {
	if !set.IsNull() && noValue(set.Elements()) {
		sayNoValue(diags, at)
	}
	return stringsOf(ctx, diags, set)
}
