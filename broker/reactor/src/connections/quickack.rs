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
const HELD_MS: RangeInclusive<u64> = 30..=60;
/// A client is acknowledged at once after this many such gaps with no shorter one between them: bytes that come sooner than our
/// kernel acknowledges were not kept back.
const SIGNS: u8 = 2;
/// After this many in a row although it was acknowledged at once, the pace is the client's own, and it is left alone.
const IN_VAIN_MAX: u8 = 4;
/// After this many more, one more is acknowledged at once, to see whether that helps now.
const SIGNS_AGAIN: u8 = 32;

/// The unit in which a moment is kept.
const UNIT_MS: u64 = 2;
/// The bits in which it is kept: time starts again after two seconds. A gap longer than that may be taken for a shorter one,
/// which costs a call or two.
const TIME_BITS: u32 = 10;
const TIME_MASK: u16 = (1 << TIME_BITS) - 1;

/// What is known of a client's pace, and when it was last read from. Each connection has one, so it is small: the moment is in the
/// lower bits, 0 once output has followed the read, and the standing is above.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pace(u16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Acknowledged as the kernel sees fit. `signs` gaps looked as if the client had been held up.
    Watched { signs: u8 },
    /// Acknowledged at once. `in_vain` gaps in a row were no shorter for it.
    Hurried { in_vain: u8 },
    /// Acknowledged as the kernel sees fit again, since the rest did not help. `signs` gaps have looked the same since.
    LeftAlone { signs: u8 },
    /// There is no TCP.
    Local,
}

impl Pace {
    /// Of a client at a Unix socket, where nothing waits for acknowledgements.
    pub(crate) const LOCAL: Pace = Pace((LOCAL as u16) << TIME_BITS);

    /// Bytes have come. Says whether they are to be acknowledged at once if the turn leads to no output.
    #[inline]
    pub(crate) fn heard(&mut self, now_ms: u64, counters: &Counters) -> bool {
        let now = units(now_ms);
        if self.is_answered() {
            // True of most reads of most clients. It shows nothing of what they wait for.
            self.0 |= now;
            return self.is_hurried();
        }
        let was_hurried = self.is_hurried();
        self.learn(now);
        if was_hurried && !self.is_hurried() {
            counters.quickacks_given_up.add(1);
        }
        self.is_hurried()
    }

    /// Output has been written, and with it an acknowledgement.
    pub(crate) fn answered(&mut self) {
        self.0 &= !TIME_MASK;
    }

    fn is_answered(self) -> bool {
        self.0 & TIME_MASK == 0
    }

    fn is_hurried(self) -> bool {
        matches!(self.standing(), Standing::Hurried { .. })
    }

    /// Bytes have come, and no output has followed those before.
    #[inline(never)]
    fn learn(&mut self, now: u16) {
        let gap = now.wrapping_sub(self.0) & TIME_MASK;
        let standing = self.standing().after(u64::from(gap) * UNIT_MS);
        self.0 = standing.bits() << TIME_BITS | now;
    }

    fn standing(self) -> Standing {
        let bits = (self.0 >> TIME_BITS) as u8;
        match bits {
            0..FIRST_HURRIED => Standing::Watched { signs: bits },
            FIRST_HURRIED..FIRST_LEFT_ALONE => Standing::Hurried { in_vain: bits - FIRST_HURRIED },
            LOCAL => Standing::Local,
            _ => Standing::LeftAlone { signs: bits - FIRST_LEFT_ALONE },
        }
    }
}

/// 0 has a meaning of its own; a unit more or less has none.
fn units(now_ms: u64) -> u16 {
    ((now_ms / UNIT_MS) as u16 & TIME_MASK).max(1)
}

const FIRST_HURRIED: u8 = SIGNS;
const FIRST_LEFT_ALONE: u8 = FIRST_HURRIED + IN_VAIN_MAX;
const LOCAL: u8 = FIRST_LEFT_ALONE + SIGNS_AGAIN;
const _: () = assert!(LOCAL < 1 << (u16::BITS - TIME_BITS));

impl Standing {
    /// The next bytes came so long after a read that led to no output.
    fn after(self, gap_ms: u64) -> Standing {
        if gap_ms > *HELD_MS.end() {
            // It had nothing to send.
            return self;
        }
        let held = HELD_MS.contains(&gap_ms);
        match self {
            Standing::Watched { signs } if held && signs + 1 == SIGNS => Standing::Hurried { in_vain: 0 },
            Standing::Watched { signs } if held => Standing::Watched { signs: signs + 1 },
            Standing::Watched { .. } => Standing::Watched { signs: 0 },
            Standing::Hurried { in_vain } if held && in_vain + 1 == IN_VAIN_MAX => Standing::LeftAlone { signs: 0 },
            Standing::Hurried { in_vain } if held => Standing::Hurried { in_vain: in_vain + 1 },
            Standing::Hurried { .. } => Standing::Hurried { in_vain: 0 },
            Standing::LeftAlone { signs } if held && signs + 1 == SIGNS_AGAIN => {
                Standing::Hurried { in_vain: IN_VAIN_MAX - 1 }
            }
            Standing::LeftAlone { signs } if held => Standing::LeftAlone { signs: signs + 1 },
            Standing::LeftAlone { .. } => Standing::LeftAlone { signs: 0 },
            Standing::Local => Standing::Local,
        }
    }

    fn bits(self) -> u16 {
        u16::from(match self {
            Standing::Watched { signs } => signs,
            Standing::Hurried { in_vain } => FIRST_HURRIED + in_vain,
            Standing::LeftAlone { signs } => FIRST_LEFT_ALONE + signs,
            Standing::Local => LOCAL,
        })
    }
}

impl Connections {
    /// At the end of a turn: acknowledges what was read in it from clients that wait for that, where no output has done so.
    pub(crate) fn acknowledge_at_once(&mut self, counters: &Counters) {
        while let Some(id) = self.hurried.pop() {
            if let Some(socket) = self.sockets.get(id)
                && !socket.pace.is_answered()
                && acknowledge(&socket.stream)
            {
                counters.quickacks_sent.add(1);
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

    /// Whether the client is hurried, from its first bytes on and after each of these gaps.
    fn hurried_after(pace: &mut Pace, gaps_ms: &[u64], counters: &Counters) -> Vec<bool> {
        let mut now_ms = 1_000_000;
        let mut found = vec![pace.heard(now_ms, counters)];
        for gap_ms in gaps_ms {
            now_ms += gap_ms;
            found.push(pace.heard(now_ms, counters));
        }
        found
    }

    fn after(mut pace: Pace, gaps_ms: &[u64]) -> Vec<bool> {
        hurried_after(&mut pace, gaps_ms, &Counters::default())
    }

    fn hurried() -> Pace {
        let mut pace = Pace::default();
        hurried_after(&mut pace, &[42; SIGNS as usize], &Counters::default());
        assert_eq!(pace.standing(), Standing::Hurried { in_vain: 0 });
        pace.answered();
        pace
    }

    fn left_alone() -> Pace {
        let mut pace = hurried();
        hurried_after(&mut pace, &[42; IN_VAIN_MAX as usize], &Counters::default());
        assert_eq!(pace.standing(), Standing::LeftAlone { signs: 0 });
        pace.answered();
        pace
    }

    #[test]
    fn two_gaps_of_a_delayed_acknowledgement_are_enough() {
        assert_eq!(after(Pace::default(), &[43, 41]), [false, false, true]);
        // With a pause of the user between them.
        assert_eq!(after(Pace::default(), &[43, 700, 41]), [false, false, false, true]);
    }

    #[test]
    fn the_limits_are_30_and_60_ms() {
        for (gap_ms, is_hurried) in [(28, false), (30, true), (60, true), (62, false)] {
            assert_eq!(after(Pace::default(), &[gap_ms, gap_ms]), [false, false, is_hurried], "{gap_ms}");
        }
    }

    #[test]
    fn a_client_that_goes_on_at_once_is_never_hurried() {
        assert!(!after(Pace::default(), &[0, 1, 43, 0, 5, 43, 2, 28, 43, 0]).contains(&true));
    }

    #[test]
    fn what_was_answered_shows_nothing() {
        let (mut pace, counters) = (Pace::default(), Counters::default());
        for turn in 0..100 {
            assert!(!pace.heard(turn * 42, &counters));
            pace.answered();
        }
        assert_eq!(pace, Pace::default());
    }

    #[test]
    fn a_hurried_client_stays_so_as_long_as_it_helps() {
        assert!(!after(hurried(), &[0, 1, 43, 0, 43, 43, 43, 0, 700, 0].repeat(100)).contains(&false));
    }

    #[test]
    fn a_client_with_a_pace_of_its_own_is_left_alone() {
        let (mut pace, counters) = (hurried(), Counters::default());
        let found = hurried_after(&mut pace, &[40, 40, 40, 40, 40], &counters);
        assert_eq!(found, [true, true, true, true, false, false]);
        assert_eq!(counters.quickacks_given_up.get(), 1);
    }

    #[test]
    fn it_is_tried_again_once_in_a_while() {
        let (mut pace, counters) = (left_alone(), Counters::default());
        let found = hurried_after(&mut pace, &[40; 10 * (SIGNS_AGAIN as usize + 1)], &counters);
        assert_eq!(found.iter().filter(|is_hurried| **is_hurried).count(), 10);
        assert_eq!(counters.quickacks_given_up.get(), 10);
    }

    #[test]
    fn one_that_has_come_to_wait_is_hurried_again() {
        let mut pace = left_alone();
        hurried_after(&mut pace, &[43; SIGNS_AGAIN as usize], &Counters::default());
        pace.answered();
        assert!(!after(pace, &[0; 100]).contains(&false));
    }

    #[test]
    fn every_phase_and_moment_is_kept() {
        for bits in 0..u16::from(FIRST_LEFT_ALONE + SIGNS_AGAIN) {
            assert_eq!(Pace(bits << TIME_BITS).standing().bits(), bits);
        }
        let counters = Counters::default();
        for now_ms in 0..UNIT_MS << (TIME_BITS + 1) {
            let mut pace = Pace::default();
            pace.heard(now_ms, &counters);
            assert!(!pace.is_answered());
            pace.heard(now_ms + 44, &counters);
            assert_eq!(pace.standing(), Standing::Watched { signs: 1 }, "{now_ms}");
        }
    }
}
