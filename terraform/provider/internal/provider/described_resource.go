package provider

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"penstock.example/terraform/provider/internal/api"
)

const tenantAttributeName = "tenant"

// describedResource is a resource that is nothing but its fields: made, read, changed and removed by its id.
type describedResource struct {
	remote
	description resourceDescription
}

func newDescribed(name string) func() resource.Resource {
	return func() resource.Resource {
		return &describedResource{remote{name: name}, descriptions[name]}
	}
}

func (r *describedResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := describedAttributes(r.description.Fields)
	attributes["id"], attributes[tenantAttributeName] = idAttribute("Public id."), tenantAttribute()
	attributes["timeouts"] = timeoutsAttribute(ctx)
	resp.Schema = schema.Schema{MarkdownDescription: r.description.About, Attributes: attributes}
}

func (r *describedResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var tenant types.String
	var times timeouts.Value
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(tenantAttributeName), &tenant)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("timeouts"), &times)...)
	plan, err := valuesOf(req.Plan.Raw)
	if failed(&resp.Diagnostics, err) {
		return
	}
	body, err := plan.body(r.description.Fields)
	if failed(&resp.Diagnostics, err) {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, times.Create)
	defer cancel()
	answer := map[string]any{}
	if err := r.post(ctx, tenant, r.description.Path, body, &answer); err != nil {
		name, _ := body["name"].(string)
		r.sayHowToImport(&resp.Diagnostics, err, tenant, r.idNamed(ctx, tenant, r.description.Path, name))
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), r.said("not made"), err)
		return
	}
	plan["id"] = tftypes.NewValue(tftypes.String, fmt.Sprint(answer["id"]))
	resp.State.Raw = tftypes.NewValue(req.Plan.Raw.Type(), map[string]tftypes.Value(plan))
	if err := r.delivered(ctx, tenant, answer); err != nil {
		warn(&resp.Diagnostics, r.said("made"), err)
	}
}

func (r *describedResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var tenant, id types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(tenantAttributeName), &tenant)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("id"), &id)...)
	state, err := valuesOf(req.State.Raw)
	if failed(&resp.Diagnostics, err) {
		return
	}
	answer := map[string]any{}
	err = r.get(ctx, tenant, r.pathOf(id), &answer)
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err == nil {
		err = state.show(r.description.Fields, answer)
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), r.said("not read"), err)
		return
	}
	resp.State.Raw = tftypes.NewValue(req.State.Raw.Type(), map[string]tftypes.Value(state))
}

func (r *describedResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var tenant, id types.String
	var times timeouts.Value
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("id"), &id)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(tenantAttributeName), &tenant)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("timeouts"), &times)...)
	plan, err := valuesOf(req.Plan.Raw)
	if failed(&resp.Diagnostics, err) {
		return
	}
	changeable := []fieldDescription{}
	for _, field := range r.description.Fields {
		if !field.Replaced {
			changeable = append(changeable, field)
		}
	}
	body, err := plan.body(changeable)
	if failed(&resp.Diagnostics, err) {
		return
	}
	for _, field := range changeable {
		if plan[field.Name].IsNull() && field.Default != nil {
			body[field.Name] = field.Default
		}
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, times.Update)
	defer cancel()
	answer := map[string]any{}
	if err := r.patch(ctx, tenant, r.pathOf(id), body, &answer); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), r.said("not changed"), err)
		return
	}
	resp.State.Raw = req.Plan.Raw
	if err := r.delivered(ctx, tenant, answer); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), r.said("changed"), err)
	}
}

func (r *describedResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var tenant, id types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(tenantAttributeName), &tenant)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("id"), &id)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, tenant, r.pathOf(id), nil); err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), r.said("not removed"), err)
	}
}

func (r *describedResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}

func (r *describedResource) pathOf(id types.String) string {
	return r.description.Path + segment(id.ValueString())
}

// said is the resource's name and what became of it, for messages.
func (r *describedResource) said(became string) string {
	return spoken(r.description.Name) + " " + became
}

// delivered returns once brokers have the change, if they get it.
func (r *describedResource) delivered(ctx context.Context, tenant types.String, answer map[string]any) error {
	if !r.description.Delivered {
		return nil
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	var change api.Delivery
	if err := json.Unmarshal(text, &change); err != nil {
		return err
	}
	return r.await(ctx, tenant, tenantPath(change.Token.Object), change)
}

// failed adds the error, if there is one, and says whether to stop.
func failed(diags *diag.Diagnostics, err error) bool {
	if err != nil {
		diags.AddError("Fault of the provider", err.Error())
	}
	return diags.HasError()
}
