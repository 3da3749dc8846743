//! Writes files as Mosquitto does, following the description of the format.

/// A file being written.
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    version: u32,
}

impl Writer {
    pub(crate) fn new(version: u32) -> Writer {
        let mut bytes = b"\x00\xB5\x00mosquitto db\0\0\0\0".to_vec();
        bytes.extend_from_slice(&version.to_be_bytes());
        let mut writer = Writer { bytes, version };
        let mut body = 99u64.to_le_bytes().to_vec();
        body.extend_from_slice(&[1, 8, 0, 0, 0, 0, 0, 0]);
        writer.chunk(1, &body);
        writer
    }

    pub(crate) fn chunk(&mut self, kind: u32, body: &[u8]) {
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        self.bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(body);
    }

    pub(crate) fn client(&mut self, id: &str, expiry_interval_s: u32, expires_at_s: u64, last_packet_id: u16) {
        let mut body = expires_at_s.to_le_bytes().to_vec();
        body.extend_from_slice(&expiry_interval_s.to_be_bytes());
        body.extend_from_slice(&last_packet_id.to_be_bytes());
        body.extend_from_slice(&(id.len() as u16).to_be_bytes());
        if self.version >= 6 {
            body.extend_from_slice(&[0x07, 0x5B, 0, 4, 0, 0, 0, 0]);
        }
        body.extend_from_slice(id.as_bytes());
        if self.version >= 6 {
            body.extend_from_slice(b"user");
        }
        self.chunk(6, &body);
    }

    pub(crate) fn message(&mut self, number: u64, topic: &str, payload: &[u8], how: MessageOptions) {
        let mut body = number.to_le_bytes().to_vec();
        body.extend_from_slice(&how.expires_at_s.to_le_bytes());
        body.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        body.extend_from_slice(&[0, 1, 0, 2, 0, 3]);
        body.extend_from_slice(&(topic.len() as u16).to_be_bytes());
        body.extend_from_slice(&[0x07, 0x5B, how.qos, u8::from(how.retain)]);
        body.extend_from_slice(b"idusr");
        body.extend_from_slice(topic.as_bytes());
        body.extend_from_slice(payload);
        body.extend_from_slice(how.properties);
        self.chunk(2, &body);
    }

    /// `direction`: 0 from the client, 1 to it.
    pub(crate) fn delivery(&mut self, client: &str, message: u64, id: u16, numbers: [u8; 4], properties: &[u8]) {
        let mut body = message.to_le_bytes().to_vec();
        body.extend_from_slice(&id.to_be_bytes());
        body.extend_from_slice(&(client.len() as u16).to_be_bytes());
        body.extend_from_slice(&numbers);
        body.extend_from_slice(client.as_bytes());
        body.extend_from_slice(properties);
        self.chunk(3, &body);
    }

    pub(crate) fn retained(&mut self, number: u64) {
        self.chunk(4, &number.to_le_bytes());
    }

    pub(crate) fn subscription(&mut self, client: &str, filter: &str, identifier: u32, qos: u8, options: u8) {
        let mut body = identifier.to_be_bytes().to_vec();
        body.extend_from_slice(&(client.len() as u16).to_be_bytes());
        body.extend_from_slice(&(filter.len() as u16).to_be_bytes());
        body.extend_from_slice(&[qos, options, 0, 0]);
        body.extend_from_slice(client.as_bytes());
        body.extend_from_slice(filter.as_bytes());
        self.chunk(5, &body);
    }
}

/// How a message was published.
#[derive(Clone, Copy, Default)]
pub(crate) struct MessageOptions<'a> {
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) expires_at_s: u64,
    pub(crate) properties: &'a [u8],
}
