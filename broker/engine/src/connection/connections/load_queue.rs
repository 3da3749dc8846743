//! Spilled messages on their way back into memory.

use std::collections::VecDeque;

use tautwire_message::{Message, Spilled};

/// Spilled messages that were loaded and not taken yet, and whether more are loading.
#[derive(Debug, Default)]
pub(crate) struct LoadQueue {
    state: LoadState,
    ready: VecDeque<(Spilled, Option<Message>)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LoadState {
    #[default]
    Idle,
    /// Requested from the spill store, with this ticket.
    Requested(u64),
    /// To be requested later.
    Deferred,
}

/// The result of loading a message.
#[derive(Debug)]
pub(crate) enum LoadResult {
    Loaded(Message),
    /// It could not be read.
    Failed,
    /// Not requested, or not loaded yet.
    Missing,
}

impl LoadQueue {
    /// Takes a message, and drops those before it, which are no longer needed.
    pub(crate) fn take(&mut self, spilled: &Spilled) -> LoadResult {
        while let Some((found, message)) = self.ready.pop_front() {
            if found == *spilled {
                return message.map_or(LoadResult::Failed, LoadResult::Loaded);
            }
        }
        LoadResult::Missing
    }

    /// Whether no load is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.state == LoadState::Idle
    }

    /// Whether no load is in progress and no message is left.
    pub(super) fn is_empty(&self) -> bool {
        self.is_idle() && self.ready.is_empty()
    }

    pub(crate) fn wait_for(&mut self, ticket: u64) {
        self.state = LoadState::Requested(ticket);
    }

    /// Defers loading until [`LoadQueue::go_on`].
    pub(crate) fn defer(&mut self) {
        self.state = LoadState::Deferred;
        self.ready.clear();
    }

    pub(crate) fn resume_loading(&mut self) {
        if self.state == LoadState::Deferred {
            self.state = LoadState::Idle;
        }
    }

    /// Stores loaded messages. Returns whether they are those of the current request.
    pub(crate) fn store_loaded(
        &mut self,
        ticket: u64,
        messages: impl Iterator<Item = (Spilled, Option<Message>)>,
    ) -> bool {
        if self.state != LoadState::Requested(ticket) {
            return false;
        }
        self.state = LoadState::Idle;
        self.ready.extend(messages);
        true
    }
}
