//! The HTTP client that the caller provides.

use crate::Secret;

/// An HTTP client, provided by the thread that runs [`crate::AuthWork`].
pub trait HttpClient {
    /// Sends an HTTP request and waits for the response. Redirects are not followed.
    ///
    /// # Errors
    /// No complete response was received.
    fn request(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError>;
}

/// A request: POST if there is a body, GET otherwise.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'r> {
    /// `http://…` or `https://…`.
    pub url: &'r str,
    /// Headers in addition to those of every request. Values may be secrets.
    pub fields: &'r [(Box<str>, Secret)],
    /// JSON, which may contain secrets.
    pub body: Option<&'r Secret>,
    /// The total timeout.
    pub timeout_ms: u64,
    /// Maximum length of the response body.
    pub response_bytes_max: usize,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// `Retry-After` in seconds; `None` if it is missing or a date.
    pub retry_after_s: Option<u32>,
}

impl HttpResponse {
    /// A response with only status and body.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> HttpResponse {
        HttpResponse { status, body: body.into(), retry_after_s: None }
    }
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpRequestError {
    /// The timeout was exceeded.
    Timeout,
    /// The body exceeds its limit.
    TooLarge,
    /// The connection failed: why.
    Unreachable(String),
}

impl std::fmt::Display for HttpRequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HttpRequestError::Timeout => f.write_str("no response in time"),
            HttpRequestError::TooLarge => f.write_str("the response is too large"),
            HttpRequestError::Unreachable(why) => f.write_str(why),
        }
    }
}

/// A client for which nothing is reachable.
impl HttpClient for () {
    fn request(&self, _: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
        Err(HttpRequestError::Unreachable("no network".to_owned()))
    }
}

/// A URL without its query, which may be a secret, for messages.
pub(crate) fn shown_url(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Whether traffic with a URL is protected: by TLS, or because it stays on this machine. A URL with user and password is not safe, as URLs
/// are shown in messages; neither is one that cannot be parsed.
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
