package packets

import "fmt"

// Type is the type of a control packet (section 2.1.2), the upper four bits of its first byte.
type Type uint8

// The fifteen control packets.
const (
	TypeConnect     Type = 1  // CONNECT, client to server.
	TypeConnAck     Type = 2  // CONNACK, server to client.
	TypePublish     Type = 3  // PUBLISH, both ways.
	TypePubAck      Type = 4  // PUBACK, both ways.
	TypePubRec      Type = 5  // PUBREC, both ways.
	TypePubRel      Type = 6  // PUBREL, both ways.
	TypePubComp     Type = 7  // PUBCOMP, both ways.
	TypeSubscribe   Type = 8  // SUBSCRIBE, client to server.
	TypeSubAck      Type = 9  // SUBACK, server to client.
	TypeUnsubscribe Type = 10 // UNSUBSCRIBE, client to server.
	TypeUnsubAck    Type = 11 // UNSUBACK, server to client.
	TypePingReq     Type = 12 // PINGREQ, client to server.
	TypePingResp    Type = 13 // PINGRESP, server to client.
	TypeDisconnect  Type = 14 // DISCONNECT, both ways; client to server before MQTT 5.0.
	TypeAuth        Type = 15 // AUTH, both ways; MQTT 5.0 only.
)

var typeNames = [...]string{
	"", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK", "UNSUBSCRIBE",
	"UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
}

// String returns the name of the standard, such as "PUBLISH".
func (t Type) String() string {
	if t < TypeConnect || t > TypeAuth {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return typeNames[t]
}

// firstByte returns the first byte of the packet with the flags of section 2.1.3; for PUBLISH without flags.
func (t Type) firstByte() byte {
	switch t {
	case TypePubRel, TypeSubscribe, TypeUnsubscribe:
		return byte(t)<<4 | 0b0010
	}
	return byte(t) << 4
}

// isFirstByte says for each byte whether it is a valid first byte in some version: a type with valid flags [MQTT-2.1.3-1].
var isFirstByte = func() (is [256]bool) {
	for t := TypeConnect; t <= TypeAuth; t++ {
		is[t.firstByte()] = true
	}
	for flags := range byte(16) {
		qos := flags & flagsQoS
		is[TypePublish.firstByte()|flags] = qos != flagsQoS && (qos != 0 || flags&flagDup == 0)
	}
	return is
}()

// mayBegin reports whether the byte is a valid first byte in that version.
func mayBegin(first byte, version Version) bool {
	return isFirstByte[first] || version == V31 && isSentAgain(first)
}

// isSentAgain reports whether it is the first byte of a PUBREL, SUBSCRIBE or UNSUBSCRIBE that MQTT 3.1 sends again: with
// DUP, which later versions reserve for these packets.
func isSentAgain(first byte) bool {
	switch Type(first >> 4) {
	case TypePubRel, TypeSubscribe, TypeUnsubscribe:
		return first&0x0F == 0b0010|flagDup
	}
	return false
}

// flagsCause returns the error for invalid flags.
func flagsCause(first byte) Cause {
	switch t := Type(first >> 4); {
	case t == 0:
		return CausePacketTypeReserved
	case t != TypePublish:
		return CauseFlagsReserved
	case first&flagsQoS == flagsQoS:
		return CausePublishQoSThree
	default:
		return CauseDupWithQoSZero
	}
}
