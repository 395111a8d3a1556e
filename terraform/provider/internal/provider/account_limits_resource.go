package provider

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/resourcevalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

// The id of the limits that each service account has without some of its own.
const eachAccount = "default"

type accountLimitsResource struct{ remote }

func newAccountLimits() resource.Resource {
	return &accountLimitsResource{remote{name: "account_limits"}}
}

type accountLimitsModel struct {
	ID               types.String   `tfsdk:"id"`
	Tenant           types.String   `tfsdk:"tenant"`
	ServiceAccount   types.String   `tfsdk:"service_account"`
	ProduceBytesPerS types.Int64    `tfsdk:"produce_bytes_per_s"`
	ConsumeBytesPerS types.Int64    `tfsdk:"consume_bytes_per_s"`
	RequestsPerS     types.Int64    `tfsdk:"requests_per_s"`
	Timeouts         timeouts.Value `tfsdk:"timeouts"`
}

// accountLimitsShape has null where the account has what each has.
type accountLimitsShape struct {
	ProduceBytesPerS *int64 `json:"produce_bytes_per_s"`
	ConsumeBytesPerS *int64 `json:"consume_bytes_per_s"`
	RequestsPerS     *int64 `json:"requests_per_s"`
}

func accountLimitsPath(id string) string {
	if id == eachAccount {
		return "/service-account-limits/default"
	}
	return "/service-accounts" + segment(id) + "/limits"
}

func (r *accountLimitsResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	limit := func(what string) schema.Int64Attribute {
		return schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.AtLeast(0)},
			MarkdownDescription: what + " a second, with all keys, over all brokers. Left out: what each service account has. 0: only the tenant's limit.",
		}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The limits of a service account beside its tenant's, or those of each that has none of its own. **All of them**: one that is set elsewhere is drift. " +
			"At least one is required. Needs an owner's or admin's rights, and no key sets the limits of its own service account. " +
			"Destroying the resource leaves the account what each has. Have one for a service account.",
		Attributes: map[string]schema.Attribute{
			"id":                  idAttribute("The service account's public id; `" + eachAccount + "` without one."),
			"tenant":              tenantAttribute(),
			"service_account":     fixedString(false, "Public id of the service account; without it these are the limits of each that has none of its own."),
			"produce_bytes_per_s": limit("Bytes of batches as sent,"),
			"consume_bytes_per_s": limit("Bytes of batches as pushed,"),
			"requests_per_s":      limit("Requests of its clients,"),
			"timeouts":            timeoutsAttribute(ctx),
		},
	}
}

func (r *accountLimitsResource) ConfigValidators(context.Context) []resource.ConfigValidator {
	return []resource.ConfigValidator{resourcevalidator.AtLeastOneOf(
		path.MatchRoot("produce_bytes_per_s"), path.MatchRoot("consume_bytes_per_s"), path.MatchRoot("requests_per_s"),
	)}
}

func (r *accountLimitsResource) set(ctx context.Context, model *accountLimitsModel) error {
	model.ID = types.StringValue(eachAccount)
	if !model.ServiceAccount.IsNull() {
		model.ID = model.ServiceAccount
	}
	body := accountLimitsShape{
		model.ProduceBytesPerS.ValueInt64Pointer(), model.ConsumeBytesPerS.ValueInt64Pointer(), model.RequestsPerS.ValueInt64Pointer(),
	}
	call := api.Call{Method: http.MethodPut, Path: accountLimitsPath(model.ID.ValueString()), Tenant: model.Tenant.ValueString(), Body: body}
	var changed api.Delivery
	if err := r.client.Do(ctx, call, &changed); err != nil {
		return err
	}
	return r.await(ctx, model.Tenant, tenantPath(changed.Token.Object), changed)
}

func (r *accountLimitsResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan accountLimitsModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Create)
	defer cancel()
	if err := r.set(ctx, &plan); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Limits not set", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *accountLimitsResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state accountLimitsModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	id := state.ID.ValueString()
	var seen accountLimitsShape
	err := r.get(ctx, state.Tenant, accountLimitsPath(id), &seen)
	if api.IsNotFound(err) || (err == nil && seen == accountLimitsShape{}) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Limits not read", err)
		return
	}
	if id != eachAccount {
		state.ServiceAccount = types.StringValue(id)
	}
	state.ProduceBytesPerS = types.Int64PointerValue(seen.ProduceBytesPerS)
	state.ConsumeBytesPerS = types.Int64PointerValue(seen.ConsumeBytesPerS)
	state.RequestsPerS = types.Int64PointerValue(seen.RequestsPerS)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *accountLimitsResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan accountLimitsModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Update)
	defer cancel()
	if err := r.set(ctx, &plan); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Limits not set", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *accountLimitsResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state accountLimitsModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, state.Timeouts.Delete)
	defer cancel()
	gone := api.Delivery{Delivered: true}
	err := r.remove(ctx, state.Tenant, accountLimitsPath(state.ID.ValueString()), &gone)
	if err == nil {
		err = r.await(ctx, state.Tenant, tenantPath(gone.Token.Object), gone)
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Limits not removed", err)
	}
}

func (r *accountLimitsResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}
