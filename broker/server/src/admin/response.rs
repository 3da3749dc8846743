//! What is answered.

use std::fmt::{self, Write as _};
use std::io;
use std::time::Instant;

use tautwire_contracts::LoadError;

use super::connection::Connection;
use crate::json::push_string;

/// A status code with its words.
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

/// An answer to a request.
#[derive(Debug)]
pub(super) struct Response {
    status: Status,
    content_type: &'static str,
    /// Whether a browser may keep it, if it asks each time whether it still holds.
    is_kept: bool,
    /// Further header fields, each with its line end.
    fields: String,
    body: Vec<u8>,
}

pub(super) const JSON: &str = "application/json";
/// The answer has been written as a stream; nothing follows.
pub(super) const STREAMED: &str = "";
pub(super) const TOML: &str = "application/toml";

impl Response {
    pub(super) fn new(status: Status, content_type: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response { status, content_type, is_kept: false, fields: String::new(), body: body.into() }
    }

    /// `{"code": …, "message": …}`.
    pub(super) fn error(status: Status, code: &str, message: &str) -> Response {
        let mut body = String::from("{");
        push_members(&mut body, &[("code", code), ("message", message)]);
        body.push_str("}\n");
        Response::new(status, JSON, body)
    }

    /// Everything that is wrong with contracts. The first of it is said like any error; all of it is under `errors`.
    pub(super) fn wrong_contracts(errors: &[LoadError]) -> Response {
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

    /// Everything that is wrong with a configuration, a line each.
    pub(super) fn wrong_configuration(errors: &[String]) -> Response {
        let mut body = String::from("{");
        push_members(&mut body, &[("code", "config_wrong"), ("message", "nothing has changed: see errors")]);
        body.push_str(",\"errors\":[");
        for (at, error) in errors.iter().enumerate() {
            body.push_str(if at > 0 { "," } else { "" });
            push_string(&mut body, error);
        }
        body.push_str("]}\n");
        Response::new(Status::UNPROCESSABLE, JSON, body)
    }

    /// The same with another header field.
    pub(super) fn with(mut self, name: &str, value: &str) -> Response {
        let _ = write!(self.fields, "{name}: {value}\r\n");
        self
    }

    /// The same, which a browser may keep, if it asks each time whether it still holds.
    pub(super) fn kept_if_unchanged(mut self) -> Response {
        self.is_kept = true;
        self
    }

    pub(super) fn status(&self) -> Status {
        self.status
    }

    pub(super) fn is_error(&self) -> bool {
        self.status.0 >= 400
    }

    /// Writes it. The connection ends with it.
    pub(super) fn write(&self, connection: &Connection, deadline: Instant) -> io::Result<()> {
        let Response { status, content_type, is_kept, fields, body } = self;
        if *content_type == STREAMED {
            return Ok(());
        }
        let cache = if *is_kept { "no-cache" } else { "no-store" };
        let described = match *status {
            Status::NO_CONTENT | Status::NOT_MODIFIED => String::new(),
            _ => format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len()),
        };
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\n{described}{fields}Cache-Control: {cache}\r\nX-Content-Type-Options: nosniff\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        connection.write_all(&bytes, deadline)
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
