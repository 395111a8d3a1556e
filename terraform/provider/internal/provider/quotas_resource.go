package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

const quotasPath = "/quotas"

// quotasSeen are a tenant's limits, its plan's, and which of them are the tenant's own.
type quotasSeen struct {
	Tenant      string
	Plan        string
	PlanVersion int64
	Limits      map[string]int64
	OfThePlan   map[string]int64
}

type planShape struct {
	Name         string           `json:"name"`
	Version      int64            `json:"version"`
	Limits       map[string]int64 `json:"limits"`
	ServiceLevel json.RawMessage  `json:"service_level"`
}

// own are the limits that are not the plan's. One of the same value as the plan's cannot be distinguished from it.
func (q *quotasSeen) own() map[string]int64 {
	own := map[string]int64{}
	for name, limit := range q.Limits {
		if limit != q.OfThePlan[name] {
			own[name] = limit
		}
	}
	return own
}

func quotasOf(ctx context.Context, client *api.Client, tenant string) (*quotasSeen, error) {
	answer := map[string]any{}
	if err := client.Do(ctx, api.Call{Method: http.MethodGet, Path: quotasPath, Tenant: tenant}, &answer); err != nil {
		return nil, err
	}
	plans, err := api.List[planShape](ctx, client, tenant, "/plans")
	if err != nil {
		return nil, err
	}
	seen := &quotasSeen{Limits: map[string]int64{}}
	seen.Tenant, seen.Plan = fmt.Sprint(answer["tenant"]), fmt.Sprint(answer["plan"])
	seen.PlanVersion, err = strconv.ParseInt(fmt.Sprint(answer["plan_version"]), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("plan_version: %w", err)
	}
	for _, plan := range plans {
		if plan.Name == seen.Plan && plan.Version == seen.PlanVersion {
			seen.OfThePlan = plan.Limits
		}
	}
	if seen.OfThePlan == nil {
		return nil, fmt.Errorf("plan %s, version %d: not among the service's plans", seen.Plan, seen.PlanVersion)
	}
	for name := range seen.OfThePlan {
		limit, err := strconv.ParseInt(fmt.Sprint(answer[name]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		seen.Limits[name] = limit
	}
	return seen, nil
}

// setPlan puts the tenant on a plan, its newest version where that is 0, with limits of its own, and ends every other.
func (r *remote) setPlan(ctx context.Context, tenant types.String, plan string, version int64, own map[string]int64) error {
	body := map[string]any{"plan": plan}
	if version != 0 {
		body["plan_version"] = version
	}
	for name, limit := range own {
		body[name] = limit
	}
	var changed api.Delivery
	if err := r.patch(ctx, tenant, quotasPath, body, &changed); err != nil {
		return err
	}
	return r.await(ctx, tenant, tenantPath(changed.Token.Object), changed)
}

// -- limits of a tenant's own --------------------------------------------------------------------------------

type quotaResource struct{ remote }

func newQuota() resource.Resource { return &quotaResource{remote{name: "quota"}} }

type quotaModel struct {
	ID       types.String   `tfsdk:"id"`
	Tenant   types.String   `tfsdk:"tenant"`
	Limits   types.Map      `tfsdk:"limits"`
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

func (r *quotaResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The limits of a tenant's own, in place of its plan's. **All of them**: one that is set elsewhere is drift, and the next apply ends it. " +
			"Needs an operator's token. Destroying the resource leaves the plan's limits. Have one for a tenant.",
		Attributes: map[string]schema.Attribute{
			"id":     idAttribute("The tenant's public id."),
			"tenant": tenantAttribute(),
			"limits": schema.MapAttribute{
				Required: true, ElementType: types.Int64Type,
				MarkdownDescription: "Limits by name, as `{ produce_bytes_per_s = 1048576, consume_bytes_per_s = 3145728 }`; 0 = no limit, null or left out = the plan's. The names are those of `penstock_plans`.",
			},
			"timeouts": timeoutsAttribute(ctx),
		},
	}
}

func (r *quotaResource) set(ctx context.Context, model *quotaModel) error {
	seen, err := quotasOf(ctx, r.client, model.Tenant.ValueString())
	if err != nil {
		return err
	}
	model.ID = types.StringValue(seen.Tenant)
	return r.setPlan(ctx, model.Tenant, seen.Plan, seen.PlanVersion, limitsNamed(model.Limits))
}

func (r *quotaResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan quotaModel
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

func (r *quotaResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state quotaModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	seen, err := quotasOf(ctx, r.client, state.Tenant.ValueString())
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Limits not read", err)
		return
	}
	own := seen.own()
	for name := range named(state.Limits) {
		if limit, there := seen.Limits[name]; there {
			own[name] = limit
		}
	}
	state.ID = types.StringValue(seen.Tenant)
	state.Limits = limitsShown(own, state.Limits)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *quotaResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan quotaModel
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

func (r *quotaResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state quotaModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, state.Timeouts.Delete)
	defer cancel()
	state.Limits = types.MapValueMust(types.Int64Type, nil)
	if err := r.set(ctx, &state); err != nil && !api.IsNotFound(err) {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Limits not ended", err)
	}
}

func (r *quotaResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "tenant", req, resp)
}

// -- plans -------------------------------------------------------------------------------------------------------

type planAssignmentResource struct{ remote }

func newPlanAssignment() resource.Resource {
	return &planAssignmentResource{remote{name: "plan_assignment"}}
}

type planAssignmentModel struct {
	ID       types.String   `tfsdk:"id"`
	Tenant   types.String   `tfsdk:"tenant"`
	Plan     types.String   `tfsdk:"plan"`
	Version  types.Int64    `tfsdk:"plan_version"`
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

func (r *planAssignmentResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The plan that a tenant is on. Needs an operator's token. Limits of the tenant's own stay. A plan below what the tenant uses is refused. " +
			"A tenant is always on a plan: destroying the resource leaves it on this one, and says so.",
		Attributes: map[string]schema.Attribute{
			"id":     idAttribute("The tenant's public id."),
			"tenant": tenantAttribute(),
			"plan":   schema.StringAttribute{Required: true, MarkdownDescription: "Name of the plan."},
			"plan_version": schema.Int64Attribute{
				Optional: true, Computed: true, PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
				MarkdownDescription: "Version of the plan; the newest when the plan is assigned, unless given.",
			},
			"timeouts": timeoutsAttribute(ctx),
		},
	}
}

// ModifyPlan lets another plan have its own newest version.
func (r *planAssignmentResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var before, after, given planAssignmentModel
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &after)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &given)...)
	if !after.Plan.Equal(before.Plan) && given.Version.IsNull() {
		after.Version = types.Int64Unknown()
		resp.Diagnostics.Append(resp.Plan.Set(ctx, after)...)
	}
}

func (r *planAssignmentResource) set(ctx context.Context, model *planAssignmentModel) error {
	seen, err := quotasOf(ctx, r.client, model.Tenant.ValueString())
	if err != nil {
		return err
	}
	version := model.Version.ValueInt64() // 0 if unknown: the newest
	if err := r.setPlan(ctx, model.Tenant, model.Plan.ValueString(), version, seen.own()); err != nil {
		return err
	}
	seen, err = quotasOf(ctx, r.client, model.Tenant.ValueString())
	if err != nil {
		return err
	}
	model.ID, model.Version = types.StringValue(seen.Tenant), types.Int64Value(seen.PlanVersion)
	return nil
}

func (r *planAssignmentResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan planAssignmentModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Create)
	defer cancel()
	if err := r.set(ctx, &plan); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Plan not assigned", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *planAssignmentResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state planAssignmentModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	seen, err := quotasOf(ctx, r.client, state.Tenant.ValueString())
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Plan not read", err)
		return
	}
	state.ID, state.Plan, state.Version = types.StringValue(seen.Tenant), types.StringValue(seen.Plan), types.Int64Value(seen.PlanVersion)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *planAssignmentResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan planAssignmentModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Update)
	defer cancel()
	if err := r.set(ctx, &plan); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Plan not assigned", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *planAssignmentResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state planAssignmentModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.AddWarning("The tenant stays on its plan", fmt.Sprintf(
		"A tenant is always on a plan: %s stays on %s, and Terraform manages it no more.", state.ID.ValueString(), state.Plan.ValueString()))
}

func (r *planAssignmentResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "tenant", req, resp)
}
