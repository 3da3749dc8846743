use std::hint::black_box;

use bytes::BytesMut;
use mqttbytes::v5::{Packet, read};

use super::Case;
use crate::measure::Contender;

const LIBRARY: &str = "mqttbytes";
const MAX_PACKET_SIZE: usize = 1 << 20;

pub fn add(case: &Case, contenders: &mut Vec<Contender>) {
    let bytes = case.bytes.clone();
    contenders.push(case.decoding(LIBRARY, move || {
        // What a socket would have been read into. One copy for a thousand packets.
        let mut stream = BytesMut::from(black_box(bytes.as_slice()));
        while !stream.is_empty() {
            black_box(read(&mut stream, MAX_PACKET_SIZE).expect("the workload is right"));
        }
    }));

    let mut stream = BytesMut::from(case.bytes.as_slice());
    let mut packets = Vec::new();
    while !stream.is_empty() {
        packets.push(read(&mut stream, MAX_PACKET_SIZE).expect("the workload is right"));
    }
    let mut out = BytesMut::with_capacity(4096);
    contenders.push(case.encoding(LIBRARY, move || {
        for packet in black_box(&packets) {
            out.clear();
            match packet {
                Packet::Publish(publish) => publish.write(&mut out),
                Packet::PubAck(puback) => puback.write(&mut out),
                Packet::Connect(connect) => connect.write(&mut out),
                _ => unreachable!("not in the workload"),
            }
            .expect("the packet was decoded");
            black_box(&out);
        }
    }));
}
