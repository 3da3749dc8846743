//! In-place decoding of a client's frames.

use crate::close::CloseCode;
use crate::frame::{CONTROL_MAX_BYTES, HEADER_MAX_BYTES, Header, Opcode};
use crate::mask::Mask;
use crate::outgoing::Outgoing;
use crate::violation::Violation;

/// Limits on a client's frames. No memory is reserved for them: memory depends on MQTT packets and their own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Maximum payload of one frame.
    pub frame_bytes: u64,
    /// Maximum payload of all frames of one message together.
    pub message_bytes: u64,
}

/// The end of a client's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A Close frame, with its code if it had one.
    Closed(Option<CloseCode>),
    Violation(Violation),
}

/// The state of decoding a client's stream.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of an incomplete header.
    header: [u8; HEADER_MAX_BYTES],
    header_bytes: u8,
    /// Within a fragmented message.
    in_message: bool,
    /// The current frame, if it is a control frame.
    control: Option<Opcode>,
    mask: Mask,
    /// Remaining bytes of the current frame.
    left: u64,
    /// Bytes of the current message so far, the current frame included.
    message_bytes: u64,
    /// Payload of the current control frame so far.
    control_payload: Vec<u8>,
}

impl Decoder {
    /// Decodes `bytes[from..]`: moves the payload of all data frames to the front of `bytes` and returns its length. Pings are answered
    /// through `outgoing`. Bytes after an end are ignored.
    pub(crate) fn decode(
        &mut self,
        bytes: &mut [u8],
        from: usize,
        limits: &FrameLimits,
        outgoing: &mut Outgoing,
    ) -> (usize, Option<End>) {
        let mut at = from;
        let mut payload_bytes = 0;
        while at < bytes.len() {
            if self.left == 0 {
                match self.next_header(&bytes[at..]) {
                    Ok((consumed, header)) => {
                        at += consumed;
                        let Some(header) = header else { break };
                        if let Err(violation) = self.begin(&header, limits) {
                            return (payload_bytes, Some(End::Violation(violation)));
                        }
                    }
                    Err(violation) => return (payload_bytes, Some(End::Violation(violation))),
                }
            }
            let here = (bytes.len() - at).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            match self.control {
                None => {
                    self.mask.unmask_within(bytes, at, payload_bytes, here);
                    payload_bytes += here;
                }
                Some(_) => self.mask.unmask_into(&bytes[at..at + here], &mut self.control_payload),
            }
            at += here;
            self.left -= here as u64;
            if self.left == 0
                && let Some(opcode) = self.control.take()
                && let Some(end) = self.finish_control(opcode, outgoing)
            {
                return (payload_bytes, Some(end));
            }
        }
        (payload_bytes, None)
    }

    /// The next header, with its length within `bytes`; `None` if it is incomplete.
    fn next_header(&mut self, bytes: &[u8]) -> Result<(usize, Option<Header>), Violation> {
        if self.header_bytes == 0 {
            if let Some(header) = Header::parse(bytes)? {
                return Ok((header.header_bytes, Some(header)));
            }
            // Shorter than the longest header, or it would be complete.
            self.header[..bytes.len()].copy_from_slice(bytes);
            self.header_bytes = bytes.len() as u8;
            return Ok((bytes.len(), None));
        }
        for (at, byte) in bytes.iter().enumerate() {
            let end = usize::from(self.header_bytes) + 1;
            self.header[end - 1] = *byte;
            self.header_bytes = end as u8;
            if let Some(header) = Header::parse(&self.header[..end])? {
                self.header_bytes = 0;
                return Ok((at + 1, Some(header)));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Checks whether the frame is allowed here (section 5.4), and begins it.
    fn begin(&mut self, header: &Header, limits: &FrameLimits) -> Result<(), Violation> {
        self.mask = header.mask;
        self.left = header.payload_bytes;
        if header.opcode.is_control() {
            self.control = Some(header.opcode);
            self.control_payload.clear();
            return Ok(());
        }
        match (header.opcode, self.in_message) {
            (Opcode::Text, _) => return Err(Violation::Text),
            (Opcode::Continuation, false) => return Err(Violation::NothingToContinue),
            (Opcode::Binary, true) => return Err(Violation::MessageUnfinished),
            (Opcode::Binary, false) => self.message_bytes = 0,
            _ => {}
        }
        if header.payload_bytes > limits.frame_bytes {
            return Err(Violation::FrameTooLarge);
        }
        self.message_bytes = self.message_bytes.saturating_add(header.payload_bytes);
        if self.message_bytes > limits.message_bytes {
            return Err(Violation::MessageTooLarge);
        }
        self.in_message = !header.fin;
        Ok(())
    }

    /// Handles a complete control frame.
    fn finish_control(&mut self, opcode: Opcode, outgoing: &mut Outgoing) -> Option<End> {
        let payload = &self.control_payload[..self.control_payload.len().min(CONTROL_MAX_BYTES)];
        match opcode {
            Opcode::Ping => outgoing.pong(payload),
            Opcode::Close => return Some(closed(payload)),
            // A Pong may be unsolicited (section 5.5.3).
            _ => {}
        }
        None
    }
}

/// Decodes a Close frame (section 5.5.1).
fn closed(payload: &[u8]) -> End {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return if payload.is_empty() { End::Closed(None) } else { End::Violation(Violation::CloseCode) };
    };
    match CloseCode::from_peer(u16::from_be_bytes(*code)) {
        None => End::Violation(Violation::CloseCode),
        Some(_) if std::str::from_utf8(reason).is_err() => End::Violation(Violation::CloseReason),
        Some(code) => End::Closed(Some(code)),
    }
}
