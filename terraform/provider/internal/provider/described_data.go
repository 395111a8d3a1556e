package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// describedData reads one object of a described resource by its id.
type describedData struct {
	reading[struct{}]
	description resourceDescription
}

func newDescribedData(name string) func() datasource.DataSource {
	return func() datasource.DataSource {
		described := descriptions[name]
		attributes := map[string]schema.Attribute{tenantAttributeName: ofTenant(), "id": given("Public id.")}
		for _, field := range described.Fields {
			attributes[field.Name] = field.computed()
		}
		about := spoken(name) + " of a tenant, by its id."
		return &describedData{reading[struct{}]{name: name, about: about, attributes: attributes}, described}
	}
}

func (d *describedData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var tenant, id types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(tenantAttributeName), &tenant)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("id"), &id)...)
	found, err := valuesOf(req.Config.Raw)
	if failed(&resp.Diagnostics, err) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutDefault)
	defer cancel()
	answer := map[string]any{}
	err = read(ctx, d.client, tenant, d.description.Path+segment(id.ValueString()), nil, &answer)
	if err == nil {
		err = found.show(d.description.Fields, answer)
	}
	if err != nil {
		report(&resp.Diagnostics, d.attributes, "Not read", err)
		return
	}
	resp.State.Raw = tftypes.NewValue(req.Config.Raw.Type(), map[string]tftypes.Value(found))
}

func (f fieldDescription) computed() schema.Attribute {
	switch f.Kind {
	case kindText:
		return found(f.Meaning)
	case kindWhole:
		return foundNumber(f.Meaning)
	case kindFlag:
		return foundFlag(f.Meaning)
	}
	var items attr.Type = types.StringType
	if f.Kind == kindWholes {
		items = types.Int64Type
	}
	return schema.SetAttribute{Computed: true, ElementType: items, MarkdownDescription: f.Meaning}
}
