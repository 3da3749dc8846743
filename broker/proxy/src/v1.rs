//! Version 1, a line of text (section 2.1).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

use crate::{ParsedHeader, ProxiedClient, ProxyHeader, ProxyHeaderError};

pub(crate) const SIGNATURE: &[u8] = b"PROXY ";
/// The longest line, CR LF included.
const LINE_MAX_BYTES: usize = 107;

pub(crate) fn parse(bytes: &[u8]) -> Result<Option<ParsedHeader>, ProxyHeaderError> {
    let line = &bytes[..bytes.len().min(LINE_MAX_BYTES)];
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return if line.len() == LINE_MAX_BYTES {
            Err(ProxyHeaderError::Malformed("the line is not terminated"))
        } else {
            Ok(None)
        };
    };
    let text = line[..end].strip_suffix(b"\r").and_then(|line| line.strip_prefix(SIGNATURE));
    let text = text.ok_or(ProxyHeaderError::Malformed("the line does not end in CR LF"))?;
    let text = str::from_utf8(text).map_err(|_| ProxyHeaderError::Malformed("the line is not ASCII"))?;
    let mut words = text.split(' ');
    let header = match words.next() {
        // The rest must be ignored; the addresses of the connection apply.
        Some("UNKNOWN") => ProxyHeader::Local,
        Some("TCP4") => proxied::<Ipv4Addr>(words)?,
        Some("TCP6") => proxied::<Ipv6Addr>(words)?,
        _ => return Err(ProxyHeaderError::Malformed("the protocol is not TCP4, TCP6 or UNKNOWN")),
    };
    Ok(Some(ParsedHeader { header, len: end + 1 }))
}

/// Source and destination, then the port of each.
fn proxied<'a, A: FromStr + Into<IpAddr>>(
    mut words: impl Iterator<Item = &'a str>,
) -> Result<ProxyHeader, ProxyHeaderError> {
    let mut address = || words.next().and_then(|word| A::from_str(word).ok()).map(Into::into);
    let (source, destination) = (address(), address());
    let (Some(source), Some(_)) = (source, destination) else {
        return Err(ProxyHeaderError::Malformed("an address does not match the protocol"));
    };
    let mut port = || words.next().and_then(port_of);
    let (Some(source_port), Some(_)) = (port(), port()) else {
        return Err(ProxyHeaderError::Malformed("a port is not a number from 0 to 65535"));
    };
    if words.next().is_some() {
        return Err(ProxyHeaderError::Malformed("there is more text after the ports"));
    }
    let source = SocketAddr::new(source, source_port);
    Ok(ProxyHeader::Proxied(ProxiedClient { source, is_encrypted: false, is_verified: false, common_name: None }))
}

/// Digits, without leading zeros.
fn port_of(word: &str) -> Option<u16> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    word.parse().ok().filter(|_| is_plain)
}
