//! Scans for the retained messages that match new subscriptions.
//!
//! Each turn has a limited number of steps for all scans; unfinished ones continue in the next turn. So a client does not wait for
//! the wildcards of another.

mod steps;

use std::collections::VecDeque;

use tautwire_message::Format;
use tautwire_router::{Exchange, Progress, Scan, SessionKey};

use crate::connection::connections::Replay;
use crate::index::ConnectionId;

/// Steps of all scans of a shard in one turn: less than half a millisecond.
const TURN_STEPS: u64 = 16 << 10;

/// Bytes of retained messages that are sent to clients in one turn. More would delay other clients.
const TURN_MAX_BYTES: usize = 256 << 10;

/// The approximate cost of each message besides its payload.
const MESSAGE_BYTES: usize = 128;

/// Transcoding one byte of a payload costs as much as sending this many: the result may be forty times as long.
const TRANSCODE_FACTOR: usize = 16;

/// Steps of one client before another has its turn.
pub(crate) const CLIENT_STEPS: u64 = 2 << 10;

/// Unfinished scans.
#[derive(Debug)]
pub(crate) struct Scans {
    /// Steps left in this turn.
    left: u64,
    /// Bytes left in this turn.
    left_bytes: usize,
    /// Steps were used in this turn, or scans are waiting.
    is_active: bool,
    /// Connections whose first replay waits for more steps, without duplicates.
    waiting: VecDeque<ConnectionId>,
    /// Replays of sessions that are now offline. Their messages go to the session's queue.
    offline_replays: VecDeque<(SessionKey, Replay)>,
}

impl Default for Scans {
    fn default() -> Self {
        Scans {
            left: TURN_STEPS,
            left_bytes: TURN_MAX_BYTES,
            is_active: false,
            waiting: VecDeque::new(),
            offline_replays: VecDeque::new(),
        }
    }
}

impl Scans {
    /// Continues `scan`, limited by the steps of this turn and of `portion`.
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
    /// Counts a message that is sent to its client.
    #[inline]
    pub(crate) fn spend(&mut self, payload_bytes: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(MESSAGE_BYTES + payload_bytes);
    }

    /// Counts a payload that is transcoded, even if that fails.
    pub(crate) fn spend_on_transcoding(&mut self, payload_bytes: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(payload_bytes.saturating_mul(TRANSCODE_FACTOR));
    }

    /// Continues to move the replay of an offline session to its queue.
    pub(crate) fn resume_replay(&mut self, replay: (SessionKey, Replay)) {
        self.offline_replays.push_back(replay);
        self.is_active = true;
    }

    /// Cancels the replays for a subscription that a session has ended.
    pub(crate) fn cancel_replay(&mut self, session: &SessionKey, filter: &str, format: Option<Format>) {
        self.offline_replays
            .retain(|(key, replay)| key != session || replay.scan.filter() != filter || replay.format != format);
    }
}
