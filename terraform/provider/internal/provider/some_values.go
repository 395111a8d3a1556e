package provider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// someValues takes sets and lists with at least one value that is not null. Without any, what limits rights would limit
// nothing: a variable that is null must not give everything.
type someValues struct{}

func (someValues) Description(context.Context) string {
	return "at least one value that is not null"
}
func (v someValues) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (someValues) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	if !req.ConfigValue.IsUnknown() {
		requireSome(&resp.Diagnostics, req.Path, req.ConfigValue, req.ConfigValue.Elements())
	}
}

func (someValues) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if !req.ConfigValue.IsUnknown() {
		requireSome(&resp.Diagnostics, req.Path, req.ConfigValue, req.ConfigValue.Elements())
	}
}

// requireSome refuses elements that are all null. Terraform asks again once it knows those that are not known yet.
func requireSome(diags *diag.Diagnostics, at path.Path, whole attr.Value, elements []attr.Value) {
	some := slices.ContainsFunc(elements, func(element attr.Value) bool { return !element.IsNull() })
	if !whole.IsNull() && !some {
		diags.AddAttributeError(at, "No value", at.String()+": at least one value that is not null is required, or null for the whole attribute")
	}
}
