use std::hint::black_box;

use tautwire_protocol::{DecodeOptions, ProtocolVersion, decode};

use crate::Case;
use crate::packets::{self, Layout, TOPICS};

/// Decodes one packet per operation.
pub fn cases() -> Vec<Case> {
    use ProtocolVersion::{V3_1_1, V5};
    let publishes = |qos, layout| (0..TOPICS).map(|at| packets::publish(at, qos, at as u16 + 1, layout)).collect();
    vec![
        case("decode/publish-qos0-v3", V3_1_1, publishes(0, Layout::V3)),
        case("decode/publish-qos1-v5", V5, publishes(1, Layout::V5)),
        case("decode/publish-qos1-v5-properties", V5, publishes(1, Layout::V5WithProperties)),
        case("decode/puback-v5", V5, vec![packets::acknowledgement(0x40, 7).to_vec()]),
        case("decode/connect-v5-properties", V5, vec![packets::connect("client-000017", Layout::V5WithProperties)]),
        case("decode/subscribe-v5", V5, vec![packets::subscribe("sensors/+/temp", 1, Layout::V5)]),
    ]
}

fn case(name: &'static str, version: ProtocolVersion, packets: Vec<Vec<u8>>) -> Case {
    let options = DecodeOptions::new(version);
    Case::new(name, move |times| {
        for bytes in packets.iter().cycle().take(times as usize) {
            let decoded = decode(black_box(bytes), &options);
            // By reference, because a copy would be counted.
            black_box(&decoded);
            assert!(decoded.is_ok());
        }
    })
}
