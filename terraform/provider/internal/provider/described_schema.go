package provider

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// describedAttributes are those of the fields that a configuration gives.
func describedAttributes(fields []fieldDescription) map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	for _, field := range fields {
		attributes[field.Name] = field.attribute()
	}
	return attributes
}

func (f fieldDescription) attribute() schema.Attribute {
	said := f.Meaning
	if f.Replaced {
		said += " Another one: **replaced**."
	}
	switch f.Kind {
	case kindText:
		if f.Replaced {
			return fixedString(f.Required, f.Meaning)
		}
		return schema.StringAttribute{Required: f.Required, Optional: !f.Required, MarkdownDescription: said}
	case kindWhole:
		attribute := schema.Int64Attribute{
			Required: f.Required, Optional: !f.Required, Computed: !f.Required, MarkdownDescription: said, Validators: f.bounds(),
		}
		if f.Replaced {
			attribute.PlanModifiers = []planmodifier.Int64{int64planmodifier.RequiresReplace()}
		}
		if number, has := f.Default.(float64); has {
			attribute.Default = int64default.StaticInt64(int64(number))
		}
		return attribute
	case kindFlag:
		attribute := schema.BoolAttribute{
			Required: f.Required, Optional: !f.Required, Computed: !f.Required, MarkdownDescription: said,
		}
		if f.Replaced {
			attribute.PlanModifiers = []planmodifier.Bool{boolplanmodifier.RequiresReplace()}
		}
		if flag, has := f.Default.(bool); has {
			attribute.Default = booldefault.StaticBool(flag)
		}
		return attribute
	}
	attribute := schema.SetAttribute{
		Required: f.Required, Optional: !f.Required, Computed: !f.Required, MarkdownDescription: said,
		ElementType: types.StringType, Validators: f.sizes(),
	}
	if f.Kind == kindWholes {
		attribute.ElementType = types.Int64Type
	}
	if f.Replaced {
		attribute.PlanModifiers = []planmodifier.Set{setplanmodifier.RequiresReplace()}
	}
	if items, has := f.Default.([]any); has {
		attribute.Default = setdefault.StaticValue(types.SetValueMust(attribute.ElementType, f.items(items)))
	}
	return attribute
}

func (f fieldDescription) items(given []any) []attr.Value {
	made := []attr.Value{}
	for _, item := range given {
		switch value := item.(type) {
		case string:
			made = append(made, types.StringValue(value))
		case float64:
			made = append(made, types.Int64Value(int64(value)))
		}
	}
	return made
}

func (f fieldDescription) bounds() []validator.Int64 {
	if f.Low == nil || f.High == nil {
		return nil
	}
	return []validator.Int64{int64validator.Between(*f.Low, *f.High)}
}

func (f fieldDescription) sizes() []validator.Set {
	found := []validator.Set{}
	if f.Required {
		found = append(found, someValues{})
	}
	if f.ItemsMax > 0 {
		found = append(found, setvalidator.SizeAtMost(f.ItemsMax))
	}
	if bounds := f.bounds(); bounds != nil {
		found = append(found, setvalidator.ValueInt64sAre(bounds...))
	}
	return found
}

// spoken is a name as a sentence begins with it.
func spoken(name string) string {
	words := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}
