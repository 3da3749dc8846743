//! Handshakes of TLS, which take a processor a thousand times as long as a message does.
//!
//! However many clients begin one at once, all others go on: of each turn, steps of handshakes have a share of time. Whoever comes when as many
//! go on as may be takes the place of one whose client has been silent for long, and is closed before anything is computed for it where there is
//! none: clients that begin a handshake and say a byte of it now and then keep nobody out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tautwire_engine::ConnectionId;

/// Time that steps of handshakes may take in one turn. A step that has begun is finished, and one is made at least.
const TURN_SHARE: Duration = Duration::from_millis(1);

/// So long a client has for each of its parts of a handshake before another takes its place. When there is room it has as long as for CONNECT.
const IDLE_HANDSHAKE_MS: u64 = 1_000;

/// Those whose handshake goes on.
#[derive(Debug)]
pub(crate) struct Handshakes {
    /// Those who have sent something.
    waiting: VecDeque<ConnectionId>,
    left: Duration,
    max: Arc<AtomicUsize>,
    /// Those who have begun, and since when their part was due, as far as was known when they were put here. Some are through.
    begun: VecDeque<(u64, ConnectionId)>,
}

/// What a handshake waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HandshakeWait {
    /// The client's part is due since then. A piece of it changes nothing.
    pub(crate) since_ms: u64,
    /// It has sent something that has not been looked at.
    pub(crate) has_input: bool,
}

impl Handshakes {
    /// None yet; `max` may go on at once.
    pub(crate) fn new(max: Arc<AtomicUsize>) -> Handshakes {
        Handshakes { waiting: VecDeque::new(), left: TURN_SHARE, max, begun: VecDeque::new() }
    }

    /// Whether one more may begin while `begun` go on.
    pub(crate) fn has_room(&self, begun: usize) -> bool {
        begun < self.max.load(Ordering::Relaxed)
    }

    /// One more has begun. `is_handshaking` tells of those before whether they still are in it.
    pub(crate) fn begin(
        &mut self,
        id: ConnectionId,
        now_ms: u64,
        mut is_handshaking: impl FnMut(ConnectionId) -> bool,
    ) {
        // Of two for each that may go on, one is through: what this takes is little for each of them.
        if self.begun.len() >= self.max.load(Ordering::Relaxed).saturating_mul(2) {
            self.begun.retain(|(_, id)| is_handshaking(*id));
        }
        self.begun.push_back((now_ms, id));
    }

    /// Frees what those took who are through.
    pub(crate) fn shrink(&mut self, mut is_handshaking: impl FnMut(ConnectionId) -> bool) {
        self.begun.retain(|(_, id)| is_handshaking(*id));
        self.begun.shrink_to_fit();
        self.waiting.shrink_to_fit();
    }

    /// One whose client has been silent for too long, so that it must make room. `due` tells what a handshake waits for, unless it is over.
    pub(crate) fn find_idle(
        &mut self,
        now_ms: u64,
        mut due: impl FnMut(ConnectionId) -> Option<HandshakeWait>,
    ) -> Option<ConnectionId> {
        for _ in 0..self.begun.len() {
            let (put_ms, id) = *self.begun.front()?;
            if now_ms.saturating_sub(put_ms) < IDLE_HANDSHAKE_MS {
                // All behind it have been put here later.
                return None;
            }
            self.begun.pop_front();
            match due(id) {
                None => {}
                Some(HandshakeWait { since_ms, has_input: false })
                    if now_ms.saturating_sub(since_ms) >= IDLE_HANDSHAKE_MS =>
                {
                    return Some(id);
                }
                // It is looked at again when it has had its time.
                Some(_) => self.begun.push_back((now_ms, id)),
            }
        }
        None
    }

    pub(crate) fn begin_turn(&mut self) {
        self.left = TURN_SHARE;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// This one has sent something.
    pub(crate) fn push(&mut self, id: ConnectionId) {
        self.waiting.push_back(id);
    }

    /// The next one, if this turn has time for it.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if self.left.is_zero() {
            return None;
        }
        self.waiting.pop_front().map(|id| Step { id, begun: Instant::now() })
    }

    /// A step has been made.
    pub(crate) fn record_step(&mut self, step: &Step) {
        self.left = self.left.saturating_sub(step.begun.elapsed());
    }
}

/// A step of a handshake, and since when it is made.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) id: ConnectionId,
    begun: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_makes_one_step_at_least_and_then_as_many_as_it_has_time_for() {
        let mut handshakes = Handshakes::new(Arc::new(AtomicUsize::new(2)));
        assert!(handshakes.has_room(1) && !handshakes.has_room(2));
        for index in 0..3 {
            handshakes.push(ConnectionId { index, generation: 0 });
        }
        let mut step = handshakes.next().expect("one waits");
        assert_eq!(step.id.index, 0);
        step.begun -= TURN_SHARE;
        handshakes.record_step(&step);
        assert!(handshakes.next().is_none(), "the time is over");
        handshakes.begin_turn();
        let step = handshakes.next().expect("it goes on in the next turn");
        assert_eq!(step.id.index, 1);
        assert!(!handshakes.is_empty());
    }

    #[test]
    fn one_whose_client_is_silent_for_long_makes_room() {
        let id = |index| ConnectionId { index, generation: 0 };
        let mut handshakes = Handshakes::new(Arc::new(AtomicUsize::new(4)));
        for index in 0..4 {
            handshakes.begin(id(index), 10_000 + u64::from(index), |_| true);
        }
        let silent_since = |since_ms| Some(HandshakeWait { since_ms, has_input: false });
        assert_eq!(handshakes.find_idle(10_999, |_| silent_since(10_000)), None, "they have a second");
        // The first is through, what the second has sent waits here, and the third has been answered a moment ago.
        let due = |asked: ConnectionId| match asked.index {
            0 => None,
            1 => Some(HandshakeWait { since_ms: 10_001, has_input: true }),
            2 => silent_since(11_000),
            _ => silent_since(10_003),
        };
        assert_eq!(handshakes.find_idle(11_100, due), Some(id(3)));
        assert_eq!(handshakes.find_idle(11_100, due), None);
        assert_eq!(handshakes.find_idle(12_100, due), Some(id(2)), "nor has it said more since");
    }

    #[test]
    fn those_who_are_through_are_forgotten() {
        let mut handshakes = Handshakes::new(Arc::new(AtomicUsize::new(4)));
        for index in 0..1_000 {
            handshakes.begin(ConnectionId { index, generation: 0 }, 0, |id| id.index % 100 == 0);
        }
        assert!(handshakes.begun.len() <= 8 + 10, "{}", handshakes.begun.len());
    }
}
