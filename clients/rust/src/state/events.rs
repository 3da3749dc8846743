use std::sync::Arc;
use std::task::{Context, Poll};

use super::{ConnectionEvent, Shared};

/// The events of the connection of a client. It does not keep the client alive.
#[derive(Debug)]
pub struct Events {
    shared: Arc<Shared>,
    /// The number of the next event.
    next: u64,
    missed: u64,
}

impl Events {
    pub(crate) fn new(shared: Arc<Shared>) -> Events {
        Events { shared, next: 0, missed: 0 }
    }

    /// The next event; `None` when the client has ended.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ConnectionEvent>> {
        let Events { shared, next, missed } = self;
        shared.with(|state| state.routes.board.poll_event(next, missed, cx))
    }

    /// The number of events that were discarded before they were read.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}
