use core::fmt;

use super::DecodeCause;
use super::cause::Fault;
use crate::ReasonCode;

/// Why bytes are not a packet: the kind of fault, the reason code to answer with and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The kind of fault.
    pub fault: Fault,
    /// The MQTT 5.0 reason code to answer with. For [`Fault::Incomplete`]: the code to send if no more bytes arrive.
    pub reason: ReasonCode,
    /// The offset of the failure in bytes, from the start of the packet's fixed header.
    pub offset: usize,
    /// Which check failed.
    pub cause: DecodeCause,
}

impl DecodeError {
    #[cold]
    pub(crate) fn incomplete(needed: usize, have: usize) -> Self {
        Self {
            fault: Fault::Incomplete { needed },
            reason: ReasonCode::MalformedPacket,
            offset: have,
            cause: DecodeCause::Incomplete,
        }
    }

    /// Whether more bytes may still complete the packet.
    #[inline]
    pub const fn is_incomplete(&self) -> bool {
        matches!(self.fault, Fault::Incomplete { .. })
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.cause.words();
        f.write_str(words.text)?;
        words.write_code(f)?;
        write!(f, " at byte {}", self.offset)?;
        if let Fault::Incomplete { needed } = self.fault {
            write!(f, ", at least {needed} bytes are needed")?;
        }
        words.write_statement(f)
    }
}

impl core::error::Error for DecodeError {}

impl DecodeCause {
    /// A stable name for programs and logs.
    pub const fn code(self) -> &'static str {
        self.words().code
    }

    /// What is wrong and, after a colon, what to do about it.
    pub const fn text(self) -> &'static str {
        self.words().text
    }

    /// The statement of MQTT 5.0 that the check enforces; `None` if the standard has no numbered statement.
    pub const fn statement(self) -> Option<&'static str> {
        self.words().statement
    }
}

impl fmt::Display for DecodeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A failed check inside a packet's body. Small, so that results stay in registers on the hot path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flaw {
    cause: DecodeCause,
    /// Offset in the body.
    at: u32,
}

impl Flaw {
    #[cold]
    pub(crate) fn new(cause: DecodeCause, at: usize) -> Self {
        // A body holds at most 268,435,455 bytes.
        Self { cause, at: at as u32 }
    }

    /// `header_len`: bytes in front of the body.
    #[cold]
    pub(crate) fn into_error(self, header_len: usize) -> DecodeError {
        DecodeError {
            fault: self.cause.fault(),
            reason: self.cause.reason(),
            offset: header_len + self.at as usize,
            cause: self.cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_causes_answer_with_malformed_packet() {
        for cause in DecodeCause::ALL {
            if cause.fault() == Fault::Malformed {
                assert_eq!(cause.reason(), crate::ReasonCode::MalformedPacket);
            } else {
                assert!(cause.reason().is_error());
            }
        }
    }
}
