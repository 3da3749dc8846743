package packets_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func TestConstructorsBuildPacketsAndRefuseInvalidValues(t *testing.T) {
	identifiers := map[string]func(packets.PacketID) (packets.Packet, error){
		"PubAck":      func(id packets.PacketID) (packets.Packet, error) { return packets.NewPubAck(id) },
		"PubRec":      func(id packets.PacketID) (packets.Packet, error) { return packets.NewPubRec(id) },
		"PubRel":      func(id packets.PacketID) (packets.Packet, error) { return packets.NewPubRel(id) },
		"PubComp":     func(id packets.PacketID) (packets.Packet, error) { return packets.NewPubComp(id) },
		"Subscribe":   func(id packets.PacketID) (packets.Packet, error) { return packets.NewSubscribe(id) },
		"SubAck":      func(id packets.PacketID) (packets.Packet, error) { return packets.NewSubAck(id) },
		"Unsubscribe": func(id packets.PacketID) (packets.Packet, error) { return packets.NewUnsubscribe(id) },
		"UnsubAck":    func(id packets.PacketID) (packets.Packet, error) { return packets.NewUnsubAck(id) },
	}
	for name, make := range identifiers {
		p, err := make(7)
		if err != nil || p.(interface{ PacketID() packets.PacketID }).PacketID() != 7 || p.Version() != packets.V5 {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		if _, err := make(0); causeOf(err) != packets.CausePacketIDZero {
			t.Errorf("%s: %v", name, err)
		}
	}
	reasons := map[string]func(packets.ReasonCode) (packets.Packet, error){
		"ConnAck":    func(r packets.ReasonCode) (packets.Packet, error) { return packets.NewConnAck(r) },
		"Disconnect": func(r packets.ReasonCode) (packets.Packet, error) { return packets.NewDisconnect(r) },
		"Auth":       func(r packets.ReasonCode) (packets.Packet, error) { return packets.NewAuth(r, "method") },
	}
	for name, make := range reasons {
		if p, err := make(packets.ReasonSuccess); err != nil || p.WellFormed() != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		if _, err := make(packets.ReasonGrantedQoS1); causeOf(err) != packets.CauseReasonCodeUnknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := packets.NewAuth(packets.ReasonReAuthenticate, "\x00"); causeOf(err) != packets.CauseUTF8Null {
		t.Error(err)
	}
	if _, err := packets.NewConnect("\xff"); causeOf(err) != packets.CauseUTF8Invalid {
		t.Error(err)
	}
	if _, err := packets.NewWill("a", make([]byte, 65_536)); causeOf(err) != packets.CauseFieldTooLong {
		t.Error(err)
	}
}

func TestListsHaveTheirLength(t *testing.T) {
	subscribe, unsubscribe := &packets.Subscribe{}, &packets.Unsubscribe{}
	subAck, unsubAck := &packets.SubAck{}, &packets.UnsubAck{}
	for _, filter := range []string{"a", "a/long/filter", "#"} {
		if err := errors.Join(subscribe.Add(filter, packets.SubscriptionOptions{}), unsubscribe.Add(filter),
			subAck.Add(packets.ReasonGrantedQoS0), unsubAck.Add(packets.ReasonNoSubscriptionExisted)); err != nil {
			t.Fatal(err)
		}
	}
	if subscribe.Len() != 3 || unsubscribe.Len() != 3 || subAck.Len() != 3 || unsubAck.Len() != 3 {
		t.Error(subscribe, unsubscribe, subAck, unsubAck)
	}
	if subAck.Reason(2) != packets.ReasonGrantedQoS0 || unsubAck.Reason(2) != packets.ReasonNoSubscriptionExisted {
		t.Error(subAck, unsubAck)
	}
	for filter := range unsubscribe.Filters() {
		if filter != "a" {
			t.Error(filter)
		}
		break
	}
	for filter := range subscribe.Requests() {
		if filter != "a" {
			t.Error(filter)
		}
		break
	}
	if err := errors.Join(subAck.SetPacketID(1), unsubAck.SetPacketID(1)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(subAck.Reasons(), []packets.ReasonCode{0, 0, 0}) || unsubAck.WellFormed() != nil {
		t.Error(subAck, unsubAck)
	}
}

func TestResetPacketIsTheZeroValue(t *testing.T) {
	p := publish(t)
	if p.TopicView() != "a/b" {
		t.Error(p.TopicView())
	}
	if p.Reset(); p.Topic() != "" || p.Payload() != nil || p.String() != (&packets.Publish{}).String() {
		t.Error(p)
	}
}

func TestReasonCodesAreValidOnlyInTheirPackets(t *testing.T) {
	defined := 0
	for code := range 256 {
		reason := packets.ReasonCode(code)
		somewhere := false
		for packetType := packets.TypeConnect; packetType <= packets.TypeAuth; packetType++ {
			somewhere = somewhere || reason.AllowedIn(packetType)
		}
		if reason.IsDefined() != somewhere {
			t.Errorf("%s: defined %v, allowed somewhere %v", reason, reason.IsDefined(), somewhere)
		}
		if somewhere {
			defined++
		}
	}
	// Section 2.4 has 45 rows, three of which share 0x00.
	if defined != 43 {
		t.Errorf("%d reason codes", defined)
	}
}
