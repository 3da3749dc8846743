//! Searches for the retained messages that subscriptions are owed. Each turn has so many steps for all of them; what is not
//! done by then goes on in the next turn, so that nobody waits for another's wildcards.

mod steps;

use std::collections::VecDeque;

use tautwire_message::Format;
use tautwire_router::{Exchange, Progress, Scan, SessionKey};

use crate::connection::connections::Replay;
use crate::index::ConnectionId;

/// Steps of all searches of a shard in one turn: less than half a millisecond.
const TURN_STEPS: u64 = 16 << 10;

/// Bytes of retained messages that searches give to clients in one turn, and about what each message takes besides its payload. A
/// turn with more would keep others waiting.
const TURN_MAX_BYTES: usize = 256 << 10;

const MESSAGE_BYTES: usize = 128;

/// To look at a byte of a payload and turn it into another format takes as long as to give so many to a client: it may
/// become forty times as long.
const TRANSCODE_FACTOR: usize = 16;

/// Steps for one client at a time.
pub(crate) const CLIENT_STEPS: u64 = 2 << 10;

/// Searches that have not come to their end.
#[derive(Debug)]
pub(crate) struct Scans {
    /// Steps left for this turn.
    left: u64,
    /// Bytes left for this turn.
    left_bytes: usize,
    /// Some have been used, or searches wait.
    is_active: bool,
    /// Connections whose first replay waits for more steps. Each is here once.
    waiting: VecDeque<ConnectionId>,
    /// What sessions were owed whose connection has gone.
    settling: VecDeque<(SessionKey, Replay)>,
}

impl Default for Scans {
    fn default() -> Self {
        Scans {
            left: TURN_STEPS,
            left_bytes: TURN_MAX_BYTES,
            is_active: false,
            waiting: VecDeque::new(),
            settling: VecDeque::new(),
        }
    }
}

impl Scans {
    /// Goes on with `scan`, with steps of this turn and of `portion`.
    pub(crate) fn next(&mut self, exchange: &Exchange, scan: &mut Scan, portion: &mut u64) -> Progress {
        if self.left_bytes == 0 {
            self.is_active = true;
            return Progress::Paused;
        }
        let allowed = self.left.min(*portion);
        let mut steps = allowed;
        let progress = exchange.next_retained(scan, &mut steps);
        self.left -= allowed - steps;
        self.is_active = true;
        *portion -= allowed - steps;
        progress
    }
}

impl Scans {
    /// A message that was found goes to its client.
    #[inline]
    pub(crate) fn spend(&mut self, payload_bytes: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(MESSAGE_BYTES + payload_bytes);
    }

    /// A payload is turned into another format, whatever comes of it.
    pub(crate) fn spend_on_transcoding(&mut self, payload_bytes: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(payload_bytes.saturating_mul(TRANSCODE_FACTOR));
    }

    /// What a session is owed goes on to be put into its queue.
    pub(crate) fn continue_settling(&mut self, owed: (SessionKey, Replay)) {
        self.settling.push_back(owed);
        self.is_active = true;
    }

    /// A session is owed nothing more for a subscription that it has given up.
    pub(crate) fn cancel_replay(&mut self, session: &SessionKey, filter: &str, format: Option<Format>) {
        self.settling.retain(|(key, owed)| key != session || owed.scan.filter() != filter || owed.format != format);
    }
}
