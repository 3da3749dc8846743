//! The other formats of a message, while it is handed out.

use std::sync::OnceLock;

use crate::format::Format;
use crate::message::Message;

/// What became of a payload that was wanted in a format.
#[derive(Debug)]
pub enum Form {
    /// It is in the format already.
    AsItIs,
    /// The message with its payload in the format.
    Made(Message),
    /// It cannot be had. The message says why, and has no payload.
    Impossible(Message),
}

/// The forms of one message. Each is made at most once, by the thread that needs it first; one that needs it meanwhile waits,
/// which is as long as it would take to make it again.
#[derive(Debug, Default)]
pub struct Forms {
    made: [OnceLock<Form>; Format::ALL.len()],
}

impl Forms {
    /// The form in `format`, by `make` if nobody has made it yet.
    pub fn get_or_make(&self, format: Format, make: impl FnOnce() -> Form) -> &Form {
        self.made[format as usize].get_or_init(make)
    }
}
