package supervisor

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at is a moment so many seconds after the start of seid.
func at(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func services(opened ...float64) []Service {
	var list []Service
	for _, seconds := range opened {
		service := Service{}
		if seconds >= 0 {
			service.Opened = at(seconds)
		}
		list = append(list, service)
	}
	return list
}

func TestSafeToStop(t *testing.T) {
	const not = -1
	timing := Config{}.withDefaults().Timing
	for name, c := range map[string]struct {
		now      float64
		answered float64
		services []Service
		expected bool
		seen     bool
		closing  bool
		first    int64
		height   int64
		want     Danger
	}{
		"nothing answers yet":                        {now: 5, answered: not, want: Booting},
		"still nothing, just before the limit":       {now: 59.9, answered: not, want: Booting},
		"hangs while it boots":                       {now: 60, answered: not, want: ""},
		"restarts itself, closes its stores":         {now: 599, answered: not, closing: true, want: Booting},
		"restarts itself, and hangs":                 {now: 600, answered: not, closing: true, want: ""},
		"validator, just answered":                   {now: 0.5, answered: 0.4, want: Booting},
		"validator, a second later":                  {now: 1.4, answered: 0.4, want: ""},
		"full node, RPC is up":                       {now: 2, answered: 0.3, services: services(0.4, not, not), want: Booting},
		"full node, gRPC is up":                      {now: 9, answered: 0.3, services: services(0.4, 5.3, not), want: Booting},
		"full node, gRPC-web is up":                  {now: 11.5, answered: 0.3, services: services(0.4, 5.3, 10.3), want: Booting},
		"full node, 15 s after RPC":                  {now: 15.5, answered: 0.3, services: services(0.4, 5.3, 10.3), want: Booting},
		"full node, the handler is in place":         {now: 16.3, answered: 0.3, services: services(0.4, 5.3, 10.3), want: ""},
		"only gRPC, too early":                       {now: 5, answered: 0.3, services: services(0.4), want: Booting},
		"only gRPC":                                  {now: 6.4, answered: 0.3, services: services(0.4), want: ""},
		"a service that never opens, at the limit":   {now: 60, answered: 0.3, services: services(0.4, not), want: ""},
		"slow boot: services count from their times": {now: 54, answered: 40, services: services(41, 46, 51), want: Booting},
		"slow boot: in place":                        {now: 57, answered: 40, services: services(41, 46, 51), want: ""},

		"state sync on an empty volume":              {now: 1000, answered: not, expected: true, want: StateSyncing},
		"state sync seen in the metrics":             {now: 1000, answered: not, seen: true, want: StateSyncing},
		"state sync seen just after the limit":       {now: 60, answered: not, seen: true, want: StateSyncing},
		"state sync over, no block yet":              {now: 1001, answered: 1000, expected: true, first: 650, height: 650, want: AwaitingBlock},
		"no block for an hour":                       {now: 4600, answered: 1000, seen: true, first: 650, height: 650, want: AwaitingBlock},
		"a block is stored, and maybe not executed":  {now: 4600, answered: 1000, seen: true, first: 650, height: 651, want: AwaitingBlock},
		"block came, the handler is not in place":    {now: 1001, answered: 1000, seen: true, services: services(1000.5, not), first: 650, height: 652, want: Booting},
		"block came, the handler is in place":        {now: 1017, answered: 1000, seen: true, services: services(1000, 1005, 1010), first: 650, height: 690, want: ""},
		"block came, a service never opens":          {now: 1060, answered: 1000, expected: true, services: services(not), first: 650, height: 652, want: ""},
		"state sync was expected and did not happen": {now: 3, answered: 0.4, expected: true, first: 0, height: 2, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Observation{
				Started: at(0), Now: at(c.now), Services: c.services,
				Closing: c.closing, SyncExpected: c.expected, SyncSeen: c.seen, FirstHeight: c.first, Height: c.height,
			}
			if c.answered != not {
				o.Answered = at(c.answered)
			}
			if got := SafeToStop(o, timing); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Nothing that only time does makes a safe seid unsafe. Only a state sync that is
// seen does, and it is looked for until the first answer; so it is right to look
// no more once seid has answered and is safe.
func TestSafeStaysSafe(t *testing.T) {
	timing := Config{}.withDefaults().Timing
	rapid.Check(t, func(t *rapid.T) {
		second := rapid.Float64Range(0, 2000)
		o := Observation{
			Started: at(0), Now: at(second.Draw(t, "now")),
			SyncExpected: rapid.Bool().Draw(t, "expected"), SyncSeen: rapid.Bool().Draw(t, "seen"),
			FirstHeight: rapid.Int64Range(0, 3).Draw(t, "first"), Height: rapid.Int64Range(0, 3).Draw(t, "height"),
		}
		if rapid.Bool().Draw(t, "answered") {
			o.Answered = at(second.Draw(t, "answered at"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "services") {
			o.Services = append(o.Services, services(second.Draw(t, "opened at"))...)
		}
		before := SafeToStop(o, timing)
		o.Now = o.Now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later")))
		o.Height += rapid.Int64Range(0, 3).Draw(t, "blocks")
		if after := SafeToStop(o, timing); before == "" && after != "" {
			t.Errorf("%s after it was safe", after)
		}
	})
}
