package packets_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func causeOf(err error) packets.Cause {
	var problem *packets.Error
	if errors.As(err, &problem) {
		return problem.Cause
	}
	return 0
}

func publish(t *testing.T) *packets.Publish {
	t.Helper()
	p, err := packets.NewPublish("a/b", []byte("hi"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSettersRefuseInvalidValuesAndChangeNothing(t *testing.T) {
	long, longBytes := strings.Repeat("a", 65_536), make([]byte, 65_536)
	connect := &packets.Connect{}
	will, err := packets.NewWill("will", []byte("gone"))
	if err != nil {
		t.Fatal(err)
	}
	refused := &packets.ConnAck{}
	if err := refused.SetReason(packets.ReasonBanned); err != nil {
		t.Fatal(err)
	}
	subscribe, unsubscribe, auth := &packets.Subscribe{}, &packets.Unsubscribe{}, &packets.Auth{}
	q0, q1 := publish(t), publish(t)
	if err := q1.SetQoS(packets.AtLeastOnce); err != nil {
		t.Fatal(err)
	}
	q1.SetMessageExpiryInterval(7)
	type dumper interface{ Dump() string }
	for _, c := range []struct {
		name  string
		p     dumper
		set   func() error
		cause packets.Cause
	}{
		{"wildcard", q0, func() error { return q0.SetTopic("a/#") }, packets.CauseTopicWildcard},
		{"no topic and no alias", q0, func() error { return q0.SetTopic("") }, packets.CauseTopicMissing},
		{"QoS 3", q0, func() error { return q0.SetQoS(3) }, packets.CauseQoSUnknown},
		{"DUP at QoS 0", q0, func() error { return q0.SetDup(true) }, packets.CauseDupWithQoSZero},
		{"identifier at QoS 0", q0, func() error { return q0.SetPacketID(1) }, packets.CausePacketIDWithQoSZero},
		{"identifier 0", q1, func() error { return q1.SetPacketID(0) }, packets.CausePacketIDZero},
		{"alias 0", q1, func() error { return q1.SetTopicAlias(0) }, packets.CauseTopicAliasZero},
		{"payload format 2", q1, func() error { return q1.SetPayloadFormat(2) }, packets.CausePayloadFormatUnknown},
		{"response topic", q1, func() error { return q1.SetResponseTopic("a/+") }, packets.CauseResponseTopicInvalid},
		{"empty response topic", q1, func() error { return q1.SetResponseTopic("") }, packets.CauseResponseTopicInvalid},
		{"long content type", q1, func() error { return q1.SetContentType(long) }, packets.CauseFieldTooLong},
		{"long correlation data", q1, func() error { return q1.SetCorrelationData(longBytes) }, packets.CauseFieldTooLong},
		{"user property", q1, func() error { return q1.AddUserProperty("a\x00", "") }, packets.CauseUTF8Null},
		{"value of a user property", q1, func() error { return q1.AddUserProperty("a", "\xc0\xaf") }, packets.CauseUTF8Invalid},
		{"subscription identifier 0", q1, func() error { return q1.AddSubscriptionIdentifier(0) }, packets.CauseSubscriptionIDZero},
		{"subscription identifier too large", q1, func() error { return q1.AddSubscriptionIdentifier(1 << 28) },
			packets.CauseSubscriptionIDTooLarge},
		{"property of another packet", q1, func() error {
			return q1.AddProperty(packets.Property{ID: packets.ReceiveMaximum, Number: 1})
		}, packets.CausePropertyNotAllowed},
		{"property twice", q1, func() error {
			return q1.AddProperty(packets.Property{ID: packets.MessageExpiryInterval, Number: 1})
		}, packets.CausePropertyRepeated},
		{"unknown property", q1, func() error { return q1.AddProperty(packets.Property{ID: 4}) }, packets.CausePropertyUnknown},
		{"property too large for its type", q1, func() error {
			return q1.AddProperty(packets.Property{ID: packets.TopicAlias, Number: 1 << 16})
		}, packets.CausePropertyTypeWrong},
		{"client identifier", connect, func() error { return connect.SetClientID("\xff") }, packets.CauseUTF8Invalid},
		{"user name", connect, func() error { return connect.SetUserName("\x00") }, packets.CauseUTF8Null},
		{"password", connect, func() error { return connect.SetPassword(longBytes) }, packets.CauseFieldTooLong},
		{"receive maximum", connect, func() error { return connect.SetReceiveMaximum(0) }, packets.CauseReceiveMaximumZero},
		{"maximum packet size", connect, func() error { return connect.SetMaximumPacketSize(0) }, packets.CauseMaximumPacketSizeZero},
		{"session present", refused, func() error { return refused.SetSessionPresent(true) }, packets.CauseSessionPresentOnFailure},
		{"reason of CONNACK", refused, func() error { return refused.SetReason(packets.ReasonPacketIdentifierInUse) },
			packets.CauseReasonCodeUnknown},
		{"maximum QoS", refused, func() error { return refused.SetMaximumQoS(3) }, packets.CauseMaximumQoSOutOfRange},
		{"filter", subscribe, func() error { return subscribe.Add("a#", packets.SubscriptionOptions{}) },
			packets.CauseTopicFilterWildcard},
		{"QoS of a filter", subscribe, func() error { return subscribe.Add("a", packets.SubscriptionOptions{QoS: 3}) },
			packets.CauseSubscriptionQoSThree},
		{"retain handling", subscribe, func() error {
			return subscribe.Add("a", packets.SubscriptionOptions{RetainHandling: 3})
		}, packets.CauseRetainHandlingThree},
		{"no local", subscribe, func() error {
			return subscribe.Add("$share/g/a", packets.SubscriptionOptions{NoLocal: true})
		}, packets.CauseNoLocalOnShared},
		{"filter to end", unsubscribe, func() error { return unsubscribe.Add("") }, packets.CauseTopicFilterEmpty},
		{"reason of AUTH", auth, func() error { return auth.SetReason(packets.ReasonBanned) }, packets.CauseReasonCodeUnknown},
	} {
		before := c.p.Dump()
		if err := c.set(); causeOf(err) != c.cause {
			t.Errorf("%s: %v, not %s", c.name, err, c.cause.Code())
		}
		if after := c.p.Dump(); after != before {
			t.Errorf("%s: a refused value has changed the packet:\n%s\n%s", c.name, before, after)
		}
	}
	for name, err := range map[string]error{
		"QoS":     will.SetQoS(3),
		"topic":   will.SetTopic("+"),
		"payload": will.SetPayload(longBytes),
	} {
		if err == nil || will.QoS() != 0 || will.Topic() != "will" || string(will.Payload()) != "gone" {
			t.Errorf("%s of the will: %v, %+v", name, err, will)
		}
	}
}

func TestWellFormedReportsMissingAndConflictingFields(t *testing.T) {
	for _, c := range []struct {
		name      string
		p         packets.Packet
		cause     packets.Cause
		statement string
	}{
		{"no topic", &packets.Publish{}, packets.CauseTopicMissing, "MQTT-4.7.3-1"},
		{"no identifier", with(publish(t), func(p *packets.Publish) error { return p.SetQoS(packets.AtLeastOnce) }),
			packets.CausePacketIDZero, "MQTT-2.2.1-3"},
		{"alias in 3.1.1", with(publish(t), func(p *packets.Publish) error {
			p.SetVersion(packets.V311)
			return p.SetTopicAlias(1)
		}), packets.CauseNotInVersion, ""},
		{"a session without a name in 3.1.1", with(&packets.Connect{}, func(p *packets.Connect) error {
			p.SetVersion(packets.V311)
			return nil
		}), packets.CauseClientIDMissing, "MQTT-3.1.3-7"},
		{"unknown version", with(publish(t), func(p *packets.Publish) error { p.SetVersion(6); return nil }),
			packets.CauseVersionUnknown, "MQTT-3.1.2-2"},
		{"acknowledgement without identifier", &packets.PubAck{}, packets.CausePacketIDZero, "MQTT-2.2.1-3"},
		{"reason in 3.1.1", with(&packets.PubRec{}, func(p *packets.PubRec) error {
			p.SetVersion(packets.V311)
			return errors.Join(p.SetPacketID(1), p.SetReason(packets.ReasonQuotaExceeded))
		}), packets.CauseNotInVersion, ""},
		{"no filters", with(&packets.Subscribe{}, func(p *packets.Subscribe) error { return p.SetPacketID(1) }),
			packets.CauseNoTopicFilters, "MQTT-3.8.3-2"},
		{"options in 3.1.1", with(&packets.Subscribe{}, func(p *packets.Subscribe) error {
			p.SetVersion(packets.V311)
			return errors.Join(p.SetPacketID(1), p.Add("a", packets.SubscriptionOptions{NoLocal: true}))
		}), packets.CauseNotInVersion, ""},
		{"nothing to end", with(&packets.Unsubscribe{}, func(p *packets.Unsubscribe) error { return p.SetPacketID(1) }),
			packets.CauseNoTopicFilters, "MQTT-3.8.3-2"},
		{"no reasons", with(&packets.SubAck{}, func(p *packets.SubAck) error { return p.SetPacketID(1) }),
			packets.CauseNoReasonCodes, "MQTT-3.8.4-6"},
		{"reason that 3.1.1 does not know", with(&packets.SubAck{}, func(p *packets.SubAck) error {
			p.SetVersion(packets.V311)
			return errors.Join(p.SetPacketID(1), p.Add(packets.ReasonNotAuthorized))
		}), packets.CauseNotInVersion, ""},
		{"reasons in an UNSUBACK of 3.1.1", with(&packets.UnsubAck{}, func(p *packets.UnsubAck) error {
			p.SetVersion(packets.V311)
			return errors.Join(p.SetPacketID(1), p.Add(packets.ReasonSuccess))
		}), packets.CauseNotInVersion, ""},
		{"refusal that 3.1.1 does not know", with(&packets.ConnAck{}, func(p *packets.ConnAck) error {
			p.SetVersion(packets.V311)
			return p.SetReason(packets.ReasonBanned)
		}), packets.CauseNotInVersion, ""},
		{"data without method", with(&packets.ConnAck{}, func(p *packets.ConnAck) error {
			return p.SetAuthenticationData([]byte("x"))
		}), packets.CauseAuthenticationDataAlone, ""},
		{"password alone in 3.1.1", with(&packets.Connect{}, func(p *packets.Connect) error {
			p.SetVersion(packets.V311)
			return p.SetPassword([]byte("secret"))
		}), packets.CausePasswordWithoutUserName, ""},
		{"will without topic", with(&packets.Connect{}, func(p *packets.Connect) error { p.SetWill(&packets.Will{}); return nil }),
			packets.CauseWillTopicInvalid, "MQTT-4.7.0-1"},
		{"reason of DISCONNECT in 3.1.1", with(&packets.Disconnect{}, func(p *packets.Disconnect) error {
			p.SetVersion(packets.V311)
			return p.SetReason(packets.ReasonServerBusy)
		}), packets.CauseNotInVersion, ""},
		{"AUTH without method", with(&packets.Auth{}, func(p *packets.Auth) error {
			return p.SetReason(packets.ReasonReAuthenticate)
		}), packets.CauseAuthenticationMethodMissing, ""},
		{"AUTH in 3.1.1", with(&packets.Auth{}, func(p *packets.Auth) error { p.SetVersion(packets.V311); return nil }),
			packets.CauseAuthBeforeV5, ""},
		{"more than fits", with(publish(t), func(p *packets.Publish) error {
			p.SetPayload(make([]byte, packets.MaxRemainingLength))
			return nil
		}), packets.CausePacketTooLarge, "MQTT-3.2.2-15"},
	} {
		err := c.p.WellFormed()
		if causeOf(err) != c.cause || c.cause.Statement() != c.statement {
			t.Errorf("%s: %v, not %s %s", c.name, err, c.cause.Code(), c.statement)
			continue
		}
		if dst, got := c.p.AppendTo([]byte("before")); got == nil || got.Error() != err.Error() || string(dst) != "before" {
			t.Errorf("%s: AppendTo returns %q, %v", c.name, dst, got)
		}
		var written bytes.Buffer
		if n, got := c.p.WriteTo(&written); got == nil || n != 0 || written.Len() != 0 {
			t.Errorf("%s: WriteTo writes %d bytes, %v", c.name, n, got)
		}
	}
}

// with modifies a packet for a test.
func with[P any](p P, change func(P) error) P {
	if err := change(p); err != nil {
		panic(err)
	}
	return p
}

func TestSettersKeepFieldsConsistent(t *testing.T) {
	p := publish(t)
	if err := errors.Join(p.SetQoS(packets.ExactlyOnce), p.SetPacketID(9), p.SetDup(true), p.SetQoS(packets.AtMostOnce)); err != nil {
		t.Fatal(err)
	}
	if p.PacketID() != 0 || p.Dup() {
		t.Errorf("QoS 0 has kept identifier %d and DUP %v", p.PacketID(), p.Dup())
	}
	ack := &packets.ConnAck{}
	if err := errors.Join(ack.SetSessionPresent(true), ack.SetReason(packets.ReasonServerBusy)); err != nil || ack.SessionPresent() {
		t.Errorf("a refusal has kept Session Present: %v", err)
	}
	alias := publish(t)
	if err := errors.Join(alias.SetTopicAlias(4), alias.SetTopic("")); err != nil || alias.WellFormed() != nil {
		t.Errorf("an alias does not stand for the topic: %v, %v", err, alias.WellFormed())
	}
	if alias.RemoveProperty(packets.TopicAlias); causeOf(alias.WellFormed()) != packets.CauseTopicMissing {
		t.Errorf("neither alias nor topic, and %v", alias.WellFormed())
	}
}

func TestRawBuildsInvalidPackets(t *testing.T) {
	for _, c := range []struct {
		raw   *packets.Raw
		bytes string
		cause packets.Cause
	}{
		{packets.NewRaw(0x36).Text("a").Uint16(1), "\x36\x05\x00\x01a\x00\x01", packets.CausePublishQoSThree},
		{packets.NewRaw(0xC0).RemainingLengthBytes(0x80, 0), "\xc0\x80\x00", packets.CauseVariableByteIntegerNotMinimal},
		{packets.NewRaw(0xC0).RemainingLength(1).Byte(7), "\xc0\x01\x07", packets.CauseTrailingBytes},
		{packets.NewRaw(0x30).TextWithLength(9, "a").Bytes([]byte("b")), "\x30\x04\x00\x09ab", packets.CauseFieldPastEnd},
		{packets.NewRaw(0xE0).Byte(0).PropertiesWithLength(3, []byte{0x11}), "\xe0\x03\x00\x03\x11", packets.CausePropertyBlockPastEnd},
		{packets.NewRaw(0xE0).Byte(0).Properties([]byte{0x7F}), "\xe0\x03\x00\x01\x7f", packets.CausePropertyUnknown},
		{packets.NewRaw(0xE0).Byte(0).Varint(5).Byte(0x11).Uint32(9).Byte(1), "\xe0\x08\x00\x05\x11\x00\x00\x00\x09\x01",
			packets.CauseTrailingBytes},
		{packets.RawOf(&packets.Publish{}), "\x30\x03\x00\x00\x00", packets.CauseTopicMissing},
		{packets.RawOf(&packets.PubAck{}), "\x40\x02\x00\x00", packets.CausePacketIDZero},
	} {
		if got := string(c.raw.Build()); got != c.bytes {
			t.Errorf("built %x, not %x", got, c.bytes)
		}
		var written bytes.Buffer
		if _, err := c.raw.WriteTo(&written); err != nil || written.String() != c.bytes {
			t.Errorf("wrote %x, %v", written.Bytes(), err)
		}
		if _, _, err := packets.Decode(c.raw.Build(), packets.Options{}); causeOf(err) != c.cause {
			t.Errorf("%x: %v, not %s", c.bytes, err, c.cause.Code())
		}
	}
}

func TestWillTopicIsRefusedAtItsFirstError(t *testing.T) {
	for topic, want := range map[string]struct {
		cause packets.Cause
		at    int
	}{
		"": {packets.CauseWillTopicInvalid, 0}, "a/+": {packets.CauseWillTopicInvalid, 2}, "a\x00#": {packets.CauseUTF8Null, 1},
		"#\x00": {packets.CauseWillTopicInvalid, 0}, "#\xff": {packets.CauseUTF8Invalid, 1},
	} {
		const beforeTopic = 2 + 13 + 2
		b := packets.NewRaw(0x10).Text("MQTT").Byte(4).Byte(0x06).Uint16(0).Text("c").Text(topic).Text("").Build()
		_, _, err := packets.Decode(b, packets.Options{})
		var problem *packets.Error
		if !errors.As(err, &problem) || problem.Cause != want.cause || problem.Offset != beforeTopic+want.at {
			t.Errorf("%q: %v, not %s at byte %d", topic, err, want.cause.Code(), beforeTopic+want.at)
		}
	}
}
