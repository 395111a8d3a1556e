package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

const (
	webhookOverlapDefaultSeconds = 86400
	webhookOn                    = "on"
	webhookOff                   = "off"
)

type webhookResource struct{ remote }

func newWebhook() resource.Resource { return &webhookResource{remote{name: "webhook"}} }

type webhookModel struct {
	ID              types.String `tfsdk:"id"`
	Tenant          types.String `tfsdk:"tenant"`
	Name            types.String `tfsdk:"name"`
	URL             types.String `tfsdk:"url"`
	Events          types.Set    `tfsdk:"events"`
	Enabled         types.Bool   `tfsdk:"enabled"`
	RotationTrigger types.String `tfsdk:"rotation_trigger"`
	OverlapS        types.Int64  `tfsdk:"overlap_s"`
	EncryptTo       types.String `tfsdk:"encrypt_to"`
	Secret          types.String `tfsdk:"secret"`
	EncryptedSecret types.String `tfsdk:"encrypted_secret"`
}

type webhookShape struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
	State  string   `json:"state"`
	Secret string   `json:"secret"`
}

func webhookPath(id string) string { return "/webhooks" + segment(id) }

func (r *webhookResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	secret := idAttribute("What events are signed with. Null with `encrypt_to`, and of an imported webhook until its secret is rotated.")
	secret.Sensitive = true
	attributes := describedAttributes(descriptions["webhook"].Fields)
	attributes["id"], attributes["tenant"] = idAttribute("Public id."), tenantAttribute()
	attributes["enabled"] = schema.BoolAttribute{
		Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		MarkdownDescription: "Whether events are sent; true unless given. One that is off keeps its place.",
	}
	attributes["rotation_trigger"] = schema.StringAttribute{
		Optional: true, MarkdownDescription: "Any text, as a date. Another one: the secret is **rotated**.",
	}
	attributes["overlap_s"] = schema.Int64Attribute{
		Optional: true, Computed: true, Default: int64default.StaticInt64(webhookOverlapDefaultSeconds),
		Validators:          []validator.Int64{int64validator.Between(0, 604800)},
		MarkdownDescription: "How long the old secret signs beside the new one, in seconds; 86400 unless given.",
	}
	attributes["encrypt_to"], attributes["secret"] = encryptToAttribute("secret"), secret
	attributes["encrypted_secret"] = idAttribute("The secret, encrypted to `encrypt_to` (RSA-OAEP with SHA-256, base64). `provider::penstock::decrypted` opens it.")
	resp.Schema = schema.Schema{MarkdownDescription: descriptions["webhook"].About, Attributes: attributes}
}

func (m *webhookModel) rotatedSince(before *webhookModel) bool {
	return !m.RotationTrigger.Equal(before.RotationTrigger) || !m.EncryptTo.Equal(before.EncryptTo)
}

// ModifyPlan makes the secret unknown where the plan rotates it.
func (r *webhookResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var before, after webhookModel
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &after)...)
	if resp.Diagnostics.HasError() || !after.rotatedSince(&before) {
		return
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("secret"), types.StringUnknown())...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("encrypted_secret"), types.StringUnknown())...)
	resp.Diagnostics.AddWarning("The secret is rotated", fmt.Sprintf(
		"Webhook %s (%s) gets another secret, and the old one signs beside it for %d s. Give the new one to its endpoint before.",
		before.ID.ValueString(), before.Name.ValueString(), after.OverlapS.ValueInt64()))
}

// keep puts the secret that the service has just shown into the model.
func (m *webhookModel) keep(secret string) (err error) {
	m.Secret, m.EncryptedSecret, err = kept(m.EncryptTo, secret)
	return err
}

func (r *webhookResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan webhookModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	body := map[string]any{
		"name": plan.Name.ValueString(), "url": plan.URL.ValueString(), "events": stringsOf(ctx, &resp.Diagnostics, plan.Events),
	}
	var made webhookShape
	if err := r.post(ctx, plan.Tenant, "/webhooks", body, &made); err != nil {
		r.sayHowToImport(&resp.Diagnostics, err, plan.Tenant, r.idNamed(ctx, plan.Tenant, "/webhooks", plan.Name.ValueString()))
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Webhook not made", err)
		return
	}
	plan.ID = types.StringValue(made.ID)
	if err := plan.keep(made.Secret); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("encrypt_to"), "Secret not encrypted", err.Error())
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if !plan.Enabled.ValueBool() {
		if err := r.patch(ctx, plan.Tenant, webhookPath(made.ID), map[string]any{"state": webhookOff}, nil); err != nil {
			warn(&resp.Diagnostics, "Webhook made", err)
		}
	}
}

func (r *webhookResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state webhookModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var seen webhookShape
	err := r.get(ctx, state.Tenant, webhookPath(state.ID.ValueString()), &seen)
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Webhook not read", err)
		return
	}
	state.Name, state.URL = types.StringValue(seen.Name), types.StringValue(seen.URL)
	state.Events = setOf(ctx, &resp.Diagnostics, seen.Events, state.Events)
	state.Enabled = types.BoolValue(seen.State == webhookOn)
	if state.OverlapS.IsNull() {
		state.OverlapS = types.Int64Value(webhookOverlapDefaultSeconds)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// Update changes what is another than before, and then rotates the secret if that is wanted.
func (r *webhookResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state webhookModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	at := webhookPath(state.ID.ValueString())
	body := map[string]any{}
	if !plan.Name.Equal(state.Name) {
		body["name"] = plan.Name.ValueString()
	}
	if !plan.URL.Equal(state.URL) {
		body["url"] = plan.URL.ValueString()
	}
	if !plan.Events.Equal(state.Events) {
		body["events"] = stringsOf(ctx, &resp.Diagnostics, plan.Events)
	}
	if !plan.Enabled.Equal(state.Enabled) {
		body["state"] = map[bool]string{true: webhookOn, false: webhookOff}[plan.Enabled.ValueBool()]
	}
	if len(body) > 0 {
		if err := r.patch(ctx, plan.Tenant, at, body, nil); err != nil {
			report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Webhook not changed", err)
			return
		}
	}
	if !plan.rotatedSince(&state) {
		// A trigger that was not known to the plan may be the same after all.
		plan.Secret, plan.EncryptedSecret = state.Secret, state.EncryptedSecret
	} else {
		var made webhookShape
		if err := r.post(ctx, plan.Tenant, at+"/rotate", map[string]any{"overlap_s": plan.OverlapS.ValueInt64()}, &made); err != nil {
			report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Secret not rotated", err)
			return
		}
		if err := plan.keep(made.Secret); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("encrypt_to"), "Secret not encrypted", err.Error())
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *webhookResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state webhookModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, state.Tenant, webhookPath(state.ID.ValueString()), nil); err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Webhook not deleted", err)
	}
}

func (r *webhookResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}
