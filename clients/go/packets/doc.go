// Package packets reads and writes the control packets of MQTT 5.0, 3.1.1 and 3.1, without a connection or a state.
//
// # Making packets
//
// Each of the fifteen packets has a type, with a zero value that is ready to use, a constructor for what it cannot do without,
// and setters. Setters refuse values that the standard does not allow, and leave the packet as it was. What is left for
// WellFormed to find is what is missing, and what does not go together, such as QoS 1 without a packet identifier. AppendTo and
// WriteTo write nothing that is not well formed. To make such packets all the same, for tests, there is [Raw].
//
// Properties are methods of the packet that they may stand in. Where their absence has a value, that is what the method answers:
// Receive Maximum is 65,535 if there is none.
//
// A packet is written for a version of the protocol, MQTT 5.0 unless SetVersion says otherwise. Reason codes are those of MQTT
// 5.0 always: a CONNACK of MQTT 3.1.1 translates them.
//
// # Reading packets
//
// There are packets that own their memory and packets that are views of memory which is used again:
//
//	ReadPacket   from an io.Reader    owned
//	Reader       from an io.Reader    views
//	Decode       from a slice         owned
//	Decoder      from a slice         views
//
// Views are good until the next call of their Reader or Decoder and cost no allocation; Clone keeps them. Strings of a view are
// copied when they are asked for, so that no string ever changes. Payloads and binary data are not copied.
//
// Decoding accepts nothing that the standard forbids: text is well-formed UTF-8, topics are topics, properties stand where they
// may, lengths are those of the packet. [Options] limit the size of packets. Memory grows with the bytes that arrive and not with
// those that are announced.
//
// # Errors
//
// What is wrong with a packet is an [*Error]: a [Cause] with a stable code, the reason code to answer with, the statement of the
// standard, and the byte or field at fault. Compare with errors.Is, against a Cause or a [Fault].
//
// Packets are not safe for use by several goroutines at once, unless none of them changes anything.
package packets
