package provider

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Each resource is described once, for the whole product (docs/guides/adding-a-resource.md), and written here by
// `python -m docs.reference`.
//
//go:embed resources.json
var written []byte

// fieldDescription is a field of a resource that a configuration gives.
type fieldDescription struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Meaning  string `json:"meaning"`
	Required bool   `json:"required"`
	Default  any    `json:"default"`
	// Another value needs another object.
	Replaced bool   `json:"replaced"`
	Low      *int64 `json:"low"`
	High     *int64 `json:"high"`
	ItemsMax int    `json:"items_max"`
}

type resourceDescription struct {
	Name      string             `json:"name"`
	Path      string             `json:"path"`
	About     string             `json:"about"`
	Delivered bool               `json:"delivered"`
	Fields    []fieldDescription `json:"fields"`
}

var descriptions = func() map[string]resourceDescription {
	var all []resourceDescription
	if err := json.Unmarshal(written, &all); err != nil {
		panic(fmt.Sprintf("resources.json: %s", err))
	}
	byName := map[string]resourceDescription{}
	for _, described := range all {
		byName[described.Name] = described
	}
	return byName
}()

// The kinds of fields.
const (
	kindText   = "text"
	kindWhole  = "whole"
	kindFlag   = "flag"
	kindTexts  = "texts"
	kindWholes = "wholes"
)
