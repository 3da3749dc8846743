//! Whether there is a connection, for whoever wants to know.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use crate::Error;

/// Events that are kept for those who look seldom. Beyond that the oldest are forgotten.
const EVENTS_MAX: usize = 256;

/// How a client stands.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
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

/// What has happened to the connection of a client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The server has accepted it.
    Connected {
        /// The server went on with a session that it had.
        session_present: bool,
    },
    /// The connection has ended. Another attempt follows.
    Disconnected(Error),
    /// An attempt has failed. Another one follows.
    AttemptFailed(Error),
    /// The client is closed for good: [`Error::Closed`] where the application wanted it, otherwise what cannot be helped.
    Ended(Error),
}

#[derive(Debug, Default)]
pub(crate) struct StatusBoard {
    status: Status,
    version: u64,
    watchers: Vec<Waker>,
    events: VecDeque<ConnectionEvent>,
    /// Events so far, with those that are forgotten.
    events_total: u64,
}

impl StatusBoard {
    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Changes the status; gives whom to wake. A closed client stays closed.
    pub(super) fn set(&mut self, status: Status, event: Option<ConnectionEvent>) -> Vec<Waker> {
        if matches!(self.status, Status::Closed(_)) {
            return Vec::new();
        }
        self.status = status;
        self.version += 1;
        if let Some(event) = event {
            self.events.push_back(event);
            self.events_total += 1;
            if self.events.len() > EVENTS_MAX {
                self.events.pop_front();
            }
        }
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

    /// The event of that number, or the oldest after it that is kept; the number becomes that of the one after it. `missed` grows by
    /// those that were forgotten. `None` after the last one of a client.
    pub(super) fn poll_event(
        &mut self,
        next: &mut u64,
        missed: &mut u64,
        cx: &mut Context<'_>,
    ) -> Poll<Option<ConnectionEvent>> {
        let oldest = self.events_total - self.events.len() as u64;
        *missed += oldest.saturating_sub(*next);
        *next = oldest.max(*next);
        if let Some(event) = self.events.get((*next - oldest) as usize) {
            *next += 1;
            return Poll::Ready(Some(event.clone()));
        }
        if matches!(self.status, Status::Closed(_)) {
            return Poll::Ready(None);
        }
        add_waker(&mut self.watchers, cx);
        Poll::Pending
    }
}

/// Adds the waker unless it is there.
pub(crate) fn add_waker(wakers: &mut Vec<Waker>, cx: &Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
        wakers.push(cx.waker().clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_too_seldom_is_told_how_much_was_missed() {
        let mut board = StatusBoard::default();
        let mut cx = Context::from_waker(Waker::noop());
        let (mut next, mut missed) = (0, 0);
        assert!(board.poll_event(&mut next, &mut missed, &mut cx).is_pending());
        for _ in 0..EVENTS_MAX + 3 {
            board.set(Status::Connecting, Some(ConnectionEvent::AttemptFailed(Error::KeepAliveTimeout)));
        }
        board.set(Status::Closed(Error::Closed), Some(ConnectionEvent::Ended(Error::Closed)));
        let mut seen = 0;
        while let Poll::Ready(Some(_)) = board.poll_event(&mut next, &mut missed, &mut cx) {
            seen += 1;
        }
        assert_eq!((seen, missed), (EVENTS_MAX, 4));
        assert!(matches!(board.poll_event(&mut next, &mut missed, &mut cx), Poll::Ready(None)));
    }
}
