//! The origins of web pages that may connect (RFC 6455 section 10.2).
//!
//! A browser lets any page open a WebSocket to any address that it can reach, the user's own machine included, and sends the page's origin
//! in the Origin header. Programs other than browsers send no Origin, or an arbitrary one.

use std::fmt;
// Addresses as text, no sockets.
use core::net::IpAddr;

/// An origin whose pages may connect, in addition to local ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(Box<str>);

impl AllowedOrigin {
    /// `*` for all, `null` for pages with an opaque origin (files, sandboxed frames), or scheme, host and non-default port:
    /// `https://example.org`, `http://10.0.0.7:3000`.
    pub fn new(text: &str) -> Option<AllowedOrigin> {
        let is_origin = WebOrigin::parse(text).is_some_and(|origin| !origin.host.is_empty());
        (text == "*" || text == "null" || is_origin).then(|| AllowedOrigin(text.into()))
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn allows(&self, origin: &str) -> bool {
        &*self.0 == "*" || self.0.eq_ignore_ascii_case(origin)
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The origins whose pages may connect. Pages of this machine (`localhost`, 127.0.0.0/8, `[::1]`) are always allowed, and pages from the
/// address that the request is for, if that is an IP address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(Vec<AllowedOrigin>);

impl Origins {
    /// The local origins and these.
    pub fn new(allowed: Vec<AllowedOrigin>) -> Origins {
        Origins(allowed)
    }

    /// Whether a page from `origin` may connect to `host`, the value of the Host header.
    pub(crate) fn allow(&self, origin: &str, host: &str) -> bool {
        self.0.iter().any(|allowed| allowed.allows(origin)) || is_local_origin(origin, host)
    }
}

/// Whether a page is from this machine, or from the host of the request. The latter counts only as an IP address: a name proves nothing,
/// since its owner can point it to this machine after the page was loaded from another.
fn is_local_origin(origin: &str, host: &str) -> bool {
    let Some(origin) = WebOrigin::parse(origin) else { return false };
    if !matches!(origin.scheme, "http" | "https") {
        return false;
    }
    if origin.host == "localhost" || origin.host.ends_with(".localhost") {
        return true;
    }
    let Some(address) = address(origin.host) else { return false };
    let requested = split_port(host).and_then(|(host, _)| self::address(host));
    address.is_loopback() || requested == Some(address)
}

/// The components of an origin.
struct WebOrigin<'a> {
    scheme: &'a str,
    host: &'a str,
}

impl<'a> WebOrigin<'a> {
    fn parse(text: &'a str) -> Option<WebOrigin<'a>> {
        let (scheme, authority) = text.split_once("://")?;
        let (host, _) = split_port(authority)?;
        let scheme_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~[]:".contains(&byte);
        let valid = !scheme.is_empty() && scheme.bytes().all(scheme_byte) && host.bytes().all(host_byte);
        valid.then_some(WebOrigin { scheme, host })
    }
}

/// Splits an authority into host and port; the brackets of an IPv6 address stay.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let name_end = if authority.starts_with('[') { authority.find(']')? + 1 } else { 0 };
    match authority[name_end..].split_once(':') {
        None if name_end > 0 && name_end < authority.len() => None,
        None => Some((authority, None)),
        Some((rest, port)) => {
            let host = &authority[..name_end + rest.len()];
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let whole = name_end == 0 || rest.is_empty();
            Some((host, Some(port.parse().ok().filter(|_| digits && whole)?)))
        }
    }
}

fn address(host: &str) -> Option<IpAddr> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "192.0.2.7:8083";

    fn origins(allowed: &[&str]) -> Origins {
        Origins::new(allowed.iter().map(|text| AllowedOrigin::new(text).expect("an origin")).collect())
    }

    #[test]
    fn pages_of_this_machine_and_the_requested_address_can_connect() {
        for origin in [
            "http://localhost",
            "http://localhost:3000",
            "https://app.localhost",
            "http://127.0.0.1:8080",
            "http://127.8.9.10",
            "http://[::1]:5173",
            "http://192.0.2.7",
            "https://192.0.2.7:8443",
        ] {
            assert!(origins(&[]).allow(origin, HOST), "{origin}");
        }
        assert!(origins(&[]).allow("http://[2001:db8::1]", "[2001:0db8::1]:8083"));
    }

    #[test]
    fn other_pages_cannot_connect() {
        for origin in [
            "",
            "null",
            "http://example.org",
            "http://192.0.2.8",
            "http://127.0.0.1.example.org",
            "http://localhost.example.org",
            "http://notlocalhost",
            "http://127.0.0.1@example.org",
            "http://example.org:80:127.0.0.1",
            "http://[::1]example.org",
            "http://[::1",
            "http://127.0.0.1:http",
            "http://127.0.0.1:+80",
            "file://localhost",
            "localhost",
            "http:localhost",
        ] {
            assert!(!origins(&[]).allow(origin, HOST), "{origin}");
        }
        // The page's own name may point to this machine in the meantime.
        assert!(!origins(&[]).allow("http://example.org", "example.org:8083"));
    }

    #[test]
    fn listed_origins_can_connect() {
        let listed = origins(&["https://example.org", "http://dash.example.org:3000", "null"]);
        for origin in ["https://example.org", "HTTPS://Example.ORG", "http://dash.example.org:3000", "null"] {
            assert!(listed.allow(origin, HOST), "{origin}");
        }
        for origin in
            ["http://example.org", "https://example.org:444", "https://www.example.org", "http://dash.example.org"]
        {
            assert!(!listed.allow(origin, HOST), "{origin}");
        }
        assert!(origins(&["*"]).allow("http://example.org", HOST));
        assert!(origins(&["*"]).allow("whatever", HOST));
    }

    #[test]
    fn an_invalid_origin_cannot_be_listed() {
        for text in [
            "",
            "example.org",
            "https://",
            "https://example.org/",
            "https://example.org/path",
            "https://*.example.org",
            "http://a:b",
        ] {
            assert!(AllowedOrigin::new(text).is_none(), "{text}");
        }
    }
}
