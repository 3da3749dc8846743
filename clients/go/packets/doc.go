// Package packets reads and writes the control packets of MQTT 5.0, 3.1.1 and 3.1, without connections or state.
//
// # Making packets
//
// Each of the fifteen packets has a type, with a usable zero value, a constructor for its mandatory fields, and setters. Setters
// refuse values that the standard does not allow, and leave the packet unchanged then. WellFormed finds missing fields and
// conflicts, such as QoS 1 without a packet identifier. AppendTo and WriteTo refuse packets that are not well formed. To create
// such packets for tests, use [Raw].
//
// Properties are methods of the packets that may carry them. If the absence of a property has a defined value, the method returns
// that: ReceiveMaximum returns 65,535 if it is absent.
//
// A packet is written for a version of the protocol, MQTT 5.0 unless SetVersion sets another. Reason codes are always those of
// MQTT 5.0: a CONNACK of MQTT 3.1.1 translates them.
//
// # Reading packets
//
// Packets either own their memory, or are views of memory that is reused:
//
//	ReadPacket   from an io.Reader    owned
//	Reader       from an io.Reader    views
//	Decode       from a slice         owned
//	Decoder      from a slice         views
//
// Views are valid until the next call of their Reader or Decoder and cost no allocation; Clone makes a permanent copy. Strings of
// a view are copied on access, so that no string ever changes. Payloads and binary data are not copied.
//
// Decoding accepts nothing that the standard forbids: text must be well-formed UTF-8, topics must be valid, properties must be
// allowed, lengths must match. [Options] limit the size of packets. Memory grows with the bytes that arrive, not with those that
// are announced.
//
// # Errors
//
// Errors are of type [*Error]: a [Cause] with a stable code, the reason code to answer with, the statement of the standard, and
// the byte or field at fault. Compare with errors.Is, against a Cause or a [Fault].
//
// Packets are not safe for concurrent use, unless all goroutines only read.
package packets
