package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

// reading is a data source: its schema, and what fills a model from the service.
type reading[M any] struct {
	client     *api.Client
	name       string
	about      string
	attributes map[string]schema.Attribute
	fill       func(context.Context, *api.Client, *M) error
}

func (d *reading[M]) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + d.name
}

func (d *reading[M]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{MarkdownDescription: d.about, Attributes: d.attributes}
}

func (d *reading[M]) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	if req.ProviderData == nil {
		return // the provider is not configured yet
	}
	client, ok := req.ProviderData.(*api.Client)
	if !ok {
		resp.Diagnostics.AddError("Fault of the provider", fmt.Sprintf("%T instead of a client", req.ProviderData))
		return
	}
	d.client = client
}

func (d *reading[M]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model M
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutDefault)
	defer cancel()
	if err := d.fill(ctx, d.client, &model); err != nil {
		report(&resp.Diagnostics, d.attributes, "Not read", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func read(ctx context.Context, client *api.Client, tenant types.String, path string, query url.Values, out any) error {
	return client.Do(ctx, api.Call{Method: http.MethodGet, Path: path, Query: query, Tenant: tenant.ValueString()}, out)
}

// -- parts of schemas ----------------------------------------------------------------------------------------

func given(what string) schema.StringAttribute {
	return schema.StringAttribute{Required: true, MarkdownDescription: what}
}

func optional(what string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, MarkdownDescription: what}
}

func found(what string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: what}
}

func foundFlag(what string) schema.BoolAttribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: what}
}

func foundNumber(what string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: what}
}

func ofTenant() schema.StringAttribute {
	return optional("Public id of the tenant; the provider's, or the token's only one, unless given.")
}

// -- tenants -------------------------------------------------------------------------------------------------

type tenantData struct {
	ID                 types.String `tfsdk:"id"`
	Name               types.String `tfsdk:"name"`
	Suspended          types.Bool   `tfsdk:"suspended"`
	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
	CreatedAt          types.String `tfsdk:"created_at"`
}

func newTenantData() datasource.DataSource {
	return &reading[tenantData]{
		name: "tenant", about: "A tenant.",
		attributes: map[string]schema.Attribute{
			"id": given("Public id."), "name": found("Name."), "suspended": foundFlag("Whether its keys are refused."),
			"deletion_protection": foundFlag("Whether it cannot be closed."), "created_at": found("When it was made."),
		},
		fill: func(ctx context.Context, client *api.Client, m *tenantData) error {
			var seen tenantShape
			if err := read(ctx, client, m.ID, tenantPath(m.ID.ValueString()), nil, &seen); err != nil {
				return err
			}
			m.Name, m.CreatedAt = types.StringValue(seen.Name), types.StringValue(seen.CreatedAt)
			m.Suspended, m.DeletionProtection = types.BoolValue(seen.Suspended), types.BoolValue(seen.DeletionProtection)
			return nil
		},
	}
}

// -- topics --------------------------------------------------------------------------------------------------

type topicData struct {
	Tenant     types.String `tfsdk:"tenant"`
	Name       types.String `tfsdk:"name"`
	ID         types.String `tfsdk:"id"`
	TopicID    types.String `tfsdk:"topic_id"`
	Partitions types.Int64  `tfsdk:"partitions"`
	Settings   types.Map    `tfsdk:"settings"`
	Survives   types.String `tfsdk:"survives"`
}

func newTopicData() datasource.DataSource {
	return &reading[topicData]{
		name: "topic", about: "A topic, and which failures it survives.",
		attributes: map[string]schema.Attribute{
			"tenant": ofTenant(), "name": given("Name."), "id": found("Public id."), "topic_id": found("Its id in brokers and usage."),
			"partitions": foundNumber("Number of partitions."),
			"settings":   schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "All settings by name."},
			"survives":   found("Which failures it survives, in words."),
		},
		fill: func(ctx context.Context, client *api.Client, m *topicData) error {
			var seen struct {
				topicShape
				Survives struct {
					Text string `json:"text"`
				} `json:"survives"`
			}
			if err := read(ctx, client, m.Tenant, "/topics"+segment(m.Name.ValueString()), nil, &seen); err != nil {
				return err
			}
			m.ID, m.TopicID = types.StringValue(seen.ID), types.StringValue(seen.TopicID)
			m.Partitions, m.Survives = types.Int64Value(seen.Partitions), types.StringValue(seen.Survives.Text)
			m.Settings = types.MapValueMust(types.StringType, settingsShown(seen.Settings))
			return nil
		},
	}
}

type topicsData struct {
	Tenant     types.String `tfsdk:"tenant"`
	Partitions types.Map    `tfsdk:"partitions"`
}

func newTopicsData() datasource.DataSource {
	return &reading[topicsData]{
		name: "topics", about: "All topics of a tenant that the token may see.",
		attributes: map[string]schema.Attribute{
			"tenant": ofTenant(),
			"partitions": schema.MapAttribute{
				Computed: true, ElementType: types.Int64Type, MarkdownDescription: "Numbers of partitions by the topics' names.",
			},
		},
		fill: func(ctx context.Context, client *api.Client, m *topicsData) error {
			topics, err := api.List[topicShape](ctx, client, m.Tenant.ValueString(), "/topics")
			if err != nil {
				return err
			}
			partitions := map[string]int64{}
			for _, topic := range topics {
				partitions[topic.Name] = topic.Partitions
			}
			m.Partitions, err = mapOf(ctx, partitions)
			return err
		},
	}
}

func mapOf(ctx context.Context, values map[string]int64) (types.Map, error) {
	made, diags := types.MapValueFrom(ctx, types.Int64Type, values)
	if diags.HasError() {
		return made, fmt.Errorf("%s", diags[0].Detail())
	}
	return made, nil
}

// -- service accounts ----------------------------------------------------------------------------------------

func newServiceAccountData() datasource.DataSource {
	return &reading[serviceAccountModel]{
		name: "service_account", about: "A service account by its name.",
		attributes: map[string]schema.Attribute{
			"tenant": ofTenant(), "name": given("Name."), "id": found("Public id."),
			"principal": found("As access lists name it: `service_account:<id>`."),
		},
		fill: func(ctx context.Context, client *api.Client, m *serviceAccountModel) error {
			accounts, err := api.List[serviceAccountShape](ctx, client, m.Tenant.ValueString(), "/service-accounts")
			if err != nil {
				return err
			}
			for _, account := range accounts {
				if account.Name == m.Name.ValueString() {
					m.show(account)
					return nil
				}
			}
			return fmt.Errorf("no service account has the name %q", m.Name.ValueString())
		},
	}
}

// -- plans and limits ----------------------------------------------------------------------------------------

type plansData struct {
	Plans []planModel `tfsdk:"plans"`
}

type planModel struct {
	Name         types.String `tfsdk:"name"`
	Version      types.Int64  `tfsdk:"version"`
	Limits       types.Map    `tfsdk:"limits"`
	ServiceLevel types.Object `tfsdk:"service_level"`
}

type levelShape struct {
	Name        string `json:"name"`
	Version     int64  `json:"version"`
	TargetParts int64  `json:"target_parts"`
	Latency     *struct {
		WithinMs    int64 `json:"within_ms"`
		TargetParts int64 `json:"target_parts"`
	} `json:"latency"`
}

var levelTypes = map[string]attr.Type{
	"name": types.StringType, "version": types.Int64Type, "target_parts": types.Int64Type,
	"latency_within_ms": types.Int64Type, "latency_target_parts": types.Int64Type,
}

// level is what is promised; a plan that promises no latencies has null in their place.
func (l levelShape) level() types.Object {
	within, target := types.Int64Null(), types.Int64Null()
	if l.Latency != nil {
		within, target = types.Int64Value(l.Latency.WithinMs), types.Int64Value(l.Latency.TargetParts)
	}
	return types.ObjectValueMust(levelTypes, map[string]attr.Value{
		"name": types.StringValue(l.Name), "version": types.Int64Value(l.Version), "target_parts": types.Int64Value(l.TargetParts),
		"latency_within_ms": within, "latency_target_parts": target,
	})
}

func limitsAttribute(what string) schema.MapAttribute {
	return schema.MapAttribute{Computed: true, ElementType: types.Int64Type, MarkdownDescription: what + " 0 = no limit."}
}

func newPlansData() datasource.DataSource {
	return &reading[plansData]{
		name: "plans", about: "Every version of every plan.",
		attributes: map[string]schema.Attribute{"plans": schema.ListNestedAttribute{
			Computed: true, MarkdownDescription: "By name and version.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"name": found("Name."), "version": foundNumber("Version."), "limits": limitsAttribute("Limits by name."),
				"service_level": schema.ObjectAttribute{
					Computed: true, AttributeTypes: levelTypes,
					MarkdownDescription: "What is promised for months that begin while a tenant is on the plan. Shares are in parts of 10^9; " +
						"the latency is that of 99 % of the good produce requests of a window, null where none is promised.",
				},
			}},
		}},
		fill: func(ctx context.Context, client *api.Client, m *plansData) error {
			plans, err := api.List[planShape](ctx, client, "", "/plans")
			if err != nil {
				return err
			}
			m.Plans = []planModel{}
			for _, plan := range plans {
				limits, err := mapOf(ctx, plan.Limits)
				if err != nil {
					return err
				}
				var level levelShape
				if err := json.Unmarshal(plan.ServiceLevel, &level); err != nil {
					return err
				}
				m.Plans = append(m.Plans, planModel{types.StringValue(plan.Name), types.Int64Value(plan.Version), limits, level.level()})
			}
			return nil
		},
	}
}

type quotasData struct {
	Tenant  types.String `tfsdk:"tenant"`
	Plan    types.String `tfsdk:"plan"`
	Version types.Int64  `tfsdk:"plan_version"`
	Limits  types.Map    `tfsdk:"limits"`
	Own     types.Map    `tfsdk:"own"`
}

func newQuotasData() datasource.DataSource {
	return &reading[quotasData]{
		name: "quotas", about: "A tenant's limits, and the plan that it is on.",
		attributes: map[string]schema.Attribute{
			"tenant": ofTenant(), "plan": found("Name of the plan."), "plan_version": foundNumber("Version of the plan."),
			"limits": limitsAttribute("Limits in force, by name."), "own": limitsAttribute("Those that are not the plan's."),
		},
		fill: func(ctx context.Context, client *api.Client, m *quotasData) error {
			seen, err := quotasOf(ctx, client, m.Tenant.ValueString())
			if err != nil {
				return err
			}
			m.Plan, m.Version = types.StringValue(seen.Plan), types.Int64Value(seen.PlanVersion)
			if m.Limits, err = mapOf(ctx, seen.Limits); err != nil {
				return err
			}
			m.Own, err = mapOf(ctx, seen.own())
			return err
		},
	}
}

// -- access --------------------------------------------------------------------------------------------------

type questionModel struct {
	Tenant    types.String `tfsdk:"tenant"`
	Operation types.String `tfsdk:"operation"`
	Resource  types.String `tfsdk:"resource"`
	Name      types.String `tfsdk:"name"`
	Address   types.String `tfsdk:"address"`
}

func (m questionModel) query() url.Values {
	query := url.Values{"operation": {m.Operation.ValueString()}, "resource": {m.Resource.ValueString()}}
	for name, value := range map[string]types.String{"name": m.Name, "address": m.Address} {
		if !value.IsNull() {
			query.Set(name, value.ValueString())
		}
	}
	return query
}

func questionAttributes(more map[string]schema.Attribute) map[string]schema.Attribute {
	more["tenant"] = ofTenant()
	more["operation"] = given("`describe`, `produce`, `consume`, `delete`, `create` or `alter`.")
	more["resource"] = given("`topic`, `group`, `transactional_id` or `tenant`.")
	more["name"] = optional("Of the resource; none of the tenant.")
	more["address"] = optional("Where the caller would be.")
	return more
}

type accessCheckData struct {
	questionModel
	Key       types.String `tfsdk:"key"`
	Principal types.String `tfsdk:"principal"`
	Allowed   types.Bool   `tfsdk:"allowed"`
	Reason    types.String `tfsdk:"reason"`
}

type answerShape struct {
	Principal string `json:"principal"`
	Name      string `json:"name"`
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason"`
}

func newAccessCheckData() datasource.DataSource {
	return &reading[accessCheckData]{
		name: "access_check", about: "Whether a key or a principal may do something, and why not.",
		attributes: questionAttributes(map[string]schema.Attribute{
			"key": optional("Id of a key; or `principal`."), "principal": optional("`person:<id>` or `service_account:<id>`."),
			"allowed": foundFlag("Whether it may."), "reason": found("Why, or why not."),
		}),
		fill: func(ctx context.Context, client *api.Client, m *accessCheckData) error {
			query := m.query()
			for name, value := range map[string]types.String{"key": m.Key, "principal": m.Principal} {
				if !value.IsNull() {
					query.Set(name, value.ValueString())
				}
			}
			var seen answerShape
			if err := read(ctx, client, m.Tenant, "/access/check", query, &seen); err != nil {
				return err
			}
			m.Allowed, m.Reason = types.BoolValue(seen.Allowed), types.StringValue(seen.Reason)
			return nil
		},
	}
}

type whoData struct {
	questionModel
	Allowed []types.String `tfsdk:"allowed"`
}

func newWhoData() datasource.DataSource {
	return &reading[whoData]{
		name: "access_who", about: "Who may do something: the people who may hold keys, and the service accounts.",
		attributes: questionAttributes(map[string]schema.Attribute{
			"allowed": schema.ListAttribute{
				Computed: true, ElementType: types.StringType, MarkdownDescription: "`person:<id>` and `service_account:<id>` of those who may.",
			},
		}),
		fill: func(ctx context.Context, client *api.Client, m *whoData) error {
			var seen struct {
				Principals []answerShape `json:"principals"`
			}
			if err := read(ctx, client, m.Tenant, "/access/who", m.query(), &seen); err != nil {
				return err
			}
			m.Allowed = []types.String{}
			for _, answer := range seen.Principals {
				if answer.Allowed {
					m.Allowed = append(m.Allowed, types.StringValue(answer.Principal))
				}
			}
			return nil
		},
	}
}
