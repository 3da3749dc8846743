//! The file `VERSION`.

use crate::format::{FORMAT_MIN_VERSION, FORMAT_VERSION};
use crate::numbers::{LogId, SegmentNumber};

/// The content of `VERSION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) format: u32,
    pub(crate) log: LogId,
    /// The last segment that was created. Those of the last epoch must exist unless a snapshot covers them. 0 in version 1, which does not
    /// store it.
    pub(crate) last_created: SegmentNumber,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionFault {
    /// The file is corrupt.
    Damaged,
    /// The version is not supported by this program.
    UnsupportedVersion(u32),
}

impl Version {
    pub(crate) fn new(log: LogId, last_created: SegmentNumber) -> Version {
        Version { format: FORMAT_VERSION, log, last_created }
    }

    pub(crate) fn to_text(self) -> String {
        let Version { format, .. } = self;
        let mut text = format!("tautwire-journal\nformat {format}\nlog {:016x}\n", self.log.0);
        if format > FORMAT_MIN_VERSION {
            text += &format!("segments {:016x}\n", self.last_created.0);
        }
        let check = crc32c::crc32c(text.as_bytes());
        format!("{text}check {check:08x}\n")
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Version, VersionFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| VersionFault::Damaged)?;
        let mut lines = text.lines();
        let format = match (lines.next(), lines.next().and_then(|line| line.strip_prefix("format "))) {
            (Some("tautwire-journal"), Some(format)) => format.parse().map_err(|_| VersionFault::Damaged)?,
            _ => return Err(VersionFault::Damaged),
        };
        if format > FORMAT_VERSION {
            return Err(VersionFault::UnsupportedVersion(format));
        }
        let mut number = |name| u64::from_str_radix(lines.next()?.strip_prefix(name)?, 16).ok();
        let log = number("log ").map(LogId).ok_or(VersionFault::Damaged)?;
        let last_created = if format > FORMAT_MIN_VERSION { number("segments ") } else { Some(0) };
        let version = Version { format, log, last_created: SegmentNumber(last_created.ok_or(VersionFault::Damaged)?) };
        if text == version.to_text() { Ok(version) } else { Err(VersionFault::Damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_round_trips_and_every_change_is_detected() {
        let version = Version::new(LogId(0x9f86), SegmentNumber(17));
        let text = version.to_text();
        assert_eq!(Version::parse(text.as_bytes()), Ok(version));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(Version::parse(&changed).is_err(), "byte {at}");
            assert!(Version::parse(&text.as_bytes()[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn version_1_is_read() {
        let text = include_str!("../../tests/golden/VERSION-v1.txt");
        let version = Version { format: 1, log: LogId(0x4444_4444_4444_4444), last_created: SegmentNumber(0) };
        assert_eq!(Version::parse(text.as_bytes()), Ok(version));
    }

    #[test]
    fn a_newer_version_is_reported_whatever_follows() {
        assert_eq!(Version::parse(b"tautwire-journal\nformat 12\nelse\n"), Err(VersionFault::UnsupportedVersion(12)));
    }
}
