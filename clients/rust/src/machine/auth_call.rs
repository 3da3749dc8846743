//! Calls authenticators that may wait outside of the machine. The machine stops before the packet that needs the result, and continues
//! when it has it.

use tautwire_protocol::{AuthReason, Packet};

use super::{Machine, Phase};
use crate::{Authenticator, Error};

/// A call to the authenticator, with the authenticator itself.
pub(crate) struct AuthCall {
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

/// The result of the call.
pub(crate) struct AuthResult {
    authenticator: Box<dyn Authenticator>,
    answer: Reply,
}

/// The data to send; `None` at the end of an exchange.
pub(super) type Reply = Result<Option<Vec<u8>>, Error>;

impl AuthCall {
    /// Calls the authenticator. No lock of the client is held.
    pub(crate) fn run(self) -> AuthResult {
        let AuthCall { mut authenticator, step, data } = self;
        let answer = match step {
            Step::Begin => authenticator.begin(),
            Step::Respond => authenticator.respond(data.as_deref()),
            Step::Finish => authenticator.finish(data.as_deref()).map(|()| None),
        };
        AuthResult { authenticator, answer }
    }
}

impl<T> Machine<T> {
    /// The driver calls authenticators from now on.
    pub(crate) fn ask_outside(&mut self) {
        self.asks_outside = true;
    }

    /// The call that is needed before CONNECT.
    pub(crate) fn auth_call_of_connect(&mut self) -> Option<AuthCall> {
        self.auth_call(Step::Begin, None)
    }

    /// The call that is needed before a re-authentication.
    pub(crate) fn auth_call_of_reauthentication(&mut self) -> Option<AuthCall> {
        (self.phase == Phase::Open && self.reauthentication.is_none()).then(|| self.auth_call(Step::Begin, None))?
    }

    /// The call that is needed before the machine can handle the received packet.
    pub(crate) fn take_auth_call(&mut self) -> Option<Box<AuthCall>> {
        self.auth_call.take()
    }

    /// Returns the authenticator. The next step takes the result.
    pub(crate) fn finish_auth_call(&mut self, result: AuthResult) {
        self.options.authenticator = Some(result.authenticator);
        self.answer = Some(result.answer);
    }

    /// The step that needed the result was not taken.
    pub(crate) fn forget_answer(&mut self) {
        self.answer = None;
    }

    /// Whether the authenticator must be called before this packet is handled.
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
        // Without a call to an authenticator of this method, the packet is a protocol violation.
        let method = self.options.authenticator.as_deref().map(<dyn Authenticator>::method);
        if self.answer.is_some() || method.is_none() || properties.authentication_method() != method {
            return false;
        }
        let data = properties.authentication_data().map(<[u8]>::to_vec);
        self.auth_call = self.auth_call(step, data).map(Box::new);
        self.auth_call.is_some()
    }

    fn auth_call(&mut self, step: Step, data: Option<Vec<u8>>) -> Option<AuthCall> {
        let asks_outside = self.asks_outside;
        let authenticator =
            self.options.authenticator.take_if(|authenticator| asks_outside && authenticator.may_wait())?;
        Some(AuthCall { authenticator, step, data })
    }
}
