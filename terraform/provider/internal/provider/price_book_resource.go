package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"penstock.example/terraform/provider/internal/api"
)

const priceBooksPath = "/price-books"

// Where the id stands of resources that are no tenant's.
var idPath = path.Root("id")

type priceBookResource struct{ remote }

func newPriceBook() resource.Resource { return &priceBookResource{remote{name: "price_book"}} }

type priceBookModel struct {
	ID            types.String `tfsdk:"id"`
	Document      types.String `tfsdk:"document"`
	EffectiveFrom types.String `tfsdk:"effective_from"`
	SHA256        types.String `tfsdk:"sha256"`
}

type priceBookShape struct {
	ID            string          `json:"id"`
	SHA256        string          `json:"sha256"`
	EffectiveFrom time.Time       `json:"effective_from"`
	Document      json.RawMessage `json:"document"`
}

func (r *priceBookResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A version of a price book. Needs an operator's token. It rates the billing periods that begin at `effective_from` or later, and **never changes**: other prices need the next " +
			"version in the document, and are published beside this one. Nothing removes a price book: destroying or replacing the resource leaves it, and says so.",
		Attributes: map[string]schema.Attribute{
			"id":             idAttribute("Public id."),
			"document":       fixedString(true, "The price book as JSON, as `jsonencode` or `file` give it."),
			"effective_from": fixedString(true, "When it begins to hold, as `2027-01-01T00:00:00Z`; not in the past."),
			"sha256":         idAttribute("The hash by which invoices name it."),
		},
	}
}

func (r *priceBookResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan priceBookModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	document := json.RawMessage(plan.Document.ValueString())
	if !json.Valid(document) {
		resp.Diagnostics.AddAttributeError(path.Root("document"), "Price book not published", "document: JSON required")
		return
	}
	var published priceBookShape
	body := map[string]any{"document": document, "effective_from": plan.EffectiveFrom.ValueString()}
	if err := r.post(ctx, types.StringNull(), priceBooksPath, body, &published); err != nil {
		report(&resp.Diagnostics, req.Plan.Schema.GetAttributes(), "Price book not published", err)
		return
	}
	// The same document is published once, whenever it is asked to hold.
	if wanted, err := time.Parse(time.RFC3339, plan.EffectiveFrom.ValueString()); err != nil || !wanted.Equal(published.EffectiveFrom) {
		resp.Diagnostics.AddAttributeError(path.Root("effective_from"), "Price book published before", fmt.Sprintf(
			"effective_from: this document is published as %s and holds from %s on", published.ID, published.EffectiveFrom.Format(time.RFC3339)))
		return
	}
	plan.ID, plan.SHA256 = types.StringValue(published.ID), types.StringValue(published.SHA256)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// Read only looks whether the book is there, as it never changes. One that is imported gets what the service has.
func (r *priceBookResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state priceBookModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	all, err := api.List[priceBookShape](ctx, r.client, "", priceBooksPath)
	if err != nil {
		report(&resp.Diagnostics, req.State.Schema.GetAttributes(), "Price book not read", err)
		return
	}
	for _, book := range all {
		if book.ID != state.ID.ValueString() {
			continue
		}
		if state.Document.IsNull() {
			var text bytes.Buffer
			if err := json.Compact(&text, book.Document); err != nil {
				resp.Diagnostics.AddError("Price book not read", err.Error())
				return
			}
			state.Document, state.EffectiveFrom = types.StringValue(text.String()), types.StringValue(book.EffectiveFrom.Format(time.RFC3339))
		}
		state.SHA256 = types.StringValue(book.SHA256)
		resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
		return
	}
	resp.State.RemoveResource(ctx)
}

// Update is not called: every attribute that can be set replaces the book.
func (r *priceBookResource) Update(_ context.Context, _ resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.Diagnostics.AddError("Fault of the provider", "a price book does not change")
}

func (r *priceBookResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state priceBookModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.AddWarning("The price book stays", fmt.Sprintf(
		"Price books are never removed: %s stays published, and Terraform manages it no more.", state.ID.ValueString()))
}

func (r *priceBookResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, idPath, req, resp)
}
