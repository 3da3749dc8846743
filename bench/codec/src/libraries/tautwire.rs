use std::hint::black_box;

use tautwire_protocol::{
    Connect, DecodeError, DecodeOptions, EncodeError, Packet, ProtocolVersion, PubAck, Publish, decode,
};

use super::{Case, TAUTWIRE, TAUTWIRE_OWNED};
use tautwire_bench_timing::Contender;

const VERSION: ProtocolVersion = ProtocolVersion::V5;

pub fn add(case: &Case, contenders: &mut Vec<Contender>) {
    let bytes = case.bytes.clone();
    contenders.push(case.decoding(TAUTWIRE, move || {
        decode_all(&bytes, |decoded| {
            black_box(decoded);
        });
    }));

    let bytes = case.bytes.clone();
    contenders.push(case.decoding(TAUTWIRE_OWNED, move || {
        decode_all(&bytes, |decoded| match decoded {
            // A program that stores packets matches PUBLISH first.
            Ok((Packet::Publish(publish), _)) => {
                black_box(publish.to_owned_publish().expect("the packet was decoded"));
            }
            Ok((packet, _)) => {
                black_box(packet.to_owned_packet().expect("the packet was decoded"));
            }
            Err(error) => unreachable!("{error}"),
        });
    }));

    let packets = Packets::of(&case.bytes);
    let mut out = vec![0; 4096];
    contenders.push(case.encoding(TAUTWIRE, move || match black_box(&packets) {
        Packets::Publish(packets) => encode_all(packets, |packet| packet.encode(VERSION, black_box(&mut out))),
        Packets::PubAck(packets) => encode_all(packets, |packet| packet.encode(VERSION, black_box(&mut out))),
        Packets::Connect(packets) => encode_all(packets, |packet| packet.encode(VERSION, black_box(&mut out))),
    }));
}

/// Decodes a batch.
enum Packets {
    Publish(Vec<Publish<'static>>),
    PubAck(Vec<PubAck<'static>>),
    Connect(Vec<Connect<'static>>),
}

impl Packets {
    fn of(bytes: &[u8]) -> Self {
        let (mut publish, mut puback, mut connect) = (Vec::new(), Vec::new(), Vec::new());
        decode_all(bytes.to_vec().leak(), |packet| match packet {
            Ok((Packet::Publish(packet), _)) => publish.push(*packet),
            Ok((Packet::PubAck(packet), _)) => puback.push(*packet),
            Ok((Packet::Connect(packet), _)) => connect.push(*packet),
            other => unreachable!("not in the workload: {other:?}"),
        });
        match (publish.is_empty(), puback.is_empty()) {
            (false, _) => Self::Publish(publish),
            (_, false) => Self::PubAck(puback),
            _ => Self::Connect(connect),
        }
    }
}

#[inline(always)]
fn encode_all<P>(packets: &[P], mut encode: impl FnMut(&P) -> Result<usize, EncodeError>) {
    for packet in packets {
        encode(packet).expect("the packet was decoded");
    }
}

#[inline(always)]
fn decode_all<'a>(bytes: &'a [u8], mut consume: impl FnMut(&Result<(Packet<'a>, usize), DecodeError>)) {
    let options = DecodeOptions::new(VERSION);
    let mut rest = black_box(bytes);
    while !rest.is_empty() {
        let decoded = decode(rest, &options);
        consume(&decoded);
        let Ok((_, consumed)) = decoded else { unreachable!("the workload is right") };
        rest = &rest[consumed..];
    }
}
