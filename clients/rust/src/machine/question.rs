//! Authenticators that may wait are asked outside of the machine: it stops before the packet for which it needs them, and goes on when it
//! has their answer.

use tautwire_protocol::{AuthReason, Packet};

use super::{Machine, Phase};
use crate::{Authenticator, Error};

/// What the authenticator is asked, with the authenticator itself.
pub(crate) struct Question {
    authenticator: Box<dyn Authenticator>,
    step: Step,
    data: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum Step {
    Begin,
    Respond,
    Finish,
}

/// What it has answered.
pub(crate) struct Answered {
    authenticator: Box<dyn Authenticator>,
    answer: Reply,
}

/// The data to be sent; none of the end of an exchange.
pub(super) type Reply = Result<Option<Vec<u8>>, Error>;

impl Question {
    /// Asks. No lock of the client is held.
    pub(crate) fn ask(self) -> Answered {
        let Question { mut authenticator, step, data } = self;
        let answer = match step {
            Step::Begin => authenticator.begin(),
            Step::Respond => authenticator.respond(data.as_deref()),
            Step::Finish => authenticator.finish(data.as_deref()).map(|()| None),
        };
        Answered { authenticator, answer }
    }
}

impl<T> Machine<T> {
    /// From now on whoever drives the machine looks for questions.
    pub(crate) fn ask_outside(&mut self) {
        self.asks_outside = true;
    }

    /// What to ask before a connection begins.
    pub(crate) fn question_of_connect(&mut self) -> Option<Question> {
        self.question(Step::Begin, None)
    }

    /// What to ask before a re-authentication begins.
    pub(crate) fn question_of_reauthentication(&mut self) -> Option<Question> {
        (self.phase == Phase::Open && self.reauthentication.is_none()).then(|| self.question(Step::Begin, None))?
    }

    /// What to ask before the machine goes on with what it has received.
    pub(crate) fn take_question(&mut self) -> Option<Box<Question>> {
        self.question.take()
    }

    /// Gives the authenticator back. The next step takes the answer.
    pub(crate) fn answered(&mut self, answered: Answered) {
        self.options.authenticator = Some(answered.authenticator);
        self.answer = Some(answered.answer);
    }

    /// The step for which it was has not been taken.
    pub(crate) fn forget_answer(&mut self) {
        self.answer = None;
    }

    /// Whether the authenticator has to be asked before this packet is dealt with.
    pub(super) fn asks_before(&mut self, packet: &Packet<'_>) -> bool {
        let connecting = matches!(self.phase, Phase::Connecting { .. });
        let (step, properties) = match packet {
            Packet::ConnAck(connack) if connecting && !connack.reason.is_error() => (Step::Finish, connack.properties),
            Packet::Auth(auth) if connecting || self.reauthentication.is_some() => match auth.reason {
                AuthReason::ContinueAuthentication => (Step::Respond, auth.properties),
                AuthReason::Success if !connecting => (Step::Finish, auth.properties),
                _ => return false,
            },
            _ => return false,
        };
        // Without an answer of an authenticator of this method, the packet is a breach.
        let method = self.options.authenticator.as_deref().map(<dyn Authenticator>::method);
        if self.answer.is_some() || method.is_none() || properties.authentication_method() != method {
            return false;
        }
        let data = properties.authentication_data().map(<[u8]>::to_vec);
        self.question = self.question(step, data).map(Box::new);
        self.question.is_some()
    }

    fn question(&mut self, step: Step, data: Option<Vec<u8>>) -> Option<Question> {
        let asks_outside = self.asks_outside;
        let authenticator =
            self.options.authenticator.take_if(|authenticator| asks_outside && authenticator.may_wait())?;
        Some(Question { authenticator, step, data })
    }
}
