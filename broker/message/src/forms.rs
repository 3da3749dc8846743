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

/// The forms of one message. Each is made by the thread that needs it first, and kept for the others. A thread that needs one
/// while another makes it does not wait: it makes the form too, and the first that is there is kept.
#[derive(Debug, Default)]
pub struct Forms {
    made: [OnceLock<Form>; Format::ALL.len()],
}

impl Forms {
    /// The form in `format`, by `make` if nobody has made it yet; and whether it was made here, and is kept.
    pub fn get_or_make(&self, format: Format, make: impl FnOnce() -> Form) -> (&Form, bool) {
        let place = &self.made[format as usize];
        if let Some(form) = place.get() {
            return (form, false);
        }
        // Made before the place is taken, so that nobody waits for it.
        let mut made = Some(make());
        let kept = place.get_or_init(|| made.take().unwrap_or(Form::AsItIs));
        (kept, made.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_there_is_kept() {
        let forms = Forms::default();
        let (first, is_ours) = forms.get_or_make(Format::Json, || {
            // Somebody else is quicker.
            assert!(forms.get_or_make(Format::Json, || Form::AsItIs).1);
            unreachable_form()
        });
        assert!(matches!(first, Form::AsItIs) && !is_ours);
        assert!(!forms.get_or_make(Format::Json, unreachable_form).1, "it is there already");
    }

    fn unreachable_form() -> Form {
        let parts = crate::MessageRef {
            id: crate::MessageId::NONE,
            topic: "t",
            properties: &[],
            payload: &[],
            qos: tautwire_protocol::QoS::AtMostOnce,
            retain: false,
            expires_at_ms: None,
        };
        Form::Impossible(parts.to_message())
    }
}
