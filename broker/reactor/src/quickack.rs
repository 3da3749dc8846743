//! Clients that do not set `TCP_NODELAY`, and the acknowledgement of TCP for which they wait.
//!
//! Such a client sends PUBACK, say, and then PUBLISH. Its kernel keeps the second packet until ours has acknowledged the first
//! (Nagle's algorithm, RFC 896). Ours waits 40 ms for output that could carry the acknowledgement (RFC 9293, section
//! 3.8.6.3), but nothing answers a PUBACK. So each message takes 40 ms. `TCP_QUICKACK` sends the acknowledgement at once; the
//! kernel does not keep to it, so it is set again after each read that needs it.
//!
//! Only connections that show the pattern get it: a read led to no output, and the next bytes came 30 to 60 ms later. A client
//! that sends every 40 ms by its own choice looks the same, until it is acknowledged at once and still takes as long.

use std::ops::RangeInclusive;

use mio::net::TcpStream;
use tautwire_engine::{ConnectionId, Counters};

use crate::worker::Worker;

/// From a read that led to no output to the next bytes of a client that was held up: the kernel's delay, and the way there and
/// back. Over a longer way, the delay is no more than twice the round trip.
const HELD_MS: RangeInclusive<u64> = 30..=60;
/// So many gaps like that, with none shorter between them, and the client is acknowledged at once.
const SIGNS: u8 = 2;
/// So many although it was acknowledged at once, and it sends at a pace of its own: it is left alone.
const IN_VAIN_MAX: u8 = 4;
/// So many more, and it is tried again, once.
const SIGNS_AGAIN: u8 = 32;

/// Time is kept in units of so many milliseconds,
const UNIT_MS: u64 = 2;
/// and starts again after so many units, about two seconds. A gap that is longer may be taken for a short one; it counts
/// once, and what it leads to corrects itself.
const UNITS: u64 = (1 << TIME_BITS) - 1;
const TIME_BITS: u32 = 10;
const TIME_MASK: u16 = (1 << TIME_BITS) - 1;

/// How a client's bytes come after reads that led to no output; of its last read when, unless output has followed. Small, as
/// each connection has one: the time in the lower bits, 0 once output has followed, and the phase above.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pace(u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Acknowledged as the kernel likes. So many gaps looked as if the client had been held up.
    Watched { signs: u8 },
    /// Acknowledged at once. So many gaps in a row were no shorter for it.
    Hurried { in_vain: u8 },
    /// As the kernel likes again, since it was no use. So many gaps have looked the same since.
    LeftAlone { signs: u8 },
}

/// What the client is found to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// It waits for our acknowledgements, or may do so.
    Waits,
    /// It does not, as far as is known.
    DoesNotWait,
    /// It was believed to, wrongly.
    DidNotWait,
}

impl Pace {
    /// Bytes have come. Says whether they are to be acknowledged at once if the turn leads to no output.
    pub(crate) fn heard(&mut self, now_ms: u64, counters: &Counters) -> bool {
        match self.find(now_ms) {
            Finding::Waits => true,
            Finding::DoesNotWait => false,
            Finding::DidNotWait => {
                counters.quickacks_given_up.add(1);
                false
            }
        }
    }

    /// Output has been written, and with it an acknowledgement.
    pub(crate) fn answered(&mut self) {
        self.0 &= !TIME_MASK;
    }

    fn is_answered(self) -> bool {
        self.0 & TIME_MASK == 0
    }

    fn find(&mut self, now_ms: u64) -> Finding {
        let now = now_ms / UNIT_MS % UNITS;
        let before = self.phase();
        let mut phase = before;
        if !self.is_answered() {
            let last = u64::from(self.0 & TIME_MASK) - 1;
            phase = before.after((now + UNITS - last) % UNITS * UNIT_MS);
        }
        // It fits: less than UNITS.
        self.0 = phase.bits() << TIME_BITS | (now as u16 + 1);
        match (before, phase) {
            (_, Phase::Hurried { .. }) => Finding::Waits,
            (Phase::Hurried { .. }, _) => Finding::DidNotWait,
            _ => Finding::DoesNotWait,
        }
    }

    fn phase(self) -> Phase {
        let bits = (self.0 >> TIME_BITS) as u8;
        match bits {
            0..FIRST_HURRIED => Phase::Watched { signs: bits },
            FIRST_HURRIED..FIRST_LEFT_ALONE => Phase::Hurried { in_vain: bits - FIRST_HURRIED },
            _ => Phase::LeftAlone { signs: bits - FIRST_LEFT_ALONE },
        }
    }
}

const FIRST_HURRIED: u8 = SIGNS;
const FIRST_LEFT_ALONE: u8 = FIRST_HURRIED + IN_VAIN_MAX;
const _: () = assert!(FIRST_LEFT_ALONE + SIGNS_AGAIN <= 1 << (u16::BITS - TIME_BITS));

impl Phase {
    /// The next bytes came so long after a read that led to no output.
    fn after(self, gap_ms: u64) -> Phase {
        if gap_ms > *HELD_MS.end() {
            // It had nothing to send.
            return self;
        }
        let held = HELD_MS.contains(&gap_ms);
        match self {
            Phase::Watched { signs } if held && signs + 1 == SIGNS => Phase::Hurried { in_vain: 0 },
            Phase::Watched { signs } if held => Phase::Watched { signs: signs + 1 },
            Phase::Watched { .. } => Phase::Watched { signs: 0 },
            Phase::Hurried { in_vain } if held && in_vain + 1 == IN_VAIN_MAX => Phase::LeftAlone { signs: 0 },
            Phase::Hurried { in_vain } if held => Phase::Hurried { in_vain: in_vain + 1 },
            Phase::Hurried { .. } => Phase::Hurried { in_vain: 0 },
            Phase::LeftAlone { signs } if held && signs + 1 == SIGNS_AGAIN => {
                Phase::Hurried { in_vain: IN_VAIN_MAX - 1 }
            }
            Phase::LeftAlone { signs } if held => Phase::LeftAlone { signs: signs + 1 },
            Phase::LeftAlone { .. } => Phase::LeftAlone { signs: 0 },
        }
    }

    fn bits(self) -> u16 {
        u16::from(match self {
            Phase::Watched { signs } => signs,
            Phase::Hurried { in_vain } => FIRST_HURRIED + in_vain,
            Phase::LeftAlone { signs } => FIRST_LEFT_ALONE + signs,
        })
    }
}

impl Worker {
    /// At the end of a turn: acknowledges what was read in it from clients that wait for that, where no output has done so.
    pub(crate) fn acknowledge_at_once(&mut self) {
        for id in self.hurried.drain(..) {
            if let Some(socket) = self.sockets.get(id)
                && !socket.pace.is_answered()
                && acknowledge(&socket.stream)
            {
                self.shard.counters().quickacks_sent.add(1);
            }
        }
    }
}

/// Connections read from in this turn whose clients wait for acknowledgements.
pub(crate) type Hurried = Vec<ConnectionId>;

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

    /// What the client is found to do at its first bytes, and after each of these gaps.
    fn findings(pace: &mut Pace, gaps_ms: &[u64]) -> Vec<Finding> {
        let mut now_ms = 1_000_000;
        let mut found = vec![pace.find(now_ms)];
        for gap_ms in gaps_ms {
            now_ms += gap_ms;
            found.push(pace.find(now_ms));
        }
        found
    }

    fn hurried() -> Pace {
        let mut pace = Pace::default();
        findings(&mut pace, &[42; SIGNS as usize]);
        assert_eq!(pace.phase(), Phase::Hurried { in_vain: 0 });
        pace.answered();
        pace
    }

    fn left_alone() -> Pace {
        let mut pace = hurried();
        findings(&mut pace, &[42; IN_VAIN_MAX as usize]);
        assert_eq!(pace.phase(), Phase::LeftAlone { signs: 0 });
        pace.answered();
        pace
    }

    #[test]
    fn two_gaps_of_a_delayed_acknowledgement_are_enough() {
        use Finding::{DoesNotWait, Waits};
        assert_eq!(findings(&mut Pace::default(), &[43, 41]), [DoesNotWait, DoesNotWait, Waits]);
        // With pauses of the user between them.
        assert_eq!(findings(&mut Pace::default(), &[43, 700, 41]), [DoesNotWait, DoesNotWait, DoesNotWait, Waits]);
    }

    #[test]
    fn the_limits_are_30_and_60_ms() {
        for (gap_ms, phase) in [
            (28, Phase::Watched { signs: 0 }),
            (30, Phase::Hurried { in_vain: 0 }),
            (60, Phase::Hurried { in_vain: 0 }),
            (62, Phase::Watched { signs: 0 }),
        ] {
            let mut pace = Pace::default();
            findings(&mut pace, &[gap_ms, gap_ms]);
            assert_eq!(pace.phase(), phase, "{gap_ms}");
        }
    }

    #[test]
    fn a_client_that_goes_on_at_once_is_never_hurried() {
        let found = findings(&mut Pace::default(), &[0, 1, 43, 0, 5, 43, 2, 29, 43, 0]);
        assert!(found.iter().all(|finding| *finding == Finding::DoesNotWait), "{found:?}");
    }

    #[test]
    fn what_was_answered_shows_nothing() {
        let mut pace = Pace::default();
        for turn in 0..100 {
            assert_eq!(pace.find(turn * 42), Finding::DoesNotWait);
            pace.answered();
        }
        assert_eq!(pace, Pace::default());
    }

    #[test]
    fn a_hurried_client_stays_so_as_long_as_it_helps() {
        let found = findings(&mut hurried(), &[0, 1, 43, 0, 43, 43, 43, 0, 5_000, 0].repeat(100));
        assert!(found.iter().all(|finding| *finding == Finding::Waits));
    }

    #[test]
    fn a_client_with_a_pace_of_its_own_is_left_alone() {
        use Finding::{DidNotWait, DoesNotWait, Waits};
        let found = findings(&mut hurried(), &[40, 40, 40, 40, 40]);
        assert_eq!(found, [Waits, Waits, Waits, Waits, DidNotWait, DoesNotWait]);
    }

    #[test]
    fn it_is_tried_again_once_in_a_while() {
        let found = findings(&mut left_alone(), &[40; 330]);
        assert_eq!(found.iter().filter(|finding| **finding == Finding::Waits).count(), 10);
        assert_eq!(found.iter().filter(|finding| **finding == Finding::DidNotWait).count(), 10);
    }

    #[test]
    fn one_that_has_come_to_wait_is_hurried_again() {
        let mut pace = left_alone();
        findings(&mut pace, &[43; SIGNS_AGAIN as usize]);
        let found = findings(&mut pace, &[0; 100]);
        assert!(found.iter().all(|finding| *finding == Finding::Waits), "{found:?}");
    }

    #[test]
    fn every_moment_and_phase_is_kept() {
        for bits in 0..FIRST_LEFT_ALONE + SIGNS_AGAIN {
            let pace = Pace(u16::from(bits) << TIME_BITS);
            assert_eq!(pace.phase().bits(), u16::from(bits));
        }
        for now_ms in 0..UNITS * UNIT_MS * 2 {
            let mut pace = Pace::default();
            pace.find(now_ms);
            assert!(!pace.is_answered());
            pace.find(now_ms + 44);
            assert_eq!(pace.phase(), Phase::Watched { signs: 1 }, "{now_ms}");
        }
    }
}
