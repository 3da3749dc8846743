//! The connection status and the event log.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use crate::Error;
use crate::sync::add_waker;

/// The capacity of the event log. Beyond that the oldest events are discarded.
const EVENTS_MAX: usize = 256;

/// The status of a client.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Status {
    /// It is connecting.
    #[default]
    Connecting,
    /// The server has accepted it.
    Online {
        /// The server has resumed an existing session.
        session_present: bool,
    },
    /// The connection is lost or could not be made; another attempt follows.
    Offline(Error),
    /// It is closed permanently: [`Error::Closed`] if the application closed it, otherwise the permanent error.
    Closed(Error),
}

/// An event of the connection of a client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The server has accepted it.
    Connected {
        /// The server has resumed an existing session.
        session_present: bool,
    },
    /// The connection has ended. Another attempt follows.
    Disconnected(Error),
    /// An attempt has failed. Another one follows.
    AttemptFailed(Error),
    /// It is closed permanently: [`Error::Closed`] if the application closed it, otherwise the permanent error.
    Ended(Error),
}

#[derive(Debug, Default)]
pub(crate) struct StatusTracker {
    status: Status,
    version: u64,
    watchers: Vec<Waker>,
    events: VecDeque<ConnectionEvent>,
    /// Events so far, including discarded ones.
    events_total: u64,
}

impl StatusTracker {
    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Changes the status; returns the wakers to call. A closed client stays closed.
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

    /// Waits until the status differs from version `seen`.
    pub(super) fn poll_change(&mut self, seen: u64, cx: &mut Context<'_>) -> Poll<()> {
        if self.version != seen {
            return Poll::Ready(());
        }
        add_waker(&mut self.watchers, cx);
        Poll::Pending
    }

    /// The event with that number, or the oldest one still in the log; the number advances past it. `missed` grows by the number of
    /// discarded events. `None` after the last event of a client.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_observer_learns_how_much_it_missed() {
        let mut board = StatusTracker::default();
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
