//! Every refusal: bytes a client must not send, and how the broker answers them.
//!
//! After CONNECT a 5.0 client receives the reason in a DISCONNECT and is then closed [MQTT-4.13.1-1], [MQTT-4.13.2-1]; a 3.1.1 client is
//! closed without a packet, since that version has no server DISCONNECT [MQTT-4.8.0-1 of 3.1.1]. Before CONNECT nothing is answered. A
//! refused CONNECT gets a CONNACK if the version is known.

use tautwire_protocol::{ConnectReason, DecodeOptions, Packet, Property, ReasonCode, decode};

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ExactlyOnce, OutgoingPublish, ProtocolVersion, V3_1, V3_1_1, V5,
    every_version, options, packet_id,
};

/// The outcome of a connection on which invalid bytes are followed by a ping.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    /// Closed without a packet.
    Closed,
    /// CONNACK with this code, then closed.
    ConnAck(u8),
    /// DISCONNECT with this reason, then closed.
    Disconnect(u8),
    /// Any other packet: the bytes were not refused.
    Accepted,
}

/// Sends `bytes` and a PINGREQ at once, and waits for the outcome.
fn answer(client: &mut Client, bytes: &[u8]) -> Answer {
    let mut all = bytes.to_vec();
    all.extend([0xc0, 0x00]);
    client.send_bytes(&all);
    let Some(packet) = client.next_or_closed() else { return Answer::Closed };
    let version = client.version();
    let answer = match packet.as_packet() {
        Packet::ConnAck(connack) if version.is_v5() => Answer::ConnAck(connack.reason.as_u8()),
        Packet::ConnAck(connack) => Answer::ConnAck(connack.reason.v3_return_code().unwrap_or(u8::MAX)),
        Packet::Disconnect(disconnect) => Answer::Disconnect(disconnect.reason.as_u8()),
        _ => return Answer::Accepted,
    };
    match client.next_or_closed() {
        None => answer,
        Some(_) => Answer::Accepted,
    }
}

/// Bytes from hexadecimal digits; text in quotes is literal. Spaces are ignored.
fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            bytes.extend(part.as_bytes());
            continue;
        }
        let digits: Vec<u32> = part.chars().filter_map(|digit| digit.to_digit(16)).collect();
        bytes.extend(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8));
    }
    bytes
}

/// Runs a table of (description, bytes, expected answer) on connected clients of `version`, then checks that a bystander was not affected.
/// All rows are run, and all failures are listed.
fn after_connect(version: ProtocolVersion, rows: &[(&str, &str, Answer)]) {
    let broker = Broker::start();
    let mut bystander = broker.connect(version, "bystander");
    bystander.subscribe("bystander", AtLeastOnce);
    let mut failed = Vec::new();
    for (what, bytes, expected) in rows {
        let mut client = broker.connect(version, "refused");
        let found = answer(&mut client, &hex(bytes));
        if found != *expected {
            failed.push(format!("{what} ({bytes}): expected {expected:x?}, got {found:x?}"));
        }
    }
    bystander.publish("bystander", AtLeastOnce, b"still here");
    assert_eq!(bystander.receive().text(), "still here");
    assert!(failed.is_empty(), "{} of {} rows failed:\n{}", failed.len(), rows.len(), failed.join("\n"));
}

const MALFORMED: Answer = Answer::Disconnect(0x81);
const PROTOCOL_ERROR: Answer = Answer::Disconnect(0x82);
const FILTER_INVALID: Answer = Answer::Disconnect(0x8f);
const NAME_INVALID: Answer = Answer::Disconnect(0x90);
const ALIAS_INVALID: Answer = Answer::Disconnect(0x94);
const TOO_LARGE: Answer = Answer::Disconnect(0x95);

/// [MQTT-2.1.3-1], [MQTT-1.5.5-1], [MQTT-3.6.1-1], [MQTT-3.8.1-1], [MQTT-3.10.1-1], [MQTT-3.14.1-1], [MQTT-3.15.1-1]
#[test]
fn invalid_fixed_headers_are_refused_in_5_0() {
    after_connect(
        V5,
        &[
            ("reserved packet type 0", "00 00", MALFORMED),
            ("PINGREQ with a flag", "c1 00", MALFORMED),
            ("PINGREQ with another flag", "c8 00", MALFORMED),
            ("PUBACK with a flag", "41 02 0001", MALFORMED),
            ("PUBREC with a flag", "52 02 0001", MALFORMED),
            ("PUBREL without its flag", "60 02 0001", MALFORMED),
            ("PUBREL with one flag more", "63 02 0001", MALFORMED),
            ("PUBREL with DUP", "6a 02 0001", MALFORMED),
            ("PUBCOMP with a flag", "71 02 0001", MALFORMED),
            ("SUBSCRIBE without its flag", "80 07 0001 00 0001'a' 00", MALFORMED),
            ("SUBSCRIBE with DUP", "8a 07 0001 00 0001'a' 00", MALFORMED),
            ("UNSUBSCRIBE without its flag", "a0 06 0001 00 0001'a'", MALFORMED),
            ("UNSUBSCRIBE with DUP", "aa 06 0001 00 0001'a'", MALFORMED),
            ("DISCONNECT with a flag", "e1 00", MALFORMED),
            ("AUTH with a flag", "f1 00", MALFORMED),
            ("Remaining Length of five bytes", "c0 80 80 80 80 01", MALFORMED),
            ("Remaining Length longer than need be", "c0 80 00", MALFORMED),
            ("PINGREQ with a body", "c0 01 00", MALFORMED),
            ("a packet larger than the broker takes", "30 ff ff ff 7f", TOO_LARGE),
        ],
    );
}

/// 2.1.2 of both: packets only a server sends.
#[test]
fn server_packets_are_refused_in_5_0() {
    after_connect(
        V5,
        &[
            ("CONNACK", "20 03 00 00 00", PROTOCOL_ERROR),
            ("SUBACK", "90 04 0001 00 00", PROTOCOL_ERROR),
            ("UNSUBACK", "b0 04 0001 00 00", PROTOCOL_ERROR),
            ("PINGRESP", "d0 00", PROTOCOL_ERROR),
        ],
    );
}

/// [MQTT-3.1.0-2], [MQTT-3.2.0-2], [MQTT-3.14.2-2]; 3.1.1: [MQTT-3.1.0-2]
#[test]
fn a_second_connect_is_refused() {
    every_version(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "twice");
        let mut client = connecting.open();
        client.send_bytes(&connecting.bytes());
        client.expect_server_disconnect(ReasonCode::ProtocolError);
    });
}

/// [MQTT-3.3.1-2], [MQTT-3.3.1-4], [MQTT-3.3.2-1], [MQTT-3.3.2-2], [MQTT-3.3.2-8], [MQTT-3.3.2-13], [MQTT-3.3.2-14],
/// [MQTT-3.3.2-19], [MQTT-3.3.4-6], [MQTT-4.7.0-1], [MQTT-1.5.4-1], [MQTT-1.5.4-2], [MQTT-1.5.7-1], [MQTT-2.2.1-3]
#[test]
fn invalid_publishes_are_refused_in_5_0() {
    after_connect(
        V5,
        &[
            ("QoS 3", "36 06 0001'a' 0001 00", MALFORMED),
            ("DUP at QoS 0", "38 04 0001'a' 00", MALFORMED),
            ("empty topic without alias", "30 03 0000 00", PROTOCOL_ERROR),
            ("# in the topic", "30 04 0001'#' 00", NAME_INVALID),
            ("+ in the topic", "30 06 0003'a/+' 00", NAME_INVALID),
            ("Packet Identifier 0", "32 06 0001'a' 0000 00", PROTOCOL_ERROR),
            ("Packet Identifier missing", "32 03 0001'a'", MALFORMED),
            ("properties missing", "30 03 0001'a'", MALFORMED),
            ("topic longer than the packet", "30 03 0005'a'", MALFORMED),
            ("overlong UTF-8", "30 05 0002 c0af 00", MALFORMED),
            ("a surrogate", "30 06 0003 eda080 00", MALFORMED),
            ("truncated UTF-8", "30 05 0002 e282 00", MALFORMED),
            ("beyond U+10FFFF", "30 07 0004 f4908080 00", MALFORMED),
            ("U+0000 in the topic", "30 04 0001 00 00", MALFORMED),
            ("properties longer than the packet", "30 06 0001'a' 05 01 00", MALFORMED),
            ("properties end within one", "30 06 0001'a' 02 02 00", MALFORMED),
            ("Property Length longer than need be", "30 05 0001'a' 80 00", MALFORMED),
            ("unknown property", "30 06 0001'a' 02 7f 00", MALFORMED),
            ("property of another packet", "30 09 0001'a' 05 11 00000001", MALFORMED),
            ("Payload Format Indicator twice", "30 08 0001'a' 04 0100 0100", PROTOCOL_ERROR),
            ("Message Expiry Interval twice", "30 0e 0001'a' 0a 0200000001 0200000001", PROTOCOL_ERROR),
            ("Topic Alias twice", "30 0a 0001'a' 06 230001 230001", PROTOCOL_ERROR),
            ("Content Type twice", "30 0c 0001'a' 08 030001'x' 030001'x'", PROTOCOL_ERROR),
            ("Response Topic twice", "30 0c 0001'a' 08 080001'x' 080001'x'", PROTOCOL_ERROR),
            ("Correlation Data twice", "30 0c 0001'a' 08 090001'x' 090001'x'", PROTOCOL_ERROR),
            ("Subscription Identifier from a client", "30 06 0001'a' 02 0b01", PROTOCOL_ERROR),
            ("Subscription Identifier 0", "30 06 0001'a' 02 0b00", PROTOCOL_ERROR),
            ("Topic Alias 0", "30 07 0001'a' 03 230000", ALIAS_INVALID),
            ("invalid UTF-8 in a User Property", "30 0b 0001'a' 07 26 0001'k' 0001 ff", MALFORMED),
            ("U+0000 in the Content Type", "30 08 0001'a' 04 030001 00", MALFORMED),
            ("invalid UTF-8 in the Content Type", "30 08 0001'a' 04 030001 ff", MALFORMED),
            ("invalid UTF-8 in the Response Topic", "30 08 0001'a' 04 080001 ff", MALFORMED),
        ],
    );
}

/// 3.3.2.3.2 and 3.3.2.3.5 of 5.0 forbid these without naming one reason.
#[test]
fn publishes_with_forbidden_property_values_are_refused_in_5_0() {
    let broker = Broker::start();
    for bytes in ["30 06 0001'a' 02 0102", "30 08 0001'a' 04 080001'#'", "30 07 0001'a' 03 080000"] {
        let mut client = broker.connect(V5, "refused");
        let found = answer(&mut client, &hex(bytes));
        assert!(matches!(found, Answer::Disconnect(0x81 | 0x82 | 0x90 | 0x99)), "{bytes}: {found:x?}");
    }
}

/// [MQTT-3.8.3-1], [MQTT-3.8.3-2], [MQTT-3.8.3-4], [MQTT-3.8.3-5], [MQTT-4.7.1-1], [MQTT-4.7.1-2], [MQTT-4.7.3-1],
/// [MQTT-4.7.3-2], [MQTT-4.8.2-1], [MQTT-4.8.2-2]
#[test]
fn invalid_subscribes_are_refused_in_5_0() {
    after_connect(
        V5,
        &[
            ("no filter", "82 03 0001 00", PROTOCOL_ERROR),
            ("options missing", "82 06 0001 00 0001'a'", MALFORMED),
            ("reserved option bit 6", "82 07 0001 00 0001'a' 40", MALFORMED),
            ("reserved option bit 7", "82 07 0001 00 0001'a' 80", MALFORMED),
            ("QoS 3", "82 07 0001 00 0001'a' 03", PROTOCOL_ERROR),
            ("Retain Handling 3", "82 07 0001 00 0001'a' 30", PROTOCOL_ERROR),
            ("Packet Identifier 0", "82 07 0000 00 0001'a' 00", PROTOCOL_ERROR),
            ("No Local on a shared subscription", "82 10 0001 00 000a'$share/g/a' 04", PROTOCOL_ERROR),
            ("Subscription Identifier 0", "82 09 0001 02 0b00 0001'a' 00", PROTOCOL_ERROR),
            ("Subscription Identifier twice", "82 0b 0001 04 0b01 0b02 0001'a' 00", PROTOCOL_ERROR),
            ("Subscription Identifier of five bytes", "82 0d 0001 06 0b8080808001 0001'a' 00", MALFORMED),
            ("property of another packet", "82 0a 0001 03 230001 0001'a' 00", MALFORMED),
            ("invalid UTF-8", "82 07 0001 00 0001 ff 00", MALFORMED),
            ("U+0000 in the filter", "82 07 0001 00 0001 00 00", MALFORMED),
            ("empty filter", "82 06 0001 00 0000 00", FILTER_INVALID),
            ("# within a level", "82 08 0001 00 0002'a#' 00", FILTER_INVALID),
            ("# before the end", "82 0b 0001 00 0005'a/#/b' 00", FILTER_INVALID),
            ("+ at the end of a level", "82 08 0001 00 0002'a+' 00", FILTER_INVALID),
            ("+ at the start of a level", "82 08 0001 00 0002'+a' 00", FILTER_INVALID),
            ("$share without a filter", "82 0e 0001 00 0008'$share/g' 00", FILTER_INVALID),
            ("$share with an empty filter", "82 0f 0001 00 0009'$share/g/' 00", FILTER_INVALID),
            ("$share with an empty name", "82 0f 0001 00 0009'$share//a' 00", FILTER_INVALID),
            ("+ in the ShareName", "82 11 0001 00 000b'$share/g+/a' 00", FILTER_INVALID),
            ("# as the ShareName", "82 10 0001 00 000a'$share/#/a' 00", FILTER_INVALID),
            ("a bad filter in a shared one", "82 11 0001 00 000b'$share/g/a#' 00", FILTER_INVALID),
            ("a second filter cut short", "82 0a 0001 00 0001'a' 00 0009'b'", MALFORMED),
        ],
    );
}

/// [MQTT-3.10.3-1], [MQTT-3.10.3-2]
#[test]
fn invalid_unsubscribes_are_refused_in_5_0() {
    after_connect(
        V5,
        &[
            ("no filter", "a2 03 0001 00", PROTOCOL_ERROR),
            ("Packet Identifier 0", "a2 06 0000 00 0001'a'", PROTOCOL_ERROR),
            ("invalid UTF-8", "a2 06 0001 00 0001 ff", MALFORMED),
            ("empty filter", "a2 05 0001 00 0000", FILTER_INVALID),
            ("# within a level", "a2 07 0001 00 0002'a#'", FILTER_INVALID),
            ("filter cut short", "a2 06 0001 00 0009'a'", MALFORMED),
        ],
    );
}

/// [MQTT-3.4.2-1], [MQTT-3.5.2-1], [MQTT-3.6.2-1], [MQTT-3.7.2-1], 2.2.1 of 5.0
#[test]
fn invalid_acknowledgements_are_refused_in_5_0() {
    let mut rows = Vec::new();
    let table = [(0x40, "PUBACK"), (0x50, "PUBREC"), (0x62, "PUBREL"), (0x70, "PUBCOMP")].map(|(first, name)| {
        [
            (format!("{name} with Packet Identifier 0"), format!("{first:02x} 02 0000"), PROTOCOL_ERROR),
            (format!("{name} without Packet Identifier"), format!("{first:02x} 00"), MALFORMED),
            (format!("{name} with half a Packet Identifier"), format!("{first:02x} 01 00"), MALFORMED),
            (format!("{name} with bytes after its properties"), format!("{first:02x} 05 0001 00 00 00"), MALFORMED),
            (format!("{name} with properties cut short"), format!("{first:02x} 05 0001 00 04 1f"), MALFORMED),
            (
                format!("{name} with two Reason Strings"),
                format!("{first:02x} 0c 0001 00 08 1f0001'x' 1f0001'x'"),
                PROTOCOL_ERROR,
            ),
            (format!("{name} with a property of another packet"), format!("{first:02x} 06 0001 00 02 0100"), MALFORMED),
        ]
    });
    for (what, bytes, expected) in table.iter().flatten() {
        rows.push((what.as_str(), bytes.as_str(), *expected));
    }
    after_connect(V5, &rows);
}

/// The standard names no reason code for a Reason Code that the packet does not have: Malformed Packet and Protocol Error are both correct.
/// [MQTT-3.4.2-1], [MQTT-3.5.2-1], [MQTT-3.6.2-1], [MQTT-3.7.2-1], [MQTT-3.14.2-1], [MQTT-3.15.2-1]
#[test]
fn reason_codes_of_other_packets_are_refused_in_5_0() {
    let broker = Broker::start();
    for bytes in ["40 03 0001 01", "50 03 0001 92", "62 03 0001 10", "70 03 0001 80", "e0 01 55", "f0 02 01 00"] {
        let mut client = broker.connect(V5, "refused");
        let found = answer(&mut client, &hex(bytes));
        assert!(matches!(found, Answer::Disconnect(0x81 | 0x82)), "{bytes}: {found:x?}");
    }
}

/// [MQTT-3.14.2-1], 3.14.2.2 of 5.0
#[test]
fn invalid_disconnects_are_refused_in_5_0() {
    after_connect(
        V5,
        &[
            ("two Session Expiry Intervals", "e0 0c 00 0a 1100000000 1100000000", PROTOCOL_ERROR),
            ("properties cut short", "e0 03 00 05 11", MALFORMED),
            ("property of another packet", "e0 05 00 03 230001", MALFORMED),
        ],
    );
}

/// 3.1.1: [MQTT-2.2.2-2], [MQTT-1.5.3-1], [MQTT-1.5.3-2], [MQTT-2.3.1-1], [MQTT-3.3.1-2], [MQTT-3.3.1-4],
/// [MQTT-3.3.2-2], [MQTT-3.6.1-1], [MQTT-3.8.1-1], [MQTT-3.8.3-3], [MQTT-3-8.3-4], [MQTT-3.10.1-1], [MQTT-3.10.3-2],
/// [MQTT-3.14.1-1], [MQTT-4.7.1-2], [MQTT-4.7.1-3], [MQTT-4.7.3-1], [MQTT-4.8.0-1]
#[test]
fn invalid_packets_close_the_connection_in_3_1_1() {
    let rows = [
        ("reserved packet type 0", "00 00"),
        ("reserved packet type 15", "f0 00"),
        ("PINGREQ with a flag", "c1 00"),
        ("PINGREQ with a body", "c0 01 00"),
        ("Remaining Length of five bytes", "c0 80 80 80 80 01"),
        ("a packet larger than the broker takes", "30 ff ff ff 7f"),
        ("CONNACK", "20 02 00 00"),
        ("SUBACK", "90 03 0001 00"),
        ("UNSUBACK", "b0 02 0001"),
        ("PINGRESP", "d0 00"),
        ("QoS 3", "36 05 0001'a' 0001"),
        ("DUP at QoS 0", "38 03 0001'a'"),
        ("empty topic", "30 02 0000"),
        ("# in the topic", "30 03 0001'#'"),
        ("+ in the topic", "30 05 0003'a/+'"),
        ("Packet Identifier 0", "32 05 0001'a' 0000"),
        ("Packet Identifier missing", "32 03 0001'a'"),
        ("topic longer than the packet", "30 03 0005'a'"),
        ("a surrogate", "30 05 0003 eda080"),
        ("overlong UTF-8", "30 04 0002 c0af"),
        ("U+0000 in the topic", "30 03 0001 00"),
        ("PUBACK with a flag", "41 02 0001"),
        ("PUBACK of 5.0", "40 03 0001 00"),
        ("PUBACK with Packet Identifier 0", "40 02 0000"),
        ("PUBREC with a flag", "51 02 0001"),
        ("PUBREL without its flag", "60 02 0001"),
        ("PUBREL with DUP", "6a 02 0001"),
        ("PUBREL cut short", "62 01 00"),
        ("PUBCOMP with a flag", "72 02 0001"),
        ("SUBSCRIBE without its flag", "80 06 0001 0001'a' 00"),
        ("SUBSCRIBE with DUP", "8a 06 0001 0001'a' 00"),
        ("SUBSCRIBE without a filter", "82 02 0001"),
        ("SUBSCRIBE with QoS 3", "82 06 0001 0001'a' 03"),
        ("SUBSCRIBE with options of 5.0", "82 06 0001 0001'a' 04"),
        ("SUBSCRIBE with Packet Identifier 0", "82 06 0000 0001'a' 00"),
        ("SUBSCRIBE to an empty filter", "82 05 0001 0000 00"),
        ("SUBSCRIBE with # within a level", "82 07 0001 0002'a#' 00"),
        ("SUBSCRIBE with # before the end", "82 0a 0001 0005'a/#/b' 00"),
        ("SUBSCRIBE with + within a level", "82 07 0001 0002'a+' 00"),
        ("SUBSCRIBE with invalid UTF-8", "82 06 0001 0001 ff 00"),
        ("UNSUBSCRIBE without its flag", "a0 05 0001 0001'a'"),
        ("UNSUBSCRIBE with DUP", "aa 05 0001 0001'a'"),
        ("UNSUBSCRIBE without a filter", "a2 02 0001"),
        ("UNSUBSCRIBE with Packet Identifier 0", "a2 05 0000 0001'a'"),
        ("DISCONNECT with a flag", "e1 00"),
        ("DISCONNECT of 5.0", "e0 02 04 00"),
    ];
    after_connect(V3_1_1, &rows.map(|(what, bytes)| (what, bytes, Answer::Closed)));
}

/// 3.1 allows DUP on three more packets than 3.1.1, but only together with QoS 1.
#[test]
fn invalid_flags_close_the_connection_in_3_1() {
    let rows = [
        ("PUBREL without its flag", "60 02 0001"),
        ("PUBREL with DUP alone", "68 02 0001"),
        ("PUBREL with DUP and RETAIN", "6b 02 0001"),
        ("PUBCOMP with DUP", "78 02 0001"),
        ("SUBSCRIBE without its flag", "80 06 0001 0001'a' 00"),
        ("SUBSCRIBE with DUP alone", "88 06 0001 0001'a' 00"),
        ("SUBSCRIBE with DUP at QoS 3", "8e 06 0001 0001'a' 00"),
        ("UNSUBSCRIBE without its flag", "a0 05 0001 0001'a'"),
        ("UNSUBSCRIBE with DUP alone", "a8 05 0001 0001'a'"),
        ("PINGREQ with DUP", "c8 00"),
    ];
    after_connect(V3_1, &rows.map(|(what, bytes)| (what, bytes, Answer::Closed)));
}

/// [MQTT-3.1.0-1]; 3.1.1: [MQTT-3.1.0-1]; [MQTT-3.14.0-1]: no DISCONNECT before CONNACK, and no other answer either.
#[test]
fn a_first_packet_other_than_connect_closes_the_connection() {
    let broker = Broker::start();
    for bytes in [
        "20 03 00 00 00",
        "30 04 0001'a' 00",
        "30 03 0001'a'",
        "32 06 0001'a' 0001 00",
        "40 02 0001",
        "50 02 0001",
        "62 02 0001",
        "70 02 0001",
        "82 07 0001 00 0001'a' 00",
        "90 04 0001 00 00",
        "a2 06 0001 00 0001'a'",
        "b0 04 0001 00 00",
        "c0 00",
        "d0 00",
        "e0 00",
        "f0 00",
        "00 00",
        "11 00",
        "1f ff ff ff 7f",
        "10 ff ff ff ff",
        "10 00",
        "'GET / HTTP/1.1'0d0a0d0a",
        "16 03 01 02 00 01 00 01 fc 03 03",
    ] {
        let mut client = broker.dial(V5);
        assert_eq!(answer(&mut client, &hex(bytes)), Answer::Closed, "{bytes}");
    }
    broker.connect(V5, "bystander").ping();
}

/// A 5.0 CONNECT with these Connect Flags, properties and payload fields.
fn connect_5_0(flags: u8, properties: &str, payload: &str) -> Vec<u8> {
    let mut body = hex("0004'MQTT' 05");
    body.push(flags);
    body.extend([0, 60]);
    let properties = hex(properties);
    body.push(properties.len() as u8);
    body.extend(properties);
    body.extend(hex(payload));
    let mut packet = vec![0x10, body.len() as u8];
    packet.extend(body);
    packet
}

/// [MQTT-3.1.2-3], [MQTT-3.1.2-9], [MQTT-3.1.2-11] to [MQTT-3.1.2-13], [MQTT-3.1.2-16] to [MQTT-3.1.2-19],
/// [MQTT-3.1.3-1], [MQTT-3.1.3-3], [MQTT-3.1.3-4], [MQTT-3.1.3-11], [MQTT-3.1.3-12], [MQTT-3.1.4-1], [MQTT-3.2.2-6] to
/// [MQTT-3.2.2-8]
#[test]
fn invalid_connects_are_refused_in_5_0() {
    let malformed = Answer::ConnAck(0x81);
    let protocol_error = Answer::ConnAck(0x82);
    let broker = Broker::start();
    let mut failed = Vec::new();
    for (what, flags, properties, payload, expected) in [
        ("reserved Connect Flag", 0x03, "", "0001'a'", malformed),
        ("Will QoS without a will", 0x0a, "", "0001'a'", malformed),
        ("Will Retain without a will", 0x22, "", "0001'a'", malformed),
        ("Will QoS 3", 0x1e, "", "0001'a' 00 0001'w' 0000", malformed),
        ("client id missing", 0x02, "", "", malformed),
        ("client id cut short", 0x02, "", "0005'a'", malformed),
        ("client id of invalid UTF-8", 0x02, "", "0001 ff", malformed),
        ("U+0000 in the client id", 0x02, "", "0001 00", malformed),
        ("bytes after the payload", 0x02, "", "0001'a' 00", malformed),
        ("user name missing", 0x82, "", "0001'a'", malformed),
        ("user name of invalid UTF-8", 0x82, "", "0001'a' 0002 eda0", malformed),
        ("password missing", 0xc2, "", "0001'a' 0001'u'", malformed),
        ("will missing", 0x06, "", "0001'a'", malformed),
        ("will payload missing", 0x06, "", "0001'a' 00 0001'w'", malformed),
        ("will topic of invalid UTF-8", 0x06, "", "0001'a' 00 0001 ff 0000", malformed),
        ("Receive Maximum 0", 0x02, "210000", "0001'a'", protocol_error),
        ("Maximum Packet Size 0", 0x02, "2700000000", "0001'a'", protocol_error),
        ("Request Problem Information 2", 0x02, "1702", "0001'a'", protocol_error),
        ("Request Response Information 2", 0x02, "1902", "0001'a'", protocol_error),
        ("Session Expiry Interval twice", 0x02, "1100000001 1100000001", "0001'a'", protocol_error),
        ("Receive Maximum twice", 0x02, "210001 210001", "0001'a'", protocol_error),
        ("Maximum Packet Size twice", 0x02, "2700000100 2700000100", "0001'a'", protocol_error),
        ("Topic Alias Maximum twice", 0x02, "220001 220001", "0001'a'", protocol_error),
        ("Authentication Method twice", 0x02, "150001'x' 150001'x'", "0001'a'", protocol_error),
        ("Authentication Data alone", 0x02, "160001'x'", "0001'a'", protocol_error),
        ("property of another packet", 0x02, "230001", "0001'a'", malformed),
        ("Will Delay Interval outside the will", 0x02, "1800000001", "0001'a'", malformed),
        ("unknown property", 0x02, "7f00", "0001'a'", malformed),
        ("property cut short", 0x02, "1100", "0001'a'", malformed),
        ("Will Delay Interval twice", 0x06, "", "0001'a' 0a 1800000001 1800000001 0001'w' 0000", protocol_error),
        ("Topic Alias in the will", 0x06, "", "0001'a' 03 230001 0001'w' 0000", malformed),
    ] {
        let mut client = broker.dial(V5);
        let found = answer(&mut client, &connect_5_0(flags, properties, payload));
        if found != expected {
            failed.push(format!("{what}: expected {expected:x?}, got {found:x?}"));
        }
    }
    assert!(failed.is_empty(), "{} rows failed:\n{}", failed.len(), failed.join("\n"));
    broker.connect(V5, "bystander").ping();
}

/// [MQTT-3.3.2-2] and [MQTT-4.7.3-1] for will topics; the standard names no single reason.
#[test]
fn wills_to_invalid_topics_are_refused_in_5_0() {
    let broker = Broker::start();
    for payload in ["0001'a' 00 0001'#' 0000", "0001'a' 00 0003'a/+' 0000", "0001'a' 00 0000 0000"] {
        let mut client = broker.dial(V5);
        let found = answer(&mut client, &connect_5_0(0x06, "", payload));
        assert!(matches!(found, Answer::ConnAck(0x81 | 0x82 | 0x90)), "{payload}: {found:x?}");
    }
}

/// [MQTT-3.1.2-2]; 3.1.1: [MQTT-3.1.2-2], [MQTT-3.2.2-5]: below 5 the answer has the 3.1.1 format, above it the 5.0 format, which later
/// versions are expected to understand.
#[test]
fn unknown_protocol_levels_are_refused_with_their_code() {
    let broker = Broker::start();
    for level in ["00", "01", "02", "03", "84", "ff", "06"] {
        for version in [V3_1_1, V5] {
            // With the byte for no properties as in 5.0 and later, and without as in 3.1.1.
            let (length, properties) = if version.is_v5() { ("0e", "00") } else { ("0d", "") };
            let mut stream = broker.dial(version);
            // The ping after it is not answered.
            stream.send_bytes(&hex(&format!("10 {length} 0004'MQTT' {level} 02 003c {properties} 0001'a' c000")));
            let received = stream.bytes_until_closed();
            if level < "05" {
                assert_eq!(received, [0x20, 2, 0, 1], "level {level}");
            } else {
                let packet = decode(&received, &DecodeOptions::new(V5));
                let Ok((Packet::ConnAck(connack), length)) = packet else { panic!("level {level}: {received:02x?}") };
                assert_eq!(length, received.len(), "level {level}: {received:02x?}");
                assert_eq!(connack.reason, ConnectReason::UnsupportedProtocolVersion, "level {level}");
                assert!(!connack.session_present, "level {level}");
            }
        }
    }
    broker.connect(V5, "bystander").ping();
}

/// [MQTT-3.1.2-1]; 3.1.1: [MQTT-3.1.2-1]
#[test]
fn unknown_protocol_names_are_refused() {
    let broker = Broker::start();
    for bytes in [
        "10 0d 0004'MQTX' 04 02 003c 0001'a'",
        "10 0d 0004'mqtt' 04 02 003c 0001'a'",
        "10 0e 0005'MQTT5' 05 02 003c 0001'a'",
        "10 0c 0003'MQT' 04 02 003c 0001'a'",
        "10 09 0000 04 02 003c 0001'a'",
    ] {
        let mut stream = broker.dial(V3_1_1);
        stream.send_bytes(&hex(bytes));
        assert!(stream.bytes_until_closed().is_empty(), "{bytes}");
    }
    // MQIsdp is the name of level 3 only, so the answer has the 3.1 format.
    for level in ["04", "05", "06"] {
        let mut client = broker.dial(V3_1_1);
        let connect = hex(&format!("10 0f 0006'MQIsdp' {level} 02 003c 0001'a'"));
        assert_eq!(answer(&mut client, &connect), Answer::ConnAck(1), "{level}");
    }
    broker.connect(V5, "bystander").ping();
}

/// 3.1.1: [MQTT-3.2.2-6]: a CONNECT that is closed without CONNACK because no return code fits it.
#[test]
fn refused_wills_close_the_connection_in_3_1_1() {
    let broker = Broker::with(1, &["mqtt.max_qos=1", "mqtt.retain_available=false"]);
    // A will at QoS 2, and a retained one.
    for flags in ["16", "26"] {
        let mut client = broker.dial(V3_1_1);
        client.send_bytes(&hex(&format!("10 13 0004'MQTT' 04 {flags} 003c 0001'a' 0001'w' 0001'x'")));
        assert!(client.bytes_until_closed().is_empty(), "{flags}");
    }
    broker.connect(V3_1_1, "bystander").ping();
}

/// 3.1.1: [MQTT-3.1.2-3], [MQTT-3.1.2-11], [MQTT-3.1.2-13] to [MQTT-3.1.2-15], [MQTT-3.1.2-22], [MQTT-3.1.3-3], [MQTT-3.1.3-4],
/// [MQTT-3.1.4-1], [MQTT-3.2.2-6]: a malformed CONNECT is closed without CONNACK; no return code fits it.
#[test]
fn invalid_connects_close_the_connection_in_3_1_1() {
    let broker = Broker::start();
    for (what, bytes) in [
        ("reserved Connect Flag", "10 0d 0004'MQTT' 04 03 003c 0001'a'"),
        ("Will QoS without a will", "10 0d 0004'MQTT' 04 0a 003c 0001'a'"),
        ("Will Retain without a will", "10 0d 0004'MQTT' 04 22 003c 0001'a'"),
        ("Will QoS 3", "10 12 0004'MQTT' 04 1e 003c 0001'a' 0001'w' 0000"),
        ("password without user name", "10 10 0004'MQTT' 04 42 003c 0001'a' 0001'p'"),
        ("client id missing", "10 0a 0004'MQTT' 04 02 003c"),
        ("client id of invalid UTF-8", "10 0d 0004'MQTT' 04 02 003c 0001 ff"),
        ("bytes after the payload", "10 0e 0004'MQTT' 04 02 003c 0001'a' 00"),
        ("user name missing", "10 0d 0004'MQTT' 04 82 003c 0001'a'"),
        ("will missing", "10 0d 0004'MQTT' 04 06 003c 0001'a'"),
        ("wrong fixed header flags", "11 0d 0004'MQTT' 04 02 003c 0001'a'"),
    ] {
        let mut client = broker.dial(V3_1_1);
        assert_eq!(answer(&mut client, &hex(bytes)), Answer::Closed, "{what}");
    }
    broker.connect(V3_1_1, "bystander").ping();
}

/// [MQTT-3.1.3-8]; 3.1.1: [MQTT-3.1.3-9]: `limits.client_id_bytes`.
#[test]
fn a_client_id_that_is_too_long_is_refused() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.client_id_bytes=30"]);
        let refused = broker.connecting(case.version, &"x".repeat(31)).refused();
        assert_eq!(refused, if case.version.is_v5() { 0x85 } else { 2 });
        broker.connect(case.version, &"x".repeat(30)).ping();
    });
}

/// 3.1.2.11.4 and 3.2.2.3.6 of 5.0: the broker's own Maximum Packet Size, to the byte.
#[test]
fn a_packet_above_the_brokers_maximum_packet_size_is_refused() {
    every_version(|case| {
        let broker = case.broker_set(&["mqtt.maximum_packet_size=200"]);
        let mut client = broker.connect(case.version, "large");
        // Fixed header 3, topic 2 + 1, and in 5.0 one byte for no properties.
        let fits = if case.version.is_v5() { 193 } else { 194 };
        client.publish("a", AtMostOnce, &vec![b'x'; fits]);
        client.ping();
        client.send_publish(&OutgoingPublish::new("a", AtMostOnce, &vec![b'x'; fits + 1]));
        client.expect_server_disconnect(ReasonCode::PacketTooLarge);
    });
}

/// [MQTT-3.14.4-1], [MQTT-3.14.4-2]: nothing after the client's DISCONNECT is processed.
#[test]
fn packets_after_disconnect_are_not_processed() {
    every_version(|case| {
        let broker = case.broker();
        let mut witness = broker.connect(case.version, "witness");
        witness.subscribe("after", AtMostOnce);
        let mut client = broker.connect(case.version, "leaving");
        let mut bytes = vec![0xe0, 0x00];
        let publish = OutgoingPublish::new("after", AtMostOnce, b"too late");
        bytes.extend(client.encoded(&Packet::Publish(publish.publish(packet_id(1)))));
        client.send_bytes(&bytes);
        client.expect_closed();
        witness.expect_nothing();
    });
}

/// [MQTT-4.13.1-1]: packets before the invalid one are processed, later ones are not.
#[test]
fn only_packets_before_an_invalid_one_are_processed() {
    every_version(|case| {
        let broker = case.broker();
        let mut witness = broker.connect(case.version, "witness");
        witness.subscribe("around", AtMostOnce);
        let mut client = broker.connect(case.version, "wrong");
        let encoded = |client: &Client, text: &[u8]| {
            let publish = OutgoingPublish::new("around", AtMostOnce, text);
            client.encoded(&Packet::Publish(publish.publish(packet_id(1))))
        };
        let mut bytes = encoded(&client, b"before");
        bytes.extend([0xc1, 0x00]);
        bytes.extend(encoded(&client, b"after"));
        client.send_bytes(&bytes);
        client.expect_server_disconnect(ReasonCode::MalformedPacket);
        assert_eq!(witness.receive().text(), "before");
        witness.expect_nothing();
    });
}

/// 3.2.2.3.12 and following: the refusal of one filter does not affect the other filters of the packet.
#[test]
fn a_refused_filter_does_not_end_the_connection() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.topic_levels=3"]);
        let mut client = broker.connect(case.version, "client");
        let filters = [("a/b/c/d", options(ExactlyOnce)), ("a/b/c", options(ExactlyOnce))];
        let refused = if case.version.is_v5() { 0x8f } else { 0x80 };
        assert_eq!(client.subscribe_all(&filters, &[]), [refused, 2]);
        client.ping();
    });
}

/// [MQTT-3.2.2-7]: a refused CONNECT has a Reason String if problem information is requested, which is the default.
#[test]
fn a_refused_connect_has_a_reason_string() {
    let broker = Broker::start();
    let mut client = broker.connecting(V5, "a").property(Property::AuthenticationMethod("X")).send();
    let packet = client.next();
    match packet.as_packet() {
        Packet::ConnAck(connack) => {
            assert!(connack.properties.reason_string().is_some_and(|text| !text.is_empty()), "{connack:?}");
        }
        other => panic!("expected CONNACK, got {other:?}"),
    }
}
