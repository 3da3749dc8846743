use std::hint::black_box;

use tautwire_protocol::{DecodeOptions, Packet, ProtocolVersion, Publish, decode};

use crate::Case;
use crate::packets::{self, Layout, TOPICS};

/// Encodes one packet per operation into an existing buffer.
pub fn cases() -> Vec<Case> {
    use ProtocolVersion::{V3_1_1, V5};
    let acknowledgement = packets::acknowledgement(0x40, 7).to_vec();
    let connect = packets::connect("client-000017", Layout::V5WithProperties);
    vec![
        publishes("encode/publish-qos0-v3", V3_1_1, 0, Layout::V3),
        publishes("encode/publish-qos1-v5", V5, 1, Layout::V5),
        publishes("encode/publish-qos1-v5-properties", V5, 1, Layout::V5WithProperties),
        any("encode/puback-v5", acknowledgement),
        any("encode/connect-v5-properties", connect),
    ]
}

fn publishes(name: &'static str, version: ProtocolVersion, qos: u8, layout: Layout) -> Case {
    let publishes: Vec<Publish<'static>> = (0..TOPICS)
        .map(|at| match decoded(packets::publish(at, qos, at as u16 + 1, layout), version) {
            Packet::Publish(publish) => publish,
            other => unreachable!("{other:?}"),
        })
        .collect();
    let mut out = vec![0; 4096];
    Case::new(name, move |times| {
        for publish in publishes.iter().cycle().take(times as usize) {
            black_box(black_box(publish).encode(version, black_box(&mut out))).expect("the packet was decoded");
        }
    })
}

fn any(name: &'static str, bytes: Vec<u8>) -> Case {
    let packet = decoded(bytes, ProtocolVersion::V5);
    let mut out = vec![0; 4096];
    Case::new(name, move |times| {
        for _ in 0..times {
            let len = black_box(&packet).encode(ProtocolVersion::V5, black_box(&mut out));
            black_box(len).expect("the packet was decoded");
        }
    })
}

fn decoded(bytes: Vec<u8>, version: ProtocolVersion) -> Packet<'static> {
    decode(bytes.leak(), &DecodeOptions::new(version)).expect("the packet is right").0
}
