//! Publishing messages through the API.

use std::sync::atomic::Ordering;

use tautwire_engine::Publication;
use tautwire_protocol::{QoS, ReasonCode, TopicName};
use tautwire_reactor::PublishError;

use super::query::decoded;
use super::request::{Head, time_left};
use super::request_context::RequestContext;
use super::response::{JSON, Response, Status};

/// The Content-Type of HTML forms. `curl` sends it by default, so it says nothing about the payload.
const FORM: &str = "application/x-www-form-urlencoded";

/// Publishes the body to the topic in the path.
pub(super) fn publish(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let RequestContext { admin, head, .. } = *call;
    let topic = topic(call.name(0))?;
    let topic = TopicName::new(&topic).map_err(|error| invalid_topic(&error.to_string()))?;
    let Options { qos, retain } = options(&head.query)?;
    let content_type = content_type(head)?;
    let deadline = call.received.deadline;
    let payload = call.body()?;
    let publication = Publication { topic, content_type, payload, qos, retain };
    let matched =
        admin.control.publish(&publication, time_left(deadline)).map_err(|error| publish_error_response(&error))?;
    admin.counters.messages_published.fetch_add(1, Ordering::Relaxed);
    Ok(Response::new(Status::OK, JSON, format!("{{\"matched\":{matched}}}\n")))
}

/// Decodes the topic in the path.
fn topic(path: &str) -> Result<String, Response> {
    decoded(path).map_err(invalid_topic)
}

fn invalid_topic(message: &str) -> Response {
    Response::error(Status::BAD_REQUEST, "topic_name_invalid", message)
}

/// The options in the query string.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    qos: QoS,
    retain: bool,
}

fn options(query: &str) -> Result<Options, Response> {
    let bad_request = |message: &str| Response::error(Status::BAD_REQUEST, "bad_query", message);
    let (mut qos, mut retain) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_first = match (key, value) {
            ("qos", "0") => qos.replace(QoS::AtMostOnce).is_none(),
            ("qos", "1") => qos.replace(QoS::AtLeastOnce).is_none(),
            ("qos", "2") => qos.replace(QoS::ExactlyOnce).is_none(),
            ("retain", "false") => retain.replace(false).is_none(),
            ("retain", "true") => retain.replace(true).is_none(),
            ("qos", _) => return Err(bad_request(&format!("qos must be 0, 1 or 2, not {value:?}"))),
            ("retain", _) => return Err(bad_request(&format!("retain must be true or false, not {value:?}"))),
            _ => return Err(bad_request(&format!("unknown parameter {key:?}; known parameters: qos, retain"))),
        };
        if !is_first {
            return Err(bad_request(&format!("duplicate parameter {key}")));
        }
    }
    Ok(Options { qos: qos.unwrap_or(QoS::AtMostOnce), retain: retain.unwrap_or(false) })
}

/// The Content Type for subscribers.
fn content_type(head: &Head) -> Result<Option<&str>, Response> {
    let content_type = head.content_type.as_deref().unwrap_or_default();
    if content_type.chars().any(char::is_control) {
        // A client may close the connection because of a control character [MQTT 5.0 section 1.5.4].
        return Err(Response::error(Status::BAD_REQUEST, "bad_request", "Content-Type has a control character"));
    }
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    Ok(Some(content_type).filter(|_| !media_type.is_empty() && !media_type.eq_ignore_ascii_case(FORM)))
}

pub(super) fn publish_error_response(error: &PublishError) -> Response {
    let (status, code) = match error {
        PublishError::Refused(reason, _) => of_reason(*reason),
        PublishError::Busy => (Status::SERVICE_UNAVAILABLE, "busy"),
        PublishError::Stopping => (Status::SERVICE_UNAVAILABLE, "stopping"),
        PublishError::Timeout => (Status::INTERNAL, "unanswered"),
        PublishError::NotDurable => (Status::INTERNAL, "not_durable"),
        PublishError::RejectedByCluster => (Status::SERVICE_UNAVAILABLE, "not_replicated"),
    };
    Response::error(status, code, &error.to_string())
}

fn of_reason(reason: ReasonCode) -> (Status, &'static str) {
    match reason {
        ReasonCode::TopicNameInvalid => (Status::BAD_REQUEST, "topic_name_invalid"),
        ReasonCode::QoSNotSupported => (Status::BAD_REQUEST, "qos_not_supported"),
        ReasonCode::RetainNotSupported => (Status::BAD_REQUEST, "retain_not_supported"),
        ReasonCode::NotAuthorized => (Status::FORBIDDEN, "not_authorized"),
        ReasonCode::PacketTooLarge => (Status::BODY_TOO_LARGE, "packet_too_large"),
        ReasonCode::PayloadFormatInvalid => (Status::UNPROCESSABLE, "payload_format_invalid"),
        ReasonCode::QuotaExceeded => (Status::INSUFFICIENT_STORAGE, "quota_exceeded"),
        _ => (Status::INTERNAL, "unspecified_error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_percent_encoded_in_a_path() {
        for (path, expected) in [
            ("a/b", "a/b"),
            ("/a//b/", "/a//b/"),
            ("a%2Fb", "a/b"),
            ("a%2fb", "a/b"),
            ("a+b", "a+b"),
            ("100%25", "100%"),
            ("%252F", "%2F"),
            ("k%C3%BCche", "küche"),
            ("küche", "küche"),
            ("", ""),
        ] {
            assert_eq!(topic(path).ok().as_deref(), Some(expected), "{path}");
        }
        for path in ["%", "a%2", "%zz", "%+1", "%FF", "%C3", "%c3/%bc"] {
            assert!(topic(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_query_parameter_occurs_at_most_once() {
        let parsed = |query| options(query).ok().map(|Options { qos, retain }| (qos.as_u8(), retain));
        assert_eq!(parsed(""), Some((0, false)));
        assert_eq!(parsed("retain=true&qos=2"), Some((2, true)));
        assert_eq!(parsed("qos=1&"), Some((1, false)));
        for query in
            ["qos=3", "qos=", "qos", "qos=01", "retain=1", "retain", "Qos=1", "qos=1&qos=1", "dup=true", "=", "%"]
        {
            assert_eq!(parsed(query), None, "{query}");
        }
    }
}
