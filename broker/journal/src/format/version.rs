//! The file `VERSION`.

use crate::format::FORMAT_VERSION;
use crate::numbers::LogId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionFault {
    /// Not what was written.
    Damaged,
    /// A version that this program does not know.
    Newer(u32),
}

pub(crate) fn version_text(log: LogId) -> String {
    let text = format!("tautwire-journal\nformat {FORMAT_VERSION}\nlog {:016x}\n", log.0);
    let check = crc32c::crc32c(text.as_bytes());
    format!("{text}check {check:08x}\n")
}

pub(crate) fn read_version(bytes: &[u8]) -> Result<LogId, VersionFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| VersionFault::Damaged)?;
    let mut lines = text.lines();
    let format = match (lines.next(), lines.next().and_then(|line| line.strip_prefix("format "))) {
        (Some("tautwire-journal"), Some(format)) => format.parse().map_err(|_| VersionFault::Damaged)?,
        _ => return Err(VersionFault::Damaged),
    };
    if format > FORMAT_VERSION {
        return Err(VersionFault::Newer(format));
    }
    let log = lines.next().and_then(|line| u64::from_str_radix(line.strip_prefix("log ")?, 16).ok());
    let log = LogId(log.ok_or(VersionFault::Damaged)?);
    if text == version_text(log) { Ok(log) } else { Err(VersionFault::Damaged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_as_it_is_written_and_every_change_is_noticed() {
        let text = version_text(LogId(0x9f86));
        assert_eq!(read_version(text.as_bytes()), Ok(LogId(0x9f86)));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(read_version(&changed).is_err(), "byte {at}");
            assert!(read_version(&text.as_bytes()[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_newer_version_is_named_whatever_follows() {
        assert_eq!(read_version(b"tautwire-journal\nformat 12\nelse\n"), Err(VersionFault::Newer(12)));
    }
}
