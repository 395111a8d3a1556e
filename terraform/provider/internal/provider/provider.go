// Package provider is the Terraform provider of Penstock: resources and data sources over the service's REST interface.
package provider

import (
	"context"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

// Address is the provider's source in required_providers.
const Address = "penstock.example/penstock/penstock"

// Variables of the environment, which stand in for what the configuration leaves out.
const (
	endpointVariable = "PENSTOCK_API_URL"
	tokenVariable    = "PENSTOCK_API_KEY"
	tenantVariable   = "PENSTOCK_TENANT"
)

type penstock struct{ version string }

// New makes providers of this version.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &penstock{version} }
}

type providerModel struct {
	Endpoint types.String `tfsdk:"endpoint"`
	Token    types.String `tfsdk:"token"`
	Tenant   types.String `tfsdk:"tenant"`
}

func (p *penstock) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "penstock", p.version
}

func (p *penstock) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Topics, keys, access and limits of [Penstock](https://penstock.example), over REST.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Address of the control plane, as `https://penstock.example`. Or `" + endpointVariable + "`.",
			},
			"token": schema.StringAttribute{
				Optional:  true,
				Sensitive: true,
				MarkdownDescription: "An API key, the token of a session, or an operator's token. Or `" + tokenVariable + "`, which keeps it out of files. " +
					"Limits and plans need an operator's; a new tenant needs a session's.",
			},
			"tenant": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Public id of the tenant of resources that name none. Or `" + tenantVariable + "`. A key has its own; " +
					"a person with one tenant needs none.",
			},
		},
	}
}

func (p *penstock) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var given providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &given)...)
	if resp.Diagnostics.HasError() {
		return
	}
	value := func(name string, attribute types.String, variable string, required bool) string {
		if attribute.IsUnknown() {
			resp.Diagnostics.AddAttributeError(path.Root(name), "Not known yet",
				name+" is known only after another resource is made. Make that first, with `terraform apply -target`.")
			return ""
		}
		text := attribute.ValueString()
		if text == "" {
			text = os.Getenv(variable)
		}
		if text == "" && required {
			resp.Diagnostics.AddAttributeError(path.Root(name), "Missing",
				"Set "+name+" in the provider's configuration, or "+variable+" in the environment.")
		}
		return text
	}
	endpoint := value("endpoint", given.Endpoint, endpointVariable, true)
	token := value("token", given.Token, tokenVariable, true)
	tenant := value("tenant", given.Tenant, tenantVariable, false)
	if resp.Diagnostics.HasError() {
		return
	}
	client, err := api.New(endpoint, token, tenant, "terraform-provider-penstock/"+p.version)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("endpoint"), "Wrong address", err.Error())
		return
	}
	resp.ResourceData, resp.DataSourceData, resp.EphemeralResourceData = client, client, client
}

func (p *penstock) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		newTopic, newServiceAccount, newPrincipalGroup, newACL, newAPIKey, newInvitation, newTenant, newQuota, newPlanAssignment,
		newAccountLimits, newDescribed("budget"), newPlan, newPriceBook, newWebhook,
	}
}

func (p *penstock) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		newTenantData, newTopicData, newTopicsData, newServiceAccountData, newPlansData, newQuotasData, newAccessCheckData, newWhoData,
		newDescribedData("budget"),
	}
}

func (p *penstock) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{newEphemeralAPIKey}
}

func (p *penstock) Functions(context.Context) []func() function.Function {
	return []func() function.Function{newDecrypted}
}
