package provider

import (
	"context"
	"net/netip"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

const ofTheTenant = "tenant"

type aclResource struct{ remote }

func newACL() resource.Resource { return &aclResource{remote{name: "acl"}} }

type aclModel struct {
	ID         types.String   `tfsdk:"id"`
	Tenant     types.String   `tfsdk:"tenant"`
	Effect     types.String   `tfsdk:"effect"`
	Principal  types.String   `tfsdk:"principal"`
	Resource   types.String   `tfsdk:"resource"`
	Name       types.String   `tfsdk:"name"`
	Pattern    types.String   `tfsdk:"pattern"`
	Operations types.Set      `tfsdk:"operations"`
	Addresses  types.Set      `tfsdk:"addresses"`
	Text       types.String   `tfsdk:"text"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

type aclShape struct {
	api.Delivery
	ID         string   `json:"id"`
	Effect     string   `json:"effect"`
	Principal  string   `json:"principal"`
	Resource   string   `json:"resource"`
	Name       string   `json:"name"`
	Pattern    string   `json:"pattern"`
	Operations []string `json:"operations"`
	Addresses  []string `json:"addresses"`
	Text       string   `json:"text"`
}

func (r *aclResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	sets := []planmodifier.Set{setplanmodifier.RequiresReplace()}
	effect := fixedString(true, "`allow` or `deny`. An entry that denies wins.")
	effect.Validators = []validator.String{stringvalidator.OneOf("allow", "deny")}
	kind := fixedString(true, "`topic`, `group`, `transactional_id` or `tenant`.")
	resp.Schema = schema.Schema{
		MarkdownDescription: "An entry of the tenant's access list. Entries do not change: another value **replaces** the entry, and in between it does not hold. " +
			"With `lifecycle { create_before_destroy = true }` the new one is there before the old one goes.\n\n" +
			"An entry that is there already is taken over: do not have two resources for one.",
		Attributes: map[string]schema.Attribute{
			"id":        idAttribute("Public id."),
			"tenant":    tenantAttribute(),
			"effect":    effect,
			"principal": fixedString(true, "`person:<id>`, `service_account:<id>`, `group:<id>` or `everyone`."),
			"resource":  kind,
			"name": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(""), PlanModifiers: replaced,
				MarkdownDescription: "Of the resource, or what its name begins with; none of the tenant. Another one: **replaced**.",
			},
			"pattern": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("literal"), PlanModifiers: replaced,
				Validators: []validator.String{stringvalidator.OneOf("literal", "prefix")},
				MarkdownDescription: "`literal` (the default): the resource of this name. `prefix`: each whose name begins so; an empty name means all. " +
					"Another one: **replaced**.",
			},
			"operations": schema.SetAttribute{
				Optional: true, ElementType: types.StringType, PlanModifiers: sets,
				Validators:          []validator.Set{someValues{}},
				MarkdownDescription: "Some of `describe`, `produce`, `consume`, `delete`, `create`, `alter`. Without any: all. Others: **replaced**.",
			},
			"addresses": schema.SetAttribute{
				Optional: true, ElementType: types.StringType, PlanModifiers: sets,
				Validators:          []validator.Set{someValues{}, setvalidator.ValueStringsAre(addressRange{})},
				MarkdownDescription: "Ranges from which the caller comes, as `10.0.0.0/8`. Without any: from everywhere. Others: **replaced**.",
			},
			"text":     idAttribute("The entry in words."),
			"timeouts": timeoutsAttribute(ctx),
		},
	}
}

func (r *aclResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan aclModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Create)
	defer cancel()
	body := map[string]any{
		"effect":     plan.Effect.ValueString(),
		"principal":  plan.Principal.ValueString(),
		"resource":   plan.Resource.ValueString(),
		"name":       plan.Name.ValueString(),
		"operations": stringsOf(ctx, &resp.Diagnostics, plan.Operations),
		"addresses":  stringsOf(ctx, &resp.Diagnostics, plan.Addresses),
	}
	if plan.Resource.ValueString() != ofTheTenant {
		body["pattern"] = plan.Pattern.ValueString()
	}
	var made aclShape
	if err := r.post(ctx, plan.Tenant, "/acls", body, &made); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Entry not added", err)
		return
	}
	plan.ID, plan.Text = types.StringValue(made.ID), types.StringValue(made.Text)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := r.await(ctx, plan.Tenant, accessListPath, made.Delivery); err != nil {
		warn(&resp.Diagnostics, "Entry added", err)
	}
}

func (r *aclResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state aclModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var seen aclShape
	err := r.get(ctx, state.Tenant, "/acls"+segment(state.ID.ValueString()), &seen)
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Entry not read", err)
		return
	}
	state.Effect, state.Principal = types.StringValue(seen.Effect), types.StringValue(seen.Principal)
	state.Resource, state.Name = types.StringValue(seen.Resource), types.StringValue(seen.Name)
	state.Text = types.StringValue(seen.Text)
	// The tenant has no name, so its pattern means nothing.
	if seen.Resource != ofTheTenant {
		state.Pattern = types.StringValue(seen.Pattern)
	} else if state.Pattern.IsNull() {
		state.Pattern = types.StringValue("literal")
	}
	state.Operations = setOf(ctx, &resp.Diagnostics, seen.Operations, state.Operations)
	state.Addresses = setOf(ctx, &resp.Diagnostics, seen.Addresses, state.Addresses)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// Update has only `timeouts` to take over: every other attribute replaces the entry.
func (r *aclResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan aclModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *aclResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state aclModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, state.Timeouts.Delete)
	defer cancel()
	gone := api.Delivery{Delivered: true}
	err := r.remove(ctx, state.Tenant, "/acls"+segment(state.ID.ValueString()), &gone)
	if err == nil {
		err = r.await(ctx, state.Tenant, accessListPath, gone)
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Entry not removed", err)
	}
}

func (r *aclResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}

// addressRange takes what the service takes: an address, or a range without bits behind its prefix.
type addressRange struct{}

func (addressRange) Description(context.Context) string {
	return "a range of addresses as 10.0.0.0/8"
}
func (v addressRange) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (addressRange) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	text := req.ConfigValue.ValueString()
	if _, err := netip.ParseAddr(text); err == nil {
		return
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Masked() != prefix {
		resp.Diagnostics.AddAttributeError(req.Path, "Wrong range of addresses", text+" is no range as 10.0.0.0/8 or 2001:db8::/32")
	}
}
