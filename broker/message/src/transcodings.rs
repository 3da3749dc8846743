//! Cached transcodings of a message during delivery.

use std::sync::OnceLock;

use crate::format::Format;
use crate::message::Message;

/// The result of transcoding a payload.
#[derive(Debug)]
pub enum Transcoding {
    /// The payload is in this format already.
    Unchanged,
    /// The message with the transcoded payload.
    Transcoded(Message),
    /// Transcoding failed. The message says why, and has no payload.
    Failed(Message),
}

/// The transcodings of one message. The first thread that needs one creates it, and the others share it. A thread that needs one while
/// another creates it does not wait: it creates it too, and the first to finish wins.
#[derive(Debug, Default)]
pub struct Transcodings {
    transcodings: [OnceLock<Transcoding>; Format::ALL.len()],
}

impl Transcodings {
    /// The transcoding to `format`, created by `make` if there is none; and whether it was created and stored by this call.
    pub fn get_or_make(&self, format: Format, make: impl FnOnce() -> Transcoding) -> (&Transcoding, bool) {
        let place = &self.transcodings[format as usize];
        if let Some(form) = place.get() {
            return (form, false);
        }
        // Created before the slot is taken, so that nobody waits for it.
        let mut transcodings = Some(make());
        let kept = place.get_or_init(|| transcodings.take().unwrap_or(Transcoding::Unchanged));
        (kept, transcodings.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_available_format_is_kept() {
        let transcodings = Transcodings::default();
        let (first, is_ours) = transcodings.get_or_make(Format::Json, || {
            // Another thread is faster.
            assert!(transcodings.get_or_make(Format::Json, || Transcoding::Unchanged).1);
            unreachable_form()
        });
        assert!(matches!(first, Transcoding::Unchanged) && !is_ours);
        assert!(!transcodings.get_or_make(Format::Json, unreachable_form).1, "already present");
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
