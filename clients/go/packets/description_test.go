package packets_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func TestDescriptionsHaveNoSecretsAndSummariesNoPayload(t *testing.T) {
	connect := &packets.Connect{}
	will, err := packets.NewWill("will", []byte("WILLPAYLOAD"))
	if err != nil {
		t.Fatal(err)
	}
	connect.SetWill(will)
	withPassword := &packets.Connect{}
	ack, auth, message := &packets.ConnAck{}, &packets.Auth{}, publish(t)
	message.SetPayload([]byte("PAYLOAD"))
	if err := errors.Join(withPassword.SetPassword([]byte("SECRET")), connect.SetPassword([]byte("SECRET")), connect.SetUserName("user"),
		connect.SetAuthenticationMethod("method"), connect.SetAuthenticationData([]byte("SECRET")),
		ack.SetAuthenticationMethod("method"), ack.SetAuthenticationData([]byte("SECRET")),
		auth.SetAuthenticationMethod("method"), auth.SetAuthenticationData([]byte("SECRET")),
	); err != nil {
		t.Fatal(err)
	}
	for _, p := range []packets.Packet{connect, withPassword, ack, auth, message} {
		line, dump := p.String(), p.Dump()
		if strings.Contains(line, "\n") || strings.Contains(line, "PAYLOAD") {
			t.Errorf("the line is %q", line)
		}
		if strings.Contains(dump, "on the wire") != (p == message) {
			t.Errorf("bytes with a secret are shown, or others are not:\n%s", dump)
		}
		for _, text := range []string{line, dump, fmt.Sprint(p), fmt.Sprintf("%v", p)} {
			if strings.Contains(text, "SECRET") || strings.Contains(text, fmt.Sprintf("% x", "SECRET")) {
				t.Errorf("a secret is shown: %s", text)
			}
		}
	}
	if dump := message.Dump(); !strings.Contains(dump, "PAYLOAD") || !strings.Contains(dump, "on the wire") {
		t.Errorf("the dump of a message lacks something:\n%s", dump)
	}
	if dump := connect.Dump(); !strings.Contains(dump, "WILLPAYLOAD") {
		t.Errorf("the dump of a will lacks something:\n%s", dump)
	}
	if dump := (&packets.Publish{}).Dump(); !strings.Contains(dump, "not well formed: topic") {
		t.Errorf("the dump does not say what is wrong:\n%s", dump)
	}
}

func TestEveryVectorHasADescription(t *testing.T) {
	for _, v := range packetVectors(t) {
		// Dumps of megabytes add nothing.
		if v.Result != "valid" || len(v.bytes()) > 10_000 {
			continue
		}
		p, _, err := packets.Decode(v.bytes(), v.options())
		if err != nil {
			t.Fatal(err)
		}
		if line := p.String(); !strings.HasPrefix(line, p.Type().String()) || strings.Contains(line, "\n") {
			t.Errorf("%s: %q", v.ID, line)
		}
		if dump := p.Dump(); !strings.HasPrefix(dump, p.Type().String()+", MQTT "+v.VersionName) {
			t.Errorf("%s: %s", v.ID, dump)
		}
	}
}

func TestErrorsContainCauseLocationAndAdvice(t *testing.T) {
	// PUBLISH to a wildcard.
	_, _, err := packets.Decode(packets.NewRaw(0x30).Text("a/#").Byte(0).Build(), packets.Options{})
	err = fmt.Errorf("connection 7: %w", err)
	const want = "connection 7: the topic name contains + or #: publish to one exact topic [topic_wildcard] at byte 6 (MQTT-3.3.2-2)"
	if err.Error() != want {
		t.Errorf("%q", err)
	}
	var problem *packets.Error
	if !errors.As(err, &problem) || problem.Code() != "topic_wildcard" || problem.Reason() != packets.ReasonTopicNameInvalid ||
		problem.Statement() != "MQTT-3.3.2-2" || problem.Offset != 6 {
		t.Errorf("%+v", problem)
	}
	if !errors.Is(err, packets.CauseTopicWildcard) || !errors.Is(err, packets.FaultProtocolError) ||
		errors.Is(err, packets.CauseTopicMissing) || errors.Is(err, packets.FaultMalformed) {
		t.Error("errors.Is is wrong")
	}
	err = new(packets.Publish).SetQoS(3)
	if want := "qos: the QoS is not 0, 1 or 2: use one of them [qos_unknown] (MQTT-3.3.1-4)"; err.Error() != want {
		t.Errorf("%q", err)
	}
}

func TestCausesHaveUniqueCodesAndAdvice(t *testing.T) {
	codes := map[string]packets.Cause{}
	for cause := packets.CauseIncomplete; cause.Code() != "none"; cause++ {
		if other, taken := codes[cause.Code()]; taken {
			t.Errorf("%d and %d have the code %s", other, cause, cause.Code())
		}
		codes[cause.Code()] = cause
		if !strings.Contains(cause.Error(), ": ") || !cause.Reason().IsError() {
			t.Errorf("%s: %s, %s", cause.Code(), cause, cause.Reason())
		}
		if cause.Fault() == packets.FaultMalformed && cause.Reason() != packets.ReasonMalformedPacket {
			t.Errorf("%s is malformed and answered with %s", cause.Code(), cause.Reason())
		}
	}
	if got := packets.Cause(250).Code(); got != "none" {
		t.Error(got)
	}
}

func TestNamesMatchTheStandard(t *testing.T) {
	for got, want := range map[string]string{
		fmt.Sprint(packets.ReasonNotAuthorized):    "Not authorized (0x87)",
		fmt.Sprint(packets.ReasonCode(3)):          "undefined (0x03)",
		fmt.Sprint(packets.TypePubRel):             "PUBREL",
		fmt.Sprint(packets.Type(0)):                "Type(0)",
		fmt.Sprint(packets.V311):                   "3.1.1",
		fmt.Sprint(packets.Version(9)):             "Version(9)",
		fmt.Sprint(packets.ExactlyOnce):            "QoS 2",
		fmt.Sprint(packets.DoNotSend):              "do not send",
		fmt.Sprint(packets.RetainHandling(3)):      "RetainHandling(3)",
		fmt.Sprint(packets.FaultTooLarge):          "too_large",
		fmt.Sprint(packets.Fault(0)):               "Fault(0)",
		fmt.Sprint(packets.SendIfNew):              "send if new",
		fmt.Sprint(packets.MessageExpiryInterval):  "message_expiry_interval",
		fmt.Sprint(packets.ReasonCode(0).String()): "Success (0x00)",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
