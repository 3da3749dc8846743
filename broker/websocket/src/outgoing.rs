//! Frames towards a client: what goes before the MQTT bytes, and how many of them a frame holds.

use crate::close::CloseCode;
use crate::frame::{Opcode, push_header};

/// Payload of the largest frame that is sent, so that control frames need not wait long and a client that takes whole
/// frames need not hold much.
pub const FRAME_OUT_MAX_BYTES: usize = 256 << 10;
/// Pongs that wait for a client. Beyond it only the newest Ping is answered, which section 5.5.3 allows.
pub const PONGS_MAX_BYTES: usize = 4 << 10;
/// Room that is kept for headers between frames.
const KEPT_BYTES: usize = 64;

/// What is to be written besides MQTT bytes, and how far the frame under way has come.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Written before any more MQTT bytes: an HTTP answer, control frames, the header of the frame under way.
    prefix: Vec<u8>,
    /// How much of `prefix` has been written.
    prefix_written: usize,
    /// MQTT bytes that the frame under way still has to hold: control frames wait until it is complete.
    frame_left: usize,
    pongs: Vec<u8>,
    /// Pings that were not answered because newer ones came.
    skipped_pings: u64,
    close: CloseState,
}

/// How far the closing of our half has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CloseState {
    #[default]
    Open,
    /// To be said once all MQTT bytes have gone; with the code, if there is one.
    Requested(Option<CloseCode>),
    /// Nothing may follow.
    Sent,
}

impl Outgoing {
    /// Queues what goes as it is: the answer to the handshake.
    pub(crate) fn push_plain(&mut self, bytes: &[u8]) {
        self.prefix.extend_from_slice(bytes);
    }

    /// Nothing is sent but what is queued already.
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

    /// Has a Close frame sent behind everything else; the first code counts.
    pub(crate) fn close(&mut self, code: Option<CloseCode>) {
        if self.close == CloseState::Open {
            self.close = CloseState::Requested(code);
        }
    }

    /// How often pings have been passed over since this was last asked.
    pub(crate) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped_pings)
    }

    /// Whether anything but MQTT bytes is to be written, given how many of those there are.
    pub(crate) fn has_control_output(&self, pending_bytes: usize) -> bool {
        self.prefix_written < self.prefix.len()
            || (self.frame_left == 0 && !self.pongs.is_empty())
            || (pending_bytes == 0 && matches!(self.close, CloseState::Requested(_)))
    }

    /// What to write next, of `pending_bytes` of MQTT: these bytes, and then so many of MQTT.
    ///
    /// Bytes of MQTT that a frame has been announced to hold must not be taken back.
    pub(crate) fn next(&mut self, pending_bytes: usize) -> (&[u8], usize) {
        if self.frame_left == 0 {
            self.prefix.append(&mut self.pongs);
            if self.close == CloseState::Sent {
                // Whatever else there may be has nowhere to go.
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
        debug_assert!(self.frame_left <= pending_bytes, "what was announced is still there");
        (&self.prefix[self.prefix_written..], self.frame_left)
    }

    /// `count` bytes of what [`Outgoing::next`] gave have been written; says how many of them were MQTT.
    pub(crate) fn written(&mut self, count: usize) -> usize {
        let own = count.min(self.prefix.len() - self.prefix_written);
        self.prefix_written += own;
        if self.prefix_written == self.prefix.len() {
            self.prefix.clear();
            self.prefix.shrink_to(KEPT_BYTES);
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
    fn a_pong_waits_for_the_frame_under_way() {
        let mut outgoing = Outgoing::default();
        assert_eq!(outgoing.next(3), (&b"\x82\x03"[..], 3));
        assert_eq!(outgoing.written(3), 1);
        outgoing.pong(b"");
        assert!(!outgoing.has_control_output(2));
        // More has come since, for which there is no header yet.
        assert_eq!(outgoing.next(7), (&b""[..], 2));
        assert_eq!(outgoing.written(2), 2);
        assert_eq!(outgoing.next(5), (&b"\x8A\x00\x82\x05"[..], 5));
    }

    #[test]
    fn large_batches_are_cut() {
        let mut outgoing = Outgoing::default();
        let (header, payload_bytes) = outgoing.next(FRAME_OUT_MAX_BYTES + 1);
        assert_eq!((header.len(), payload_bytes), (10, FRAME_OUT_MAX_BYTES));
        assert_eq!(outgoing.written(10 + FRAME_OUT_MAX_BYTES), FRAME_OUT_MAX_BYTES);
        assert_eq!(outgoing.next(1), (&b"\x82\x01"[..], 1));
    }

    #[test]
    fn a_flood_of_pings_is_answered_by_the_newest() {
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
