//! What the crate cannot do itself.

use crate::Secret;

/// The world outside, as a thread that runs [`crate::AuthWork`] has it.
pub trait HttpClient {
    /// Sends a request by HTTP and waits for the answer. Redirections are not followed.
    ///
    /// # Errors
    /// No whole answer came.
    fn request(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError>;
}

/// A request. With a body it is a POST, else a GET.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'r> {
    /// `http://…` or `https://…`.
    pub url: &'r str,
    /// Fields of the head beside those that every request has. Values may be secrets.
    pub fields: &'r [(Box<str>, Secret)],
    /// JSON. It may have secrets in it.
    pub body: Option<&'r Secret>,
    /// How long all of it may take.
    pub timeout_ms: u64,
    /// Longest body of an answer.
    pub response_bytes_max: usize,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// `Retry-After` in seconds; `None` where there is none, or a date.
    pub retry_after_s: Option<u32>,
}

impl HttpResponse {
    /// One that says no more than this.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> HttpResponse {
        HttpResponse { status, body: body.into(), retry_after_s: None }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpRequestError {
    /// It took too long.
    Timeout,
    /// The body is longer than it may be.
    TooLarge,
    /// No connection, or it broke: why.
    Unreachable(String),
}

impl std::fmt::Display for HttpRequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HttpRequestError::Timeout => f.write_str("no answer in time"),
            HttpRequestError::TooLarge => f.write_str("the answer is too large"),
            HttpRequestError::Unreachable(why) => f.write_str(why),
        }
    }
}

/// Nothing can be reached.
impl HttpClient for () {
    fn request(&self, _: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
        Err(HttpRequestError::Unreachable("nothing can be reached".to_owned()))
    }
}

/// A URL as it may be shown: what follows a question mark may be a secret.
pub(crate) fn shown_url(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Whether what goes to a URL and comes from it is safe from others: by TLS, or on this machine. A URL has no user and password in it: it is
/// shown. One that has is not, and neither is one that cannot be read.
#[must_use]
pub fn is_safe_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains(['@', '\\']) || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return false;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_here =
        || host == "localhost" || host.parse::<core::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    scheme == "https" || (scheme == "http" && is_here())
}
