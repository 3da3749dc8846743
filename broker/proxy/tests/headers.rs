//! Headers as proxies send them, truncated and changed.

use std::net::SocketAddr;

use tautwire_proxy::{HEADER_MAX_BYTES, ParsedHeader, ProxiedClient, ProxyHeader, ProxyHeaderError, parse};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn client(source: &str) -> ProxiedClient {
    ProxiedClient {
        source: source.parse::<SocketAddr>().expect("an address"),
        is_encrypted: false,
        is_verified: false,
        common_name: None,
    }
}

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).expect("it fits").to_be_bytes();
    [SIGNATURE, &[0x20 | command, family], &length, rest].concat()
}

const V4: &[u8] = &[192, 0, 2, 7, 10, 0, 0, 1, 0xC0, 0x01, 0x07, 0x5B];

fn v6() -> Vec<u8> {
    let source = "2001:db8::7".parse::<std::net::Ipv6Addr>().expect("an address").octets();
    [&source[..], &[0; 16], &[0xC0, 0x01, 0x07, 0x5B]].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind], &u16::try_from(value.len()).expect("it fits").to_be_bytes()[..], value].concat()
}

/// `PP2_TYPE_SSL` with the version and a common name, among others.
fn ssl(flags: u8, verify: u32, name: &[u8]) -> Vec<u8> {
    let inner = [vec![flags], verify.to_be_bytes().to_vec(), tlv(0x21, b"TLSv1.3"), tlv(0x22, name)].concat();
    [tlv(0x04, &[0; 5]), tlv(0x20, &inner), tlv(0xE0, b"own")].concat()
}

/// Parses a header whole, and byte by byte; the MQTT bytes after it are not consumed.
#[track_caller]
fn read(header: &[u8]) -> ProxyHeader {
    for len in 0..header.len() {
        assert_eq!(parse(&header[..len]), Ok(None), "{len} bytes of it");
    }
    let followed = [header, &[0x10, 0x0D, 0x0A]].concat();
    let ParsedHeader { header: parsed, len } = parse(&followed).expect("a header").expect("complete");
    assert_eq!(len, header.len());
    assert_eq!(parse(header), Ok(Some(ParsedHeader { header: parsed.clone(), len })));
    parsed
}

/// Parses an invalid header; from the first byte that shows the error on, the error stays the same.
#[track_caller]
fn fault(bytes: &[u8]) -> ProxyHeaderError {
    let mut faults = (0..=bytes.len()).map(|len| parse(&bytes[..len])).skip_while(|parsed| *parsed == Ok(None));
    let first = faults.next().expect("it is found").expect_err("invalid");
    assert!(faults.all(|parsed| parsed.is_err()), "it stays wrong");
    first
}

#[test]
fn version_1_has_the_client_address() {
    let header = read(b"PROXY TCP4 192.0.2.7 10.0.0.1 49153 1883\r\n");
    assert_eq!(header, ProxyHeader::Proxied(client("192.0.2.7:49153")));
    let header = read(b"PROXY TCP6 2001:db8::7 fd00::1 49153 0\r\n");
    assert_eq!(header, ProxyHeader::Proxied(client("[2001:db8::7]:49153")));
    assert_eq!(read(b"PROXY UNKNOWN\r\n"), ProxyHeader::Local);
    assert_eq!(read(b"PROXY UNKNOWN ffff::1 whatever 65535 65535\r\n"), ProxyHeader::Local);
    // The longest line in the specification.
    let longest = [&b"PROXY UNKNOWN "[..], &[b'f'; 91], b"\r\n"].concat();
    assert_eq!((longest.len(), read(&longest)), (107, ProxyHeader::Local));
}

#[test]
fn invalid_version_1_headers_are_refused() {
    for wrong in [
        "PROXY TCP4 192.0.2.7 10.0.0.1 49153\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 49153 1883 1\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 049153 1883\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 65536 1883\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 +1 1883\r\n",
        "PROXY TCP4 192.0.2.007 10.0.0.1 1 1883\r\n",
        "PROXY TCP4 2001:db8::7 fd00::1 1 1883\r\n",
        "PROXY TCP6 192.0.2.7 10.0.0.1 1 1883\r\n",
        "PROXY TCP4  192.0.2.7 10.0.0.1 1 1883\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 1 1883 \r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 1 1883\n",
        "PROXY UDP4 192.0.2.7 10.0.0.1 1 1883\r\n",
        "PROXY \r\n",
        "PROXY \u{e9}\r\n",
    ] {
        assert!(matches!(fault(wrong.as_bytes()), ProxyHeaderError::Malformed(_)), "{wrong}");
    }
    let endless = [&b"PROXY UNKNOWN "[..], &[b'f'; 200]].concat();
    assert_eq!(parse(&endless[..106]), Ok(None));
    assert_eq!(fault(&endless), ProxyHeaderError::Malformed("the line is not terminated"));
    let one_more = [&b"PROXY UNKNOWN "[..], &[b'f'; 92], b"\r\n"].concat();
    assert_eq!((one_more.len(), fault(&one_more)), (108, ProxyHeaderError::Malformed("the line is not terminated")));
}

#[test]
fn version_2_has_the_client_address() {
    assert_eq!(read(&v2(1, 0x11, V4)), ProxyHeader::Proxied(client("192.0.2.7:49153")));
    assert_eq!(read(&v2(1, 0x21, &v6())), ProxyHeader::Proxied(client("[2001:db8::7]:49153")));
    for (command, family, rest) in
        [(0, 0x00, &[][..]), (0, 0x11, V4), (0, 0xff, &[9; 20]), (1, 0x00, &[1; 9]), (1, 0x31, &[b'a'; 216])]
    {
        assert_eq!(read(&v2(command, family, rest)), ProxyHeader::Local, "{command} {family}");
    }
}

#[test]
fn invalid_version_2_headers_are_refused() {
    let wrong = |bytes: &[u8]| matches!(fault(bytes), ProxyHeaderError::Malformed(_));
    let good = v2(1, 0x11, V4);
    let with = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        changed
    };
    for version in [0x01, 0x11, 0x31, 0xF1] {
        assert!(wrong(&with(12, version)));
    }
    assert!(wrong(&with(12, 0x22)), "an unknown command");
    for family in [0x01, 0x10, 0x12, 0x22, 0x32, 0x41] {
        assert!(wrong(&with(13, family)), "{family:#x}");
    }
    assert!(wrong(&v2(1, 0x11, &V4[..11])) && wrong(&v2(1, 0x21, V4)) && wrong(&v2(1, 0x31, &[0; 215])));
    assert_eq!(fault(b"\r\n\r\n\0\r\nQUIX"), ProxyHeaderError::NoHeader);
}

#[test]
fn the_common_name_counts_if_the_proxy_has_verified_it() {
    let tls_of = |flags, verify, name: &[u8]| match read(&v2(1, 0x11, &[V4, &ssl(flags, verify, name)].concat())) {
        ProxyHeader::Proxied(client) => (client.is_encrypted, client.common_name),
        ProxyHeader::Local => panic!("expected a proxied client"),
    };
    assert_eq!(tls_of(0x07, 0, b"device-7"), (true, Some("device-7".into())));
    assert_eq!(tls_of(0x03, 0, "Gerät 7".as_bytes()), (true, Some("Gerät 7".into())));
    assert_eq!(
        tls_of(0x05, 0, b"device-7"),
        (true, Some("device-7".into())),
        "in an earlier connection of the session"
    );
    assert_eq!(tls_of(0x07, 1, b"device-7"), (true, None), "it was not verified");
    assert_eq!(tls_of(0x01, 0, b"device-7"), (true, None), "none was shown");
    assert_eq!(tls_of(0x06, 0, b"device-7"), (false, None), "there is no TLS");
    let verified = |flags, verify| match read(&v2(1, 0x11, &[V4, &ssl(flags, verify, b"device-7")].concat())) {
        ProxyHeader::Proxied(client) => client.is_verified,
        ProxyHeader::Local => panic!("expected a proxied client"),
    };
    assert!(verified(0x07, 0) && verified(0x03, 0) && verified(0x05, 0));
    assert!(!verified(0x07, 1) && !verified(0x01, 0) && !verified(0x06, 0));
    let ProxyHeader::Proxied(client) = read(&v2(1, 0x21, &[v6(), tlv(0x02, b"host")].concat())) else {
        panic!("a client")
    };
    assert_eq!((client.is_encrypted, client.common_name), (false, None));
}

#[test]
fn tlvs_are_bounded_and_tls_occurs_once() {
    let wrong = |tlvs: &[u8]| matches!(fault(&v2(1, 0x11, &[V4, tlvs].concat())), ProxyHeaderError::Malformed(_));
    assert!(wrong(&[0x04]) && wrong(&[0x04, 0]) && wrong(&[0x04, 0, 1]));
    assert!(wrong(&tlv(0x20, &[1, 0, 0, 0])), "it ends within the verification result");
    assert!(wrong(&tlv(0x20, &[1, 0, 0, 0, 0, 0x22, 0])));
    assert!(wrong(&[ssl(7, 0, b"a"), ssl(7, 0, b"a")].concat()));
    assert!(wrong(&tlv(0x20, &[vec![7, 0, 0, 0, 0], tlv(0x22, b"a"), tlv(0x22, b"b")].concat())));
    assert!(wrong(&ssl(7, 0, b"")) && wrong(&ssl(7, 0, b"\xff")) && wrong(&ssl(7, 0, b"a\nb")));
    assert!(wrong(&ssl(7, 0, &[b'a'; 257])));
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82F6_3B78 } else { sum >> 1 })
    })
}

/// A header of version 2 with a checksum among its TLVs.
fn summed(family: u8, addresses: &[u8], before: &[u8], behind: &[u8]) -> Vec<u8> {
    let mut header = v2(1, family, &[addresses, before, &tlv(0x03, &[0; 4]), behind].concat());
    let sum = crc32c(&header).to_be_bytes();
    let at = header.len() - behind.len() - 4;
    header[at..at + 4].copy_from_slice(&sum);
    header
}

#[test]
fn a_valid_checksum_is_accepted() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283, "the check value of the polynomial");
    let name = ssl(7, 0, b"device-7");
    for (before, behind) in [(&[][..], &[][..]), (&name, &[]), (&[], &name), (&tlv(0x04, b"pad"), &name)] {
        for (family, addresses, source) in [(0x11, V4, "192.0.2.7:49153"), (0x21, &v6(), "[2001:db8::7]:49153")] {
            let header = summed(family, addresses, before, behind);
            let ProxyHeader::Proxied(client) = read(&header) else { panic!("expected a proxied client") };
            assert_eq!(client.source, source.parse().expect("an address"));
            // Every bit after the length is covered.
            for at in 16..header.len() {
                for bit in 0..8 {
                    let mut changed = header.clone();
                    changed[at] ^= 1 << bit;
                    let is_found = matches!(parse(&changed), Err(ProxyHeaderError::Malformed(_)));
                    // With another type there is no checksum.
                    let is_type_of_sum = at == 16 + addresses.len() + before.len();
                    assert!(is_found || is_type_of_sum, "bit {bit} of byte {at}");
                }
            }
        }
    }
}

#[test]
fn an_invalid_checksum_is_refused() {
    let fault_of = |tlvs: &[u8]| fault(&v2(1, 0x11, &[V4, tlvs].concat()));
    assert_eq!(fault_of(&tlv(0x03, &[0; 4])), ProxyHeaderError::Malformed("the checksum does not match the header"));
    assert_eq!(fault_of(&tlv(0x03, &[0; 3])), ProxyHeaderError::Malformed("the checksum does not have 4 bytes"));
    assert_eq!(fault_of(&tlv(0x03, &[0; 5])), ProxyHeaderError::Malformed("the checksum does not have 4 bytes"));
    let twice = [tlv(0x03, &[0; 4]), tlv(0x03, &[0; 4])].concat();
    assert_eq!(fault_of(&twice), ProxyHeaderError::Malformed("there are two checksums"));
    // A LOCAL header is discarded without a check.
    assert_eq!(read(&v2(0, 0x11, &[V4, &tlv(0x03, &[0; 4])[..]].concat())), ProxyHeader::Local);
}

#[test]
fn a_header_has_a_maximum_length() {
    let room = HEADER_MAX_BYTES - 16 - V4.len() - 3;
    let longest = v2(1, 0x11, &[V4, &tlv(0x04, &vec![0; room])].concat());
    assert_eq!(longest.len(), HEADER_MAX_BYTES);
    assert_eq!(parse(&longest).expect("a header").map(|parsed| parsed.len), Some(HEADER_MAX_BYTES));
    let longer = v2(1, 0x11, &[V4, &tlv(0x04, &vec![0; room + 1])].concat());
    assert_eq!(parse(&longer[..15]), Ok(None));
    assert_eq!(parse(&longer[..16]), Err(ProxyHeaderError::TooLong), "before anything of it is kept");
}

#[test]
fn packets_of_clients_are_not_headers() {
    for first in [&b"\x10\x0d\0\x04MQTT"[..], b"GET /mqtt HTTP/1.1", b"\x16\x03\x01", b"PROXX", b"\r\n\r\n\r\n"] {
        assert_eq!(fault(first), ProxyHeaderError::NoHeader);
    }
    assert_eq!(parse(b""), Ok(None));
}

/// Names of clients stay out of logs.
#[test]
fn debug_output_has_no_name() {
    let header = read(&v2(1, 0x11, &[V4, &ssl(7, 0, b"secret")].concat()));
    assert!(!format!("{header:?}").contains("secret"));
}
