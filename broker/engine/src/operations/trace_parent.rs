//! The `traceparent` header of W3C Trace Context, level 1, in a user property.

/// The length of the header in version 00.
const LENGTH: usize = 55;

/// The trace of a message, as given by its publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(super) trace_id: [u8; 16],
    pub(super) parent_id: [u8; 8],
    pub(super) is_sampled: bool,
}

impl TraceParent {
    /// Parses the header; returns `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<TraceParent> {
        let bytes = text.as_bytes();
        let version = byte(bytes.get(..2)?)?;
        // A later version may continue after another dash; the part before it means the same. Version ff is forbidden.
        let is_whole = match version {
            0 => bytes.len() == LENGTH,
            0xff => false,
            _ => bytes.len() == LENGTH || bytes.get(LENGTH) == Some(&b'-'),
        };
        if !is_whole || [2, 35, 52].iter().any(|at| bytes.get(*at) != Some(&b'-')) {
            return None;
        }
        let trace_id = bytes_of(bytes.get(3..35)?)?;
        let parent_id = bytes_of(bytes.get(36..52)?)?;
        let flags = byte(bytes.get(53..LENGTH)?)?;
        let is_none = trace_id == [0; 16] || parent_id == [0; 8];
        (!is_none).then_some(TraceParent { trace_id, parent_id, is_sampled: flags & 1 == 1 })
    }
}

fn bytes_of<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (out, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *out = byte(pair)?;
    }
    Some(bytes)
}

fn byte(pair: &[u8]) -> Option<u8> {
    let [high, low] = pair else { return None };
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// Parses a lower-case hexadecimal digit.
fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_is_parsed() {
        let read = TraceParent::parse(GOOD).expect("a valid header");
        assert_eq!(
            (read.trace_id[0], read.trace_id[15], read.parent_id[0], read.parent_id[7]),
            (0x0a, 0x9c, 0xb7, 0x31)
        );
        assert!(read.is_sampled);
        assert_eq!(TraceParent::parse(&GOOD.replace("-01", "-00")).map(|read| read.is_sampled), Some(false));
        // Other flags are not defined yet.
        assert_eq!(TraceParent::parse(&GOOD.replace("-01", "-fe")).map(|read| read.is_sampled), Some(false));
        assert_eq!(TraceParent::parse(&GOOD.replace("-01", "-09")).map(|read| read.is_sampled), Some(true));
    }

    #[test]
    fn a_later_version_can_have_more_fields() {
        let later = GOOD.replacen("00", "cc", 1);
        assert!(TraceParent::parse(&later).is_some());
        assert!(TraceParent::parse(&format!("{later}-what-the-future-brings")).is_some());
        assert!(TraceParent::parse(&format!("{later}.x")).is_none());
    }

    #[test]
    fn an_invalid_header_is_ignored() {
        let bad = [
            "".to_owned(),
            "00".to_owned(),
            format!("{GOOD}-x"),
            format!("{GOOD} "),
            GOOD[..54].to_owned(),
            GOOD.to_uppercase(),
            GOOD.replacen("00", "ff", 1),
            GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            GOOD.replace("0af", "0ag"),
            GOOD.replace("-b7", "_b7"),
            GOOD.replace("01", "0 1"),
            "é".repeat(27) + "1",
        ];
        for bad in bad {
            assert_eq!(TraceParent::parse(&bad), None, "{bad}");
        }
    }
}
