//! Clients that do not set `TCP_NODELAY`, and the acknowledgement of TCP for which they wait.
//!
//! Such a client sends PUBACK, say, and then PUBLISH. Its kernel keeps the PUBLISH until our kernel has acknowledged the PUBACK
//! (Nagle's algorithm, RFC 896). Our kernel waits 40 ms for output that could carry the acknowledgement (RFC 9293, section
//! 3.8.6.3), but nothing answers a PUBACK. So each message takes 40 ms. `TCP_QUICKACK` sends the acknowledgement at once. The
//! setting does not last, so it is made again after each read that needs it.
//!
//! Only connections that show the pattern get it: a read led to no output, and the next bytes came 30 to 60 ms later. A client
//! that sends every 40 ms by its own choice looks the same, until it is acknowledged at once and still takes as long.

use std::ops::RangeInclusive;

use mio::net::TcpStream;
use tautwire_engine::{ConnectionId, Counters};

use super::Connections;

/// Time from a read that led to no output to the next bytes, where the client was held up: our kernel's delay and a round trip.
/// Where a round trip takes more than 20 ms, the delay is less than two of them, and is left alone.
const DELAYED_ACK_GAP_MS: RangeInclusive<u64> = 30..=60;
/// A client is acknowledged at once after this many such gaps with no shorter one between them: bytes that come sooner than our
/// kernel acknowledges were not kept back.
const DELAYED_GAPS_MIN: u8 = 2;
/// After this many in a row although it was acknowledged at once, the pace is the client's own, and it is left alone.
const INEFFECTIVE_MAX: u8 = 4;
/// After this many more, one more is acknowledged at once, to see whether that helps now.
const DELAYED_GAPS_RETRY: u8 = 32;

/// The unit in which a moment is kept.
const UNIT_MS: u64 = 2;
/// The bits in which it is kept: time starts again after two seconds. A gap longer than that may be taken for a shorter one,
/// which costs a call or two.
const TIME_BITS: u32 = 10;
const TIME_MASK: u16 = (1 << TIME_BITS) - 1;

/// What is known of a client's pace, and when it was last read from. Each connection has one, so it is small: the moment is in the
/// lower bits, 0 once output has followed the read, and the standing is above.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DelayedAckDetector(u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckMode {
    /// Acknowledged as the kernel sees fit. `delayed_gaps` gaps looked as if the client had been held up.
    Default { delayed_gaps: u8 },
    /// Acknowledged at once. `ineffective` gaps in a row were no shorter for it.
    Quick { ineffective: u8 },
    /// Acknowledged as the kernel sees fit again, since the rest did not help. `delayed_gaps` gaps have looked the same since.
    Normal { delayed_gaps: u8 },
    /// There is no TCP.
    Local,
}

impl DelayedAckDetector {
    /// Of a client at a Unix socket, where nothing waits for acknowledgements.
    pub(crate) const LOCAL: DelayedAckDetector = DelayedAckDetector((LOCAL as u16) << TIME_BITS);

    /// Bytes have come. Says whether they are to be acknowledged at once if the turn leads to no output.
    #[inline]
    pub(crate) fn on_read(&mut self, now_ms: u64, counters: &Counters) -> bool {
        let now = units(now_ms);
        if self.has_written() {
            // True of most reads of most clients. It shows nothing of what they wait for.
            self.0 |= now;
            return self.is_quick();
        }
        let was_hurried = self.is_quick();
        self.update(now);
        if was_hurried && !self.is_quick() {
            counters.quickacks_given_up.add(1);
        }
        self.is_quick()
    }

    /// Output has been written, and with it an acknowledgement.
    pub(crate) fn on_write(&mut self) {
        self.0 &= !TIME_MASK;
    }

    fn has_written(self) -> bool {
        self.0 & TIME_MASK == 0
    }

    fn is_quick(self) -> bool {
        matches!(self.ack_mode(), AckMode::Quick { .. })
    }

    /// Bytes have come, and no output has followed those before.
    #[inline(never)]
    fn update(&mut self, now: u16) {
        let gap = now.wrapping_sub(self.0) & TIME_MASK;
        let standing = self.ack_mode().after(u64::from(gap) * UNIT_MS);
        self.0 = standing.bits() << TIME_BITS | now;
    }

    fn ack_mode(self) -> AckMode {
        let bits = (self.0 >> TIME_BITS) as u8;
        match bits {
            0..FIRST_QUICK => AckMode::Default { delayed_gaps: bits },
            FIRST_QUICK..FIRST_NORMAL => AckMode::Quick { ineffective: bits - FIRST_QUICK },
            LOCAL => AckMode::Local,
            _ => AckMode::Normal { delayed_gaps: bits - FIRST_NORMAL },
        }
    }
}

/// 0 has a meaning of its own; a unit more or less has none.
fn units(now_ms: u64) -> u16 {
    ((now_ms / UNIT_MS) as u16 & TIME_MASK).max(1)
}

const FIRST_QUICK: u8 = DELAYED_GAPS_MIN;
const FIRST_NORMAL: u8 = FIRST_QUICK + INEFFECTIVE_MAX;
const LOCAL: u8 = FIRST_NORMAL + DELAYED_GAPS_RETRY;
const _: () = assert!(LOCAL < 1 << (u16::BITS - TIME_BITS));

impl AckMode {
    /// The next bytes came so long after a read that led to no output.
    fn after(self, gap_ms: u64) -> AckMode {
        if gap_ms > *DELAYED_ACK_GAP_MS.end() {
            // It had nothing to send.
            return self;
        }
        let held = DELAYED_ACK_GAP_MS.contains(&gap_ms);
        match self {
            AckMode::Default { delayed_gaps } if held && delayed_gaps + 1 == DELAYED_GAPS_MIN => {
                AckMode::Quick { ineffective: 0 }
            }
            AckMode::Default { delayed_gaps } if held => AckMode::Default { delayed_gaps: delayed_gaps + 1 },
            AckMode::Default { .. } => AckMode::Default { delayed_gaps: 0 },
            AckMode::Quick { ineffective } if held && ineffective + 1 == INEFFECTIVE_MAX => {
                AckMode::Normal { delayed_gaps: 0 }
            }
            AckMode::Quick { ineffective } if held => AckMode::Quick { ineffective: ineffective + 1 },
            AckMode::Quick { .. } => AckMode::Quick { ineffective: 0 },
            AckMode::Normal { delayed_gaps } if held && delayed_gaps + 1 == DELAYED_GAPS_RETRY => {
                AckMode::Quick { ineffective: INEFFECTIVE_MAX - 1 }
            }
            AckMode::Normal { delayed_gaps } if held => AckMode::Normal { delayed_gaps: delayed_gaps + 1 },
            AckMode::Normal { .. } => AckMode::Normal { delayed_gaps: 0 },
            AckMode::Local => AckMode::Local,
        }
    }

    fn bits(self) -> u16 {
        u16::from(match self {
            AckMode::Default { delayed_gaps } => delayed_gaps,
            AckMode::Quick { ineffective } => FIRST_QUICK + ineffective,
            AckMode::Normal { delayed_gaps } => FIRST_NORMAL + delayed_gaps,
            AckMode::Local => LOCAL,
        })
    }
}

impl Connections {
    /// At the end of a turn: acknowledges what was read in it from clients that wait for that, where no output has done so.
    pub(crate) fn send_quick_acks(&mut self, counters: &Counters) {
        while let Some(id) = self.quick_acks.pop() {
            if let Some(socket) = self.sockets.get(id)
                && !socket.ack_detector.has_written()
                && acknowledge(&socket.stream)
            {
                counters.quickacks_sent.add(1);
            }
        }
    }
}

/// Connections read from in this turn whose clients wait for acknowledgements.
pub(crate) type Quick = Vec<ConnectionId>;

#[cfg(target_os = "linux")]
fn acknowledge(stream: &TcpStream) -> bool {
    // Where it fails, the client waits as it would have.
    rustix::net::sockopt::set_tcp_quickack(stream, true).is_ok()
}

/// Elsewhere there is no such option.
#[cfg(not(target_os = "linux"))]
fn acknowledge(_: &TcpStream) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the client is hurried, from its first bytes on and after each of these gaps.
    fn hurried_after(ack_detector: &mut DelayedAckDetector, gaps_ms: &[u64], counters: &Counters) -> Vec<bool> {
        let mut now_ms = 1_000_000;
        let mut found = vec![ack_detector.on_read(now_ms, counters)];
        for gap_ms in gaps_ms {
            now_ms += gap_ms;
            found.push(ack_detector.on_read(now_ms, counters));
        }
        found
    }

    fn after(mut ack_detector: DelayedAckDetector, gaps_ms: &[u64]) -> Vec<bool> {
        hurried_after(&mut ack_detector, gaps_ms, &Counters::default())
    }

    fn quick_acks() -> DelayedAckDetector {
        let mut ack_detector = DelayedAckDetector::default();
        hurried_after(&mut ack_detector, &[42; DELAYED_GAPS_MIN as usize], &Counters::default());
        assert_eq!(ack_detector.ack_mode(), AckMode::Quick { ineffective: 0 });
        ack_detector.on_write();
        ack_detector
    }

    fn left_alone() -> DelayedAckDetector {
        let mut ack_detector = quick_acks();
        hurried_after(&mut ack_detector, &[42; INEFFECTIVE_MAX as usize], &Counters::default());
        assert_eq!(ack_detector.ack_mode(), AckMode::Normal { delayed_gaps: 0 });
        ack_detector.on_write();
        ack_detector
    }

    #[test]
    fn two_gaps_of_a_delayed_acknowledgement_are_enough() {
        assert_eq!(after(DelayedAckDetector::default(), &[43, 41]), [false, false, true]);
        // With a pause of the user between them.
        assert_eq!(after(DelayedAckDetector::default(), &[43, 700, 41]), [false, false, false, true]);
    }

    #[test]
    fn the_limits_are_30_and_60_ms() {
        for (gap_ms, is_hurried) in [(28, false), (30, true), (60, true), (62, false)] {
            assert_eq!(after(DelayedAckDetector::default(), &[gap_ms, gap_ms]), [false, false, is_hurried], "{gap_ms}");
        }
    }

    #[test]
    fn a_client_that_goes_on_at_once_is_never_hurried() {
        assert!(!after(DelayedAckDetector::default(), &[0, 1, 43, 0, 5, 43, 2, 28, 43, 0]).contains(&true));
    }

    #[test]
    fn what_was_answered_shows_nothing() {
        let (mut ack_detector, counters) = (DelayedAckDetector::default(), Counters::default());
        for turn in 0..100 {
            assert!(!ack_detector.on_read(turn * 42, &counters));
            ack_detector.on_write();
        }
        assert_eq!(ack_detector, DelayedAckDetector::default());
    }

    #[test]
    fn a_hurried_client_stays_so_as_long_as_it_helps() {
        assert!(!after(quick_acks(), &[0, 1, 43, 0, 43, 43, 43, 0, 700, 0].repeat(100)).contains(&false));
    }

    #[test]
    fn a_client_with_a_pace_of_its_own_is_left_alone() {
        let (mut ack_detector, counters) = (quick_acks(), Counters::default());
        let found = hurried_after(&mut ack_detector, &[40, 40, 40, 40, 40], &counters);
        assert_eq!(found, [true, true, true, true, false, false]);
        assert_eq!(counters.quickacks_given_up.get(), 1);
    }

    #[test]
    fn it_is_tried_again_once_in_a_while() {
        let (mut ack_detector, counters) = (left_alone(), Counters::default());
        let found = hurried_after(&mut ack_detector, &[40; 10 * (DELAYED_GAPS_RETRY as usize + 1)], &counters);
        assert_eq!(found.iter().filter(|is_hurried| **is_hurried).count(), 10);
        assert_eq!(counters.quickacks_given_up.get(), 10);
    }

    #[test]
    fn one_that_has_come_to_wait_is_hurried_again() {
        let mut ack_detector = left_alone();
        hurried_after(&mut ack_detector, &[43; DELAYED_GAPS_RETRY as usize], &Counters::default());
        ack_detector.on_write();
        assert!(!after(ack_detector, &[0; 100]).contains(&false));
    }

    #[test]
    fn every_phase_and_moment_is_kept() {
        for bits in 0..u16::from(FIRST_NORMAL + DELAYED_GAPS_RETRY) {
            assert_eq!(DelayedAckDetector(bits << TIME_BITS).ack_mode().bits(), bits);
        }
        let counters = Counters::default();
        for now_ms in 0..UNIT_MS << (TIME_BITS + 1) {
            let mut ack_detector = DelayedAckDetector::default();
            ack_detector.on_read(now_ms, &counters);
            assert!(!ack_detector.has_written());
            ack_detector.on_read(now_ms + 44, &counters);
            assert_eq!(ack_detector.ack_mode(), AckMode::Default { delayed_gaps: 1 }, "{now_ms}");
        }
    }
}
