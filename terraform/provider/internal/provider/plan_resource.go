package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

const plansPath = "/plans"

type planResource struct{ remote }

func newPlan() resource.Resource { return &planResource{remote{name: "plan"}} }

type publishedPlanModel struct {
	ID      types.String `tfsdk:"id"`
	Name    types.String `tfsdk:"name"`
	Limits  types.Map    `tfsdk:"limits"`
	Level   types.String `tfsdk:"service_level"`
	Version types.Int64  `tfsdk:"version"`
}

func (r *planResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A plan: limits that tenants are put on. Needs an operator's token. **Versions never change**: other limits are published as the next version, " +
			"and tenants stay on the one that they have until `penstock_plan_assignment` moves them. Nothing removes a plan: destroying the resource leaves it, and says so.",
		Attributes: map[string]schema.Attribute{
			"id":   idAttribute("The plan's name."),
			"name": fixedString(true, "Name."),
			"limits": schema.MapAttribute{
				Required: true, ElementType: types.Int64Type,
				MarkdownDescription: "Limits by name, as `{ produce_bytes_per_s = 1048576, topics_max = 20 }`; one that is 0, null or left out is no limit. The names are those of `penstock_plans`.",
			},
			"service_level": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "What is promised for months that begin while a tenant is on the plan: the name of a shipped level, `standard` or `premium`, " +
					"or a level of the plan's own as JSON, as `jsonencode({ target_parts = 999000000, tiers = [] })`. Without it `standard`.",
			},
			"version": schema.Int64Attribute{Computed: true, MarkdownDescription: "Its newest version, which has these limits and this level."},
		},
	}
}

func (r *planResource) publish(ctx context.Context, model *publishedPlanModel) error {
	var published planShape
	body := map[string]any{"name": model.Name.ValueString(), "limits": limitsNamed(model.Limits)}
	if !model.Level.IsNull() {
		level, err := levelSent(model.Level.ValueString())
		if err != nil {
			return err
		}
		body["service_level"] = level
	}
	if err := r.post(ctx, types.StringNull(), plansPath, body, &published); err != nil {
		return err
	}
	model.ID, model.Version = types.StringValue(published.Name), types.Int64Value(published.Version)
	return nil
}

func (r *planResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan publishedPlanModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.publish(ctx, &plan); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Plan not published", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *planResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state publishedPlanModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	all, err := api.List[planShape](ctx, r.client, "", plansPath)
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Plan not read", err)
		return
	}
	var newest *planShape
	for _, plan := range all {
		if plan.Name == state.ID.ValueString() && (newest == nil || plan.Version > newest.Version) {
			newest = &plan
		}
	}
	if newest == nil {
		resp.State.RemoveResource(ctx)
		return
	}
	// A limit of 0 is shown where the configuration names it.
	before := named(state.Limits)
	limits := map[string]int64{}
	for name, limit := range newest.Limits {
		if _, there := before[name]; there || limit != 0 {
			limits[name] = limit
		}
	}
	shown := limitsShown(limits, state.Limits)
	level, err := levelShown(newest.ServiceLevel, state.Level)
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Plan not read", err)
		return
	}
	state.Name, state.Version, state.Limits, state.Level = types.StringValue(newest.Name), types.Int64Value(newest.Version), shown, level
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *planResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan publishedPlanModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.publish(ctx, &plan); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Plan not published", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *planResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state publishedPlanModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.AddWarning("The plan stays", fmt.Sprintf(
		"Plans are never removed: %s stays, with version %d as its newest, and Terraform manages it no more.",
		state.ID.ValueString(), state.Version.ValueInt64()))
}

func (r *planResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, idPath, req, resp)
}
