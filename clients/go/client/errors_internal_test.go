package client

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func TestTextsMatchAllLanguages(t *testing.T) {
	file, err := os.ReadFile("../../../spec/errors/errors.toml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	entry := regexp.MustCompile(`(?m)^\[client\.(\w+)\]\ntext = "(.*)"$(\nonly = .*)?`)
	for _, each := range entry.FindAllStringSubmatch(string(file), -1) {
		if each[3] != "" && !strings.Contains(each[3], `"go"`) {
			continue // A code of other languages.
		}
		found++
		if texts[Code(each[1])] != each[2] {
			t.Errorf("%s: %q, not %q", each[1], texts[Code(each[1])], each[2])
		}
	}
	if found != len(texts) || found == 0 {
		t.Errorf("%d texts, not %d", len(texts), found)
	}
	own, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	tls, err := os.ReadFile("tls.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range regexp.MustCompile(`\sCode = "(\w+)"`).FindAllStringSubmatch(string(own)+string(tls), -1) {
		if texts[Code(each[1])] == "" {
			t.Errorf("%s is not in errors.toml", each[1])
		}
	}
}

func TestAnErrorIsOneLine(t *testing.T) {
	err := &Error{Code: ErrConnectionRefused, Operation: "connect", Reason: 0x87, ReasonString: "no\nway", ServerReference: "other"}
	want := `mqtt: connect: the server refused the connection: the reason code says why ` +
		`(Not authorized (0x87): "no\nway": use the server "other") [connection_refused]`
	if err.Error() != want {
		t.Errorf("got %s", err)
	}
	if got := (&Error{Code: ErrClosed, Operation: "publish"}).Error(); got != "mqtt: publish: "+texts[ErrClosed]+" [closed]" {
		t.Errorf("got %s", got)
	}
	_, malformed := packets.NewPublish("a/#", nil)
	refused := invalid("publish", malformed).Error()
	if !strings.Contains(refused, "[topic_wildcard] at byte 2 (MQTT-") || !strings.HasSuffix(refused, ") [invalid_argument]") {
		t.Errorf("got %s", refused)
	}
}

// Delays double from the minimum to the maximum, and are random between half and all. If only one
// end is set, beyond the default of the other, both are set to it.
func TestOneEndOfTheRetryDelaysIsSufficient(t *testing.T) {
	for given, want := range map[Reconnect]Reconnect{
		{}:                      {Min: DefaultReconnectMin, Max: DefaultReconnectMax},
		{Min: time.Minute}:      {Min: time.Minute, Max: time.Minute},
		{Max: time.Millisecond}: {Min: time.Millisecond, Max: time.Millisecond},
		{Min: time.Second}:      {Min: time.Second, Max: DefaultReconnectMax},
	} {
		got := given
		if err := got.setDefaults(); err != nil || got.Min != want.Min || got.Max != want.Max {
			t.Errorf("%v became %v (%v)", given, got, err)
		}
	}
}

func TestRetryDelaysGrow(t *testing.T) {
	b := backoff{least: 500 * time.Millisecond, most: 30 * time.Second}
	for _, whole := range []time.Duration{500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000} {
		whole *= time.Millisecond
		if pause := b.next(); pause < whole/2 || pause > whole {
			t.Errorf("%v, not from %v to %v", pause, whole/2, whole)
		}
	}
	b.reset()
	if pause := b.next(); pause > 500*time.Millisecond {
		t.Errorf("after the reset it is %v", pause)
	}
}

func TestWithoutALoggerOnlyWarningsAreLogged(t *testing.T) {
	var said strings.Builder
	log := slog.New(troubleOnly{slog.NewTextHandler(&said, nil)}).With("a", 1).WithGroup("g")
	log.Info("quiet")
	log.Warn("loud")
	if !strings.Contains(said.String(), "loud") || strings.Contains(said.String(), "quiet") {
		t.Errorf("got %s", said.String())
	}
}

func TestWebSocketWithoutAPathUsesTheDefault(t *testing.T) {
	for address, path := range map[string]string{
		"ws://host": "/mqtt", "wss://host:8084": "/mqtt", "ws://host/": "/", "ws://host/a?b": "/a", "mqtt://host": "", "mqtt://host/": "/",
	} {
		target, err := parseAddress(address)
		if err != nil || target.Path != path {
			t.Errorf("%s: %v, %v", address, target, err)
		}
	}
}
