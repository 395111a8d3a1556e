package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

type invitationResource struct{ remote }

func newInvitation() resource.Resource { return &invitationResource{remote{name: "invitation"}} }

type invitationModel struct {
	ID        types.String `tfsdk:"id"`
	Tenant    types.String `tfsdk:"tenant"`
	Email     types.String `tfsdk:"email"`
	Role      types.String `tfsdk:"role"`
	ExpiresAt types.String `tfsdk:"expires_at"`
	Accepted  types.Bool   `tfsdk:"accepted"`
	Link      types.String `tfsdk:"link"`
}

type invitationShape struct {
	ID        string  `json:"id"`
	Email     string  `json:"email"`
	Role      string  `json:"role"`
	ExpiresAt string  `json:"expires_at"`
	Link      *string `json:"link"`
}

type memberShape struct {
	Email string `json:"email"`
}

func (r *invitationResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	link := idAttribute("The console's page for the invitation, where the service has no mail server; it is in the state, and those who have it can join.")
	link.Sensitive = true
	accepted := schema.BoolAttribute{
		Computed:            true,
		MarkdownDescription: "Whether a person of this address is in the tenant. The resource then stays, and destroying it changes nothing: people are removed in the console.",
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "An invitation of a person to the tenant, valid for 7 days. One that ended without being accepted is made again by the next apply.",
		Attributes: map[string]schema.Attribute{
			"id":         idAttribute("Public id."),
			"tenant":     tenantAttribute(),
			"email":      fixedString(true, "Whom it invites."),
			"role":       fixedString(true, "`owner`, `admin`, `developer`, `billing` or `auditor`."),
			"expires_at": idAttribute("When it ends."),
			"accepted":   accepted,
			"link":       link,
		},
	}
}

func (r *invitationResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan invitationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	body := map[string]any{"email": plan.Email.ValueString(), "role": plan.Role.ValueString()}
	var made invitationShape
	if err := r.post(ctx, plan.Tenant, "/invitations", body, &made); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Person not invited", err)
		return
	}
	plan.ID, plan.ExpiresAt = types.StringValue(made.ID), types.StringValue(made.ExpiresAt)
	plan.Link, plan.Accepted = types.StringPointerValue(made.Link), types.BoolValue(false)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *invitationResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state invitationModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	open, err := api.List[invitationShape](ctx, r.client, state.Tenant.ValueString(), "/invitations")
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Invitations not read", err)
		return
	}
	for _, seen := range open {
		if seen.ID == state.ID.ValueString() {
			state.Email, state.Role = types.StringValue(seen.Email), types.StringValue(seen.Role)
			state.ExpiresAt, state.Accepted = types.StringValue(seen.ExpiresAt), types.BoolValue(false)
			resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
			return
		}
	}
	people, err := api.List[memberShape](ctx, r.client, state.Tenant.ValueString(), "/people")
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "People not read", err)
		return
	}
	for _, person := range people {
		if person.Email == state.Email.ValueString() {
			state.Accepted = types.BoolValue(true)
			resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
			return
		}
	}
	resp.State.RemoveResource(ctx)
}

// Update is not called: every attribute that can be set replaces the invitation.
func (r *invitationResource) Update(_ context.Context, _ resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.Diagnostics.AddError("Fault of the provider", "an invitation does not change")
}

func (r *invitationResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state invitationModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, state.Tenant, "/invitations"+segment(state.ID.ValueString()), nil); err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Invitation not withdrawn", err)
	}
}

func (r *invitationResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}
