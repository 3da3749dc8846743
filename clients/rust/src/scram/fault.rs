use std::fmt;

/// Why a SCRAM exchange failed on this side.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScramFault {
    /// The user name or password cannot be used; the text says which and why.
    Credentials(&'static str),
    /// The server sent an invalid SCRAM message; the text says why.
    Malformed(&'static str),
    /// The server did not repeat the client's nonce, or did not extend it: the message may be from another exchange.
    Nonce,
    /// The server requests fewer iterations than are safe, or more than the client accepts.
    Iterations {
        /// The minimum.
        least: u32,
        /// The maximum.
        most: u32,
    },
    /// The server refuses; its error text, which is ASCII.
    Refused(Box<str>),
    /// The server has not proved that it knows the password. It may be an impostor.
    ServerSignature,
}

impl ScramFault {
    /// A stable name for programs and logs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Credentials(_) => "scram_credentials",
            Self::Malformed(_) => "scram_malformed",
            Self::Nonce => "scram_nonce",
            Self::Iterations { .. } => "scram_iterations",
            Self::Refused(_) => "scram_refused",
            Self::ServerSignature => "scram_server_signature",
        }
    }
}

impl fmt::Display for ScramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credentials(why) => f.write_str(why),
            Self::Malformed(what) => write!(f, "the server sent an invalid SCRAM message: {what}"),
            Self::Nonce => f.write_str("the server did not extend the client's nonce"),
            Self::Iterations { least, most } => {
                write!(f, "the server requests a number of iterations outside of {least} to {most}")
            }
            Self::Refused(why) => write!(f, "the server refuses: {why}"),
            Self::ServerSignature => f.write_str(
                "the server has not proved that it knows the password: check the address, and that nobody impersonates the server",
            ),
        }
    }
}

impl std::error::Error for ScramFault {}
