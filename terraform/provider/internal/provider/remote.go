package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

// How long a change may take, with its delivery to all brokers, unless `timeouts` says otherwise.
const timeoutDefault = 2 * time.Minute

// remote is what every resource has: the client, and its name without the provider's.
type remote struct {
	client *api.Client
	name   string
}

func (r *remote) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.name
}

func (r *remote) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
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

func (r *remote) get(ctx context.Context, tenant types.String, path string, out any) error {
	return r.client.Do(ctx, api.Call{Method: http.MethodGet, Path: path, Tenant: tenant.ValueString()}, out)
}

func (r *remote) post(ctx context.Context, tenant types.String, path string, body, out any) error {
	return r.client.Do(ctx, api.Call{Method: http.MethodPost, Path: path, Tenant: tenant.ValueString(), Body: body}, out)
}

func (r *remote) patch(ctx context.Context, tenant types.String, path string, body, out any) error {
	return r.client.Do(ctx, api.Call{Method: http.MethodPatch, Path: path, Tenant: tenant.ValueString(), Body: body}, out)
}

// remove deletes the object. That it is not there is what was wanted.
func (r *remote) remove(ctx context.Context, tenant types.String, path string, out any) error {
	err := r.client.Do(ctx, api.Call{Method: http.MethodDelete, Path: path, Tenant: tenant.ValueString()}, out)
	if api.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *remote) await(ctx context.Context, tenant types.String, path string, change api.Delivery) error {
	return r.client.Await(ctx, tenant.ValueString(), path, change)
}

// importState takes `name`, or `tenant/name`. Neither names nor ids have a slash.
func (r *remote) importState(ctx context.Context, attribute string, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	tenant, name, both := strings.Cut(req.ID, "/")
	if !both {
		tenant, name = "", req.ID
	}
	if name == "" || (both && tenant == "") || strings.Contains(name, "/") {
		resp.Diagnostics.AddError("Wrong import id", fmt.Sprintf("%q is neither %s nor tenant/%s", req.ID, attribute, attribute))
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), name)...)
	if both {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("tenant"), tenant)...)
	}
}

// report adds what went wrong, at the attributes that the problem document names.
func report[A any](diags *diag.Diagnostics, attributes map[string]A, what string, err error) {
	var problem *api.Problem
	if !errors.As(err, &problem) {
		var late *api.NotDelivered
		if errors.As(err, &late) {
			what += ": brokers do not have it yet"
		}
		diags.AddError(what, err.Error())
		return
	}
	summary := what + ": " + problem.Title
	for field := range problem.Fields {
		if at, found := pathOf(attributes, field); found {
			diags.AddAttributeError(at, summary, problem.Error())
			return
		}
	}
	diags.AddError(summary, problem.Error())
}

// sayHowToImport adds to the error that an object was not made how to take over the one that is there, if its name is taken.
// A run that was killed before the state was written leaves such objects, and so does another configuration: which of both
// it is, only people know. find is the object's id for the import; empty: it is not there for this caller.
func (r *remote) sayHowToImport(diags *diag.Diagnostics, err error, tenant types.String, find func() (string, error)) {
	problem := api.Taken(err)
	if problem == nil {
		return
	}
	id, wrong := find()
	if wrong != nil {
		diags.AddWarning("The object that is there was not looked up", wrong.Error())
	}
	if id == "" || wrong != nil {
		return
	}
	if named := tenant.ValueString(); named != "" {
		id = named + "/" + id
	}
	problem.Advice = fmt.Sprintf("If this configuration is to manage what is there, as after a run that was killed before it "+
		"noted what it had made, add this block, with the address that stands above behind \"with\", and apply again:\n\n"+
		"  import {\n    to = penstock_%s.…\n    id = %q\n  }\n\nOr run: terraform import 'penstock_%s.…' %s", r.name, id, r.name, id)
}

// idNamed is the public id of the object of this name in a list of the service; empty: there is none, or it is closed.
func (r *remote) idNamed(ctx context.Context, tenant types.String, path, name string) func() (string, error) {
	return func() (string, error) {
		all, err := api.List[struct {
			ID       string  `json:"id"`
			Name     string  `json:"name"`
			ClosedAt *string `json:"closed_at"`
		}](ctx, r.client, tenant.ValueString(), path)
		for _, object := range all {
			if object.Name == name && object.ClosedAt == nil {
				return object.ID, err
			}
		}
		return "", err
	}
}

// warn adds what went wrong after an object was made. No error: Terraform would replace the object, with all it holds.
func warn(diags *diag.Diagnostics, what string, err error) {
	diags.AddWarning(what+", but not ready yet", err.Error())
}

var segments = regexp.MustCompile(`^([a-z_]+)(?:\[\d+\])?(?:\.([a-z_]+))?`)

// pathOf is the attribute that a problem's field like `partitions` or `settings.retention_ms` is about. The service names
// settings and limits without what holds them.
func pathOf[A any](attributes map[string]A, field string) (path.Path, bool) {
	found := segments.FindStringSubmatch(field)
	if found == nil {
		return path.Empty(), false
	}
	has := func(name string) bool { _, there := attributes[name]; return there }
	if has(found[1]) {
		at := path.Root(found[1])
		if found[2] != "" && (found[1] == "settings" || found[1] == "limits") {
			at = at.AtMapKey(found[2])
		}
		return at, true
	}
	for _, holder := range []string{"settings", "limits"} {
		if has(holder) {
			return path.Root(holder).AtMapKey(found[1]), true
		}
	}
	return path.Empty(), false
}

// -- parts of schemas ----------------------------------------------------------------------------------------

func tenantAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		MarkdownDescription: "Public id of the tenant; the provider's, or the token's only one, unless given. Another one: **replaced**.",
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
	}
}

func idAttribute(what string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: what,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
}

func fixedString(required bool, what string) schema.StringAttribute {
	return schema.StringAttribute{
		Required:            required,
		Optional:            !required,
		MarkdownDescription: what + " Another one: **replaced**.",
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
	}
}

func timeoutsAttribute(ctx context.Context) schema.Attribute {
	return timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Update: true, Delete: true,
		CreateDescription: "How long making it may take, with its delivery to all brokers, as `30s` or `2m` (the default).",
		UpdateDescription: "The same for changes.",
		DeleteDescription: "The same for deletion.",
	})
}

// bounded gives the context the deadline of `timeouts`.
func bounded(
	ctx context.Context, diags *diag.Diagnostics, read func(context.Context, time.Duration) (time.Duration, diag.Diagnostics),
) (context.Context, context.CancelFunc) {
	limit, found := read(ctx, timeoutDefault)
	diags.Append(found...)
	return context.WithTimeout(ctx, limit)
}

func segment(name string) string { return "/" + url.PathEscape(name) }

// stringsOf are the values of the set without those that are null, which a variable may be.
func stringsOf(ctx context.Context, diags *diag.Diagnostics, set types.Set) []string {
	values := []string{}
	if set.IsNull() {
		return values
	}
	var elements []types.String
	diags.Append(set.ElementsAs(ctx, &elements, false)...)
	for _, element := range elements {
		if !element.IsNull() {
			values = append(values, element.ValueString())
		}
	}
	return values
}

// setOf is the set; as the configuration has it, if that says the same: it may be left out, and have values that are null.
func setOf(ctx context.Context, diags *diag.Diagnostics, values []string, before types.Set) types.Set {
	said := stringsOf(ctx, diags, before)
	slices.Sort(said)
	if slices.Equal(said, slices.Sorted(slices.Values(values))) {
		return before
	}
	set, found := types.SetValueFrom(ctx, types.StringType, values)
	diags.Append(found...)
	return set
}
