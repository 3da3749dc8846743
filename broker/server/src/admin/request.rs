//! Reading a request, within size and time limits.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use tokio::time::timeout_at;

use super::response::{Response, Status};
use super::sessions::COOKIE;

/// Limit for the request line and the header fields.
pub(super) const REQUEST_HEAD_MAX_BYTES: usize = 8 * 1024;
/// Limit for the number of header fields.
pub(super) const FIELDS_MAX: usize = 64;
/// Session cookies that are tried: another page on the same host may have set one of the same name.
const COOKIES_MAX: usize = 4;
/// Limit for the body: the largest schema with every byte escaped, plus some room.
pub(super) const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    /// The path without the query.
    pub(super) path: String,
    /// The part after the first `?`.
    pub(super) query: String,
    /// The credentials after `Bearer` in the Authorization field.
    pub(super) token: Option<Vec<u8>>,
    /// The values of the session cookies.
    pub(super) cookies: Vec<String>,
    /// The field X-CSRF-Token.
    pub(super) csrf: Option<Vec<u8>>,
    /// The field Sec-Fetch-Site: the origin of the page that makes the request.
    pub(super) fetch_site: Option<String>,
    /// Whether the request came over TLS, or a proxy reports that it terminates TLS.
    pub(super) came_by_https: bool,
    pub(super) accept: String,
    pub(super) accept_encoding: String,
    /// The entity tags of the client's cached responses.
    pub(super) if_none_match: String,
    pub(super) content_type: Option<String>,
    pub(super) body_bytes: Option<usize>,
}

/// The body of a request, and its deadline.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// `None` if the request has no Content-Length.
    body: Option<Vec<u8>>,
    /// When the response is due.
    pub(super) deadline: Instant,
}

impl RequestBody {
    /// A request without a body.
    pub(super) fn without_body(deadline: Instant) -> RequestBody {
        RequestBody { body: None, deadline }
    }

    /// Reads the body of the request with this head. A body of GET or HEAD is ignored.
    ///
    /// # Errors
    /// The response to a request whose body is larger than `max_bytes` or does not arrive.
    pub(super) async fn read(
        head: &Head,
        mut incoming: Incoming,
        max_bytes: usize,
        deadline: Instant,
    ) -> Result<RequestBody, Response> {
        let Some(length) = head.body_bytes.filter(|_| !head.is_safe()) else {
            return Ok(RequestBody::without_body(deadline));
        };
        if length > max_bytes {
            let message = format!("the body has {length} bytes; the limit is {max_bytes}");
            return Err(Response::error(Status::BODY_TOO_LARGE, "body_too_large", &message));
        }
        let mut body = Vec::new();
        loop {
            let frame = timeout_at(deadline.into(), poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)));
            match frame.await {
                Ok(Some(Ok(frame))) => body.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Ok(Some(Err(_))) => {
                    return Err(Response::error(
                        Status::BAD_REQUEST,
                        "bad_request",
                        "the connection ended within the request body",
                    ));
                }
                Ok(None) => return Ok(RequestBody { body: Some(body), deadline }),
                Err(_) => return Err(timed_out()),
            }
        }
    }

    /// # Errors
    /// The response to a request that needs a body and has none.
    pub(super) fn body(&self) -> Result<&[u8], Response> {
        let missing = || Response::error(Status::LENGTH_REQUIRED, "length_required", "Content-Length is missing");
        self.body.as_deref().ok_or_else(missing)
    }
}

/// The response to a request that does not arrive completely in time.
pub(super) fn timed_out() -> Response {
    Response::error(Status::TIMEOUT, "timeout", "the request did not arrive completely in time")
}

impl Head {
    /// Whether the method changes nothing (RFC 9110, section 9.2.1).
    pub(super) fn is_safe(&self) -> bool {
        matches!(&*self.method, "GET" | "HEAD")
    }

    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Extracts the parts of a head that the API uses. Ambiguous requests are rejected: hyper rejects conflicting lengths, and this
    /// function rejects repeated fields that HTTP does not allow to repeat.
    ///
    /// # Errors
    /// The response to a request that this server does not support.
    pub(super) fn read(parts: &Parts, is_tls: bool) -> Result<Head, Response> {
        let fields = &parts.headers;
        if fields.contains_key("transfer-encoding") {
            let message = "Transfer-Encoding is not supported; send the body with Content-Length";
            return Err(Response::error(Status::NOT_IMPLEMENTED, "not_implemented", message));
        }
        if one(fields, "expect")?.is_some_and(|expected| !expected.eq_ignore_ascii_case("100-continue")) {
            return Err(Response::error(
                Status::EXPECTATION_FAILED,
                "expectation_failed",
                "the only supported expectation is 100-continue",
            ));
        }
        let length = one(fields, "content-length")?;
        let length = length.map(|digits| digits.parse().map_err(|_| bad_request("Content-Length is not a number")));
        let authorization = one_value(fields, "authorization")?.map(HeaderValue::as_bytes);
        let (scheme, token) = authorization.and_then(|value| value.split_at_checked(7)).unwrap_or_default();
        let cookies = all(fields, "cookie")?.into_iter().flat_map(|cookies| cookies.split(';'));
        let cookies = cookies.filter_map(|cookie| cookie.trim().split_once('='));
        // A request to a proxy has an absolute URI. This server is not a proxy: no route matches that.
        let path = match parts.uri.scheme() {
            Some(_) => parts.uri.to_string(),
            None => parts.uri.path().to_owned(),
        };
        Ok(Head {
            method: parts.method.as_str().to_owned(),
            path,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            token: scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii().to_vec()),
            cookies: cookies
                .filter(|(name, _)| *name == COOKIE)
                .map(|(_, value)| value.to_owned())
                .take(COOKIES_MAX)
                .collect(),
            csrf: one_value(fields, "x-csrf-token")?.map(|value| value.as_bytes().trim_ascii().to_vec()),
            fetch_site: one(fields, "sec-fetch-site")?.map(str::to_owned),
            came_by_https: is_tls || was_https_at_proxy(fields)?,
            accept: all(fields, "accept")?.join(", "),
            accept_encoding: all(fields, "accept-encoding")?.join(", "),
            if_none_match: all(fields, "if-none-match")?.join(", "),
            content_type: one(fields, "content-type")?.map(str::to_owned),
            body_bytes: length.transpose()?,
        })
    }
}

/// Whether a proxy reports that it terminates TLS.
fn was_https_at_proxy(fields: &HeaderMap) -> Result<bool, Response> {
    let x_forwarded = all(fields, "x-forwarded-proto")?.iter().any(|proto| proto.eq_ignore_ascii_case("https"));
    let forwarded = all(fields, "forwarded")?;
    let mut pairs =
        forwarded.iter().flat_map(|value| value.split([',', ';'])).filter_map(|pair| pair.trim().split_once('='));
    Ok(x_forwarded
        || pairs.any(|(name, value)| {
            name.eq_ignore_ascii_case("proto") && value.trim_matches('"').eq_ignore_ascii_case("https")
        }))
}

/// All values of a field, as text.
fn all<'f>(fields: &'f HeaderMap, name: &str) -> Result<Vec<&'f str>, Response> {
    let values = fields.get_all(name).iter();
    values.map(text).collect()
}

fn text(value: &HeaderValue) -> Result<&str, Response> {
    str::from_utf8(value.as_bytes()).map(str::trim).map_err(|_| bad_request("a header field is not UTF-8"))
}

/// The value of a field that must not repeat.
fn one_value<'f>(fields: &'f HeaderMap, name: &'static str) -> Result<Option<&'f HeaderValue>, Response> {
    let mut values = fields.get_all(HeaderName::from_static(name)).iter();
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(bad_request(&format!("duplicate header field {name}"))),
    }
}

fn one<'f>(fields: &'f HeaderMap, name: &'static str) -> Result<Option<&'f str>, Response> {
    one_value(fields, name)?.map(text).transpose()
}

fn bad_request(message: &str) -> Response {
    Response::error(Status::BAD_REQUEST, "bad_request", message)
}

/// The time until the deadline; never zero, which would mean no limit.
pub(super) fn time_left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}
