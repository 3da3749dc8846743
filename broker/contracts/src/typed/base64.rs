//! Base64 [RFC 4648]: reads both alphabets, with or without padding; writes the standard one with padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { digit } else { b'=' });
        }
    }
}

/// Decodes the text; `None` if it is not valid.
pub(crate) fn decode(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let digits = digits(text)?;
    for group in digits.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for digit in group {
            bits = bits << 6 | value(*digit)?;
        }
        bits <<= 6 * (4 - group.len());
        // Unused bits must be zero, or two texts would decode to the same bytes.
        let kept = group.len() - 1;
        if bits & (0xff_ffff >> (8 * kept)) != 0 && kept < 3 {
            return None;
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..=kept]);
    }
    Some(())
}

/// Whether [`decode`] would succeed.
pub(crate) fn is_valid(text: &str) -> bool {
    digits(text).is_some_and(|digits| {
        let last = digits.as_bytes().chunks(4).last().filter(|group| group.len() < 4);
        let spare_bits = match last {
            Some([.., digit]) => value(*digit).unwrap_or(0) & if digits.len() % 4 == 2 { 15 } else { 3 },
            _ => 0,
        };
        spare_bits == 0 && digits.bytes().all(|digit| value(digit).is_some())
    })
}

/// Strips the padding and checks the length.
fn digits(text: &str) -> Option<&str> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let right = digits.len() % 4 != 1 && (padding == 0 || (padding <= 2 && text.len().is_multiple_of(4)));
    right.then_some(digits)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_round_trip() {
        for length in 0..20u8 {
            let bytes = (0..length).map(|at| at.wrapping_mul(37) ^ 0xa5).collect::<Vec<_>>();
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            let text = String::from_utf8(text).expect("valid");
            for form in [text.clone(), text.trim_end_matches('=').to_owned(), text.replace('+', "-").replace('/', "_")]
            {
                let mut decoded = Vec::new();
                assert!(is_valid(&form));
                decode(&form, &mut decoded).expect("valid");
                assert_eq!(decoded, bytes);
            }
        }
    }

    #[test]
    fn invalid_base64_is_refused() {
        for text in ["A", "AAAAA", "AA=", "AAA==", "A===", "AA==AA==", "AAA?", "AB", "AAB=", "=", "Aé"] {
            assert!(!is_valid(text), "{text}");
            assert!(decode(text, &mut Vec::new()).is_none(), "{text}");
        }
    }
}
