//! The other formats of a message, while it is handed out.

use std::sync::OnceLock;

use crate::format::Format;
use crate::message::Message;

/// What became of a payload that was wanted in a format.
#[derive(Debug)]
pub enum Transcoding {
    /// It is in the format already.
    Unchanged,
    /// The message with its payload in the format.
    Transcoded(Message),
    /// It cannot be had. The message says why, and has no payload.
    Failed(Message),
}

/// The forms of one message. Each is made by the thread that needs it first, and kept for the others. A thread that needs one
/// while another makes it does not wait: it makes the form too, and the first that is there is kept.
#[derive(Debug, Default)]
pub struct Transcodings {
    transcodings: [OnceLock<Transcoding>; Format::ALL.len()],
}

impl Transcodings {
    /// The form in `format`, by `make` if nobody has made it yet; and whether it was made here, and is kept.
    pub fn get_or_make(&self, format: Format, make: impl FnOnce() -> Transcoding) -> (&Transcoding, bool) {
        let place = &self.transcodings[format as usize];
        if let Some(form) = place.get() {
            return (form, false);
        }
        // Made before the place is taken, so that nobody waits for it.
        let mut transcodings = Some(make());
        let kept = place.get_or_init(|| transcodings.take().unwrap_or(Transcoding::Unchanged));
        (kept, transcodings.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_there_is_kept() {
        let transcodings = Transcodings::default();
        let (first, is_ours) = transcodings.get_or_make(Format::Json, || {
            // Somebody else is quicker.
            assert!(transcodings.get_or_make(Format::Json, || Transcoding::Unchanged).1);
            unreachable_form()
        });
        assert!(matches!(first, Transcoding::Unchanged) && !is_ours);
        assert!(!transcodings.get_or_make(Format::Json, unreachable_form).1, "it is there already");
    }

    fn unreachable_form() -> Transcoding {
        let parts = crate::MessageRef {
            id: crate::MessageId::NONE,
            topic: "t",
            properties: &[],
            payload: &[],
            qos: tautwire_protocol::QoS::AtMostOnce,
            retain: false,
            expires_at_ms: None,
        };
        Transcoding::Failed(parts.to_message())
    }
}
