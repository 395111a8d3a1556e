package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served makes a client of a server that answers each request with the next of the answers, and the pauses it took.
func served(t *testing.T, answers ...http.HandlerFunc) (*Client, *[]time.Duration, *int) {
	t.Helper()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked >= len(answers) {
			t.Errorf("request %d was not to come: %s %s", asked+1, r.Method, r.URL)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		asked++
		answers[asked-1](w, r)
	}))
	t.Cleanup(server.Close)
	client, err := New(server.URL+"/v1/", "secret", "tn_own", "test")
	if err != nil {
		t.Fatal(err)
	}
	var pauses []time.Duration
	client.sleep = func(ctx context.Context, wait time.Duration) error {
		pauses = append(pauses, wait)
		return ctx.Err()
	}
	return client, &pauses, &asked
}

func answer(status int, header map[string]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestAPostIsRepeatedWithOneIdempotencyKeyAfterThePauseAskedFor(t *testing.T) {
	var keys []string
	noting := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			next(w, r)
		}
	}
	client, pauses, _ := served(t,
		noting(answer(429, map[string]string{"Retry-After": "7"}, `{"detail":"wait","code":"throttled"}`)),
		noting(answer(503, nil, `{"detail":"away","code":"timeout"}`)),
		noting(answer(201, nil, `{"id":"x"}`)),
	)
	var out struct{ ID string }
	if err := client.Do(context.Background(), Call{Method: "POST", Path: "/topics", Body: map[string]any{}}, &out); err != nil {
		t.Fatal(err)
	}
	if out.ID != "x" || len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("answer %q, keys %q", out.ID, keys)
	}
	if want := []time.Duration{7 * time.Second, firstPause}; fmt.Sprint(*pauses) != fmt.Sprint(want) {
		t.Errorf("pauses %v, wanted %v", *pauses, want)
	}
}

func TestARefusalIsNotRepeatedAndKeepsItsDocument(t *testing.T) {
	client, _, asked := served(t, answer(422, map[string]string{"X-Request-Id": "r1"},
		`{"title":"A limit","detail":"topics_max: 3 allowed","code":"limit_exceeded","fields":{"topics_max":["3 allowed"]}}`))
	err := client.Do(context.Background(), Call{Method: "POST", Path: "/topics"}, nil)
	var problem *Problem
	if !errors.As(err, &problem) || problem.Fields["topics_max"][0] != "3 allowed" || *asked != 1 {
		t.Fatalf("%v after %d requests", err, *asked)
	}
	for _, part := range []string{"topics_max: 3 allowed", "POST /v1/topics", "422", "limit_exceeded", "r1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
}

func TestAttemptsAndPausesAreBounded(t *testing.T) {
	away := answer(503, nil, `{"detail":"away","code":"timeout"}`)
	many := make([]http.HandlerFunc, attemptsMax)
	for i := range many {
		many[i] = away
	}
	client, pauses, asked := served(t, many...)
	if err := client.Do(context.Background(), Call{Method: "GET", Path: "/topics"}, nil); err == nil || *asked != attemptsMax {
		t.Errorf("%v after %d requests", err, *asked)
	}
	for _, pause := range *pauses {
		if pause > pauseMax {
			t.Errorf("a pause of %s", pause)
		}
	}
	client, _, asked = served(t, answer(429, map[string]string{"Retry-After": "86400"}, `{"detail":"tomorrow","code":"throttled"}`))
	if err := client.Do(context.Background(), Call{Method: "GET", Path: "/topics"}, nil); err == nil || *asked != 1 {
		t.Errorf("%v after %d requests: a day is not waited for", err, *asked)
	}
}

func TestAProxysNotFoundIsNoMissingObject(t *testing.T) {
	client, _, _ := served(t, answer(404, nil, "<html>nginx</html>"), answer(404, nil, `{"detail":"topic x: not there","code":"not_found"}`))
	if err := client.Do(context.Background(), Call{Method: "GET", Path: "/topics/x"}, nil); err == nil || IsNotFound(err) {
		t.Errorf("%v would remove the object from the state", err)
	}
	if err := client.Do(context.Background(), Call{Method: "GET", Path: "/topics/x"}, nil); !IsNotFound(err) {
		t.Errorf("%v", err)
	}
}

func TestNoProxyOfTheEnvironmentIsAsked(t *testing.T) {
	client, err := New("https://penstock.example", "secret", "", "test")
	if err != nil {
		t.Fatal(err)
	}
	transport, ok := client.http.Transport.(*http.Transport)
	if !ok || transport.Proxy != nil {
		t.Errorf("the client would ask a proxy: %+v", client.http.Transport)
	}
}

func TestTheTokenFollowsNoRedirect(t *testing.T) {
	client, _, asked := served(t, answer(307, map[string]string{"Location": "/v1/elsewhere"}, ""))
	if err := client.Do(context.Background(), Call{Method: "GET", Path: "/topics"}, nil); err == nil || *asked != 1 {
		t.Errorf("%v after %d requests", err, *asked)
	}
}

func TestAwaitReadsUntilBrokersHaveTheChangeAndSaysWhyTheyDoNot(t *testing.T) {
	state := func(delivered int64) http.HandlerFunc {
		text, _ := json.Marshal(State{Generation: 3, DeliveredGeneration: delivered, Conditions: []Condition{{"copies", "no_brokers", "two of three"}}})
		return answer(200, nil, string(text))
	}
	change := Delivery{}
	change.Token.Generation = 3
	client, _, asked := served(t, state(2), state(2), state(3))
	if err := client.Await(context.Background(), "", "/topics/x", change); err != nil || *asked != 3 {
		t.Errorf("%v after %d requests", err, *asked)
	}
	client, _, _ = served(t, state(2))
	client.sleep = func(context.Context, time.Duration) error { return context.DeadlineExceeded }
	err := client.Await(context.Background(), "", "/topics/x", change)
	var late *NotDelivered
	if !errors.As(err, &late) || !strings.Contains(err.Error(), "two of three") {
		t.Errorf("%v", err)
	}
}

func TestAListIsReadPageByPage(t *testing.T) {
	var cursors []string
	page := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			cursors = append(cursors, r.URL.Query().Get("cursor"))
			fmt.Fprint(w, body)
		}
	}
	client, _, _ := served(t, page(`{"items":[1,2],"next":"c2"}`), page(`{"items":[3],"next":null}`))
	found, err := List[int](context.Background(), client, "", "/numbers")
	if err != nil || fmt.Sprint(found) != "[1 2 3]" || fmt.Sprint(cursors) != "[ c2]" {
		t.Errorf("%v %v %v", found, cursors, err)
	}
}

func TestAnAddressWithoutASchemeIsRefused(t *testing.T) {
	for _, wrong := range []string{"penstock.example", "ftp://penstock.example", "http://", ""} {
		if _, err := New(wrong, "t", "", "a"); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}
