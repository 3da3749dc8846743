//! Schedules TLS handshakes, which take a thousand times as much processor time as a message.
//!
//! However many clients start one at once, all others make progress: handshake steps get a limited share of each turn. When the limit of
//! concurrent handshakes is reached, a new one replaces one whose client has been silent for long; if there is none, the new connection is
//! closed before anything is computed for it. So clients that start a handshake and send a byte now and then cannot block others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tautwire_engine::ConnectionId;

/// The time for handshake steps in one turn. A started step is finished, and at least one is made.
const TURN_SHARE: Duration = Duration::from_millis(1);

/// How long a client may take for each of its handshake messages before a new handshake may replace it. Otherwise it has as long as for
/// CONNECT.
const IDLE_HANDSHAKE_MS: u64 = 1_000;

/// The handshakes in progress on a thread.
#[derive(Debug)]
pub(crate) struct Handshakes {
    /// Handshakes with unprocessed input.
    waiting: VecDeque<ConnectionId>,
    left: Duration,
    max: Arc<AtomicUsize>,
    /// Handshakes with the time since which they wait for the client, as known when they were added. Some are finished.
    begun: VecDeque<(u64, ConnectionId)>,
}

/// What a handshake waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HandshakeWait {
    /// The time since which the client's next message is due. A partial message does not change it.
    pub(crate) since_ms: u64,
    /// The client has sent data that is not processed.
    pub(crate) has_input: bool,
}

impl Handshakes {
    /// Creates an empty list; at most `max` handshakes may be in progress.
    pub(crate) fn new(max: Arc<AtomicUsize>) -> Handshakes {
        Handshakes { waiting: VecDeque::new(), left: TURN_SHARE, max, begun: VecDeque::new() }
    }

    /// Whether one more may begin while `begun` are in progress.
    pub(crate) fn has_room(&self, begun: usize) -> bool {
        begun < self.max.load(Ordering::Relaxed)
    }

    /// Adds a handshake. `is_handshaking` returns whether an earlier one is still in progress.
    pub(crate) fn begin(
        &mut self,
        id: ConnectionId,
        now_ms: u64,
        mut is_handshaking: impl FnMut(ConnectionId) -> bool,
    ) {
        // At twice the limit, at least half of the entries are finished, so the amortized cost is small.
        if self.begun.len() >= self.max.load(Ordering::Relaxed).saturating_mul(2) {
            self.begun.retain(|(_, id)| is_handshaking(*id));
        }
        self.begun.push_back((now_ms, id));
    }

    /// Removes finished handshakes and frees memory.
    pub(crate) fn shrink(&mut self, mut is_handshaking: impl FnMut(ConnectionId) -> bool) {
        self.begun.retain(|(_, id)| is_handshaking(*id));
        self.begun.shrink_to_fit();
        self.waiting.shrink_to_fit();
    }

    /// Finds a handshake whose client was silent for too long, so that it can be replaced. `due` returns what a handshake waits for, unless
    /// it is finished.
    pub(crate) fn find_idle(
        &mut self,
        now_ms: u64,
        mut due: impl FnMut(ConnectionId) -> Option<HandshakeWait>,
    ) -> Option<ConnectionId> {
        for _ in 0..self.begun.len() {
            let (put_ms, id) = *self.begun.front()?;
            if now_ms.saturating_sub(put_ms) < IDLE_HANDSHAKE_MS {
                // All later entries are newer.
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
                // Check it again after its time.
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

    /// Adds a handshake with new input.
    pub(crate) fn push(&mut self, id: ConnectionId) {
        self.waiting.push_back(id);
    }

    /// Returns the next step, if this turn has time for it.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if self.left.is_zero() {
            return None;
        }
        self.waiting.pop_front().map(|id| Step { id, begun: Instant::now() })
    }

    /// Records that a step was made.
    pub(crate) fn record_step(&mut self, step: &Step) {
        self.left = self.left.saturating_sub(step.begun.elapsed());
    }
}

/// A step of a handshake, with its start time.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) id: ConnectionId,
    begun: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_makes_at_least_one_handshake_step() {
        let mut handshakes = Handshakes::new(Arc::new(AtomicUsize::new(2)));
        assert!(handshakes.has_room(1) && !handshakes.has_room(2));
        for index in 0..3 {
            handshakes.push(ConnectionId { index, generation: 0 });
        }
        let mut step = handshakes.next().expect("one is pending");
        assert_eq!(step.id.index, 0);
        step.begun -= TURN_SHARE;
        handshakes.record_step(&step);
        assert!(handshakes.next().is_none(), "no time left");
        handshakes.begin_turn();
        let step = handshakes.next().expect("the next turn continues");
        assert_eq!(step.id.index, 1);
        assert!(!handshakes.is_empty());
    }

    #[test]
    fn a_silent_handshake_is_evicted() {
        let id = |index| ConnectionId { index, generation: 0 };
        let mut handshakes = Handshakes::new(Arc::new(AtomicUsize::new(4)));
        for index in 0..4 {
            handshakes.begin(id(index), 10_000 + u64::from(index), |_| true);
        }
        let silent_since = |since_ms| Some(HandshakeWait { since_ms, has_input: false });
        assert_eq!(handshakes.find_idle(10_999, |_| silent_since(10_000)), None, "each client has a second");
        // The first is finished, the second has unprocessed input, and the third was answered a moment ago.
        let due = |id: ConnectionId| match id.index {
            0 => None,
            1 => Some(HandshakeWait { since_ms: 10_001, has_input: true }),
            2 => silent_since(11_000),
            _ => silent_since(10_003),
        };
        assert_eq!(handshakes.find_idle(11_100, due), Some(id(3)));
        assert_eq!(handshakes.find_idle(11_100, due), None);
        assert_eq!(handshakes.find_idle(12_100, due), Some(id(2)), "it has sent nothing since");
    }

    #[test]
    fn completed_handshakes_are_removed() {
        let mut handshakes = Handshakes::new(Arc::new(AtomicUsize::new(4)));
        for index in 0..1_000 {
            handshakes.begin(ConnectionId { index, generation: 0 }, 0, |id| id.index % 100 == 0);
        }
        assert!(handshakes.begun.len() <= 8 + 10, "{}", handshakes.begun.len());
    }
}
