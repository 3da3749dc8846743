//! Version 2, the binary format (section 2.2).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crc32c::crc32c_append;

use crate::{HEADER_MAX_BYTES, ParsedHeader, ProxiedClient, ProxyHeader, ProxyHeaderError};

pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and protocol, length of the rest.
const FIXED_BYTES: usize = 16;
const UNIX_ADDRESSES_BYTES: usize = 2 * 108;

/// `PP2_TYPE_CRC32C`
const TYPE_CRC32C: u8 = 0x03;
/// `PP2_TYPE_SSL`
const TYPE_SSL: u8 = 0x20;
/// `PP2_SUBTYPE_SSL_CN`
const SUBTYPE_SSL_CN: u8 = 0x22;
/// `PP2_CLIENT_SSL`, `PP2_CLIENT_CERT_CONN` and `PP2_CLIENT_CERT_SESS`
const CLIENT_SSL: u8 = 0x01;
const CLIENT_CERTIFICATE: u8 = 0x02 | 0x04;
/// The longest accepted common name: X.520 allows 64 characters.
const COMMON_NAME_MAX_BYTES: usize = 256;

pub(crate) fn parse(bytes: &[u8]) -> Result<Option<ParsedHeader>, ProxyHeaderError> {
    let Some(fixed) = bytes.get(SIGNATURE.len()..) else { return Ok(None) };
    if fixed.first().is_some_and(|first| first >> 4 != 2) {
        return Err(ProxyHeaderError::Malformed("the version is not 2"));
    }
    let command = match fixed.first().map(|first| first & 0x0f) {
        None => return Ok(None),
        Some(0) => Command::Local,
        Some(1) => Command::Proxy,
        Some(_) => return Err(ProxyHeaderError::Malformed("the command is neither LOCAL nor PROXY")),
    };
    let family = match fixed.get(1) {
        None => return Ok(None),
        Some(family) => Family::of(*family, command)?,
    };
    let Some(&[high, low]) = fixed.get(2..4) else { return Ok(None) };
    let len = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if len > HEADER_MAX_BYTES {
        return Err(ProxyHeaderError::TooLong);
    }
    let Some(whole) = bytes.get(..len) else { return Ok(None) };
    let header = match (command, family) {
        // The rest must be discarded.
        (Command::Local, _) => ProxyHeader::Local,
        (Command::Proxy, family) => proxied(family, whole)?,
    };
    Ok(Some(ParsedHeader { header, len }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Local,
    Proxy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Unspecified,
    V4,
    V6,
    Unix,
}

impl Family {
    /// Decodes the byte of family and protocol. LOCAL allows any value.
    fn of(byte: u8, command: Command) -> Result<Family, ProxyHeaderError> {
        match byte {
            _ if command == Command::Local => Ok(Family::Unspecified),
            0x00 => Ok(Family::Unspecified),
            0x11 => Ok(Family::V4),
            0x21 => Ok(Family::V6),
            0x31 => Ok(Family::Unix),
            _ => Err(ProxyHeaderError::Malformed("the address family or protocol is not valid for a stream")),
        }
    }
}

fn proxied(family: Family, whole: &[u8]) -> Result<ProxyHeader, ProxyHeaderError> {
    let rest = whole.get(FIXED_BYTES..).unwrap_or_default();
    let (source, addresses_bytes) = match family {
        // The addresses of the connection apply.
        Family::Unspecified => return Ok(ProxyHeader::Local),
        Family::V4 => (source::<4, Ipv4Addr>(rest), 2 * (4 + 2)),
        Family::V6 => (source::<16, Ipv6Addr>(rest), 2 * (16 + 2)),
        // A client on the proxy's machine: the address of the proxy is the best there is.
        Family::Unix => (None, UNIX_ADDRESSES_BYTES),
    };
    let tlvs =
        rest.get(addresses_bytes..).ok_or(ProxyHeaderError::Malformed("the header is too short for its addresses"))?;
    check_sum(whole, tlvs)?;
    let tls = tls(tlvs)?;
    let Some(source) = source else { return Ok(ProxyHeader::Local) };
    let Tls { is_present, is_verified, common_name } = tls.unwrap_or_default();
    Ok(ProxyHeader::Proxied(ProxiedClient { source, is_encrypted: is_present, is_verified, common_name }))
}

/// The source of a pair of source and destination addresses, `N` bytes each, followed by their ports.
fn source<const N: usize, A: From<[u8; N]> + Into<IpAddr>>(rest: &[u8]) -> Option<SocketAddr> {
    let address: [u8; N] = rest.first_chunk().copied()?;
    let port = rest.get(2 * N..2 * N + 2)?;
    Some(SocketAddr::new(A::from(address).into(), u16::from_be_bytes([port[0], port[1]])))
}

/// The TLS state that the proxy reports.
#[derive(Default)]
struct Tls {
    is_present: bool,
    is_verified: bool,
    common_name: Option<Box<str>>,
}

/// Checks `PP2_TYPE_CRC32C`, if present: the sum over the whole header with zeros in place of the checksum (section 2.2.3).
fn check_sum(whole: &[u8], mut tlvs: &[u8]) -> Result<(), ProxyHeaderError> {
    let mut stored = None;
    while let Some((kind, value)) = next(&mut tlvs)? {
        if kind != TYPE_CRC32C {
            continue;
        }
        let Ok(sum) = value.try_into().map(u32::from_be_bytes) else {
            return Err(ProxyHeaderError::Malformed("the checksum does not have 4 bytes"));
        };
        // An offset from the end, which is the same in both slices.
        let bytes_after = tlvs.len();
        if stored.replace((sum, bytes_after)).is_some() {
            return Err(ProxyHeaderError::Malformed("there are two checksums"));
        }
    }
    let Some((sum, bytes_after)) = stored else { return Ok(()) };
    let (before, after) = whole.split_at(whole.len() - bytes_after);
    let before = before.get(..before.len() - size_of::<u32>()).unwrap_or_default();
    let found = [before, &[0; size_of::<u32>()], after].iter().fold(0, |sum, part| crc32c_append(sum, part));
    if found == sum { Ok(()) } else { Err(ProxyHeaderError::Malformed("the checksum does not match the header")) }
}

/// Reads `PP2_TYPE_SSL`, if present (section 2.2.6). All other TLVs only need to be complete.
fn tls(mut tlvs: &[u8]) -> Result<Option<Tls>, ProxyHeaderError> {
    let mut found = None;
    while let Some((kind, value)) = next(&mut tlvs)? {
        if kind != TYPE_SSL {
            continue;
        }
        if found.is_some() {
            return Err(ProxyHeaderError::Malformed("there are two PP2_TYPE_SSL TLVs"));
        }
        let Some((&[client, a, b, c, d], mut inner)) = value.split_first_chunk() else {
            return Err(ProxyHeaderError::Malformed("the PP2_TYPE_SSL TLV is too short"));
        };
        // 0 if the client has presented a certificate and it was verified.
        let is_verified = [a, b, c, d] == [0; 4] && client & CLIENT_CERTIFICATE != 0 && client & CLIENT_SSL != 0;
        let mut common_name = None;
        while let Some((kind, value)) = next(&mut inner)? {
            if kind == SUBTYPE_SSL_CN && common_name.replace(name_of(value)?).is_some() {
                return Err(ProxyHeaderError::Malformed("there are two common names"));
            }
        }
        found = Some(Tls {
            is_present: client & CLIENT_SSL != 0,
            is_verified,
            common_name: common_name.filter(|_| is_verified),
        });
    }
    Ok(found)
}

/// The next TLV: type and value.
fn next<'a>(tlvs: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, ProxyHeaderError> {
    let cut = ProxyHeaderError::Malformed("a TLV is truncated");
    let Some((&[kind, high, low], rest)) = tlvs.split_first_chunk() else {
        return if tlvs.is_empty() { Ok(None) } else { Err(cut) };
    };
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low]))).ok_or(cut)?;
    *tlvs = rest;
    Ok(Some((kind, value)))
}

fn name_of(value: &[u8]) -> Result<Box<str>, ProxyHeaderError> {
    let name = str::from_utf8(value).map_err(|_| ProxyHeaderError::Malformed("the common name is not UTF-8"))?;
    let is_name = (1..=COMMON_NAME_MAX_BYTES).contains(&name.len()) && !name.contains(char::is_control);
    is_name
        .then(|| name.into())
        .ok_or(ProxyHeaderError::Malformed("the common name is empty, too long or contains control characters"))
}
