//! Whether there is a connection, for whoever wants to know.

use std::task::{Context, Poll, Waker};

use crate::Error;

/// How a client stands.
#[derive(Debug, Clone, Default)]
pub enum Status {
    /// It connects.
    #[default]
    Connecting,
    /// The server has accepted it.
    Online {
        /// The server went on with a session that it had.
        session_present: bool,
    },
    /// The connection is lost, or could not be had; another attempt follows.
    Offline(Error),
    /// It is closed for good: [`Error::Closed`] where the application wanted it, otherwise what cannot be helped.
    Closed(Error),
}

#[derive(Debug, Default)]
pub(crate) struct StatusBoard {
    status: Status,
    version: u64,
    watchers: Vec<Waker>,
}

impl StatusBoard {
    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Changes the status; gives whom to wake. A closed client stays closed.
    pub(super) fn set(&mut self, status: Status) -> Vec<Waker> {
        if matches!(self.status, Status::Closed(_)) {
            return Vec::new();
        }
        self.status = status;
        self.version += 1;
        std::mem::take(&mut self.watchers)
    }

    /// Waits until the status is another than at `seen`.
    pub(super) fn poll_change(&mut self, seen: u64, cx: &mut Context<'_>) -> Poll<()> {
        if self.version != seen {
            return Poll::Ready(());
        }
        add_waker(&mut self.watchers, cx);
        Poll::Pending
    }
}

/// Adds the waker unless it is there.
pub(super) fn add_waker(wakers: &mut Vec<Waker>, cx: &Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
        wakers.push(cx.waker().clone());
    }
}
