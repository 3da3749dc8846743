package packets_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func TestSettingAPropertyAgainReplacesItInPlace(t *testing.T) {
	p := publish(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.AddUserProperty("b", "1"))
	must(p.SetContentType("text/plain"))
	must(p.AddUserProperty("a", "2"))
	must(p.SetContentType("text/html"))
	must(p.AddUserProperty("b", "3"))
	const want = `user_property="b":"1" user_property="a":"2" content_type="text/html" user_property="b":"3"`
	if got := p.Properties().String(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	p.RemoveProperty(packets.UserProperty)
	if got := p.Properties().String(); got != `content_type="text/html"` {
		t.Errorf("after removing: %s", got)
	}
	p.RemoveProperty(packets.UserProperty)
	p.RemoveProperty(packets.PropertyID(0xFF))
	if p.Properties().Has(packets.PropertyID(0xFF)) || p.Properties().Has(packets.UserProperty) {
		t.Error("a property is there that is not")
	}
}

func TestAbsentPropertiesHaveTheDefaultOfTheStandard(t *testing.T) {
	connect, ack, will := &packets.Connect{}, &packets.ConnAck{}, &packets.Will{}
	if connect.ReceiveMaximum() != 65_535 || connect.TopicAliasMaximum() != 0 || connect.SessionExpiryInterval() != 0 ||
		!connect.RequestProblemInformation() || connect.RequestResponseInformation() {
		t.Error("CONNECT")
	}
	if ack.ReceiveMaximum() != 65_535 || ack.MaximumQoS() != packets.ExactlyOnce || !ack.RetainAvailable() ||
		!ack.WildcardSubscriptionAvailable() || !ack.SubscriptionIdentifierAvailable() || !ack.SharedSubscriptionAvailable() {
		t.Error("CONNACK")
	}
	if _, ok := ack.ServerKeepAlive(); ok {
		t.Error("Server Keep Alive")
	}
	if _, ok := ack.SessionExpiryInterval(); ok {
		t.Error("Session Expiry Interval")
	}
	if will.WillDelayInterval() != 0 || will.PayloadFormat() != packets.PayloadBytes {
		t.Error("will")
	}
}

func TestSetPropertiesArePresent(t *testing.T) {
	ack := &packets.ConnAck{}
	ack.SetSessionExpiryInterval(packets.SessionNeverExpires)
	ack.SetServerKeepAlive(17)
	ack.SetRetainAvailable(false)
	ack.SetSharedSubscriptionAvailable(true)
	if err := errors.Join(ack.SetMaximumQoS(packets.AtLeastOnce), ack.SetReceiveMaximum(3), ack.SetReasonString("so"),
		ack.SetAssignedClientIdentifier("c-1"), ack.SetAuthenticationData([]byte{1, 2})); err != nil {
		t.Fatal(err)
	}
	seconds, _ := ack.SessionExpiryInterval()
	keepAlive, _ := ack.ServerKeepAlive()
	reason, _ := ack.ReasonString()
	clientID, _ := ack.AssignedClientIdentifier()
	data, _ := ack.AuthenticationData()
	if seconds != packets.SessionNeverExpires || keepAlive != 17 || ack.RetainAvailable() || !ack.SharedSubscriptionAvailable() ||
		ack.MaximumQoS() != packets.AtLeastOnce || ack.ReceiveMaximum() != 3 || reason != "so" || clientID != "c-1" ||
		!slices.Equal(data, []byte{1, 2}) {
		t.Error(ack)
	}
	if err := ack.SetMaximumQoS(packets.ExactlyOnce); err != nil || ack.Properties().Has(packets.MaximumQoS) {
		t.Errorf("QoS 2 is the absence of the property: %v", err)
	}
	if property, ok := ack.Properties().Get(packets.ReceiveMaximum); !ok || property.Number != 3 {
		t.Errorf("Get: %v %v", property, ok)
	}
	if _, ok := ack.Properties().Get(packets.ServerReference); ok {
		t.Error("Get finds what is not there")
	}
}

func TestPropertiesAreCopiedToPacketsThatAllowThem(t *testing.T) {
	from, will, to := publish(t), &packets.Will{}, publish(t)
	if err := errors.Join(from.AddUserProperty("a", "1"), from.SetContentType("x"), to.SetResponseTopic("r")); err != nil {
		t.Fatal(err)
	}
	if err := will.SetProperties(from.Properties()); err != nil || will.Properties().String() != from.Properties().String() {
		t.Errorf("%v: %s", err, will.Properties())
	}
	if err := from.SetTopicAlias(1); err != nil {
		t.Fatal(err)
	}
	before := will.Properties().String()
	if err := will.SetProperties(from.Properties()); causeOf(err) != packets.CausePropertyNotAllowed {
		t.Errorf("a will with a topic alias: %v", err)
	}
	if will.Properties().String() != before {
		t.Error("a refusal has changed the properties")
	}
	if err := to.SetProperties(from.Properties()); err != nil || to.Properties().Has(packets.ResponseTopic) {
		t.Errorf("%v: %s", err, to.Properties())
	}
}

func TestSubscriptionIdentifiersKeepTheirOrder(t *testing.T) {
	p := publish(t)
	want := []uint32{7, packets.MaxRemainingLength, 1, 7}
	for _, id := range want {
		if err := p.AddSubscriptionIdentifier(id); err != nil {
			t.Fatal(err)
		}
	}
	if got := slices.Collect(p.SubscriptionIdentifiers()); !slices.Equal(got, want) {
		t.Error(got)
	}
	for range p.SubscriptionIdentifiers() {
		break
	}
	if got := slices.Collect(publish(t).SubscriptionIdentifiers()); len(got) != 0 {
		t.Error(got)
	}
}

func TestEveryPropertyHasANameAndAType(t *testing.T) {
	if len(propertyIDs) != 27 {
		t.Errorf("%d properties", len(propertyIDs))
	}
	if got := packets.PropertyID(0x7F); got.Type() != 0 || !strings.Contains(got.String(), "7F") {
		t.Error(got)
	}
}

func TestBinaryDataIsPrintedAsItsSize(t *testing.T) {
	property := packets.Property{ID: packets.AuthenticationData, Data: []byte("secret")}
	if got := property.String(); got != "authentication_data=<6 bytes>" {
		t.Error(got)
	}
}
