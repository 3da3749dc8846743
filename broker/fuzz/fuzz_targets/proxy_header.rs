//! A PROXY header: any bytes have one meaning, however many have arrived, and no byte after a header is parsed as part of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautwire_proxy::{HEADER_MAX_BYTES, ParsedHeader, ProxyHeader, parse};

fuzz_target!(|input: &[u8]| {
    let [how, input @ ..] = input else { return };
    // Half of the inputs follow the beginning of version 2, whose length is theirs unless they set another.
    let bytes = if how & 1 == 0 { input.to_vec() } else { framed(input) };
    let whole = parse(&bytes);
    // The first result is final.
    let first = (0..=bytes.len()).find_map(|len| match parse(&bytes[..len]) {
        Ok(None) => None,
        verdict => Some((len, verdict)),
    });
    match first {
        None => {
            assert_eq!(whole, Ok(None));
            assert!(bytes.len() < HEADER_MAX_BYTES, "a header of the greatest length has a meaning");
        }
        Some((len, verdict)) => {
            assert_eq!(whole, verdict);
            let Ok(Some(ParsedHeader { header, len: taken })) = verdict else { return };
            assert_eq!(taken, len, "it was whole with its last byte");
            assert!(taken <= HEADER_MAX_BYTES);
            if let ProxyHeader::Proxied(client) = header {
                let name = client.common_name.as_deref();
                assert!(name.is_none_or(|name| client.is_encrypted && !name.is_empty() && name.len() <= 256));
            }
        }
    }
});

fn framed(rest: &[u8]) -> Vec<u8> {
    let [command, family, rest @ ..] = rest else { return rest.to_vec() };
    let length = u16::try_from(rest.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x20 | (command & 0x01), *family], &length, rest].concat()
}
