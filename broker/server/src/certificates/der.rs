//! Parses the certificate fields (RFC 5280, section 4.1) that show whether files fit together.

use std::ops::Range;

use crate::time::UtcTime;

/// Fields in their encoding, except for the time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    /// The serial number.
    pub(super) serial: &'a [u8],
    pub(super) issuer: &'a [u8],
    /// The end of the validity, as `20261231235959Z`, so that times compare as strings.
    pub(super) not_after: String,
    pub(super) subject: &'a [u8],
    /// The whole element.
    pub(super) public_key_info: &'a [u8],
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xA0;

/// Parses a certificate; `None` if it is malformed.
pub(super) fn fields(certificate: &[u8]) -> Option<Fields<'_>> {
    let (signed, _) = element(SEQUENCE, certificate)?;
    let (mut rest, _) = element(SEQUENCE, signed)?;
    if rest.first() == Some(&VERSION) {
        rest = element(VERSION, rest)?.1;
    }
    let (serial, rest) = element(INTEGER, rest)?;
    let (_algorithm, rest) = element(SEQUENCE, rest)?;
    let (issuer, rest) = element(SEQUENCE, rest)?;
    let (validity, rest) = element(SEQUENCE, rest)?;
    let (subject, from_key) = element(SEQUENCE, rest)?;
    let (_, behind_key) = element(SEQUENCE, from_key)?;
    let public_key_info = &from_key[..from_key.len() - behind_key.len()];
    let (_, validity) = time(validity)?;
    let (not_after, _) = time(validity)?;
    Some(Fields { serial, issuer, not_after, subject, public_key_info })
}

/// The expiry of a certificate in seconds since 1970.
pub(crate) fn not_after_unix_s(certificate: &[u8]) -> Option<u64> {
    let not_after = fields(certificate)?.not_after;
    let number = |range: Range<usize>| not_after.get(range)?.parse::<u64>().ok();
    let (month, day) = (number(4..6)?.try_into().ok()?, number(6..8)?.try_into().ok()?);
    let clock_s = number(8..10)? * 3_600 + number(10..12)? * 60 + number(12..14)?;
    UtcTime::unix_s_of(number(0..4)?.try_into().ok()?, month, day)?.checked_add(clock_s)
}

/// Parses a time into a four-digit year format. UTCTime has two-digit years, for 1950 to 2049 (RFC 5280, section 4.1.2.5.1).
fn time(bytes: &[u8]) -> Option<(String, &[u8])> {
    let tag = *bytes.first()?;
    if !matches!(tag, UTC_TIME | GENERALIZED_TIME) {
        return None;
    }
    let (digits, rest) = element(tag, bytes)?;
    let digits = std::str::from_utf8(digits).ok()?;
    let century = match tag {
        UTC_TIME if digits < "50" => "20",
        UTC_TIME => "19",
        _ => "",
    };
    Some((format!("{century}{digits}"), rest))
}

/// The contents of the first element of `bytes`, and the rest after it.
fn element(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, bytes) = bytes.split_first()?;
    let (&short, bytes) = bytes.split_first()?;
    let (length, bytes) = match short {
        0..=0x7F => (usize::from(short), bytes),
        0x81..=0x84 => {
            let (long, bytes) = bytes.split_at_checked(usize::from(short & 0x7F))?;
            (long.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), bytes)
        }
        _ => return None,
    };
    if first == tag { bytes.split_at_checked(length) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
        let contents = contents.concat();
        [&[tag, 0x81, contents.len() as u8], &contents[..]].concat()
    }

    #[test]
    fn fields_are_parsed_as_the_standard_specifies() {
        let validity = [wrapped(UTC_TIME, &[b"990101000000Z"]), wrapped(GENERALIZED_TIME, &[b"20500101000000Z"])];
        let key = wrapped(SEQUENCE, &[b"key"]);
        let rest = [
            wrapped(INTEGER, &[&[7]]),
            wrapped(SEQUENCE, &[]),
            wrapped(SEQUENCE, &[b"issuer"]),
            wrapped(SEQUENCE, &[&validity.concat()]),
            wrapped(SEQUENCE, &[b"subject"]),
            key.clone(),
        ]
        .concat();
        let version = wrapped(VERSION, &[&[INTEGER, 1, 2]]);
        for parts in [&[&version[..], &rest][..], &[&rest]] {
            let certificate = wrapped(SEQUENCE, &[&wrapped(SEQUENCE, parts)]);
            let found = fields(&certificate).expect("a certificate");
            assert_eq!((found.serial, found.issuer, found.subject), (&[7][..], &b"issuer"[..], &b"subject"[..]));
            assert_eq!((found.public_key_info, &found.not_after[..]), (&key[..], "20500101000000Z"));
            assert_eq!(not_after_unix_s(&certificate), Some(2_524_608_000));
            for length in 0..certificate.len() {
                assert_eq!(fields(&certificate[..length]), None, "{length}");
            }
        }
    }

    #[test]
    fn wrong_lengths_are_not_a_certificate() {
        assert_eq!(fields(&[SEQUENCE, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]), None);
        assert_eq!(fields(&[SEQUENCE, 0x80, 0, 0]), None);
    }

    #[test]
    fn years_have_four_digits() {
        let year = |text: &[u8]| time(&wrapped(UTC_TIME, &[text])).map(|(time, _)| time);
        assert_eq!(year(b"491231235959Z").as_deref(), Some("20491231235959Z"));
        assert_eq!(year(b"500101000000Z").as_deref(), Some("19500101000000Z"));
    }
}
