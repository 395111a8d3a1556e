package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

type tenantResource struct{ remote }

func newTenant() resource.Resource { return &tenantResource{remote{name: "tenant"}} }

type tenantModel struct {
	ID                 types.String   `tfsdk:"id"`
	Name               types.String   `tfsdk:"name"`
	DeletionProtection types.Bool     `tfsdk:"deletion_protection"`
	SecondFactor       types.Bool     `tfsdk:"second_factor_required"`
	GraceDays          types.Int64    `tfsdk:"second_factor_grace_days"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`
}

type tenantShape struct {
	api.Delivery
	api.State
	ID                 string  `json:"id"`
	Name               string  `json:"name"`
	Suspended          bool    `json:"suspended"`
	DeletionProtection bool    `json:"deletion_protection"`
	SecondFactorFrom   *string `json:"second_factor_from"`
	ClosedAt           *string `json:"closed_at"`
	CreatedAt          string  `json:"created_at"`
}

func tenantPath(id string) string { return "/tenants" + segment(id) }

func (r *tenantResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A tenant.\n\n" +
			"Only a person makes a tenant, and is its owner: making one needs the token of a session. An operator's token imports, protects and closes tenants. " +
			"Destroying the resource **closes** the tenant: its keys are refused, and for 30 days it can be reopened; then all of it is deleted. " +
			"Another name closes the tenant and makes a new, empty one; the plan is refused while the tenant is protected.",
		Attributes: map[string]schema.Attribute{
			"id":   idAttribute("Public id."),
			"name": fixedString(true, "Name."),
			"deletion_protection": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Whether the service refuses to close the tenant; true unless given.",
			},
			"second_factor_required": schema.BoolAttribute{
				Optional: true, Computed: true, PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Whether only people with a second factor are let in; keys go on. Left as it is unless given. " +
					"Needs the token of a session of an owner who has a second factor.",
			},
			"second_factor_grace_days": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{
					int64validator.AtLeast(0), int64validator.AlsoRequires(path.MatchRoot("second_factor_required")),
				},
				MarkdownDescription: "Days that people without a second factor have when it begins to be required; the service's usual, unless given. Another number alone changes nothing.",
			},
			"timeouts": timeoutsAttribute(ctx),
		},
	}
}

// ModifyPlan refuses to close a protected tenant before anything is changed.
func (r *tenantResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() {
		return
	}
	var before, after tenantModel
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	if !req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(req.Plan.Get(ctx, &after)...)
		if after.Name.Equal(before.Name) {
			return
		}
	}
	if before.DeletionProtection.ValueBool() {
		resp.Diagnostics.AddError("The tenant is protected", before.ID.ValueString()+
			" has deletion_protection, and the plan closes it. Set deletion_protection to false and apply, then close it.")
	}
}

func (r *tenantResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan tenantModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Create)
	defer cancel()
	var made tenantShape
	err := r.post(ctx, types.StringNull(), "/tenants", map[string]any{"name": plan.Name.ValueString()}, &made)
	if err != nil {
		none := types.StringNull()
		r.sayHowToImport(&resp.Diagnostics, err, none, r.idNamed(ctx, none, "/tenants", plan.Name.ValueString()))
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Tenant not made", err)
		return
	}
	plan.ID = types.StringValue(made.ID)
	notYet := types.BoolValue(false)
	if plan.SecondFactor.IsUnknown() {
		plan.SecondFactor = notYet
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	err = r.await(ctx, plan.ID, tenantPath(made.ID), made.Delivery)
	if made.DeletionProtection != plan.DeletionProtection.ValueBool() || plan.SecondFactor.ValueBool() {
		// Where this fails, the next plan shows it as drift.
		err = errors.Join(err, r.set(ctx, &plan, notYet))
	}
	if err != nil {
		warn(&resp.Diagnostics, "Tenant made", err)
	}
}

// set changes the tenant to what the model says. `required`: whether a second factor is, as things stand.
func (r *tenantResource) set(ctx context.Context, model *tenantModel, required types.Bool) error {
	id := model.ID.ValueString()
	body := map[string]any{"deletion_protection": model.DeletionProtection.ValueBool()}
	if !model.SecondFactor.IsUnknown() && !model.SecondFactor.IsNull() && !model.SecondFactor.Equal(required) {
		body["second_factor_required"] = model.SecondFactor.ValueBool()
		if model.SecondFactor.ValueBool() && !model.GraceDays.IsNull() {
			body["second_factor_grace_days"] = model.GraceDays.ValueInt64()
		}
	}
	var changed tenantShape
	if err := r.patch(ctx, model.ID, tenantPath(id), body, &changed); err != nil {
		return err
	}
	model.shown(changed)
	return r.await(ctx, model.ID, tenantPath(id), changed.Delivery)
}

func (m *tenantModel) shown(seen tenantShape) {
	m.DeletionProtection = types.BoolValue(seen.DeletionProtection)
	m.SecondFactor = types.BoolValue(seen.SecondFactorFrom != nil)
}

func (r *tenantResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state tenantModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var seen tenantShape
	err := r.get(ctx, state.ID, tenantPath(state.ID.ValueString()), &seen)
	if api.IsNotFound(err) || (err == nil && seen.ClosedAt != nil) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Tenant not read", err)
		return
	}
	state.Name = types.StringValue(seen.Name)
	state.shown(seen)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *tenantResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state tenantModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Update)
	defer cancel()
	if err := r.set(ctx, &plan, state.SecondFactor); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Tenant not changed", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *tenantResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state tenantModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, state.Timeouts.Delete)
	defer cancel()
	gone := tenantShape{Delivery: api.Delivery{Delivered: true}}
	at := tenantPath(state.ID.ValueString())
	err := r.remove(ctx, state.ID, at, &gone)
	if err == nil {
		err = r.await(ctx, state.ID, at, gone.Delivery)
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Tenant not closed", err)
	}
}

func (r *tenantResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}
