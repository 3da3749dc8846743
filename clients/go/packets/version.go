package packets

import "fmt"

// Version is a version of the protocol; its number is the protocol level of CONNECT. The zero value means [V5].
type Version uint8

// The versions that this package reads and writes.
const (
	V31  Version = 3 // MQTT 3.1, protocol name "MQIsdp".
	V311 Version = 4 // MQTT 3.1.1.
	V5   Version = 5 // MQTT 5.0.
)

// String returns the version in the standard's notation: "3.1", "3.1.1" or "5.0".
func (v Version) String() string {
	switch v {
	case V31:
		return "3.1"
	case V311:
		return "3.1.1"
	case V5, 0:
		return "5.0"
	}
	return fmt.Sprintf("Version(%d)", uint8(v))
}

func (v Version) isV5() bool { return v == V5 || v == 0 }

func (v Version) isKnown() bool { return v == 0 || v >= V31 && v <= V5 }

// orV5 replaces the zero value.
func (v Version) orV5() Version {
	if v == 0 {
		return V5
	}
	return v
}

// protocolName is the first field of CONNECT.
func (v Version) protocolName() string {
	if v == V31 {
		return "MQIsdp"
	}
	return "MQTT"
}

// SessionNeverExpires is the Session Expiry Interval of a session that never expires (section 3.1.2.11.2).
const SessionNeverExpires = 0xFFFF_FFFF
