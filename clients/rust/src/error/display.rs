//! The text form of errors: `TEXT (DETAIL) [CODE]`.

use std::fmt;

use tautwire_protocol::ReasonCode;

use super::message::{message, text_of};
use super::{Error, Refused};

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code();
        match self {
            // It has a text of its own.
            Self::Scram(fault) => own(f, &fault.to_string(), code),
            Self::Tls(failure) => failure.fmt(f),
            _ => message(f, text_of(code).unwrap_or_default(), &self.detail(), code),
        }
    }
}

impl Error {
    /// The details of this case; empty if there are none.
    fn detail(&self) -> String {
        match self {
            Self::Options(what) => what.clone(),
            Self::Topic(error) => error.to_string(),
            Self::Encode { packet, error } => format!("{packet}: {error}"),
            Self::Argument(what)
            | Self::HandshakeFailed(what)
            | Self::Lost(what)
            | Self::WebSocketRefused(what)
            | Self::Authentication(what)
            | Self::RequestFailed(what) => what.to_string(),
            Self::TooLarge { bytes, limit_bytes } => {
                format!("the packet has {bytes} bytes, the server accepts at most {limit_bytes}")
            }
            Self::QoSNotSupported(qos) => format!("QoS {}", qos.as_u8()),
            Self::NotSupported(what) | Self::Protocol(what) => (*what).to_owned(),
            Self::Canceled(what) => format!("timed out waiting for {what}"),
            Self::Store { path, error } => format!("{path}: {error}"),
            Self::NameNotFound { address, error } | Self::Unreachable { address, error } => {
                format!("{address}: {error}")
            }
            Self::ConnectTimeout { address, awaited } => format!("{address}: timed out waiting for {awaited}"),
            Self::BadPacket(error) => error.to_string(),
            Self::Callback { what, .. } => (*what).to_owned(),
            Self::Refused { what, reason, text, server_reference } => {
                let said = reason_text(*reason, text, server_reference);
                match what {
                    Refused::Connection | Refused::Message => said,
                    Refused::Subscription(filter) | Refused::Unsubscription(filter) => format!("{filter}: {said}"),
                }
            }
            Self::Disconnected { reason, text, server_reference } => {
                reason_text(ReasonCode::from(*reason), text, server_reference)
            }
            _ => String::new(),
        }
    }
}

/// The reason, the reason string and the server reference of a packet.
fn reason_text(reason: ReasonCode, text: &Option<Box<str>>, server: &Option<Box<str>>) -> String {
    let mut said = reason.to_string();
    if let Some(text) = text {
        said.push_str(": ");
        said.push_str(text);
    }
    if let Some(server) = server {
        said.push_str(", use ");
        said.push_str(server);
    }
    said
}

/// Writes an error that has its own text, which may already contain the code.
fn own(f: &mut fmt::Formatter<'_>, text: &str, code: &str) -> fmt::Result {
    f.write_str(text)?;
    if text.contains(&format!("[{code}]")) { Ok(()) } else { write!(f, " [{code}]") }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection => f.write_str("the connection"),
            Self::Message => f.write_str("the message"),
            Self::Subscription(filter) => write!(f, "the subscription {filter}"),
            Self::Unsubscription(filter) => write!(f, "the unsubscription {filter}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::texts::TEXTS;
    use super::*;

    /// The error table for all languages, parsed as far as needed here.
    fn shared() -> Vec<(String, String)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/errors/errors.toml");
        let file = std::fs::read_to_string(path).expect("the file of all languages");
        let mut code = None;
        let mut texts = Vec::new();
        for line in file.lines() {
            if let Some(table) = line.strip_prefix('[') {
                code = table.strip_suffix(']').and_then(|table| table.strip_prefix("client.")).map(str::to_owned);
            } else if let Some(text) = line.strip_prefix("text = \"").and_then(|text| text.strip_suffix('"'))
                && let Some(code) = code.take()
            {
                texts.push((code, text.to_owned()));
            }
        }
        texts
    }

    /// The file also has codes that this client does not use.
    #[test]
    fn texts_match_all_languages() {
        let shared = shared();
        for (code, text) in TEXTS {
            let found = shared.iter().find(|(known, _)| known == code).map(|(_, text)| text.as_str());
            assert_eq!(found, Some(*text), "{code}");
        }
    }

    #[test]
    fn a_message_contains_cause_value_and_code() {
        let refused = Error::refused(Refused::Subscription("a/#".into()), ReasonCode::NotAuthorized, Some("no"));
        assert_eq!(
            refused.to_string(),
            "the server refused the subscription: the reason code says why (a/#: Not authorized (0x87): no) [subscribe_refused]"
        );
        assert_eq!(Error::Closed.to_string(), "the client has been closed: create a new one [closed]");
        let topic = crate::TopicName::new("a/#").expect_err("a wildcard");
        let said = Error::Topic(topic).to_string();
        assert!(said.starts_with("an argument is wrong: correct the call (the topic name contains + or #: "), "{said}");
        assert!(said.contains("[topic_wildcard]") && said.ends_with(") [invalid_argument]"), "{said}");
    }
}
