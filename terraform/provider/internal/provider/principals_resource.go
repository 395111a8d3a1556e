package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

// Where the generation of a tenant's access list is read: entries and groups are delivered with the whole list.
const accessListPath = "/access"

// -- service accounts ------------------------------------------------------------------------------------------

type serviceAccountResource struct{ remote }

func newServiceAccount() resource.Resource {
	return &serviceAccountResource{remote{name: "service_account"}}
}

type serviceAccountModel struct {
	ID        types.String `tfsdk:"id"`
	Tenant    types.String `tfsdk:"tenant"`
	Name      types.String `tfsdk:"name"`
	Principal types.String `tfsdk:"principal"`
}

type serviceAccountShape struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (m *serviceAccountModel) show(seen serviceAccountShape) {
	m.ID, m.Name = types.StringValue(seen.ID), types.StringValue(seen.Name)
	m.Principal = types.StringValue("service_account:" + seen.ID)
}

func (r *serviceAccountResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A service account: a principal that is no person. Its keys outlive who made them. " +
			"Deleting it **revokes its keys**, on open streams too, and removes the entries of the access list that name it.",
		Attributes: map[string]schema.Attribute{
			"id":        idAttribute("Public id."),
			"tenant":    tenantAttribute(),
			"name":      fixedString(true, "Name."),
			"principal": idAttribute("As access lists name it: `service_account:<id>`."),
		},
	}
}

func (r *serviceAccountResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan serviceAccountModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var made serviceAccountShape
	err := r.post(ctx, plan.Tenant, "/service-accounts", map[string]any{"name": plan.Name.ValueString()}, &made)
	if err != nil {
		r.sayHowToImport(&resp.Diagnostics, err, plan.Tenant, r.idNamed(ctx, plan.Tenant, "/service-accounts", plan.Name.ValueString()))
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Service account not made", err)
		return
	}
	plan.show(made)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *serviceAccountResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state serviceAccountModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var seen serviceAccountShape
	err := r.get(ctx, state.Tenant, "/service-accounts"+segment(state.ID.ValueString()), &seen)
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Service account not read", err)
		return
	}
	state.show(seen)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// Update is not called: every attribute that can be set replaces the account.
func (r *serviceAccountResource) Update(_ context.Context, _ resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.Diagnostics.AddError("Fault of the provider", "a service account does not change")
}

func (r *serviceAccountResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state serviceAccountModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, state.Tenant, "/service-accounts"+segment(state.ID.ValueString()), nil); err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Service account not deleted", err)
	}
}

func (r *serviceAccountResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}

// -- groups ----------------------------------------------------------------------------------------------------

type principalGroupResource struct{ remote }

func newPrincipalGroup() resource.Resource {
	return &principalGroupResource{remote{name: "principal_group"}}
}

type principalGroupModel struct {
	ID        types.String   `tfsdk:"id"`
	Tenant    types.String   `tfsdk:"tenant"`
	Name      types.String   `tfsdk:"name"`
	Members   types.Set      `tfsdk:"members"`
	Principal types.String   `tfsdk:"principal"`
	Timeouts  timeouts.Value `tfsdk:"timeouts"`
}

type principalGroupShape struct {
	api.Delivery
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Members []string `json:"members"`
}

func (r *principalGroupResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A group of principals, which access lists name. It holds all of its members: others, added elsewhere, are removed.",
		Attributes: map[string]schema.Attribute{
			"id":     idAttribute("Public id."),
			"tenant": tenantAttribute(),
			"name":   fixedString(true, "Name."),
			"members": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "`person:<id>`, `service_account:<id>` and other groups, `group:<id>`.",
			},
			"principal": idAttribute("As access lists name it: `group:<id>`."),
			"timeouts":  timeoutsAttribute(ctx),
		},
	}
}

func (r *principalGroupResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan principalGroupModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Create)
	defer cancel()
	body := map[string]any{"name": plan.Name.ValueString(), "members": stringsOf(ctx, &resp.Diagnostics, plan.Members)}
	var made principalGroupShape
	if err := r.post(ctx, plan.Tenant, "/principal-groups", body, &made); err != nil {
		r.sayHowToImport(&resp.Diagnostics, err, plan.Tenant, r.idNamed(ctx, plan.Tenant, "/principal-groups", plan.Name.ValueString()))
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Group not made", err)
		return
	}
	plan.ID, plan.Principal = types.StringValue(made.ID), types.StringValue("group:"+made.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := r.await(ctx, plan.Tenant, accessListPath, made.Delivery); err != nil {
		warn(&resp.Diagnostics, "Group made", err)
	}
}

func (r *principalGroupResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state principalGroupModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var seen principalGroupShape
	err := r.get(ctx, state.Tenant, "/principal-groups"+segment(state.ID.ValueString()), &seen)
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Group not read", err)
		return
	}
	state.Name, state.Principal = types.StringValue(seen.Name), types.StringValue("group:"+seen.ID)
	state.Members = setOf(ctx, &resp.Diagnostics, seen.Members, state.Members)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *principalGroupResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan principalGroupModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Update)
	defer cancel()
	body := map[string]any{"members": stringsOf(ctx, &resp.Diagnostics, plan.Members)}
	var changed principalGroupShape
	if err := r.patch(ctx, plan.Tenant, "/principal-groups"+segment(plan.ID.ValueString()), body, &changed); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Group not changed", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := r.await(ctx, plan.Tenant, accessListPath, changed.Delivery); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Group changed", err)
	}
}

func (r *principalGroupResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state principalGroupModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, state.Timeouts.Delete)
	defer cancel()
	gone := api.Delivery{Delivered: true}
	err := r.remove(ctx, state.Tenant, "/principal-groups"+segment(state.ID.ValueString()), &gone)
	if err == nil {
		err = r.await(ctx, state.Tenant, accessListPath, gone)
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Group not deleted", err)
	}
}

func (r *principalGroupResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}
