//! Cold messages on their way back into memory.

use std::collections::VecDeque;

use tautwire_message::{Message, Spilled};

/// Cold messages that have been read for somebody and not been taken yet, and whether more are coming.
#[derive(Debug, Default)]
pub(crate) struct LoadQueue {
    state: LoadState,
    ready: VecDeque<(Spilled, Option<Message>)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LoadState {
    #[default]
    Idle,
    /// The store has been asked, by the order with this ticket.
    Requested(u64),
    /// It is to be asked later.
    Deferred,
}

/// What has become of a message that was asked for.
#[derive(Debug)]
pub(crate) enum LoadResult {
    Loaded(Message),
    /// It could not be read.
    Failed,
    /// It has not been asked for, or has not come yet.
    Missing,
}

impl LoadQueue {
    /// Takes a message out. Those that came before it are not wanted any more.
    pub(crate) fn take(&mut self, cold: &Spilled) -> LoadResult {
        while let Some((found, message)) = self.ready.pop_front() {
            if found == *cold {
                return message.map_or(LoadResult::Failed, LoadResult::Loaded);
            }
        }
        LoadResult::Missing
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.state == LoadState::Idle
    }

    /// Whether nothing is under way, and nothing has come.
    pub(super) fn is_empty(&self) -> bool {
        self.is_idle() && self.ready.is_empty()
    }

    pub(crate) fn wait_for(&mut self, ticket: u64) {
        self.state = LoadState::Requested(ticket);
    }

    /// Nothing is asked for until [`LoadQueue::go_on`].
    pub(crate) fn defer(&mut self) {
        self.state = LoadState::Deferred;
        self.ready.clear();
    }

    pub(crate) fn go_on(&mut self) {
        if self.state == LoadState::Deferred {
            self.state = LoadState::Idle;
        }
    }

    /// An answer has come; says whether it is the one that is waited for.
    pub(crate) fn bring(&mut self, ticket: u64, messages: impl Iterator<Item = (Spilled, Option<Message>)>) -> bool {
        if self.state != LoadState::Requested(ticket) {
            return false;
        }
        self.state = LoadState::Idle;
        self.ready.extend(messages);
        true
    }
}
