package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

const (
	lifetimeDefaultSeconds = 3600
	openedKey              = "opened"
)

type ephemeralAPIKey struct{ client *api.Client }

func newEphemeralAPIKey() ephemeral.EphemeralResource { return &ephemeralAPIKey{} }

type ephemeralAPIKeyModel struct {
	ID             types.String `tfsdk:"id"`
	Tenant         types.String `tfsdk:"tenant"`
	Name           types.String `tfsdk:"name"`
	ServiceAccount types.String `tfsdk:"service_account"`
	Scopes         types.List   `tfsdk:"scopes"`
	LifetimeS      types.Int64  `tfsdk:"lifetime_s"`
	Key            types.String `tfsdk:"key"`
}

// openedShape is what Close needs to know of what Open made.
type openedShape struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
}

func (r *ephemeralAPIKey) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_api_key"
}

func (r *ephemeralAPIKey) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	if req.ProviderData == nil {
		return // the provider is not configured yet
	}
	client, ok := req.ProviderData.(*api.Client)
	if !ok {
		resp.Diagnostics.AddError("Fault of the provider", fmt.Sprintf("%T instead of a client", req.ProviderData))
		return
	}
	r.client = client
}

func (r *ephemeralAPIKey) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "An API key of one run of Terraform. It is made when the run needs it, is in no state and no plan, and is revoked when the run is done with it. " +
			"If the run is killed before, the key ends after `lifetime_s`. For a key that lasts, without its text in the state: `penstock_api_key` with `encrypt_to`.",
		Attributes: map[string]schema.Attribute{
			"id":              schema.StringAttribute{Computed: true, MarkdownDescription: "Public id."},
			"tenant":          schema.StringAttribute{Optional: true, MarkdownDescription: "Public id of the tenant; the provider's, or the token's only one, unless given."},
			"name":            schema.StringAttribute{Required: true, MarkdownDescription: "Name."},
			"service_account": schema.StringAttribute{Optional: true, MarkdownDescription: "Id of the service account whose key it is. Without one: the caller's."},
			"scopes": schema.ListNestedAttribute{
				Optional:            true,
				Validators:          []validator.List{someValues{}},
				MarkdownDescription: "The key may do only what one of these grants, and what its principal may. Without any: all that its principal may.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"resource":   schema.StringAttribute{Required: true, MarkdownDescription: "`topic`, `group`, `transactional_id` or `tenant`."},
					"name":       schema.StringAttribute{Optional: true, MarkdownDescription: "Of the resource, or what its name begins with; none of the tenant."},
					"pattern":    schema.StringAttribute{Optional: true, MarkdownDescription: "`literal` (the default) or `prefix`."},
					"operations": schema.SetAttribute{Required: true, ElementType: types.StringType, Validators: []validator.Set{someValues{}}, MarkdownDescription: "Some of `describe`, `produce`, `consume`, `delete`, `create`, `alter`."},
				}},
			},
			"lifetime_s": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.AtLeast(60)},
				MarkdownDescription: "When it ends in any case, in seconds; 3600 unless given.",
			},
			"key": schema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: "The key's text."},
		},
	}
}

func (r *ephemeralAPIKey) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var given ephemeralAPIKeyModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &given)...)
	if resp.Diagnostics.HasError() {
		return
	}
	lifetime := int64(lifetimeDefaultSeconds)
	if !given.LifetimeS.IsNull() {
		lifetime = given.LifetimeS.ValueInt64()
	}
	body := map[string]any{
		"name":       given.Name.ValueString(),
		"expires_at": time.Now().Add(time.Duration(lifetime) * time.Second).UTC().Format(time.RFC3339),
	}
	if !given.ServiceAccount.IsNull() {
		body["service_account"] = given.ServiceAccount.ValueString()
	}
	if !given.Scopes.IsNull() {
		body["scopes"] = scopesOf(ctx, &resp.Diagnostics, given.Scopes)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutDefault)
	defer cancel()
	var made apiKeyShape
	tenant := given.Tenant.ValueString()
	if err := r.client.Do(ctx, api.Call{Method: http.MethodPost, Path: "/keys", Tenant: tenant, Body: body}, &made); err != nil {
		report(&resp.Diagnostics, req.Config.Schema.GetAttributes(), "Key not made", err)
		return
	}
	note, err := json.Marshal(openedShape{Tenant: tenant, ID: made.ID})
	if err != nil {
		resp.Diagnostics.AddError("Fault of the provider", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, openedKey, note)...)
	if err := r.client.Await(ctx, tenant, "/keys"+segment(made.ID), made.Delivery); err != nil {
		warn(&resp.Diagnostics, "Key made", err)
	}
	given.ID, given.Key = types.StringValue(made.ID), types.StringValue(made.Key)
	resp.Diagnostics.Append(resp.Result.Set(ctx, given)...)
}

// Close revokes the key.
func (r *ephemeralAPIKey) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	note, found := req.Private.GetKey(ctx, openedKey)
	resp.Diagnostics.Append(found...)
	var made openedShape
	if err := json.Unmarshal(note, &made); err != nil {
		resp.Diagnostics.AddError("Fault of the provider", err.Error())
		return
	}
	err := r.client.Do(ctx, api.Call{Method: http.MethodDelete, Path: "/keys" + segment(made.ID), Tenant: made.Tenant}, nil)
	if err != nil && !api.IsNotFound(err) {
		resp.Diagnostics.AddWarning("Key not revoked", fmt.Sprintf("%s ends by itself: %s", made.ID, err))
	}
}
