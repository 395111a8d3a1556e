package provider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

type budgetResource struct{ remote }

func newBudget() resource.Resource { return &budgetResource{remote{name: "budget"}} }

type budgetModel struct {
	ID             types.String   `tfsdk:"id"`
	Tenant         types.String   `tfsdk:"tenant"`
	Name           types.String   `tfsdk:"name"`
	Period         types.String   `tfsdk:"period"`
	Measure        types.String   `tfsdk:"measure"`
	Amount         types.Int64    `tfsdk:"amount"`
	Policy         types.String   `tfsdk:"policy"`
	Thresholds     types.Set      `tfsdk:"thresholds"`
	SlowBytesPerS  types.Int64    `tfsdk:"slow_bytes_per_s"`
	Topic          types.String   `tfsdk:"topic"`
	ServiceAccount types.String   `tfsdk:"service_account"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

type budgetShape struct {
	api.Delivery
	ID             string  `json:"id"`
	Name           string  `json:"name"`
	Period         string  `json:"period"`
	Measure        string  `json:"measure"`
	Amount         int64   `json:"amount"`
	Policy         string  `json:"policy"`
	Thresholds     []int64 `json:"thresholds"`
	SlowBytesPerS  int64   `json:"slow_bytes_per_s"`
	Topic          string  `json:"topic"`
	ServiceAccount *string `json:"service_account"`
}

func budgetPath(id string) string { return "/budgets" + segment(id) }

func (r *budgetResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A budget: what a tenant may use in a UTC day or month, and what happens at the full amount. Needs a person's or an operator's token: no key makes budgets. " +
			"**Brokers count from when it is made**, and what the period is known to have used before counts, too. What was used is not in the state.",
		Attributes: map[string]schema.Attribute{
			"id":      idAttribute("Public id."),
			"tenant":  tenantAttribute(),
			"name":    schema.StringAttribute{Required: true, MarkdownDescription: "Name."},
			"period":  fixedString(true, "`day` or `month`, of UTC."),
			"measure": fixedString(true, "`bytes` or `messages` as produced, or `cost` of what is produced, by the price book."),
			"amount": schema.Int64Attribute{
				Required: true, Validators: []validator.Int64{int64validator.AtLeast(1)},
				MarkdownDescription: "In a period: bytes, messages, or micro-units of the currency. A higher one releases within seconds.",
			},
			"policy": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "At the full amount: `notify` nothing else, `slow` the produce rate of `slow_bytes_per_s`, `refuse_produce` no new messages, `refuse` neither messages nor reads. `stop_growth`, of a month's cost alone, is a ceiling: no new topics, partitions, copies and longer retention, and a twentieth more storage at most, while the month is expected to cost the amount.",
			},
			"thresholds": schema.SetAttribute{
				Optional: true, Computed: true, ElementType: types.Int64Type, Validators: []validator.Set{setvalidator.SizeAtMost(10)},
				Default: setdefault.StaticValue(types.SetValueMust(types.Int64Type,
					[]attr.Value{types.Int64Value(50), types.Int64Value(80), types.Int64Value(100)})),
				MarkdownDescription: "Percents of the amount at which owners get an e-mail and webhooks an event; 50, 80 and 100 unless given.",
			},
			"slow_bytes_per_s": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(0), Validators: []validator.Int64{int64validator.AtLeast(0)},
				MarkdownDescription: "With the policy `slow`: bytes per second of batches as sent, over all brokers; else 0.",
			},
			"topic":           fixedString(false, "Of this topic alone."),
			"service_account": fixedString(false, "Of the keys of this service account alone: its public id."),
			"timeouts":        timeoutsAttribute(ctx),
		},
	}
}

// changeable is what a budget may change without beginning to count again.
func (m *budgetModel) changeable(ctx context.Context, diags *diag.Diagnostics) map[string]any {
	thresholds := []int64{}
	diags.Append(m.Thresholds.ElementsAs(ctx, &thresholds, false)...)
	slices.Sort(thresholds)
	return map[string]any{
		"name": m.Name.ValueString(), "amount": m.Amount.ValueInt64(), "policy": m.Policy.ValueString(),
		"thresholds": thresholds, "slow_bytes_per_s": m.SlowBytesPerS.ValueInt64(),
	}
}

func (r *budgetResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan budgetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Create)
	defer cancel()
	body := plan.changeable(ctx, &resp.Diagnostics)
	body["period"], body["measure"] = plan.Period.ValueString(), plan.Measure.ValueString()
	body["topic"], body["service_account"] = plan.Topic.ValueString(), plan.ServiceAccount.ValueString()
	var made budgetShape
	if err := r.post(ctx, plan.Tenant, "/budgets", body, &made); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Budget not made", err)
		return
	}
	plan.ID = types.StringValue(made.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := r.await(ctx, plan.Tenant, tenantPath(made.Token.Object), made.Delivery); err != nil {
		warn(&resp.Diagnostics, "Budget made", err)
	}
}

func (r *budgetResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state budgetModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var seen budgetShape
	err := r.get(ctx, state.Tenant, budgetPath(state.ID.ValueString()), &seen)
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Budget not read", err)
		return
	}
	thresholds, found := types.SetValueFrom(ctx, types.Int64Type, seen.Thresholds)
	resp.Diagnostics.Append(found...)
	state.Name, state.Period, state.Measure = types.StringValue(seen.Name), types.StringValue(seen.Period), types.StringValue(seen.Measure)
	state.Amount, state.Policy, state.Thresholds = types.Int64Value(seen.Amount), types.StringValue(seen.Policy), thresholds
	state.SlowBytesPerS, state.ServiceAccount = types.Int64Value(seen.SlowBytesPerS), types.StringPointerValue(seen.ServiceAccount)
	state.Topic = types.StringNull()
	if seen.Topic != "" {
		state.Topic = types.StringValue(seen.Topic)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *budgetResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan budgetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Update)
	defer cancel()
	var changed budgetShape
	err := r.patch(ctx, plan.Tenant, budgetPath(plan.ID.ValueString()), plan.changeable(ctx, &resp.Diagnostics), &changed)
	if err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Budget not changed", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := r.await(ctx, plan.Tenant, tenantPath(changed.Token.Object), changed.Delivery); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Budget changed", err)
	}
}

func (r *budgetResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state budgetModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, state.Tenant, budgetPath(state.ID.ValueString()), nil); err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Budget not removed", err)
	}
}

func (r *budgetResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}
