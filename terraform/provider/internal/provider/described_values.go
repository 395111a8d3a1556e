package provider

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// values are those of an object by the names of its attributes, as Terraform keeps them.
type values map[string]tftypes.Value

func valuesOf(raw tftypes.Value) (values, error) {
	found := map[string]tftypes.Value{}
	err := raw.As(&found)
	return found, err
}

// body is what REST takes for these fields, without those that are null.
func (v values) body(fields []fieldDescription) (map[string]any, error) {
	made := map[string]any{}
	for _, field := range fields {
		value := v[field.Name]
		if value.IsNull() || !value.IsKnown() {
			continue
		}
		sent, err := field.sent(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name, err)
		}
		made[field.Name] = sent
	}
	return made, nil
}

// show takes the fields from an answer of REST.
func (v values) show(fields []fieldDescription, answer map[string]any) error {
	for _, field := range fields {
		value, err := field.shown(answer[field.Name])
		if err != nil {
			return fmt.Errorf("%s: %w", field.Name, err)
		}
		if !sameValues(v[field.Name], value) {
			v[field.Name] = value
		}
	}
	return nil
}

// sameValues says whether a set has the same values as another, beside those that are null.
func sameValues(before, shown tftypes.Value) bool {
	var said, seen []tftypes.Value
	if before.IsNull() || !before.IsKnown() || before.As(&said) != nil || shown.IsNull() || shown.As(&seen) != nil {
		return false
	}
	said = slices.DeleteFunc(slices.Clone(said), tftypes.Value.IsNull)
	return len(said) == len(seen) && !slices.ContainsFunc(said, func(value tftypes.Value) bool {
		return !slices.ContainsFunc(seen, value.Equal)
	})
}

// wireType is how Terraform keeps the field.
func (f fieldDescription) wireType() tftypes.Type {
	switch f.Kind {
	case kindText:
		return tftypes.String
	case kindWhole:
		return tftypes.Number
	case kindFlag:
		return tftypes.Bool
	case kindTexts:
		return tftypes.Set{ElementType: tftypes.String}
	case kindWholes:
		return tftypes.Set{ElementType: tftypes.Number}
	}
	panic(f.Name + ": a field of the kind " + f.Kind)
}

// sent is a known value for REST.
func (f fieldDescription) sent(value tftypes.Value) (any, error) {
	switch f.Kind {
	case kindText:
		var text string
		err := value.As(&text)
		return text, err
	case kindFlag:
		var flag bool
		err := value.As(&flag)
		return flag, err
	case kindWhole:
		return whole(value)
	}
	var items []tftypes.Value
	if err := value.As(&items); err != nil {
		return nil, err
	}
	if f.Kind == kindTexts {
		return sorted(items, func(item tftypes.Value) (text string, err error) {
			err = item.As(&text)
			return text, err
		})
	}
	return sorted(items, whole)
}

func sorted[T string | int64](items []tftypes.Value, read func(tftypes.Value) (T, error)) ([]T, error) {
	made := []T{}
	for _, item := range items {
		if item.IsNull() {
			continue // a variable that is null names nothing
		}
		value, err := read(item)
		if err != nil {
			return nil, err
		}
		made = append(made, value)
	}
	slices.Sort(made)
	return made, nil
}

func whole(value tftypes.Value) (int64, error) {
	number := new(big.Float)
	if err := value.As(&number); err != nil {
		return 0, err
	}
	read, _ := number.Int64()
	return read, nil
}

// shown is a value of an answer for Terraform. No text and null are the same: no configuration has an empty one.
func (f fieldDescription) shown(answer any) (tftypes.Value, error) {
	kind := f.wireType()
	switch value := answer.(type) {
	case nil:
		return tftypes.NewValue(kind, nil), nil
	case string:
		if value == "" {
			return tftypes.NewValue(kind, nil), nil
		}
		return made(kind, value)
	case bool:
		return made(kind, value)
	case json.Number:
		number, _, err := big.ParseFloat(value.String(), 10, 512, big.ToNearestEven)
		if err != nil {
			return tftypes.Value{}, err
		}
		return made(kind, number)
	case []any:
		items := []tftypes.Value{}
		for _, item := range value {
			shown, err := f.item().shown(item)
			if err != nil {
				return tftypes.Value{}, err
			}
			items = append(items, shown)
		}
		return made(kind, items)
	}
	return tftypes.Value{}, fmt.Errorf("the service answered %v", answer)
}

// item is the field, as one of its values.
func (f fieldDescription) item() fieldDescription {
	kinds := map[string]string{kindTexts: kindText, kindWholes: kindWhole}
	return fieldDescription{Name: f.Name, Kind: kinds[f.Kind]}
}

// made is the value, or an error where the service answered one of another kind.
func made(kind tftypes.Type, value any) (tftypes.Value, error) {
	if err := tftypes.ValidateValue(kind, value); err != nil {
		return tftypes.Value{}, err
	}
	return tftypes.NewValue(kind, value), nil
}
