package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

const overlapDefaultSeconds = 3600

type apiKeyResource struct{ remote }

func newAPIKey() resource.Resource { return &apiKeyResource{remote{name: "api_key"}} }

type apiKeyModel struct {
	ID              types.String   `tfsdk:"id"`
	Tenant          types.String   `tfsdk:"tenant"`
	Name            types.String   `tfsdk:"name"`
	ServiceAccount  types.String   `tfsdk:"service_account"`
	ExpiresAt       types.String   `tfsdk:"expires_at"`
	Scopes          types.List     `tfsdk:"scopes"`
	RotationTrigger types.String   `tfsdk:"rotation_trigger"`
	OverlapS        types.Int64    `tfsdk:"overlap_s"`
	EncryptTo       types.String   `tfsdk:"encrypt_to"`
	Key             types.String   `tfsdk:"key"`
	EncryptedKey    types.String   `tfsdk:"encrypted_key"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`
}

type scopeModel struct {
	Resource   types.String `tfsdk:"resource"`
	Name       types.String `tfsdk:"name"`
	Pattern    types.String `tfsdk:"pattern"`
	Operations types.Set    `tfsdk:"operations"`
}

type scopeShape struct {
	Resource   string   `json:"resource"`
	Name       string   `json:"name"`
	Pattern    string   `json:"pattern,omitempty"`
	Operations []string `json:"operations"`
}

type apiKeyShape struct {
	api.Delivery
	api.State
	ID             string       `json:"id"`
	Name           string       `json:"name"`
	ServiceAccount *string      `json:"service_account"`
	ExpiresAt      *string      `json:"expires_at"`
	RevokedAt      *string      `json:"revoked_at"`
	Scopes         []scopeShape `json:"scopes"`
	Key            string       `json:"key"`
}

func (r *apiKeyResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "An API key.\n\n" +
			"The service shows the key's text once and keeps only its hash. **It is in the state**, marked as sensitive, unless `encrypt_to` is set: " +
			"then only its ciphertext is. Without it keep the state encrypted, and readable for those alone who may have the key. " +
			"An imported key has no text. For a key of one run: the ephemeral `penstock_api_key`.\n\n" +
			"Another `rotation_trigger` rotates the key: its successor has the same name, scopes and principal, and the old one goes on for `overlap_s` beside it. " +
			"Destroying the resource revokes the present key, on open streams too.",
		Attributes: map[string]schema.Attribute{
			"id":              idAttribute("Public id; a rotated key has another."),
			"tenant":          tenantAttribute(),
			"name":            fixedString(true, "Name."),
			"service_account": fixedString(false, "Id of the service account whose key it is. Without one: the caller's."),
			"expires_at":      fixedString(false, "When it ends, as `2030-01-31T00:00:00+00:00`. Without one: never."),
			"scopes": schema.ListNestedAttribute{
				Optional:      true,
				Validators:    []validator.List{someValues{}},
				PlanModifiers: []planmodifier.List{listplanmodifier.RequiresReplace()},
				MarkdownDescription: "The key may do only what one of these grants, and what its principal may. Without any: all that its principal may. " +
					"Others: **replaced**, without an overlap unless `create_before_destroy` is set.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"resource": schema.StringAttribute{
						Required: true, MarkdownDescription: "`topic`, `group`, `transactional_id` or `tenant`.",
					},
					"name": schema.StringAttribute{
						Optional: true, Computed: true, Default: stringdefault.StaticString(""),
						MarkdownDescription: "Of the resource, or what its name begins with; none of the tenant.",
					},
					"pattern": schema.StringAttribute{
						Optional: true, Computed: true, Default: stringdefault.StaticString("literal"),
						Validators:          []validator.String{stringvalidator.OneOf("literal", "prefix")},
						MarkdownDescription: "`literal` (the default) or `prefix`.",
					},
					"operations": schema.SetAttribute{
						Required: true, ElementType: types.StringType,
						Validators:          []validator.Set{someValues{}},
						MarkdownDescription: "Some of `describe`, `produce`, `consume`, `delete`, `create`, `alter`.",
					},
				}},
			},
			"rotation_trigger": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Any text, as a date. Another one: the key is **rotated**.",
			},
			"overlap_s": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(overlapDefaultSeconds),
				Validators:          []validator.Int64{int64validator.AtLeast(0)},
				MarkdownDescription: "How long the old key goes on beside its successor, in seconds; 3600 unless given.",
			},
			"encrypt_to": encryptToAttribute("key"),
			"key": func() schema.StringAttribute {
				key := idAttribute("The key's text. Null with `encrypt_to`, and of an imported key until it is rotated.")
				key.Sensitive = true
				return key
			}(),
			"encrypted_key": idAttribute("The key's text, encrypted to `encrypt_to` (RSA-OAEP with SHA-256, base64). `provider::penstock::decrypted` opens it."),
			"timeouts":      timeoutsAttribute(ctx),
		},
	}
}

// endOfMaker is where the state keeps, past the configuration, when a key ends that names no end: with the key that made it.
const endOfMaker = "end_of_maker"

// endNoted is when the key ends, as JSON.
func endNoted(seen apiKeyShape) []byte {
	note, _ := json.Marshal(seen.ExpiresAt) // text or null: it cannot fail
	return note
}

func (m *apiKeyModel) rotatedSince(before *apiKeyModel) bool {
	return !m.RotationTrigger.Equal(before.RotationTrigger) || !m.EncryptTo.Equal(before.EncryptTo)
}

// keep puts what the service has just shown into the model.
func (m *apiKeyModel) keep(made apiKeyShape) (err error) {
	m.ID = types.StringValue(made.ID)
	m.Key, m.EncryptedKey, err = kept(m.EncryptTo, made.Key)
	return err
}

// ModifyPlan makes id and text unknown where the plan rotates the key.
func (r *apiKeyResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var before, after apiKeyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &after)...)
	if resp.Diagnostics.HasError() || !after.rotatedSince(&before) {
		return
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("id"), types.StringUnknown())...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("key"), types.StringUnknown())...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("encrypted_key"), types.StringUnknown())...)
	resp.Diagnostics.AddWarning("The key is rotated", fmt.Sprintf(
		"The successor of key %s (%s) is made, and the old one ends %d s later. Give the new text to its users before.",
		before.ID.ValueString(), before.Name.ValueString(), after.OverlapS.ValueInt64()))
}

func (r *apiKeyResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan apiKeyModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Create)
	defer cancel()
	body := map[string]any{"name": plan.Name.ValueString()}
	if !plan.ServiceAccount.IsNull() {
		body["service_account"] = plan.ServiceAccount.ValueString()
	}
	if !plan.ExpiresAt.IsNull() {
		body["expires_at"] = plan.ExpiresAt.ValueString()
	}
	if !plan.Scopes.IsNull() {
		body["scopes"] = scopesOf(ctx, &resp.Diagnostics, plan.Scopes)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	var made apiKeyShape
	if err := r.post(ctx, plan.Tenant, "/keys", body, &made); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Key not made", err)
		return
	}
	if err := plan.keep(made); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("encrypt_to"), "Key not encrypted", err.Error())
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, endOfMaker, endNoted(made))...)
	if err := r.await(ctx, plan.Tenant, "/keys"+segment(made.ID), made.Delivery); err != nil {
		warn(&resp.Diagnostics, "Key made", err)
	}
}

func (r *apiKeyResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state apiKeyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var seen apiKeyShape
	err := r.get(ctx, state.Tenant, "/keys"+segment(state.ID.ValueString()), &seen)
	// A revoked key is listed still, and cannot be taken back.
	if api.IsNotFound(err) || (err == nil && seen.RevokedAt != nil) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Key not read", err)
		return
	}
	ofMaker, found := req.Private.GetKey(ctx, endOfMaker)
	resp.Diagnostics.Append(found...)
	// A key that was made without them has the account of its maker for good, and the maker's end.
	if state.Name.IsNull() || !state.ServiceAccount.IsNull() {
		state.ServiceAccount = types.StringPointerValue(seen.ServiceAccount)
	}
	if !state.ExpiresAt.IsNull() || !bytes.Equal(ofMaker, endNoted(seen)) {
		state.ExpiresAt = sameMoment(state.ExpiresAt, seen.ExpiresAt)
	}
	state.Name = types.StringValue(seen.Name)
	if state.OverlapS.IsNull() {
		state.OverlapS = types.Int64Value(overlapDefaultSeconds)
	}
	// A key's scopes never change, so they are read for an imported one only.
	if state.Scopes.IsNull() && len(seen.Scopes) > 0 {
		scopes := []scopeModel{}
		for _, scope := range seen.Scopes {
			operations, found := types.SetValueFrom(ctx, types.StringType, scope.Operations)
			resp.Diagnostics.Append(found...)
			pattern := scope.Pattern
			if scope.Resource == ofTheTenant {
				pattern = "literal"
			}
			scopes = append(scopes, scopeModel{
				types.StringValue(scope.Resource), types.StringValue(scope.Name), types.StringValue(pattern), operations,
			})
		}
		list, found := types.ListValueFrom(ctx, state.Scopes.ElementType(ctx), scopes)
		resp.Diagnostics.Append(found...)
		state.Scopes = list
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// Update rotates the key if the trigger is another one.
func (r *apiKeyResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state apiKeyModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !plan.rotatedSince(&state) {
		// A trigger that was not known to the plan may be the same after all.
		plan.ID, plan.Key, plan.EncryptedKey = state.ID, state.Key, state.EncryptedKey
		resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Update)
	defer cancel()
	body := map[string]any{"overlap_s": plan.OverlapS.ValueInt64()}
	var made apiKeyShape
	if err := r.post(ctx, plan.Tenant, "/keys"+segment(state.ID.ValueString())+"/rotate", body, &made); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Key not rotated", err)
		return
	}
	if err := plan.keep(made); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("encrypt_to"), "Key not encrypted", err.Error())
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, endOfMaker, endNoted(made))...)
	if err := r.await(ctx, plan.Tenant, "/keys"+segment(made.ID), made.Delivery); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Key rotated", err)
	}
}

func (r *apiKeyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state apiKeyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, state.Timeouts.Delete)
	defer cancel()
	gone := apiKeyShape{Delivery: api.Delivery{Delivered: true}}
	at := "/keys" + segment(state.ID.ValueString())
	err := r.remove(ctx, state.Tenant, at, &gone)
	if err == nil {
		err = r.await(ctx, state.Tenant, at, gone.Delivery)
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Key not revoked", err)
	}
}

func (r *apiKeyResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "id", req, resp)
}

// scopesOf are the scopes as the service takes them.
func scopesOf(ctx context.Context, diags *diag.Diagnostics, given types.List) []scopeShape {
	var scopes []scopeModel
	diags.Append(given.ElementsAs(ctx, &scopes, false)...)
	shapes := []scopeShape{}
	for _, scope := range scopes {
		shape := scopeShape{
			Resource: scope.Resource.ValueString(), Name: scope.Name.ValueString(), Pattern: scope.Pattern.ValueString(),
			Operations: stringsOf(ctx, diags, scope.Operations),
		}
		if shape.Resource == ofTheTenant {
			shape.Pattern = ""
		}
		shapes = append(shapes, shape)
	}
	return shapes
}

// sameMoment keeps how the configuration writes a moment that the service writes in another way.
func sameMoment(before types.String, seen *string) types.String {
	if seen == nil {
		return types.StringNull()
	}
	given, wrong := time.Parse(time.RFC3339, before.ValueString())
	found, alsoWrong := time.Parse(time.RFC3339, *seen)
	if wrong == nil && alsoWrong == nil && given.Equal(found) {
		return before
	}
	return types.StringValue(*seen)
}
