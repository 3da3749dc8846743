use std::hint::black_box;

use tautwire_protocol::{DecodeOptions, OwnedPacket, Packet, ProtocolVersion, decode};

use super::{Case, TAUTWIRE, TAUTWIRE_OWNED};
use crate::measure::Contender;

const VERSION: ProtocolVersion = ProtocolVersion::V5;

pub fn add(case: &Case, contenders: &mut Vec<Contender>) {
    let bytes = case.bytes.clone();
    contenders.push(case.decoding(TAUTWIRE, move || {
        decode_all(&bytes, |packet| {
            black_box(packet);
        });
    }));

    let bytes = case.bytes.clone();
    contenders.push(case.decoding(TAUTWIRE_OWNED, move || {
        decode_all(&bytes, |packet| match packet {
            // The type of the packet is known to whoever keeps it, as it is to a broker.
            Packet::Publish(publish) => {
                black_box(publish.to_owned_publish().expect("the packet was decoded"));
            }
            packet => {
                black_box(packet.to_owned_packet().expect("the packet was decoded"));
            }
        });
    }));

    let mut owned: Vec<OwnedPacket> = Vec::new();
    decode_all(&case.bytes, |packet| owned.push(packet.to_owned_packet().expect("the packet was decoded")));
    let owned: &'static [OwnedPacket] = owned.leak();
    let packets: Vec<Packet<'static>> = owned.iter().map(OwnedPacket::as_packet).collect();
    let mut out = vec![0; 4096];
    contenders.push(case.encoding(TAUTWIRE, move || {
        for packet in black_box(&packets) {
            let len = packet.encode(VERSION, &mut out).expect("the packet was decoded");
            black_box(&out[..len]);
        }
    }));
}

#[inline(always)]
fn decode_all<'a>(bytes: &'a [u8], mut consume: impl FnMut(&Packet<'a>)) {
    let options = DecodeOptions::new(VERSION);
    let mut rest = black_box(bytes);
    while !rest.is_empty() {
        let (packet, consumed) = decode(rest, &options).expect("the workload is right");
        consume(&packet);
        rest = &rest[consumed..];
    }
}
