//! Cold messages on their way back into memory.

use std::collections::VecDeque;

use tautwire_message::{Cold, Message};

/// Cold messages that have been read for somebody and not been taken yet, and whether more are coming.
#[derive(Debug, Default)]
pub(crate) struct ReadBack {
    state: State,
    ready: VecDeque<(Cold, Option<Message>)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The store has been asked, by the order with this ticket.
    Asked(u64),
    /// It is to be asked later.
    PutOff,
}

/// What has become of a message that was asked for.
#[derive(Debug)]
pub(crate) enum Back {
    Here(Message),
    /// It could not be read.
    Failed,
    /// It has not been asked for, or has not come yet.
    Missing,
}

impl ReadBack {
    /// Takes a message out. Those that came before it are not wanted any more.
    pub(crate) fn take(&mut self, cold: &Cold) -> Back {
        while let Some((found, message)) = self.ready.pop_front() {
            if found == *cold {
                return message.map_or(Back::Failed, Back::Here);
            }
        }
        Back::Missing
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Whether nothing is under way, and nothing has come.
    pub(super) fn is_empty(&self) -> bool {
        self.is_idle() && self.ready.is_empty()
    }

    pub(crate) fn wait_for(&mut self, ticket: u64) {
        self.state = State::Asked(ticket);
    }

    /// Nothing is asked for until [`ReadBack::go_on`].
    pub(crate) fn put_off(&mut self) {
        self.state = State::PutOff;
        self.ready.clear();
    }

    pub(crate) fn go_on(&mut self) {
        if self.state == State::PutOff {
            self.state = State::Idle;
        }
    }

    /// An answer has come; says whether it is the one that is waited for.
    pub(crate) fn bring(&mut self, ticket: u64, messages: impl Iterator<Item = (Cold, Option<Message>)>) -> bool {
        if self.state != State::Asked(ticket) {
            return false;
        }
        self.state = State::Idle;
        self.ready.extend(messages);
        true
    }
}
