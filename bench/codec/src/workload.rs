//! The packets for all libraries. Encoded by hand, so that no library defines them.

/// Packets in one batch.
pub const BATCH: usize = 1000;

/// Bytes of payload in the PUBLISH cases.
const PAYLOAD_BYTES: usize = 64;

/// PUBLISH, MQTT 5.0, QoS 1, a topic of 20 bytes, no properties, 64 bytes of payload: 92 bytes. Fifty topics in turn.
pub fn publish_qos1() -> Vec<u8> {
    batch(|at| publish(at, &[]))
}

/// The same with content type, message expiry and two user properties.
pub fn publish_properties() -> Vec<u8> {
    let mut block = vec![0x02, 0, 0, 0x0E, 0x10, 0x03];
    push_text(&mut block, "application/json");
    for (name, value) in [("source", "gateway-17"), ("region", "eu-north")] {
        block.push(0x26);
        push_text(&mut block, name);
        push_text(&mut block, value);
    }
    batch(|at| publish(at, &block))
}

/// PUBACK, MQTT 5.0, success: 4 bytes.
pub fn puback() -> Vec<u8> {
    batch(|at| {
        let id = at as u16 + 1;
        vec![0x40, 2, (id >> 8) as u8, id as u8]
    })
}

/// CONNECT, MQTT 5.0, with session expiry, receive maximum, maximum packet size, topic alias maximum and a user property,
/// client id, user name and password.
pub fn connect_properties() -> Vec<u8> {
    batch(|at| {
        let mut properties = vec![0x11, 0, 0, 0x0E, 0x10, 0x21, 0, 100, 0x27, 0, 1, 0, 0, 0x22, 0, 10, 0x26];
        push_text(&mut properties, "platform");
        push_text(&mut properties, "linux-x86");
        let mut body = Vec::new();
        push_text(&mut body, "MQTT");
        body.extend([5, 0b1100_0010, 0, 60, properties.len() as u8]);
        body.extend(properties);
        push_text(&mut body, &format!("client-{at:06}"));
        push_text(&mut body, "someone");
        push_text(&mut body, "not-a-secret");
        framed(0x10, &body)
    })
}

/// Iterates over the packets of a batch.
pub fn packets(batch: &[u8]) -> Vec<&[u8]> {
    let mut rest = batch;
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (header, remaining) = header(rest);
        let (packet, after) = rest.split_at(header + remaining);
        packets.push(packet);
        rest = after;
    }
    packets
}

/// Returns the length of the fixed header, and the remaining length, of a valid packet.
#[inline]
pub fn header(packet: &[u8]) -> (usize, usize) {
    let mut remaining = 0;
    for (at, &byte) in packet[1..].iter().enumerate() {
        remaining |= usize::from(byte & 0x7F) << (7 * at);
        if byte < 0x80 {
            return (at + 2, remaining);
        }
    }
    unreachable!("the workload is whole")
}

fn batch(packet: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    (0..BATCH).flat_map(packet).collect()
}

fn publish(at: usize, properties: &[u8]) -> Vec<u8> {
    let id = at as u16 + 1;
    let mut body = Vec::new();
    push_text(&mut body, &format!("sensors/room-{:02}/temp", at % 50));
    body.extend(id.to_be_bytes());
    body.push(properties.len() as u8);
    body.extend(properties);
    body.extend((0..PAYLOAD_BYTES).map(|byte| (byte + at) as u8));
    framed(0x32, &body)
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

fn framed(first_byte: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first_byte];
    let mut len = body.len();
    loop {
        let more = if len >= 0x80 { 0x80 } else { 0 };
        packet.push((len & 0x7F) as u8 | more);
        len >>= 7;
        if len == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}
