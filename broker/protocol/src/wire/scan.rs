//! Searches a byte slice for forbidden bytes, many bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Whether `bytes` contains a zero byte.
#[inline]
pub(crate) fn has_null(bytes: &[u8]) -> bool {
    any(bytes, |byte| byte == 0, zero_bytes)
}

/// Whether every byte is ASCII and not zero.
#[inline]
pub(crate) fn is_plain_ascii(bytes: &[u8]) -> bool {
    // Of bytes above zero, subtracting one sets no high bit that was not set. A borrow needs a zero byte, which is a hit.
    !any(bytes, |byte| byte.wrapping_sub(1) >= 0x7F, |word| (word.wrapping_sub(ONES) | word) & HIGH_BITS)
}

/// Whether `bytes` contains a zero byte, `+` or `#`.
#[inline]
pub(crate) fn has_null_or_wildcard(bytes: &[u8]) -> bool {
    // `+` (0x2B) and `#` (0x23) differ in only one bit: with it masked out, one comparison finds both.
    any(
        bytes,
        |byte| (byte == 0) | (byte & !0x08 == 0x23),
        |word| zero_bytes(word) | zero_bytes((word & !(0x08 * ONES)) ^ (0x23 * ONES)),
    )
}

/// Nonzero exactly if `word` has a zero byte.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH_BITS
}

/// Whether `bytes` has a hit. `in_byte` and `in_word` test one byte and eight bytes (nonzero: a hit).
///
/// Works on sixteen bytes at a time, which the compiler puts in one register, and on eight for shorter input. The last step overlaps the
/// one before it. Less than a word is padded with `a`, which no search looks for.
#[inline(always)]
fn any(bytes: &[u8], in_byte: impl Fn(u8) -> bool, in_word: impl Fn(u64) -> u64) -> bool {
    let in_sixteen = |sixteen: &[u8; 16]| u128::from_ne_bytes(sixteen.map(|byte| u8::from(in_byte(byte)))) != 0;
    if let Some(last) = bytes.last_chunk::<16>() {
        let mut rest = bytes;
        while let Some((sixteen, after)) = rest.split_first_chunk::<16>() {
            if in_sixteen(sixteen) {
                return true;
            }
            rest = after;
        }
        return in_sixteen(last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return in_word(u64::from_le_bytes(*first)) | in_word(u64::from_le_bytes(*last)) != 0;
    }
    in_word(short_word(bytes)) != 0
}

#[inline(always)]
fn short_word(bytes: &[u8]) -> u64 {
    const PADDING: u64 = 0x6161_6161_6161_6161;
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    bytes.iter().fold(PADDING, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scan_agrees_with_a_plain_search() {
        for len in 0..40 {
            for at in 0..len {
                for byte in 0..=255 {
                    let mut bytes = [b'x'; 40];
                    bytes[at] = byte;
                    let bytes = &bytes[..len];
                    assert_eq!(has_null(bytes), byte == 0);
                    assert_eq!(is_plain_ascii(bytes), (1..0x80).contains(&byte));
                    assert_eq!(has_null_or_wildcard(bytes), matches!(byte, 0 | b'+' | b'#'));
                }
            }
            assert!(!has_null(&[0x80; 40][..len]));
            assert!(!has_null_or_wildcard(&[0x01; 40][..len]));
        }
    }

    #[test]
    fn the_scan_finds_a_byte_next_to_similar_ones() {
        assert!(has_null(&[1, 0, 1, 1, 1, 1, 1, 1, 1]));
        assert!(has_null_or_wildcard(b"\x22#\x24,*+"));
        assert!(!has_null_or_wildcard(b"\x22\x24,*\xa3\xab"));
    }
}
