use std::fmt;

/// Why an exchange of SCRAM came to nothing on this side.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScramFault {
    /// User name or password cannot be used; the text says which and why.
    Credentials(&'static str),
    /// The server sent something else than SCRAM; the text says what.
    Malformed(&'static str),
    /// The server did not repeat the client's nonce, or added nothing to it: the message may be from another exchange.
    Nonce,
    /// The server asks for fewer iterations than are safe, or for more than the client is willing to compute.
    Iterations {
        /// The fewest that are taken.
        least: u32,
        /// The most that are taken.
        most: u32,
    },
    /// The server refuses; in its own words, which are ASCII.
    Refused(Box<str>),
    /// The server has not proved that it knows the password. It may be another than it says.
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
                write!(f, "the server asks for a number of iterations that is not from {least} to {most}")
            }
            Self::Refused(why) => write!(f, "the server refuses: {why}"),
            Self::ServerSignature => f.write_str(
                "the server has not proved that it knows the password: check the address, and that nobody impersonates the server",
            ),
        }
    }
}

impl std::error::Error for ScramFault {}
