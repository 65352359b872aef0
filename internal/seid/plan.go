package seid

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// planPath is the question for the upgrade that is scheduled. It is one of gRPC, and
// the RPC passes it on to the application, on validators too, where gRPC and REST are
// off.
const planPath = "/cosmos.upgrade.v1beta1.Query/CurrentPlan"

// CurrentPlan asks the chain for the upgrade that is scheduled; nil when none is. The
// height is exact, unlike that of the metrics.
func (c *Client) CurrentPlan(ctx context.Context) (*Upgrade, error) {
	var body struct {
		Response *struct {
			Code  wireInt `json:"code"`
			Log   string  `json:"log"`
			Value []byte  `json:"value"`
		} `json:"response"`
	}
	// An argument in the URL is a JSON value, so this one has quotes.
	if _, err := c.get(ctx, "/abci_query", url.Values{"path": {strconv.Quote(planPath)}}, &body); err != nil {
		return nil, err
	}
	if body.Response == nil {
		return nil, c.incomplete("/abci_query", "response")
	}
	if body.Response.Code != 0 {
		return nil, fmt.Errorf("%s does not tell which upgrade is scheduled: %s (%d)", c.base.Host, body.Response.Log, body.Response.Code)
	}
	plan, err := decodePlan(body.Response.Value)
	if err != nil {
		return nil, fmt.Errorf("%s/abci_query: %w: %w", c.base.Host, ErrIncomplete, err)
	}
	return plan, nil
}

// decodePlan reads the answer: a message whose field 1 is the plan, of which name,
// height and info are the fields 1, 3 and 4.
func decodePlan(answer []byte) (*Upgrade, error) {
	var inner []byte
	err := eachField(answer, func(number protowire.Number, _ uint64, content []byte) {
		if number == 1 {
			inner = content
		}
	})
	if err != nil || inner == nil {
		return nil, err
	}
	var plan Upgrade
	err = eachField(inner, func(number protowire.Number, value uint64, content []byte) {
		switch int(number) {
		case 1:
			plan.Name = string(content)
		case 3:
			plan.Height = int64(value) //nolint:gosec // how protobuf writes an int64
		case 4:
			plan.Info = string(content)
		}
	})
	if err == nil && (plan.Name == "" || plan.Height < 1) {
		err = errors.New("the plan has no name or no height")
	}
	if err != nil {
		return nil, err
	}
	return &plan, nil
}

// eachField goes through the fields of a message. Of a field it gives the number or the
// bytes, as it has the one or the other.
func eachField(message []byte, take func(number protowire.Number, value uint64, content []byte)) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		switch kind {
		case protowire.VarintType:
			value, _ := protowire.ConsumeVarint(message)
			take(number, value, nil)
		case protowire.BytesType:
			content, _ := protowire.ConsumeBytes(message)
			take(number, 0, append([]byte{}, content...))
		default:
			// No field that is looked for.
		}
		message = message[size:]
	}
	return nil
}
