package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	firstLook = 200 * time.Millisecond
	lookMax   = 2 * time.Second
)

// Condition says why an object is not as desired on the brokers.
type Condition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// State is how far brokers have an object.
type State struct {
	Generation          int64       `json:"generation"`
	DeliveredGeneration int64       `json:"delivered_generation"`
	Conditions          []Condition `json:"conditions"`
}

// Delivery is what the answer to a change says of the brokers.
type Delivery struct {
	Delivered bool `json:"delivered"`
	Token     struct {
		Object     string `json:"object"`
		Generation int64  `json:"generation"`
	} `json:"token"`
}

// NotDelivered says that brokers did not take a change in time. The change stands, and the service goes on with it.
type NotDelivered struct {
	Path       string
	Waited     time.Duration
	Generation int64
	Conditions []Condition
}

func (e *NotDelivered) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: the change stands (generation %d), but not every broker has it after %s.",
		e.Path, e.Generation, e.Waited.Round(time.Second))
	for _, condition := range e.Conditions {
		fmt.Fprintf(&text, "\n%s: %s: %s", condition.Type, condition.Reason, condition.Message)
	}
	text.WriteString("\n\nThe service goes on with it. Longer `timeouts` wait longer.")
	return text.String()
}

// Await returns when brokers have the change. It reads the object at path, whose state has generations, until then or
// until the context's deadline, and then returns *NotDelivered.
func (c *Client) Await(ctx context.Context, tenant, path string, change Delivery) error {
	if change.Delivered {
		return nil
	}
	began := time.Now()
	pause := firstLook
	var seen State
	for {
		err := c.Do(ctx, Call{Method: http.MethodGet, Path: path, Tenant: tenant}, &seen)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil && seen.DeliveredGeneration >= change.Token.Generation {
			return nil
		}
		if stopped := c.sleep(ctx, pause); stopped != nil {
			if errors.Is(stopped, context.DeadlineExceeded) {
				return &NotDelivered{path, time.Since(began), change.Token.Generation, seen.Conditions}
			}
			return stopped
		}
		pause = min(2*pause, lookMax)
	}
}
