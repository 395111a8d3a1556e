// Package api is a client of the service's REST interface, version 1.
package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	answerBytesMax = 32 << 20
	attemptsMax    = 8
	firstPause     = 250 * time.Millisecond
	pauseMax       = 10 * time.Second
	// A service that asks for a longer pause than this is not waited for.
	retryAfterMax = 2 * time.Minute
	callTimeout   = 60 * time.Second
)

// Client sends requests of one caller. It is safe for concurrent use.
type Client struct {
	endpoint string
	token    string
	tenant   string
	agent    string
	http     *http.Client
	sleep    func(context.Context, time.Duration) error
}

// New makes a client of the service at endpoint. Tenant is the public id that requests name unless they name another;
// it may be empty.
func New(endpoint, token, tenant, agent string) (*Client, error) {
	parsed, err := url.Parse(endpoint)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return nil, fmt.Errorf("%q is no address like https://penstock.example", endpoint)
	}
	client := &Client{
		endpoint: strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), "/v1"),
		token:    token,
		tenant:   tenant,
		agent:    agent,
		http: &http.Client{
			Timeout:   callTimeout,
			Transport: withoutProxy(),
			// The token goes to no other host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		sleep: sleep,
	}
	return client, nil
}

// withoutProxy is Go's usual transport, without the proxy of the environment: as the SDK does, the provider speaks with
// the service itself.
func withoutProxy() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	transport := usual.Clone()
	transport.Proxy = nil
	return transport
}

// Call is one request. Tenant is a public id; empty: the client's.
type Call struct {
	Method string
	Path   string
	Query  url.Values
	Tenant string
	Body   any
}

// Do sends the call and decodes the answer into out, which may be nil. It repeats what did not arrive or was refused for
// now, honours Retry-After, and sends a POST with one idempotency key each time, so that it takes effect once.
//
// The error is a *Problem if the service refused.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	var body []byte
	if call.Body != nil {
		encoded, err := json.Marshal(call.Body)
		if err != nil {
			return err
		}
		body = encoded
	}
	key := ""
	if call.Method == http.MethodPost {
		key = "terraform-" + rand.Text()
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		wait, err := c.once(ctx, call, key, body, out)
		if err == nil || wait < 0 || attempt == attemptsMax || ctx.Err() != nil {
			return err
		}
		if wait > retryAfterMax {
			return fmt.Errorf("the service asks to wait %s: %w", wait, err)
		}
		if wait == 0 {
			wait = pause
			pause = min(2*pause, pauseMax)
		}
		if stopped := c.sleep(ctx, wait); stopped != nil {
			return errors.Join(err, stopped)
		}
	}
}

// once returns with an error how long to wait before the next attempt: 0 as the caller likes, negative: do not repeat.
func (c *Client) once(ctx context.Context, call Call, key string, body []byte, out any) (time.Duration, error) {
	address := c.endpoint + "/v1" + call.Path
	if len(call.Query) > 0 {
		address += "?" + call.Query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, call.Method, address, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", c.agent)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	if tenant := c.tenantOf(call); tenant != "" {
		request.Header.Set("Penstock-Tenant", tenant)
	}
	said := call.Method + " /v1" + call.Path
	answer, err := c.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", said, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return 0, fmt.Errorf("%s: the answer broke off: %w", said, err)
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return retryOf(answer), problemOf(answer.StatusCode, text, answer.Header, said)
	}
	if out == nil || len(text) == 0 {
		return -1, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(out); err != nil {
		return -1, fmt.Errorf("%s: the answer is not what version 1 of the interface says: %w", said, err)
	}
	return -1, nil
}

func (c *Client) tenantOf(call Call) string {
	if call.Tenant != "" {
		return call.Tenant
	}
	return c.tenant
}

// Tenant is the public id that requests name unless they name another; may be empty.
func (c *Client) Tenant() string { return c.tenant }

func retryOf(answer *http.Response) time.Duration {
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return -1
	}
	given := answer.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(given); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second
	}
	if moment, err := http.ParseTime(given); err == nil {
		return max(0, time.Until(moment))
	}
	return 0
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// List reads every page of a list. The caller's query stays as it is.
func List[T any](ctx context.Context, c *Client, tenant, path string) ([]T, error) {
	var found []T
	query := url.Values{"limit": {"200"}}
	for {
		var page struct {
			Items []T     `json:"items"`
			Next  *string `json:"next"`
		}
		err := c.Do(ctx, Call{Method: http.MethodGet, Path: path, Query: query, Tenant: tenant}, &page)
		if err != nil {
			return nil, err
		}
		found = append(found, page.Items...)
		if page.Next == nil {
			return found, nil
		}
		query = url.Values{"limit": {"200"}, "cursor": {*page.Next}}
	}
}
