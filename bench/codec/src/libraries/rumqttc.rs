use std::hint::black_box;

use bytes::BytesMut;
use rumqttc::v5::mqttbytes::v5::Packet;

use super::Case;
use crate::measure::Contender;

const LIBRARY: &str = "rumqttc";
const MAX_PACKET_SIZE: Option<u32> = Some(1 << 20);

pub fn add(case: &Case, contenders: &mut Vec<Contender>) {
    let bytes = case.bytes.clone();
    contenders.push(case.decoding(LIBRARY, move || {
        // What a socket would have been read into. One copy for a thousand packets.
        let mut stream = BytesMut::from(black_box(bytes.as_slice()));
        while !stream.is_empty() {
            black_box(Packet::read(&mut stream, MAX_PACKET_SIZE).expect("the workload is right"));
        }
    }));

    let mut stream = BytesMut::from(case.bytes.as_slice());
    let mut packets = Vec::new();
    while !stream.is_empty() {
        packets.push(Packet::read(&mut stream, MAX_PACKET_SIZE).expect("the workload is right"));
    }
    let mut out = BytesMut::with_capacity(4096);
    contenders.push(case.encoding(LIBRARY, move || {
        for packet in black_box(&packets) {
            out.clear();
            packet.write(&mut out, None).expect("the packet was decoded");
            black_box(&out);
        }
    }));
}
