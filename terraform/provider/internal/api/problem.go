package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Problem is a refusal of the service: a problem document (RFC 9457), or what an answer without one says.
type Problem struct {
	Status    int                 `json:"status"`
	Title     string              `json:"title"`
	Detail    string              `json:"detail"`
	Code      string              `json:"code"`
	Fields    map[string][]string `json:"fields"`
	RequestID string              `json:"-"`
	Call      string              `json:"-"`
	// What the caller can do, after everything else.
	Advice string `json:"-"`
}

func (p *Problem) Error() string {
	var text strings.Builder
	text.WriteString(p.Detail)
	fmt.Fprintf(&text, "\n\n%s was answered %d", p.Call, p.Status)
	if p.Code != "" {
		fmt.Fprintf(&text, " (%s)", p.Code)
	}
	if p.RequestID != "" {
		fmt.Fprintf(&text, ", request id %s", p.RequestID)
	}
	text.WriteString(".")
	if p.Advice != "" {
		text.WriteString("\n\n" + p.Advice)
	}
	return text.String()
}

// IsNotFound says whether the object is not there, or is another tenant's: the service answers both alike.
func IsNotFound(err error) bool {
	var problem *Problem
	return errors.As(err, &problem) && problem.Status == http.StatusNotFound && problem.Code != ""
}

// Taken is the refusal of a name that another object has; nil for any other error.
func Taken(err error) *Problem {
	var problem *Problem
	if errors.As(err, &problem) && problem.Status == http.StatusConflict && problem.Code == "already_exists" {
		return problem
	}
	return nil
}

func problemOf(status int, body []byte, header http.Header, call string) *Problem {
	problem := &Problem{}
	if json.Unmarshal(body, problem) != nil || problem.Detail == "" {
		problem = &Problem{Detail: fmt.Sprintf("%s, and no problem document; is the endpoint the service's?", http.StatusText(status))}
	}
	if problem.Title == "" {
		problem.Title = http.StatusText(status)
	}
	problem.Status, problem.Call, problem.RequestID = status, call, header.Get("X-Request-Id")
	return problem
}
