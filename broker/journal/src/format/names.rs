//! The names of files.

use std::fmt;

use crate::numbers::{Position, SegmentNumber};

/// The lock file, locked by the process that uses the directory.
pub const LOCK_NAME: &str = "LOCK";
/// A file that reserves space for a start on a full disk.
pub const RESERVE_NAME: &str = "reserve";
pub(crate) const VERSION_NAME: &str = "VERSION";
/// The suffix of a file that is not yet complete.
pub(crate) const NEW_SUFFIX: &str = ".new";
const DIGITS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(SegmentNumber),
    Spare(SegmentNumber),
    Damaged(SegmentNumber),
    Snapshot(Position),
}

impl Name {
    pub(crate) fn parse(name: &str) -> Option<Name> {
        let (kind, digits) = name.split_once('-')?;
        let is_ours = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() != DIGITS || !digits.bytes().all(is_ours) {
            return None;
        }
        let number = u64::from_str_radix(digits, 16).ok()?;
        match kind {
            "segment" => Some(Name::Segment(SegmentNumber(number))),
            "spare" => Some(Name::Spare(SegmentNumber(number))),
            "damaged" => Some(Name::Damaged(SegmentNumber(number))),
            "snapshot" => Some(Name::Snapshot(Position(number))),
            _ => None,
        }
    }

    pub(crate) fn new_name(self) -> String {
        format!("{self}{NEW_SUFFIX}")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, number) = match self {
            Name::Segment(number) => ("segment", number.0),
            Name::Spare(number) => ("spare", number.0),
            Name::Damaged(number) => ("damaged", number.0),
            Name::Snapshot(position) => ("snapshot", position.0),
        };
        write!(f, "{kind}-{number:0DIGITS$x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        let number = SegmentNumber(0xabc);
        for name in [Name::Segment(number), Name::Spare(number), Name::Damaged(number), Name::Snapshot(Position(7))] {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
            assert_eq!(Name::parse(&name.new_name()), None);
        }
        assert_eq!(Name::Segment(number).to_string(), "segment-0000000000000abc");
        for other in ["LOCK", "segment-1", "segment-0000000000000ABC", "segment-+000000000000abc", "x-0000000000000abc"]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
