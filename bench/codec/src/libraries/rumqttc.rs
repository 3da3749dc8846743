use std::hint::black_box;

use bytes::BytesMut;
use rumqttc::v5::mqttbytes::Error;
use rumqttc::v5::mqttbytes::v5::{Connect, LastWill, Login, Packet, PubAck, Publish};

use super::Case;
use tautwire_bench_timing::Contender;

const LIBRARY: &str = "rumqttc";
const MAX_PACKET_SIZE: Option<u32> = Some(1 << 20);

pub fn add(case: &Case, contenders: &mut Vec<Contender>) {
    let bytes = case.bytes.clone();
    contenders.push(case.decoding(LIBRARY, move || {
        // The buffer into which a socket would be read. One copy per thousand packets.
        let mut stream = BytesMut::from(black_box(bytes.as_slice()));
        while !stream.is_empty() {
            black_box(Packet::read(&mut stream, MAX_PACKET_SIZE).expect("the workload is right"));
        }
    }));

    let packets = Packets::of(&case.bytes);
    let mut out = BytesMut::with_capacity(4096);
    contenders.push(case.encoding(LIBRARY, move || match black_box(&packets) {
        Packets::Publish(packets) => encode_all(packets, &mut out, |packet, out| packet.write(out)),
        Packets::PubAck(packets) => encode_all(packets, &mut out, |packet, out| packet.write(out)),
        Packets::Connect(packets) => {
            encode_all(packets, &mut out, |(packet, will, login), out| packet.write(will, login, out))
        }
    }));
}

/// Decodes a batch.
enum Packets {
    Publish(Vec<Publish>),
    PubAck(Vec<PubAck>),
    Connect(Vec<(Connect, Option<LastWill>, Option<Login>)>),
}

impl Packets {
    fn of(bytes: &[u8]) -> Self {
        let (mut publish, mut puback, mut connect) = (Vec::new(), Vec::new(), Vec::new());
        let mut stream = BytesMut::from(bytes);
        while !stream.is_empty() {
            match Packet::read(&mut stream, MAX_PACKET_SIZE).expect("the workload is right") {
                Packet::Publish(packet) => publish.push(packet),
                Packet::PubAck(packet) => puback.push(packet),
                Packet::Connect(packet, will, login) => connect.push((packet, will, login)),
                other => unreachable!("not in the workload: {other:?}"),
            }
        }
        match (publish.is_empty(), puback.is_empty()) {
            (false, _) => Self::Publish(publish),
            (_, false) => Self::PubAck(puback),
            _ => Self::Connect(connect),
        }
    }
}

#[inline(always)]
fn encode_all<P>(packets: &[P], out: &mut BytesMut, encode: impl Fn(&P, &mut BytesMut) -> Result<usize, Error>) {
    for packet in packets {
        out.clear();
        encode(packet, black_box(out)).expect("the packet was decoded");
    }
}
