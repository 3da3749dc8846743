//! Handshakes of TLS, which take a processor a thousand times as long as a message does.
//!
//! However many clients begin one at once, all others go on: of each turn, steps of handshakes have a share of time. Whoever comes when as many
//! go on as may be is closed before anything is computed for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tautwire_engine::ConnectionId;

/// Time that steps of handshakes may take in one turn. A step that has begun is finished, and one is made at least.
const TURN_SHARE: Duration = Duration::from_millis(1);

/// Those who have sent something and whose handshake goes on.
#[derive(Debug)]
pub(crate) struct Handshakes {
    waiting: VecDeque<ConnectionId>,
    left: Duration,
    max: Arc<AtomicUsize>,
}

impl Handshakes {
    /// None yet; `max` may go on at once.
    pub(crate) fn new(max: Arc<AtomicUsize>) -> Handshakes {
        Handshakes { waiting: VecDeque::new(), left: TURN_SHARE, max }
    }

    /// Whether one more may begin while `begun` go on.
    pub(crate) fn has_room(&self, begun: usize) -> bool {
        begun < self.max.load(Ordering::Relaxed)
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
    pub(crate) fn made(&mut self, step: &Step) {
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
        handshakes.made(&step);
        assert!(handshakes.next().is_none(), "the time is over");
        handshakes.begin_turn();
        let step = handshakes.next().expect("it goes on in the next turn");
        assert_eq!(step.id.index, 1);
        assert!(!handshakes.is_empty());
    }
}
