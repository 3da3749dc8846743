use crate::failure::{Failure, Result};

/// One MQTT packet, not decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub first_byte: u8,
    pub body: &'a [u8],
}

/// Splits a byte stream into frames by their fixed headers only.
pub(crate) struct Frames<'a> {
    input: &'a [u8],
}

/// The meaning of a frame for the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incoming<'a> {
    Publish {
        qos: u8,
        packet_id: u16,
        payload: &'a [u8],
    },
    PubAck {
        packet_id: u16,
        refused: bool,
    },
    PubRec {
        packet_id: u16,
        refused: bool,
    },
    PubRel {
        packet_id: u16,
    },
    PubComp {
        packet_id: u16,
        refused: bool,
    },
    ConnAck {
        refusal: u8,
        session_present: bool,
    },
    SubAck {
        refused: bool,
        granted_qos: u8,
    },
    PingResp,
    /// DISCONNECT from a broker, or a packet that no broker sends.
    Unexpected,
}

impl<'a> Frames<'a> {
    pub(crate) fn of(input: &'a [u8]) -> Self {
        Self { input }
    }

    #[inline]
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'a>>> {
        let [first_byte, short_len, ..] = *self.input else {
            return Ok(None);
        };
        let (header_len, body_len) = if short_len < 0x80 {
            (2, usize::from(short_len))
        } else {
            match variable_byte_integer(&self.input[1..])? {
                Some((value, len)) => (1 + len, value),
                None => return Ok(None),
            }
        };
        let Some(body) = self.input.get(header_len..header_len + body_len) else {
            return Ok(None);
        };
        self.input = &self.input[header_len + body_len..];
        Ok(Some(Frame { first_byte, body }))
    }

    /// The start of an incomplete frame.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.input
    }
}

impl<'a> Frame<'a> {
    /// Parses as much as the generator needs. `v5`: whether the connection uses MQTT 5.0.
    #[inline]
    pub(crate) fn read(self, v5: bool) -> Result<Incoming<'a>> {
        match self.first_byte >> 4 {
            3 => self.read_publish(v5),
            4 => self.read_ack(|packet_id, refused| Incoming::PubAck { packet_id, refused }),
            5 => self.read_ack(|packet_id, refused| Incoming::PubRec { packet_id, refused }),
            6 => self.read_ack(|packet_id, _| Incoming::PubRel { packet_id }),
            7 => self.read_ack(|packet_id, refused| Incoming::PubComp { packet_id, refused }),
            2 => {
                let &[flags, refusal, ..] = self.body else { return Err(too_short()) };
                Ok(Incoming::ConnAck { refusal, session_present: flags & 1 != 0 })
            }
            9 => {
                let properties_len = if v5 { self.properties_len_at(2)? } else { 0 };
                let reasons = self.body.get(2 + properties_len..).ok_or_else(too_short)?;
                Ok(Incoming::SubAck {
                    refused: reasons.is_empty() || reasons.iter().any(|&reason| reason >= 0x80),
                    granted_qos: reasons.iter().copied().min().unwrap_or(0),
                })
            }
            13 => Ok(Incoming::PingResp),
            _ => Ok(Incoming::Unexpected),
        }
    }

    #[inline]
    fn read_publish(self, v5: bool) -> Result<Incoming<'a>> {
        let [topic_high, topic_low, ..] = *self.body else {
            return Err(too_short());
        };
        let mut at = 2 + usize::from(u16::from_be_bytes([topic_high, topic_low]));
        let qos = self.first_byte >> 1 & 3;
        let mut packet_id = 0;
        if qos > 0 {
            packet_id = u16_at(self.body, at)?;
            at += 2;
        }
        if v5 {
            at += self.properties_len_at(at)?;
        }
        let payload = self.body.get(at..).ok_or_else(too_short)?;
        Ok(Incoming::Publish { qos, packet_id, payload })
    }

    #[inline]
    fn read_ack(self, make: impl FnOnce(u16, bool) -> Incoming<'a>) -> Result<Incoming<'a>> {
        let refused = self.body.get(2).is_some_and(|&reason| reason >= 0x80);
        Ok(make(u16_at(self.body, 0)?, refused))
    }

    /// The length of a property block with its length field.
    fn properties_len_at(self, at: usize) -> Result<usize> {
        let input = self.body.get(at..).ok_or_else(too_short)?;
        let (value, len) = variable_byte_integer(input)?.ok_or_else(too_short)?;
        Ok(value + len)
    }
}

/// A successful PUBACK, PUBREC, PUBREL or PUBCOMP: four bytes, identical in all versions.
#[inline]
pub(crate) fn ack(first_byte: u8, packet_id: u16) -> [u8; 4] {
    let [high, low] = packet_id.to_be_bytes();
    [first_byte, 2, high, low]
}

fn variable_byte_integer(input: &[u8]) -> Result<Option<(usize, usize)>> {
    let mut value = 0;
    for (index, &byte) in input.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            return Ok(Some((value, index + 1)));
        }
    }
    if input.len() >= 4 { Err(Failure::new("the broker sent a length of more than four bytes")) } else { Ok(None) }
}

#[inline]
fn u16_at(body: &[u8], at: usize) -> Result<u16> {
    match body.get(at..at + 2) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(too_short()),
    }
}

#[cold]
fn too_short() -> Failure {
    Failure::new("the broker sent a packet too short for its type")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(mut input: &[u8], v5: bool) -> Vec<Incoming<'_>> {
        let mut all = Vec::new();
        let mut frames = Frames::of(input);
        while let Some(frame) = frames.next_frame().expect("well-formed") {
            all.push(frame.read(v5).expect("well-formed"));
        }
        input = frames.rest();
        assert!(input.is_empty());
        all
    }

    #[test]
    fn publishes_give_id_and_payload_in_both_versions() {
        let v3 = [0x32, 7, 0, 1, b'a', 1, 2, b'x', b'y', 0x30, 4, 0, 1, b'a', b'z'];
        assert_eq!(
            read_all(&v3, false),
            [
                Incoming::Publish { qos: 1, packet_id: 0x0102, payload: b"xy" },
                Incoming::Publish { qos: 0, packet_id: 0, payload: b"z" }
            ]
        );
        let v5 = [0x34, 10, 0, 1, b'a', 1, 2, 2, 1, 1, b'x', b'y'];
        assert_eq!(read_all(&v5, true), [Incoming::Publish { qos: 2, packet_id: 0x0102, payload: b"xy" }]);
    }

    #[test]
    fn acknowledgements_with_a_failure_code_are_refusals() {
        let input = [0x40, 2, 0, 7, 0x50, 3, 0, 8, 0x97, 0x62, 2, 0, 9, 0x70, 2, 0, 9, 0x20, 2, 0, 5, 0xD0, 0];
        assert_eq!(
            read_all(&input, true),
            [
                Incoming::PubAck { packet_id: 7, refused: false },
                Incoming::PubRec { packet_id: 8, refused: true },
                Incoming::PubRel { packet_id: 9 },
                Incoming::PubComp { packet_id: 9, refused: false },
                Incoming::ConnAck { refusal: 5, session_present: false },
                Incoming::PingResp,
            ]
        );
        assert_eq!(read_all(&[0x90, 4, 0, 1, 1, 0x80], false), [Incoming::SubAck { refused: true, granted_qos: 1 }]);
        assert_eq!(read_all(&[0x90, 4, 0, 1, 0, 2], true), [Incoming::SubAck { refused: false, granted_qos: 2 }]);
    }

    #[test]
    fn only_whole_frames_are_returned() {
        let long = [&[0x30, 0x83, 0x01, 0, 1, b'a'][..], &[7; 128]].concat();
        for cut in 0..long.len() {
            let mut frames = Frames::of(&long[..cut]);
            assert!(frames.next_frame().expect("not wrong").is_none(), "{cut}");
            assert_eq!(frames.rest().len(), cut);
        }
        assert_eq!(read_all(&long, false), [Incoming::Publish { qos: 0, packet_id: 0, payload: &[7; 128] }]);
    }

    #[test]
    fn invalid_bytes_are_an_error_and_not_a_panic() {
        assert!(Frames::of(&[0x30, 0x80, 0x80, 0x80, 0x80, 1]).next_frame().is_err());
        for (first_byte, body) in [(0x30, &[0][..]), (0x32, &[0, 1, b'a', 0]), (0x40, &[1]), (0x20, &[0]), (0x90, &[0])]
        {
            assert!(Frame { first_byte, body }.read(false).is_err());
        }
        assert!(Frame { first_byte: 0x30, body: &[0, 9, b'a'] }.read(false).is_err());
    }
}
