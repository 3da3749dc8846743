//! Sends quick TCP acknowledgements to clients that do not set `TCP_NODELAY`.
//!
//! Such a client sends PUBACK, for example, and then PUBLISH. Its kernel holds the PUBLISH back until our kernel has acknowledged the
//! PUBACK (Nagle's algorithm, RFC 896). Our kernel waits 40 ms for output that could carry the acknowledgement (RFC 9293, section 3.8.6.3),
//! but nothing answers a PUBACK. So each message takes 40 ms. `TCP_QUICKACK` sends the acknowledgement at once. The option is not
//! permanent, so it is set again after each read that needs it.
//!
//! Only connections that show the pattern get it: a read caused no output, and the next bytes came 30 to 60 ms later. A client that sends
//! every 40 ms on its own looks the same, until it gets quick acknowledgements and still takes as long.

use std::ops::RangeInclusive;

use mio::net::TcpStream;
use tautwire_engine::Counters;

/// The gap between a read that caused no output and the next bytes, if the client was delayed: our kernel's delay and a round trip. If a
/// round trip takes more than 20 ms, the delay is less than two of them, and is ignored.
const DELAYED_ACK_GAP_MS: RangeInclusive<u64> = 30..=60;
/// A client gets quick acknowledgements after this many such gaps without a shorter one between them. Bytes that arrive sooner than our
/// kernel acknowledges were not held back.
const DELAYED_GAPS_MIN: u8 = 2;
/// After this many gaps in a row despite quick acknowledgements, the pace is the client's own, and quick acknowledgements stop.
const INEFFECTIVE_MAX: u8 = 4;
/// After this many more gaps, one more quick acknowledgement tests whether it helps now.
const DELAYED_GAPS_RETRY: u8 = 32;

/// The unit in which the time is stored.
const UNIT_MS: u64 = 2;
/// The bits of the stored time, which wraps around after two seconds. A longer gap may be taken for a shorter one, which costs a call or
/// two.
const TIME_BITS: u32 = 10;
const TIME_MASK: u16 = (1 << TIME_BITS) - 1;

/// The pace of a client, and the time of its last read. Each connection has one, so it is small: the time is in the lower bits, 0 once
/// output has followed the read, and the mode is in the upper bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DelayedAckDetector(u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckMode {
    /// The kernel decides. `delayed_gaps` gaps looked as if the client had been delayed.
    Default { delayed_gaps: u8 },
    /// Quick acknowledgements. `ineffective` gaps in a row were not shorter.
    Quick { ineffective: u8 },
    /// The kernel decides again, because quick acknowledgements did not help. `delayed_gaps` gaps have looked the same since.
    Normal { delayed_gaps: u8 },
    /// The connection does not use TCP.
    Local,
}

impl DelayedAckDetector {
    /// The detector of a client on a Unix socket, where nothing waits for acknowledgements.
    pub(crate) const LOCAL: DelayedAckDetector = DelayedAckDetector((LOCAL as u16) << TIME_BITS);

    /// Records a read. Returns whether to send a quick acknowledgement if the turn causes no output.
    #[inline]
    pub(crate) fn on_read(&mut self, now_ms: u64, counters: &Counters) -> bool {
        let now = units(now_ms);
        if self.has_written() {
            // True for most reads of most clients. It reveals nothing about what they wait for.
            self.0 |= now;
            return self.is_quick();
        }
        let was_hurried = self.is_quick();
        self.update(now);
        if was_hurried && !self.is_quick() {
            counters.quickacks_disabled.add(1);
        }
        self.is_quick()
    }

    /// Records a write, which carries the acknowledgement.
    pub(crate) fn on_write(&mut self) {
        self.0 &= !TIME_MASK;
    }

    pub(super) fn has_written(self) -> bool {
        self.0 & TIME_MASK == 0
    }

    fn is_quick(self) -> bool {
        matches!(self.ack_mode(), AckMode::Quick { .. })
    }

    /// Handles a read that follows another one without output.
    #[inline(never)]
    fn update(&mut self, now: u16) {
        let gap = now.wrapping_sub(self.0) & TIME_MASK;
        let mode = self.ack_mode().after(u64::from(gap) * UNIT_MS);
        self.0 = mode.bits() << TIME_BITS | now;
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

/// 0 is reserved; one unit does not matter.
fn units(now_ms: u64) -> u16 {
    ((now_ms / UNIT_MS) as u16 & TIME_MASK).max(1)
}

const FIRST_QUICK: u8 = DELAYED_GAPS_MIN;
const FIRST_NORMAL: u8 = FIRST_QUICK + INEFFECTIVE_MAX;
const LOCAL: u8 = FIRST_NORMAL + DELAYED_GAPS_RETRY;
const _: () = assert!(LOCAL < 1 << (u16::BITS - TIME_BITS));

impl AckMode {
    /// Returns the mode after a gap that followed a read without output.
    fn after(self, gap_ms: u64) -> AckMode {
        if gap_ms > *DELAYED_ACK_GAP_MS.end() {
            // The client had nothing to send.
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

/// Acknowledges what was read so far. Returns whether that succeeded.
#[cfg(target_os = "linux")]
pub(super) fn acknowledge(stream: &TcpStream) -> bool {
    // If it fails, the client waits as without it.
    rustix::net::sockopt::set_tcp_quickack(stream, true).is_ok()
}

/// Other systems do not have this option.
#[cfg(not(target_os = "linux"))]
pub(super) fn acknowledge(_: &TcpStream) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the client gets quick acknowledgements, after its first bytes and after each of these gaps.
    fn quick_acks_after(ack_detector: &mut DelayedAckDetector, gaps_ms: &[u64], counters: &Counters) -> Vec<bool> {
        let mut now_ms = 1_000_000;
        let mut found = vec![ack_detector.on_read(now_ms, counters)];
        for gap_ms in gaps_ms {
            now_ms += gap_ms;
            found.push(ack_detector.on_read(now_ms, counters));
        }
        found
    }

    fn after(mut ack_detector: DelayedAckDetector, gaps_ms: &[u64]) -> Vec<bool> {
        quick_acks_after(&mut ack_detector, gaps_ms, &Counters::default())
    }

    fn quick_acks() -> DelayedAckDetector {
        let mut ack_detector = DelayedAckDetector::default();
        quick_acks_after(&mut ack_detector, &[42; DELAYED_GAPS_MIN as usize], &Counters::default());
        assert_eq!(ack_detector.ack_mode(), AckMode::Quick { ineffective: 0 });
        ack_detector.on_write();
        ack_detector
    }

    fn normal_mode() -> DelayedAckDetector {
        let mut ack_detector = quick_acks();
        quick_acks_after(&mut ack_detector, &[42; INEFFECTIVE_MAX as usize], &Counters::default());
        assert_eq!(ack_detector.ack_mode(), AckMode::Normal { delayed_gaps: 0 });
        ack_detector.on_write();
        ack_detector
    }

    #[test]
    fn two_delayed_acknowledgement_gaps_are_sufficient() {
        assert_eq!(after(DelayedAckDetector::default(), &[43, 41]), [false, false, true]);
        // With a pause of the user in between.
        assert_eq!(after(DelayedAckDetector::default(), &[43, 700, 41]), [false, false, false, true]);
    }

    #[test]
    fn the_limits_are_30_and_60_ms() {
        for (gap_ms, is_hurried) in [(28, false), (30, true), (60, true), (62, false)] {
            assert_eq!(after(DelayedAckDetector::default(), &[gap_ms, gap_ms]), [false, false, is_hurried], "{gap_ms}");
        }
    }

    #[test]
    fn a_client_that_continues_at_once_never_uses_quickack() {
        assert!(!after(DelayedAckDetector::default(), &[0, 1, 43, 0, 5, 43, 2, 28, 43, 0]).contains(&true));
    }

    #[test]
    fn a_response_is_no_evidence_of_delay() {
        let (mut ack_detector, counters) = (DelayedAckDetector::default(), Counters::default());
        for turn in 0..100 {
            assert!(!ack_detector.on_read(turn * 42, &counters));
            ack_detector.on_write();
        }
        assert_eq!(ack_detector, DelayedAckDetector::default());
    }

    #[test]
    fn quickack_stays_enabled_while_it_helps() {
        assert!(!after(quick_acks(), &[0, 1, 43, 0, 43, 43, 43, 0, 700, 0].repeat(100)).contains(&false));
    }

    #[test]
    fn a_client_with_its_own_pace_does_not_use_quickack() {
        let (mut ack_detector, counters) = (quick_acks(), Counters::default());
        let found = quick_acks_after(&mut ack_detector, &[40, 40, 40, 40, 40], &counters);
        assert_eq!(found, [true, true, true, true, false, false]);
        assert_eq!(counters.quickacks_disabled.get(), 1);
    }

    #[test]
    fn quickack_is_retried_occasionally() {
        let (mut ack_detector, counters) = (normal_mode(), Counters::default());
        let found = quick_acks_after(&mut ack_detector, &[40; 10 * (DELAYED_GAPS_RETRY as usize + 1)], &counters);
        assert_eq!(found.iter().filter(|is_hurried| **is_hurried).count(), 10);
        assert_eq!(counters.quickacks_disabled.get(), 10);
    }

    #[test]
    fn quickack_is_enabled_again_for_a_client_that_waits() {
        let mut ack_detector = normal_mode();
        quick_acks_after(&mut ack_detector, &[43; DELAYED_GAPS_RETRY as usize], &Counters::default());
        ack_detector.on_write();
        assert!(!after(ack_detector, &[0; 100]).contains(&false));
    }

    #[test]
    fn every_phase_and_timestamp_is_stored() {
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
