package packets_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// generator makes random packets that are well formed.
type generator struct{ *rand.Rand }

var versions = []packets.Version{packets.V31, packets.V311, packets.V5, packets.V5, packets.V5}

var words = []string{"", "a", "topic", "sensors/kitchen", "ünïcødé", "🦀/x", "$SYS/y", strings.Repeat("long/", 60), "with space"}

func (g generator) text() string { return words[g.IntN(len(words))] }

func (g generator) topic() string {
	if text := g.text(); text != "" {
		return text
	}
	return "t"
}

func (g generator) filter() string {
	filters := []string{"#", "+", "a/#", "+/+/b", "$share/g/a/+", "/", "a//b", g.topic()}
	return filters[g.IntN(len(filters))]
}

func (g generator) data() []byte {
	b := make([]byte, []int{0, 1, 20, 200}[g.IntN(4)])
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

// number often returns a boundary value.
func (g generator) number() uint32 {
	numbers := []uint32{0, 1, 127, 128, 255, 256, 16_383, 16_384, 65_535, 65_536, 1 << 21, 1 << 24, 1<<28 - 1, 1 << 31, g.Uint32()}
	return numbers[g.IntN(len(numbers))]
}

func (g generator) is() bool { return g.IntN(2) == 0 }

// properties adds random properties. Invalid ones are refused, as intended.
func (g generator) properties(p propertied) {
	for range g.IntN(5) {
		id := packets.PropertyID(g.IntN(0x2B))
		property := packets.Property{ID: id, Text: g.topic(), Name: g.text(), Data: g.data(), Number: g.number()}
		switch id.Type() {
		case packets.PropertyByte:
			property.Number %= 2
		case packets.PropertyTwoByteInteger:
			property.Number &= 0xFFFF
		case packets.PropertyVariableByteInteger:
			property.Number &= packets.MaxRemainingLength
		}
		_ = p.AddProperty(property)
	}
}

// packet makes a packet; it may lack mandatory fields.
func (g generator) packet() packets.Packet {
	p := g.bare()
	version := versions[g.IntN(len(versions))]
	p.SetVersion(version)
	if q, ok := p.(interface{ SetPacketID(packets.PacketID) error }); ok {
		_ = q.SetPacketID(packets.PacketID(g.Uint32()))
	}
	if q, ok := p.(propertied); ok && version == packets.V5 {
		g.properties(q)
	}
	if q, ok := p.(interface {
		SetReason(packets.ReasonCode) error
	}); ok && version == packets.V5 {
		_ = q.SetReason(g.reason())
	}
	return p
}

func (g generator) reason() packets.ReasonCode { return packets.ReasonCode(g.IntN(0xA3)) }

func (g generator) bare() packets.Packet {
	switch packets.Type(g.IntN(15) + 1) {
	case packets.TypeConnect:
		p := &packets.Connect{}
		_ = p.SetClientID(g.text())
		p.SetCleanStart(g.is())
		p.SetKeepAlive(uint16(g.Uint32()))
		if g.is() {
			_ = p.SetUserName(g.text())
		}
		if g.is() {
			_ = p.SetPassword(g.data())
		}
		if g.is() {
			will, _ := packets.NewWill(g.topic(), g.data())
			_ = will.SetQoS(packets.QoS(g.IntN(3)))
			will.SetRetain(g.is())
			if g.is() {
				g.properties(will)
			}
			p.SetWill(will)
		}
		return p
	case packets.TypeConnAck:
		p := &packets.ConnAck{}
		_ = p.SetSessionPresent(g.is())
		return p
	case packets.TypePublish:
		p, _ := packets.NewPublish(g.topic(), g.data())
		_ = p.SetQoS(packets.QoS(g.IntN(3)))
		_ = p.SetDup(g.is())
		p.SetRetain(g.is())
		return p
	case packets.TypePubAck:
		return &packets.PubAck{}
	case packets.TypePubRec:
		return &packets.PubRec{}
	case packets.TypePubRel:
		return &packets.PubRel{}
	case packets.TypePubComp:
		return &packets.PubComp{}
	case packets.TypeSubscribe:
		p := &packets.Subscribe{}
		for range g.IntN(4) {
			_ = p.Add(g.filter(), packets.SubscriptionOptions{
				QoS: packets.QoS(g.IntN(3)), NoLocal: g.IntN(4) == 0, RetainAsPublished: g.IntN(4) == 0,
				RetainHandling: packets.RetainHandling(g.IntN(3) * g.IntN(2)),
			})
		}
		return p
	case packets.TypeSubAck:
		p := &packets.SubAck{}
		for range g.IntN(4) {
			_ = p.Add(g.reason())
		}
		return p
	case packets.TypeUnsubscribe:
		p := &packets.Unsubscribe{}
		for range g.IntN(4) {
			_ = p.Add(g.filter())
		}
		return p
	case packets.TypeUnsubAck:
		p := &packets.UnsubAck{}
		for range g.IntN(4) {
			_ = p.Add(g.reason())
		}
		return p
	case packets.TypePingReq:
		return &packets.PingReq{}
	case packets.TypePingResp:
		return &packets.PingResp{}
	case packets.TypeDisconnect:
		return &packets.Disconnect{}
	default:
		return &packets.Auth{}
	}
}

func TestRandomPacketsRoundTripInEveryWay(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	var decoder packets.Decoder
	seen := map[packets.Type]int{}
	for range 20_000 {
		p := g.packet()
		b, err := p.AppendTo(nil)
		if (err == nil) != (p.WellFormed() == nil) {
			t.Fatalf("%s: AppendTo %v, WellFormed %v", p, err, p.WellFormed())
		}
		if err != nil {
			continue
		}
		seen[p.Type()]++
		o := packets.Options{Version: p.Version(), MaxPacketSize: uint32(len(b))}
		want := flatten(p)
		owned, n, err := packets.Decode(b, o)
		if err != nil || n != len(b) || n != p.Size() || !reflect.DeepEqual(flatten(owned), want) {
			t.Fatalf("%s is %x, decoded as %v, %d bytes, %v", p, b, owned, n, err)
		}
		view, _, err := decoder.Decode(b, o)
		if err != nil || !reflect.DeepEqual(flatten(view), want) || view.String() != p.String() || view.Dump() != p.Dump() {
			t.Fatalf("%s is %x, viewed as %v, %v", p, b, view, err)
		}
		read, err := packets.ReadPacket(bytes.NewReader(b), o)
		if err != nil || !reflect.DeepEqual(flatten(read), want) {
			t.Fatalf("%s is %x, read as %v, %v", p, b, read, err)
		}
		cloned := packets.Clone(view)
		if again, err := cloned.AppendTo(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s is %x, cloned and encoded as %x, %v", p, b, again, err)
		}
	}
	for packetType := packets.TypeConnect; packetType <= packets.TypeAuth; packetType++ {
		if seen[packetType] < 100 {
			t.Errorf("%s has been made %d times", packetType, seen[packetType])
		}
	}
}
