use std::hint::black_box;
use std::sync::Arc;

use mqtt_protocol_core::mqtt::packet::v5_0::{Connect, Puback, Publish};

use super::Case;
use crate::workload::{header, packets};
use tautwire_bench_timing::Contender;

const LIBRARY: &str = "mqtt-protocol-core";

enum Packet {
    Publish(Publish),
    PubAck(Puback),
    Connect(Connect),
}

pub fn add(case: &Case, contenders: &mut Vec<Contender>) {
    let bytes = case.bytes.clone();
    contenders.push(case.decoding(LIBRARY, move || {
        let mut rest = black_box(bytes.as_slice());
        while !rest.is_empty() {
            let (header_len, remaining_len) = header(rest);
            let (packet, after) = rest.split_at(header_len + remaining_len);
            black_box(decode(packet[0], &packet[header_len..]));
            rest = after;
        }
    }));

    let packets: Vec<Packet> =
        packets(&case.bytes).into_iter().map(|packet| decode(packet[0], &packet[header(packet).0..])).collect();
    contenders.push(case.encoding(LIBRARY, move || {
        for packet in black_box(&packets) {
            black_box(match packet {
                Packet::Publish(publish) => publish.to_continuous_buffer(),
                Packet::PubAck(puback) => puback.to_continuous_buffer(),
                Packet::Connect(connect) => connect.to_continuous_buffer(),
            });
        }
    }));
}

/// Decodes like the library's own connection: a reference-counted copy of a PUBLISH, a slice for all others.
fn decode(first_byte: u8, body: &[u8]) -> Packet {
    let result = match first_byte >> 4 {
        1 => Connect::parse(body).map(|(packet, _)| Packet::Connect(packet)),
        3 => Publish::parse(first_byte & 0x0F, Arc::from(body)).map(|(packet, _)| Packet::Publish(packet)),
        4 => Puback::parse(body).map(|(packet, _)| Packet::PubAck(packet)),
        other => unreachable!("type {other} is not in the workload"),
    };
    result.expect("the workload is right")
}
