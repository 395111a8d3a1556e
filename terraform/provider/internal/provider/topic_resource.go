package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

// Settings that a topic keeps from its creation on, with what a new one has unless they are named.
var fixedSettings = map[string]string{"durability": "fsync"}

type topicResource struct{ remote }

func newTopic() resource.Resource { return &topicResource{remote{name: "topic"}} }

type topicModel struct {
	ID                 types.String   `tfsdk:"id"`
	Tenant             types.String   `tfsdk:"tenant"`
	Name               types.String   `tfsdk:"name"`
	Partitions         types.Int64    `tfsdk:"partitions"`
	Settings           types.Map      `tfsdk:"settings"`
	EffectiveSettings  types.Map      `tfsdk:"effective_settings"`
	DeletionProtection types.Bool     `tfsdk:"deletion_protection"`
	TopicID            types.String   `tfsdk:"topic_id"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`
}

type topicShape struct {
	api.Delivery
	api.State
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	TopicID    string         `json:"topic_id"`
	Partitions int64          `json:"partitions"`
	Settings   map[string]any `json:"settings"`
}

func (r *topicResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A topic.\n\n" +
			"The number of partitions grows in place, and **keys move**: a message's partition follows from its key and the number of partitions. " +
			"Fewer partitions, another name, tenant or durability: the topic is **replaced, and all of its messages are lost**. " +
			"The plan warns of both.",
		Attributes: map[string]schema.Attribute{
			"id":     idAttribute("Public id."),
			"tenant": tenantAttribute(),
			"name":   fixedString(true, "Name."),
			"partitions": schema.Int64Attribute{
				Optional: true, Computed: true,
				Default:    int64default.StaticInt64(1),
				Validators: []validator.Int64{int64validator.AtLeast(1)},
				MarkdownDescription: "Number of partitions, 1 unless given. More: keys move. Fewer: **replaced**, with the loss of " +
					"all messages.",
			},
			"settings": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Settings by name, as text: `retention_ms = \"86400000\"`. Settings that are not named, or are null, are not managed: " +
					"a new topic has the service's defaults. One that is named no more goes back to the service's default. Another durability: **replaced**.",
			},
			"effective_settings": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "All settings as they are, by name.",
			},
			"deletion_protection": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether Terraform refuses to delete or replace the topic. Kept in the state alone: other ways to delete it stay open.",
			},
			"topic_id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Its id in brokers and usage.",
			},
			"timeouts": timeoutsAttribute(ctx),
		},
	}
}

// ModifyPlan says what a plan does to messages and keys.
func (r *topicResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() {
		return
	}
	var before, after topicModel
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	if resp.Diagnostics.HasError() {
		return
	}
	name := before.Name.ValueString()
	if req.Plan.Raw.IsNull() {
		if before.DeletionProtection.ValueBool() {
			resp.Diagnostics.AddError("The topic is protected", fmt.Sprintf(
				"%s has deletion_protection. Set it to false and apply, then delete the topic.", name))
		}
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &after)...)
	if resp.Diagnostics.HasError() {
		return
	}
	replaced := !after.Name.Equal(before.Name) || !after.Tenant.Equal(before.Tenant)
	if !after.Partitions.IsUnknown() && after.Partitions.ValueInt64() < before.Partitions.ValueInt64() {
		replaced = true
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("partitions"))
	}
	for fixed, usual := range fixedSettings {
		if anotherFixed(fixed, usual, before, after) {
			replaced = true
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root("settings"))
		}
	}
	// The number of settings that follow from others is not known before.
	if after.Settings.Equal(before.Settings) && !replaced {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("effective_settings"), before.EffectiveSettings)...)
	}
	switch {
	case replaced && before.DeletionProtection.ValueBool():
		resp.Diagnostics.AddError("The topic is protected", fmt.Sprintf(
			"The plan replaces %s, which has deletion_protection. Set it to false and apply, then replace the topic.", name))
	case replaced:
		resp.Diagnostics.AddWarning("The topic is replaced", fmt.Sprintf(
			"%s is deleted with all of its messages, and made again. A topic's partitions can grow, not shrink; its name, tenant and "+
				"durability stay. Replacing a topic moves keys if the number of partitions changes.", name))
	case after.Partitions.ValueInt64() > before.Partitions.ValueInt64():
		resp.Diagnostics.AddAttributeWarning(path.Root("partitions"), "Keys move", fmt.Sprintf(
			"%s grows from %d to %d partitions. New messages of a key may go to another partition than earlier ones, so their "+
				"order is not kept across the change. The number cannot be taken back.",
			name, before.Partitions.ValueInt64(), after.Partitions.ValueInt64()))
	}
}

// anotherFixed says whether a topic that has the fixed setting as planned is another one than that of the state.
func anotherFixed(fixed, usual string, before, after topicModel) bool {
	present, shown := before.EffectiveSettings.Elements()[fixed]
	if !shown || after.Settings.IsUnknown() {
		return false
	}
	if planned, names := named(after.Settings)[fixed]; names {
		return !planned.IsUnknown() && !planned.Equal(present)
	}
	_, managed := named(before.Settings)[fixed]
	return managed && !present.Equal(types.StringValue(usual))
}

func (r *topicResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan topicModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Create)
	defer cancel()
	body := map[string]any{
		"name": plan.Name.ValueString(), "partitions": plan.Partitions.ValueInt64(), "settings": settingsBody(plan.Settings),
	}
	var made topicShape
	if err := r.post(ctx, plan.Tenant, "/topics", body, &made); err != nil {
		name := plan.Name.ValueString()
		r.sayHowToImport(&resp.Diagnostics, err, plan.Tenant, func() (string, error) { return name, nil })
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Topic not made", err)
		return
	}
	plan.show(made)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := r.await(ctx, plan.Tenant, topicPath(plan), made.Delivery); err != nil {
		warn(&resp.Diagnostics, "Topic made", err)
	}
}

func (r *topicResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state topicModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var seen topicShape
	err := r.get(ctx, state.Tenant, topicPath(state), &seen)
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Topic not read", err)
		return
	}
	state.show(seen)
	if state.DeletionProtection.IsNull() {
		state.DeletionProtection = types.BoolValue(false)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *topicResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state topicModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, plan.Timeouts.Update)
	defer cancel()
	settings := settingsBody(plan.Settings)
	for name := range named(state.Settings) {
		if _, stays := settings[name]; !stays {
			settings[name] = nil // back to the service's default
		}
	}
	body := map[string]any{"partitions": plan.Partitions.ValueInt64(), "settings": settings}
	var changed topicShape
	if err := r.patch(ctx, plan.Tenant, topicPath(plan), body, &changed); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Topic not changed", err)
		return
	}
	plan.show(changed)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := r.await(ctx, plan.Tenant, topicPath(plan), changed.Delivery); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Topic changed", err)
	}
}

func (r *topicResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state topicModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if state.DeletionProtection.ValueBool() {
		resp.Diagnostics.AddError("The topic is protected",
			state.Name.ValueString()+" has deletion_protection. Set it to false and apply, then delete the topic.")
		return
	}
	ctx, cancel := bounded(ctx, &resp.Diagnostics, state.Timeouts.Delete)
	defer cancel()
	if err := r.remove(ctx, state.Tenant, topicPath(state), nil); err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Topic not deleted", err)
	}
}

func (r *topicResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.importState(ctx, "name", req, resp)
}

// show takes over what the service says. Of the settings only those that are managed count as such.
func (m *topicModel) show(seen topicShape) {
	m.ID, m.Name, m.TopicID = types.StringValue(seen.ID), types.StringValue(seen.Name), types.StringValue(seen.TopicID)
	m.Partitions = types.Int64Value(seen.Partitions)
	all := settingsShown(seen.Settings)
	m.EffectiveSettings = types.MapValueMust(types.StringType, all)
	if m.Settings.IsNull() {
		return
	}
	managed := m.Settings.Elements()
	for name := range named(m.Settings) {
		if value, there := all[name]; there {
			managed[name] = value
		}
	}
	m.Settings = types.MapValueMust(types.StringType, managed)
}

func topicPath(m topicModel) string { return "/topics" + segment(m.Name.ValueString()) }

// settingsBody has numbers where the text is one: JSON has types, and the service takes no text for a number.
func settingsBody(settings types.Map) map[string]any {
	body := map[string]any{}
	for name, value := range named(settings) {
		text := value.(types.String).ValueString()
		if number, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(number, 10) == text {
			body[name] = json.Number(text)
		} else if text == "true" || text == "false" {
			body[name] = text == "true"
		} else {
			body[name] = text
		}
	}
	return body
}
