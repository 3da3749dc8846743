//! The Sec-WebSocket-Accept header, which proves that the server has read the handshake (RFC 6455 section 4.2.2, item 5.4).

use sha1_smol::Sha1;

const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// 16 bytes in base64.
const KEY_CHARS: usize = 22;
const KEY_PADDING: &str = "==";

/// The Sec-WebSocket-Accept for a Sec-WebSocket-Key; `None` if that is not 16 bytes in base64.
pub(super) fn accept_key(key: &str) -> Option<String> {
    let digits = key.strip_suffix(KEY_PADDING)?;
    if digits.len() != KEY_CHARS || !digits.bytes().all(|digit| ALPHABET.contains(&digit)) {
        return None;
    }
    let mut sha1 = Sha1::new();
    sha1.update(key.as_bytes());
    sha1.update(MAGIC);
    Some(base64(&sha1.digest().bytes()))
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place) & 0x3F) as usize;
            text.push(if place <= group.len() { char::from(ALPHABET[digit]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_has_its_accept_key() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ==").as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }

    #[test]
    fn a_key_of_another_length_or_alphabet_is_invalid() {
        for key in [
            "",
            "==",
            "dGhlIHNhbXBsZSBub25jZQ",
            "dGhlIHNhbXBsZSBub25j",
            "dGhl!HNhbXBsZSBub25jZQ==",
            "dGhlIHNhbXBsZSBub25jZWE=",
        ] {
            assert_eq!(accept_key(key), None, "{key}");
        }
    }

    #[test]
    fn base64_matches_its_standard() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
