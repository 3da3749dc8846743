//! A name in a form that can be compared fast.

use std::fmt;
use std::ops::Deref;

/// A name that is expected next in a payload.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Name {
    text: Box<str>,
    /// The first eight bytes, padded with zeros.
    head: u64,
    /// The significant bits of `head`.
    mask: u64,
    /// The last eight bytes of a name that has at least eight.
    tail: u64,
}

impl Name {
    /// Whether `bytes` begins with the name.
    #[inline]
    pub(crate) fn begins(&self, bytes: &[u8]) -> bool {
        let length = self.text.len();
        let Some(first) = bytes.first_chunk::<8>() else { return bytes.starts_with(self.text.as_bytes()) };
        if u64::from_le_bytes(*first) & self.mask != self.head {
            return false;
        }
        match length {
            0..=8 => true,
            9..=16 => {
                let last = bytes.get(length - 8..).and_then(|rest| rest.first_chunk::<8>());
                last.is_some_and(|last| u64::from_le_bytes(*last) == self.tail)
            }
            _ => bytes.starts_with(self.text.as_bytes()),
        }
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        let bytes = text.as_bytes();
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mask = if bytes.len() < 8 { (1 << (8 * bytes.len())) - 1 } else { u64::MAX };
        Name {
            text: text.into(),
            head: word(&bytes[..bytes.len().min(8)]),
            mask,
            tail: bytes.last_chunk::<8>().map_or(0, |last| word(last)),
        }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_lengths_are_distinguished() {
        let letters = "abcdefghijklmnopqrstuvwxyz";
        for length in 0..letters.len() {
            let name = Name::from(&letters[..length]);
            for end in 0..=letters.len() {
                let bytes = &letters.as_bytes()[..end];
                assert_eq!(name.begins(bytes), length <= end, "{length} {end}");
            }
            for wrong in 0..length {
                let mut bytes = letters.as_bytes().to_vec();
                bytes[wrong] = b'X';
                assert!(!name.begins(&bytes), "{length} {wrong}");
                assert!(!name.begins(&bytes[..length]), "{length} {wrong}");
            }
        }
    }
}
