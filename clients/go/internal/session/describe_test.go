package session

import (
	"fmt"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// describe names a packet, its identifier and what is special about it.
func describe(p packets.Packet) string {
	reason := packets.ReasonSuccess
	text := p.Type().String()
	switch p := p.(type) {
	case *packets.Publish:
		text += fmt.Sprintf(" %d", p.PacketID())
		if p.Dup() {
			text += " dup"
		}
	case *packets.PubAck:
		reason = p.Reason()
		text += fmt.Sprintf(" %d", p.PacketID())
	case *packets.PubRec:
		reason = p.Reason()
		text += fmt.Sprintf(" %d", p.PacketID())
	case *packets.PubRel:
		reason = p.Reason()
		text += fmt.Sprintf(" %d", p.PacketID())
	case *packets.PubComp:
		reason = p.Reason()
		text += fmt.Sprintf(" %d", p.PacketID())
	}
	if reason != packets.ReasonSuccess {
		text += fmt.Sprintf(" 0x%02X", uint8(reason))
	}
	return text
}
