//! Reading a request, within limits of size and time.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::login::COOKIE;
use super::response::{Response, Status};

/// Request line and header fields.
const HEAD_MAX_BYTES: usize = 8 * 1024;
/// Header fields.
const FIELDS_MAX: usize = 64;
/// Cookies of one name that are looked at: another page of the same host may have left one.
const COOKIES_MAX: usize = 4;
/// A body: the largest schema, each byte of it escaped, and some.
pub(super) const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;
/// What is read and thrown away of a body that was refused, so that the answer is not lost with the connection.
const DRAIN_MAX_BYTES: usize = 16 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    /// Without a query.
    pub(super) path: String,
    /// What follows the first `?`.
    pub(super) query: String,
    /// What follows `Bearer` in the field Authorization.
    pub(super) token: Option<Vec<u8>>,
    /// Those of sessions.
    pub(super) cookies: Vec<String>,
    /// The field X-CSRF-Token.
    pub(super) csrf: Option<Vec<u8>>,
    /// The field Sec-Fetch-Site: where the page is from that makes the request.
    pub(super) fetch_site: Option<String>,
    /// By TLS, or a proxy says that it ends TLS.
    pub(super) came_by_https: bool,
    pub(super) accept: String,
    pub(super) accept_encoding: String,
    /// Tags of what the client has kept.
    pub(super) if_none_match: String,
    pub(super) content_type: Option<String>,
    pub(super) body_bytes: Option<usize>,
    /// The body follows once we have said that it may.
    pub(super) awaits_continue: bool,
}

/// A connection being read from.
pub(super) struct Reading<'s> {
    connection: &'s Connection,
    deadline: Instant,
    bytes: Vec<u8>,
    /// Where the body begins.
    body_at: usize,
    /// The client may still be writing.
    is_unread: bool,
}

impl<'s> Reading<'s> {
    pub(super) fn new(connection: &'s Connection, deadline: Instant) -> Reading<'s> {
        Reading { connection, deadline, bytes: Vec::new(), body_at: 0, is_unread: true }
    }

    /// The head; `None` where the connection ends before anything comes.
    ///
    /// # Errors
    /// The answer to what is no request, or one that this server does not take.
    pub(super) fn head(&mut self) -> Result<Option<Head>, Response> {
        loop {
            if !self.read().map_err(|error| failed(&error))? {
                self.is_unread = false;
                let cut = || Response::error(Status::BAD_REQUEST, "bad_request", "the request ends in its head");
                return if self.bytes.is_empty() { Ok(None) } else { Err(cut()) };
            }
            let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut request = httparse::Request::new(&mut fields);
            match request.parse(&self.bytes) {
                Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX_BYTES => {
                    self.body_at = length;
                    if request.version == Some(1) {
                        self.connection.take_for_1_1();
                    }
                    let mut head = understood(&request)?;
                    head.came_by_https |= self.connection.is_over_tls();
                    return Ok(Some(head));
                }
                Ok(httparse::Status::Partial) if self.bytes.len() < HEAD_MAX_BYTES => {}
                Ok(_) | Err(httparse::Error::TooManyHeaders) => {
                    let message = format!("the head is larger than {HEAD_MAX_BYTES} bytes or {FIELDS_MAX} fields");
                    return Err(Response::error(Status::HEAD_TOO_LARGE, "head_too_large", &message));
                }
                Err(error) => {
                    return Err(Response::error(Status::BAD_REQUEST, "bad_request", &format!("no HTTP: {error}")));
                }
            }
        }
    }

    /// The connection, for an answer that is a stream.
    pub(super) fn connection(&self) -> &'s Connection {
        self.connection
    }

    /// When the answer is to be there.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The body of the request with this head.
    ///
    /// # Errors
    /// The answer to a request whose body is missing, too large, or does not come.
    pub(super) fn body(&mut self, head: &Head) -> Result<&[u8], Response> {
        let Some(length) = head.body_bytes else {
            return Err(Response::error(Status::LENGTH_REQUIRED, "length_required", "Content-Length is missing"));
        };
        if length > BODY_MAX_BYTES {
            let message = format!("the body is larger than {BODY_MAX_BYTES} bytes");
            return Err(Response::error(Status::BODY_TOO_LARGE, "body_too_large", &message));
        }
        let end = self.body_at + length;
        if head.awaits_continue && self.bytes.len() < end {
            let go_on = self.connection.say_continue(self.deadline);
            go_on.map_err(|error| failed(&error))?;
        }
        while self.bytes.len() < end {
            if !self.read().map_err(|error| failed(&error))? {
                self.is_unread = false;
                return Err(Response::error(Status::BAD_REQUEST, "bad_request", "the request ends in its body"));
            }
        }
        self.is_unread = false;
        Ok(&self.bytes[self.body_at..end])
    }

    /// Nothing of a body follows, or none is wanted: reads and forgets what still comes, so that the client gets to read its
    /// answer.
    pub(super) fn drain(&mut self) {
        self.connection.end(self.deadline);
        if !self.is_unread {
            return;
        }
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        let mut left = DRAIN_MAX_BYTES;
        let mut chunk = [0; 16 * 1024];
        while left > 0 && Instant::now() < deadline {
            match self.connection.discard(&mut chunk, deadline) {
                Ok(0) | Err(_) => return,
                Ok(count) => left = left.saturating_sub(count),
            }
        }
    }

    /// Reads some more; false at the end.
    fn read(&mut self) -> io::Result<bool> {
        if Instant::now() >= self.deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut chunk = [0; 16 * 1024];
        let count = self.connection.read(&mut chunk, self.deadline)?;
        self.bytes.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }
}

/// The part of the head that counts here. What two readers could understand in two ways is refused.
fn understood(request: &httparse::Request<'_, '_>) -> Result<Head, Response> {
    let bad = |message: &str| Response::error(Status::BAD_REQUEST, "bad_request", message);
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        token: None,
        cookies: Vec::new(),
        csrf: None,
        fetch_site: None,
        came_by_https: false,
        accept: String::new(),
        accept_encoding: String::new(),
        if_none_match: String::new(),
        content_type: None,
        body_bytes: None,
        awaits_continue: false,
    };
    let mut is_authorized = false;
    for field in request.headers.iter() {
        let text = || str::from_utf8(field.value).map(str::trim).map_err(|_| bad("a header field is not text"));
        if field.name.eq_ignore_ascii_case("content-length") {
            let length = Some(text()?).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
            let length = length.and_then(|digits| digits.parse().ok());
            if head.body_bytes.is_some() || length.is_none() {
                return Err(bad("Content-Length is no number, or stands there twice"));
            }
            head.body_bytes = length;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            let message = "Transfer-Encoding is not understood here; send the body with Content-Length";
            return Err(Response::error(Status::NOT_IMPLEMENTED, "not_implemented", message));
        } else if field.name.eq_ignore_ascii_case("expect") {
            if !text()?.eq_ignore_ascii_case("100-continue") {
                return Err(Response::error(Status::EXPECTATION_FAILED, "expectation_failed", "only 100-continue"));
            }
            head.awaits_continue = true;
        } else if field.name.eq_ignore_ascii_case("accept") {
            head.accept = text()?.to_owned();
        } else if field.name.eq_ignore_ascii_case("accept-encoding") {
            head.accept_encoding = text()?.to_owned();
        } else if field.name.eq_ignore_ascii_case("if-none-match") {
            head.if_none_match = text()?.to_owned();
        } else if field.name.eq_ignore_ascii_case("content-type") {
            if head.content_type.replace(text()?.to_owned()).is_some() {
                return Err(bad("Content-Type stands there twice"));
            }
        } else if field.name.eq_ignore_ascii_case("cookie") {
            let cookies = text()?.split(';').filter_map(|cookie| cookie.trim().split_once('='));
            let of_sessions = cookies.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned());
            head.cookies.extend(of_sessions.take(COOKIES_MAX));
        } else if field.name.eq_ignore_ascii_case("x-csrf-token") {
            head.csrf = Some(field.value.trim_ascii().to_vec());
        } else if field.name.eq_ignore_ascii_case("sec-fetch-site") {
            head.fetch_site = Some(text()?.to_owned());
        } else if field.name.eq_ignore_ascii_case("x-forwarded-proto") {
            head.came_by_https = text()?.eq_ignore_ascii_case("https");
        } else if field.name.eq_ignore_ascii_case("forwarded") {
            let mut pairs = text()?.split([',', ';']).filter_map(|pair| pair.trim().split_once('='));
            head.came_by_https = pairs.any(|(name, value)| {
                name.eq_ignore_ascii_case("proto") && value.trim_matches('"').eq_ignore_ascii_case("https")
            });
        } else if field.name.eq_ignore_ascii_case("authorization") {
            if std::mem::replace(&mut is_authorized, true) {
                return Err(bad("Authorization stands there twice"));
            }
            let (scheme, token) = field.value.split_at_checked(7).unwrap_or_default();
            head.token = scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii().to_vec());
        }
    }
    Ok(head)
}

fn failed(error: &io::Error) -> Response {
    let code = if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) { "timeout" } else { "lost" };
    Response::error(Status::TIMEOUT, code, "the request did not come whole in time")
}

/// Until the deadline; never zero, which would mean for ever.
pub(super) fn time_left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}
