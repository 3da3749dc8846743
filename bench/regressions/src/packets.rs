//! Packets encoded by hand, so that the measured code does not produce its own input.

/// The number of topics, used in turn.
pub const TOPICS: usize = 50;

const PAYLOAD_BYTES: usize = 64;

/// A name of 20 bytes.
pub fn topic(number: usize) -> String {
    format!("sensors/room-{:02}/temp", number % TOPICS)
}

/// The properties of a packet, if it is MQTT 5.0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    V3,
    V5,
    /// Message expiry, content type and two user properties.
    V5WithProperties,
}

pub fn publish(number: usize, qos: u8, packet_id: u16, layout: Layout) -> Vec<u8> {
    let mut body = Vec::new();
    push_text(&mut body, &topic(number));
    if qos > 0 {
        body.extend(packet_id.to_be_bytes());
    }
    match layout {
        Layout::V3 => {}
        Layout::V5 => body.push(0),
        Layout::V5WithProperties => {
            let mut properties = vec![0x02, 0, 0, 0x0E, 0x10, 0x03];
            push_text(&mut properties, "application/json");
            for (name, value) in [("source", "gateway-17"), ("region", "eu-north")] {
                properties.push(0x26);
                push_text(&mut properties, name);
                push_text(&mut properties, value);
            }
            body.push(properties.len() as u8);
            body.extend(properties);
        }
    }
    body.extend((0..PAYLOAD_BYTES).map(|byte| (byte + number) as u8));
    framed(0x30 | qos << 1, &body)
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP in its short form.
pub fn acknowledgement(first_byte: u8, packet_id: u16) -> [u8; 4] {
    let [high, low] = packet_id.to_be_bytes();
    [first_byte, 2, high, low]
}

/// CONNECT with clean start. In MQTT 5.0 with a receive maximum, a session expiry and a user property.
pub fn connect(client_id: &str, layout: Layout) -> Vec<u8> {
    let mut body = Vec::new();
    push_text(&mut body, "MQTT");
    body.extend([if layout == Layout::V3 { 4 } else { 5 }, 0b10, 0, 0]);
    match layout {
        Layout::V3 => {}
        Layout::V5 => body.push(0),
        Layout::V5WithProperties => {
            let mut properties = vec![0x11, 0, 0, 0x0E, 0x10, 0x21, 0, 100, 0x26];
            push_text(&mut properties, "platform");
            push_text(&mut properties, "linux-x86");
            body.push(properties.len() as u8);
            body.extend(properties);
        }
    }
    push_text(&mut body, client_id);
    framed(0x10, &body)
}

/// SUBSCRIBE to one filter.
pub fn subscribe(filter: &str, qos: u8, layout: Layout) -> Vec<u8> {
    let mut body = vec![0, 1];
    if layout != Layout::V3 {
        body.push(0);
    }
    push_text(&mut body, filter);
    body.push(qos);
    framed(0x82, &body)
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

fn framed(first_byte: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first_byte];
    let mut length = body.len();
    loop {
        let more = if length >= 0x80 { 0x80 } else { 0 };
        packet.push((length & 0x7F) as u8 | more);
        length >>= 7;
        if length == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}
