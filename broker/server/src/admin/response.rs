//! Responses of the API.

use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Bytes, Frame, SizeHint};
use hyper::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use tautwire_contracts::LoadError;
use tautwire_reactor::QueryError;
use tokio::sync::mpsc::Receiver;

use crate::fields::Fields;
use crate::json::push_string;

/// A status code with its reason phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status(u16, &'static str);

impl Status {
    pub(super) fn code(self) -> u16 {
        self.0
    }

    pub(super) const OK: Status = Status(200, "OK");
    pub(super) const CREATED: Status = Status(201, "Created");
    pub(super) const NO_CONTENT: Status = Status(204, "No Content");
    pub(super) const NOT_MODIFIED: Status = Status(304, "Not Modified");
    pub(super) const BAD_REQUEST: Status = Status(400, "Bad Request");
    pub(super) const UNAUTHORIZED: Status = Status(401, "Unauthorized");
    pub(super) const FORBIDDEN: Status = Status(403, "Forbidden");
    pub(super) const NOT_FOUND: Status = Status(404, "Not Found");
    pub(super) const METHOD_NOT_ALLOWED: Status = Status(405, "Method Not Allowed");
    pub(super) const TIMEOUT: Status = Status(408, "Request Timeout");
    pub(super) const CONFLICT: Status = Status(409, "Conflict");
    pub(super) const LENGTH_REQUIRED: Status = Status(411, "Length Required");
    pub(super) const BODY_TOO_LARGE: Status = Status(413, "Content Too Large");
    pub(super) const EXPECTATION_FAILED: Status = Status(417, "Expectation Failed");
    pub(super) const UNSUPPORTED_MEDIA_TYPE: Status = Status(415, "Unsupported Media Type");
    pub(super) const UNPROCESSABLE: Status = Status(422, "Unprocessable Content");
    pub(super) const TOO_MANY_REQUESTS: Status = Status(429, "Too Many Requests");
    pub(super) const HEAD_TOO_LARGE: Status = Status(431, "Request Header Fields Too Large");
    pub(super) const INTERNAL: Status = Status(500, "Internal Server Error");
    pub(super) const NOT_IMPLEMENTED: Status = Status(501, "Not Implemented");
    pub(super) const SERVICE_UNAVAILABLE: Status = Status(503, "Service Unavailable");
    pub(super) const INSUFFICIENT_STORAGE: Status = Status(507, "Insufficient Storage");
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// A response to a request.
#[derive(Debug)]
pub(super) struct Response {
    status: Status,
    content_type: &'static str,
    /// Whether a browser may cache it, revalidating each time.
    is_revalidated: bool,
    /// Further header fields.
    fields: Vec<(HeaderName, HeaderValue)>,
    body: Body,
}

/// The body of a response.
#[derive(Debug)]
pub(super) enum Body {
    Whole(Bytes),
    /// Chunks, until their sender is dropped.
    Parts(Receiver<Bytes>),
}

pub(super) const JSON: &str = "application/json";
pub(super) const TOML: &str = "application/toml";

impl Response {
    pub(super) fn new(status: Status, content_type: &'static str, body: impl Into<Bytes>) -> Response {
        Response { status, content_type, is_revalidated: false, fields: Vec::new(), body: Body::Whole(body.into()) }
    }

    /// A response whose body is streamed until the sender of `parts` is dropped. The connection is closed after it, for clients that read
    /// to the end.
    pub(super) fn stream(content_type: &'static str, parts: Receiver<Bytes>) -> Response {
        Response { body: Body::Parts(parts), ..Response::new(Status::OK, content_type, "").with("Connection", "close") }
    }

    /// `{"code": …, "message": …}`.
    pub(super) fn error(status: Status, code: &str, message: &str) -> Response {
        let mut body = String::from("{");
        push_members(&mut body, &[("code", code), ("message", message)]);
        body.push_str("}\n");
        Response::new(status, JSON, body)
    }

    /// Reports all errors in contracts: the first as the main error, all of them under `errors`.
    pub(super) fn invalid_contracts(errors: &[LoadError]) -> Response {
        let mut body = String::from("{");
        if let Some(first) = errors.first() {
            push_load_error(&mut body, first);
        }
        body.push_str(",\"errors\":[");
        for (at, error) in errors.iter().enumerate() {
            body.push_str(if at > 0 { ",{" } else { "{" });
            push_load_error(&mut body, error);
            body.push('}');
        }
        body.push_str("]}\n");
        Response::new(Status::UNPROCESSABLE, JSON, body)
    }

    /// Reports all errors in a configuration, one per line.
    pub(super) fn invalid_configuration(errors: &[String]) -> Response {
        let mut body = String::from("{");
        push_members(
            &mut body,
            &[("code", "config_wrong"), ("message", "the configuration is not applied: see errors")],
        );
        body.push_str(",\"errors\":[");
        for (at, error) in errors.iter().enumerate() {
            body.push_str(if at > 0 { "," } else { "" });
            push_string(&mut body, error);
        }
        body.push_str("]}\n");
        Response::new(Status::UNPROCESSABLE, JSON, body)
    }

    /// Adds a header field.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Response {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.fields.push((name, value));
        }
        self
    }

    /// Allows a browser to cache the response, revalidating each time.
    pub(super) fn must_revalidate(mut self) -> Response {
        self.is_revalidated = true;
        self
    }

    pub(super) fn status(&self) -> Status {
        self.status
    }

    pub(super) fn is_error(&self) -> bool {
        self.status.0 >= 400
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self.body, Body::Parts(_))
    }

    /// Converts to the type that hyper sends. A response to HEAD has no body.
    pub(super) fn into_http(self, is_head: bool) -> hyper::Response<Body> {
        let Response { status, content_type, is_revalidated, fields: further, mut body } = self;
        let mut fields = HeaderMap::new();
        further.into_iter().for_each(|(name, value)| _ = fields.append(name, value));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static(if is_revalidated { "no-cache" } else { "no-store" }));
        fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        fields.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        if !matches!(status, Status::NO_CONTENT | Status::NOT_MODIFIED) {
            fields.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            if let Body::Whole(bytes) = &body {
                fields.insert(CONTENT_LENGTH, bytes.len().into());
            }
        }
        if is_head {
            body = Body::Whole(Bytes::new());
        }
        let mut response = hyper::Response::new(body);
        *response.status_mut() = hyper::StatusCode::from_u16(status.0).unwrap_or_default();
        *response.headers_mut() = fields;
        response
    }

    /// The bytes of an error that ends a connection on which hyper cannot respond.
    pub(super) fn into_last_bytes(self) -> Vec<u8> {
        let Response { status, content_type, body, .. } = self;
        let body = match body {
            Body::Whole(bytes) => bytes,
            Body::Parts(_) => Bytes::new(),
        };
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
             x-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(&body);
        bytes
    }
}

/// A successful response with this JSON object.
pub(super) fn ok(body: Fields) -> Response {
    let mut json = String::new();
    body.push_json(&mut json);
    json.push('\n');
    Response::new(Status::OK, JSON, json)
}

pub(super) fn not_found(message: &str) -> Response {
    Response::error(Status::NOT_FOUND, "not_found", message)
}

pub(super) fn unauthorized() -> Response {
    let message = "send a token (Authorization: Bearer TOKEN), or log in at /session";
    Response::error(Status::UNAUTHORIZED, "unauthorized", message).with("WWW-Authenticate", "Bearer")
}

impl From<QueryError> for Response {
    fn from(error: QueryError) -> Response {
        let (status, code) = match error {
            QueryError::Busy => (Status::SERVICE_UNAVAILABLE, "busy"),
            QueryError::Stopping => (Status::SERVICE_UNAVAILABLE, "stopping"),
            QueryError::Timeout => (Status::INTERNAL, "unanswered"),
        };
        Response::error(status, code, &error.to_string())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Parts(parts) => parts.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Parts(_) => SizeHint::default(),
        }
    }
}

fn push_load_error(body: &mut String, error: &LoadError) {
    push_members(body, &[("code", error.code.as_str()), ("message", &error.message), ("file", &error.file)]);
    if let Some((line, column)) = error.position {
        let _ = write!(body, ",\"line\":{line},\"column\":{column}");
    }
}

fn push_members(body: &mut String, members: &[(&str, &str)]) {
    for (at, (name, value)) in members.iter().enumerate() {
        body.push_str(if at > 0 { "," } else { "" });
        push_string(body, name);
        body.push(':');
        push_string(body, value);
    }
}
