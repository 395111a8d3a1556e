package provider

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

const (
	// The level of a plan that names none.
	levelUsual = "standard"
	// Names of levels that are a plan's own begin so.
	levelOfPlan = "plan/"
)

// levelSent is a level for REST, from its name or its JSON.
func levelSent(text string) (map[string]any, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return map[string]any{"name": text}, nil
	}
	level := map[string]any{}
	if err := json.Unmarshal([]byte(text), &level); err != nil {
		return nil, fmt.Errorf("service_level: %w", err)
	}
	return level, nil
}

// levelShown is the level that the service answered; as the configuration has it, if that says the same.
func levelShown(answer json.RawMessage, before types.String) (types.String, error) {
	level := map[string]any{}
	if err := json.Unmarshal(answer, &level); err != nil {
		return before, err
	}
	name := fmt.Sprint(level["name"])
	if !strings.HasPrefix(name, levelOfPlan) {
		if name == levelUsual && before.IsNull() {
			return before, nil
		}
		return types.StringValue(name), nil
	}
	// The name and the version follow from the plan.
	delete(level, "name")
	delete(level, "version")
	for field, value := range level {
		if value == nil {
			delete(level, field)
		}
	}
	if said, err := levelSent(before.ValueString()); err == nil && reflect.DeepEqual(said, level) {
		return before, nil
	}
	text, err := json.Marshal(level)
	return types.StringValue(string(text)), err
}
