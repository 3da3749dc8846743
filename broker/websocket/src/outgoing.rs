//! Frames to a client: their headers, their sizes, and control frames.

use crate::close::CloseCode;
use crate::frame::{Opcode, push_header};

/// Maximum payload of a frame, so that control frames are not delayed for long and a client that buffers whole frames needs little memory.
pub const FRAME_OUT_MAX_BYTES: usize = 256 << 10;
/// Maximum size of pending Pongs. Beyond it only the newest Ping is answered, which section 5.5.3 allows.
pub const PONGS_MAX_BYTES: usize = 4 << 10;
/// Capacity that is kept for headers between frames.
const PREFIX_CAPACITY_BYTES: usize = 64;

/// Output besides MQTT bytes, and the state of the current frame.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Written before any more MQTT bytes: an HTTP response, control frames, the header of the current frame.
    prefix: Vec<u8>,
    /// How much of `prefix` has been written.
    prefix_written: usize,
    /// Remaining MQTT bytes of the current frame: control frames wait until it is complete.
    frame_left: usize,
    pongs: Vec<u8>,
    /// Pings that were not answered because of newer ones.
    skipped_pings: u64,
    close: CloseState,
}

/// The state of our closing handshake.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CloseState {
    #[default]
    Open,
    /// A Close frame follows all MQTT bytes; with the code, if there is one.
    Requested(Option<CloseCode>),
    /// Nothing more may be sent.
    Sent,
}

impl Outgoing {
    /// Queues raw bytes: the response to the handshake.
    pub(crate) fn push_plain(&mut self, bytes: &[u8]) {
        self.prefix.extend_from_slice(bytes);
    }

    /// Sends only what is already queued.
    pub(crate) fn finish(&mut self) {
        self.close = CloseState::Sent;
        self.pongs = Vec::new();
    }

    /// Queues the answer to a Ping.
    pub(crate) fn pong(&mut self, payload: &[u8]) {
        if self.close == CloseState::Sent {
            return;
        }
        if self.pongs.len() + 2 + payload.len() > PONGS_MAX_BYTES {
            self.pongs.clear();
            self.skipped_pings += 1;
        }
        push_header(Opcode::Pong, payload.len(), &mut self.pongs);
        self.pongs.extend_from_slice(payload);
    }

    /// Queues a Close frame after everything else; the first code wins.
    pub(crate) fn close(&mut self, code: Option<CloseCode>) {
        if self.close == CloseState::Open {
            self.close = CloseState::Requested(code);
        }
    }

    /// Returns and resets the number of unanswered pings.
    pub(crate) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped_pings)
    }

    /// Whether there is output besides `pending_bytes` of MQTT.
    pub(crate) fn has_control_output(&self, pending_bytes: usize) -> bool {
        self.prefix_written < self.prefix.len()
            || (self.frame_left == 0 && !self.pongs.is_empty())
            || (pending_bytes == 0 && matches!(self.close, CloseState::Requested(_)))
    }

    /// What to write next, given `pending_bytes` of MQTT: these bytes, and then this many MQTT bytes.
    ///
    /// MQTT bytes that a frame header has announced must not be withdrawn.
    pub(crate) fn next(&mut self, pending_bytes: usize) -> (&[u8], usize) {
        if self.frame_left == 0 {
            self.prefix.append(&mut self.pongs);
            if self.close == CloseState::Sent {
                // After a Close frame the MQTT bytes cannot be sent.
            } else if pending_bytes > 0 {
                self.frame_left = pending_bytes.min(FRAME_OUT_MAX_BYTES);
                push_header(Opcode::Binary, self.frame_left, &mut self.prefix);
            } else if let CloseState::Requested(code) = self.close {
                let code = code.map(|code| code.as_u16().to_be_bytes());
                let payload = code.as_ref().map_or(&[][..], |code| code);
                push_header(Opcode::Close, payload.len(), &mut self.prefix);
                self.prefix.extend_from_slice(payload);
                self.close = CloseState::Sent;
            }
        }
        debug_assert!(self.frame_left <= pending_bytes, "announced bytes are still pending");
        (&self.prefix[self.prefix_written..], self.frame_left)
    }

    /// Marks `count` bytes of the output of [`Outgoing::next`] as written; returns how many of them were MQTT.
    pub(crate) fn written(&mut self, count: usize) -> usize {
        let own = count.min(self.prefix.len() - self.prefix_written);
        self.prefix_written += own;
        if self.prefix_written == self.prefix.len() {
            self.prefix.clear();
            self.prefix.shrink_to(PREFIX_CAPACITY_BYTES);
            self.prefix_written = 0;
        }
        let payload_bytes = (count - own).min(self.frame_left);
        self.frame_left -= payload_bytes;
        payload_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes everything, `step` bytes at a time, as a socket might.
    fn write(outgoing: &mut Outgoing, mqtt: &[u8], step: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        let mut taken = 0;
        loop {
            let (prefix, payload_bytes) = outgoing.next(mqtt.len() - taken);
            let all = [prefix, &mqtt[taken..taken + payload_bytes]].concat();
            let count = all.len().min(step);
            if count == 0 {
                assert!(!outgoing.has_control_output(mqtt.len() - taken));
                return wire;
            }
            wire.extend_from_slice(&all[..count]);
            taken += outgoing.written(count);
        }
    }

    #[test]
    fn a_batch_has_one_header_and_control_frames_go_between_frames() {
        for step in 1..20 {
            let mut outgoing = Outgoing::default();
            assert_eq!(write(&mut outgoing, b"abc", step), b"\x82\x03abc");
            outgoing.pong(b"p");
            outgoing.close(Some(CloseCode::GOING_AWAY));
            outgoing.close(Some(CloseCode::NORMAL));
            assert!(outgoing.has_control_output(2));
            assert_eq!(write(&mut outgoing, b"de", step), b"\x8A\x01p\x82\x02de\x88\x02\x03\xE9");
            outgoing.pong(b"too late");
            assert_eq!(write(&mut outgoing, b"", step), b"");
        }
    }

    #[test]
    fn a_pong_waits_for_the_current_frame() {
        let mut outgoing = Outgoing::default();
        assert_eq!(outgoing.next(3), (&b"\x82\x03"[..], 3));
        assert_eq!(outgoing.written(3), 1);
        outgoing.pong(b"");
        assert!(!outgoing.has_control_output(2));
        // More bytes have arrived since, which have no header yet.
        assert_eq!(outgoing.next(7), (&b""[..], 2));
        assert_eq!(outgoing.written(2), 2);
        assert_eq!(outgoing.next(5), (&b"\x8A\x00\x82\x05"[..], 5));
    }

    #[test]
    fn large_batches_are_split() {
        let mut outgoing = Outgoing::default();
        let (header, payload_bytes) = outgoing.next(FRAME_OUT_MAX_BYTES + 1);
        assert_eq!((header.len(), payload_bytes), (10, FRAME_OUT_MAX_BYTES));
        assert_eq!(outgoing.written(10 + FRAME_OUT_MAX_BYTES), FRAME_OUT_MAX_BYTES);
        assert_eq!(outgoing.next(1), (&b"\x82\x01"[..], 1));
    }

    #[test]
    fn a_flood_of_pings_is_answered_by_the_latest() {
        let mut outgoing = Outgoing::default();
        for n in 0..10_000_u16 {
            outgoing.pong(&n.to_be_bytes());
            assert!(outgoing.pongs.len() <= PONGS_MAX_BYTES);
        }
        assert!(outgoing.take_skipped() > 0);
        assert_eq!(outgoing.take_skipped(), 0);
        let wire = write(&mut outgoing, b"", 1000);
        assert!(wire.ends_with(&9_999_u16.to_be_bytes()));
    }
}
