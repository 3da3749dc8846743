package packets

import "fmt"

// QoS is the quality of service of a message (section 4.3).
type QoS uint8

// The levels of the quality of service.
const (
	AtMostOnce  QoS = 0 // QoS 0: no acknowledgement.
	AtLeastOnce QoS = 1 // QoS 1: PUBACK.
	ExactlyOnce QoS = 2 // QoS 2: PUBREC, PUBREL, PUBCOMP.
)

// String returns "QoS 0", "QoS 1" or "QoS 2".
func (q QoS) String() string { return fmt.Sprintf("QoS %d", uint8(q)) }

// PacketID is a packet identifier (section 2.2.1): it names an exchange until its last acknowledgement. 0 means none.
type PacketID uint16

// RetainHandling is when retained messages are sent for a subscription (section 3.8.3.1).
type RetainHandling uint8

// The ways to handle retained messages.
const (
	SendAtSubscribe RetainHandling = 0 // At every SUBSCRIBE.
	SendIfNew       RetainHandling = 1 // If the subscription did not exist.
	DoNotSend       RetainHandling = 2 // Never.
)

// String returns the name of the value.
func (h RetainHandling) String() string {
	switch h {
	case SendAtSubscribe:
		return "send at subscribe"
	case SendIfNew:
		return "send if new"
	case DoNotSend:
		return "do not send"
	}
	return fmt.Sprintf("RetainHandling(%d)", uint8(h))
}

// PayloadFormat is the format of a payload (section 3.3.2.3.2).
type PayloadFormat uint8

// The payload formats.
const (
	PayloadBytes PayloadFormat = 0 // Unspecified bytes.
	PayloadUTF8  PayloadFormat = 1 // UTF-8 text.
)
