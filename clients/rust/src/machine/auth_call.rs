//! A call to an authenticator, and its result.

use crate::{Authenticator, Error};

/// A call to the authenticator, with the authenticator itself.
pub(crate) struct AuthCall {
    pub(super) authenticator: Box<dyn Authenticator>,
    pub(super) step: Step,
    pub(super) data: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
pub(super) enum Step {
    Begin,
    Respond,
    Finish,
}

/// The result of the call.
pub(crate) struct AuthResult {
    pub(super) authenticator: Box<dyn Authenticator>,
    pub(super) answer: Reply,
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
