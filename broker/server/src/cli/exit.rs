//! Exit codes, and why a command ends early.

use std::fmt;
use std::process::ExitCode;

use tautwire_client::{Error, TlsFault};

use super::refused;
use crate::client::discovery::DiscoveryError;

/// Exit codes. Commands share their meanings; the help lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    /// The arguments, the configuration or a file that they name is invalid.
    Usage = 1,
    /// No connection, or it was lost. For commands on data directories, see [`Exit::DAMAGED`].
    Connection = 2,
    /// The broker refused the connection, a subscription or a message; or a payload violates its contract.
    Refused = 3,
    /// `contract diff`: the change is backward compatible only.
    Backward = 4,
    /// `contract diff`: the change is forward compatible only.
    Forward = 5,
    /// `contract diff`: the change is incompatible.
    Breaking = 6,
    /// `sub -W` timed out.
    Timeout = 27,
}

impl Exit {
    /// `data`: a part of the data directory is lost.
    pub(crate) const DAMAGED: Exit = Exit::Connection;
    /// `data`: the last write is incomplete, and may have been acknowledged.
    pub(crate) const TORN: Exit = Exit::Refused;
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum CommandExit {
    /// Text to print, such as the help.
    Text(String),
    Failure {
        exit: Exit,
        message: String,
    },
}

impl CommandExit {
    pub(crate) fn failure(exit: Exit, message: impl fmt::Display) -> Self {
        Self::Failure { exit, message: message.to_string() }
    }

    /// Whether the connection can still be closed cleanly.
    pub(crate) fn is_connection_usable(&self) -> bool {
        !matches!(self, Self::Failure { exit: Exit::Connection, .. })
    }
}

impl From<Error> for CommandExit {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Options(_)
            | Error::Argument(_)
            | Error::Topic(_)
            | Error::Encode { .. }
            | Error::TooLarge { .. }
            | Error::QoSNotSupported(_)
            | Error::RetainNotSupported
            | Error::NotSupported(_) => Exit::Usage,
            Error::Tls(failure) if failure.fault == TlsFault::Settings => Exit::Usage,
            Error::Refused { .. } => Exit::Refused,
            _ => Exit::Connection,
        };
        let message = match &error {
            // The client library says that it reconnects; these commands do not.
            Error::Lost(how) => format!("connection lost: {how} [{}]", error.code()),
            Error::KeepAliveTimeout => format!("the broker did not answer a PINGREQ in time [{}]", error.code()),
            error => match refused::advice(error) {
                Some(advice) => format!("{error}; {advice}"),
                None => error.to_string(),
            },
        };
        Self::failure(exit, message)
    }
}

impl From<DiscoveryError> for CommandExit {
    fn from(error: DiscoveryError) -> Self {
        match error {
            DiscoveryError::Client(error) => error.into(),
            DiscoveryError::Denied(_) => Self::failure(Exit::Refused, error),
            DiscoveryError::Response(_) => Self::failure(Exit::Connection, error),
        }
    }
}
