use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::error::BoxError;

/// The user name and password of a client, for one connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
}

impl Credentials {
    /// A user name without a password.
    pub fn user_name(user_name: impl Into<String>) -> Credentials {
        Credentials { user_name: Some(user_name.into()), password: None }
    }

    /// A password without a user name, such as a token. MQTT 5.0 only.
    pub fn token(token: impl Into<Vec<u8>>) -> Credentials {
        Credentials { user_name: None, password: Some(token.into()) }
    }

    /// Sets the password.
    #[must_use]
    pub fn password(mut self, password: impl Into<Vec<u8>>) -> Credentials {
        self.password = Some(password.into());
        self
    }
}

impl fmt::Debug for Credentials {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user_name", &self.user_name).finish_non_exhaustive()
    }
}

type Asked = Pin<Box<dyn Future<Output = Result<Credentials, BoxError>> + Send>>;

/// Asks the application for credentials.
pub(crate) struct CredentialsSource(Box<dyn FnMut() -> Asked + Send>);

impl CredentialsSource {
    pub(super) fn new<F, A>(mut ask: F) -> CredentialsSource
    where
        F: FnMut() -> A + Send + 'static,
        A: Future<Output = Result<Credentials, BoxError>> + Send + 'static,
    {
        CredentialsSource(Box::new(move || Box::pin(ask())))
    }

    pub(crate) fn ask(&mut self) -> Asked {
        (self.0)()
    }
}
