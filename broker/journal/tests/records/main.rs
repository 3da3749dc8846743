//! Records: decoding returns what was encoded, the bytes match the format, and any bytes can be decoded safely.

mod golden;
mod strategies;

use proptest::prelude::*;
use tautwire_journal::record::{Record, RecordError, RecordFault, Records};

fn encoded(records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        record.append_to(&mut bytes);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]

    #[test]
    fn records_round_trip(parts in prop::collection::vec(strategies::parts(), 0..20)) {
        strategies::with_records(&parts, |records| {
            let bytes = encoded(records);
            let read: Result<Vec<_>, _> = Records::new(&bytes).collect();
            prop_assert_eq!(read.as_deref(), Ok(records));
            Ok(())
        })?;
    }

    #[test]
    fn a_truncated_frame_gives_its_records_and_one_error(parts in strategies::parts(), keep in 0.0..1.0f64) {
        strategies::with_records(&[parts], |records| {
            let whole = encoded(&[records[0], records[0]]);
            let one = whole.len() / 2;
            let len = one + (one as f64 * keep) as usize;
            let read: Vec<_> = Records::new(&whole[..len]).collect();
            prop_assert_eq!(&read[0], &Ok(records[0]));
            prop_assert_eq!(read.len(), if len == one { 1 } else { 2 });
            if let Some(Err(error)) = read.get(1) {
                prop_assert!(error.offset >= one && error.offset <= len);
            }
            Ok(())
        })?;
    }

    #[test]
    fn any_accepted_bytes_are_encoded_the_same(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..27) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let mut again = Vec::new();
        for record in Records::new(&bytes) {
            match record {
                Ok(record) => record.append_to(&mut again),
                Err(error) => prop_assert!(error.offset <= bytes.len()),
            }
        }
        prop_assert_eq!(&again[..], &bytes[..again.len()]);
    }
}

#[test]
fn each_error_has_a_code_and_an_offset() {
    let session = [1, 0, 0, 0, 0, 0, 0, 0];
    let after = |kind: u8, rest: &[u8]| [&[kind][..], &session, rest].concat();
    let queued = |flags: u8, rest: &[u8]| after(11, &[&[0; 16][..], &[flags], rest].concat());
    let cases: [(Vec<u8>, RecordFault, usize, &str); 12] = [
        (vec![0], RecordFault::UnknownRecord, 0, "record_unknown"),
        (vec![27], RecordFault::UnknownRecord, 0, "record_unknown"),
        (vec![26, 65, 0], RecordFault::InvalidValue, 1, "record_invalid_value"),
        (vec![3, 1, 0], RecordFault::Truncated, 1, "record_truncated"),
        (vec![3, 0, 0, 0, 0, 0, 0, 0, 0], RecordFault::InvalidValue, 1, "record_invalid_value"),
        (after(14, &[0, 0]), RecordFault::InvalidValue, 9, "record_invalid_value"),
        (after(10, &[1, 0, 0, 0, 0xFF]), RecordFault::InvalidUtf8, 13, "record_not_text"),
        (after(10, &[0xFF, 0xFF, 0xFF, 0xFF]), RecordFault::Truncated, 13, "record_truncated"),
        (queued(0b1_0000, &[0; 4]), RecordFault::InvalidValue, 25, "record_invalid_value"),
        (queued(0b11, &[0; 4]), RecordFault::InvalidValue, 25, "record_invalid_value"),
        (queued(0, &[1, 0, 0, 0, 0, 0, 0, 0]), RecordFault::InvalidValue, 30, "record_invalid_value"),
        (vec![1, 1, 0, 0, 0, 9], RecordFault::InvalidMessage, 5, "record_not_a_message"),
    ];
    for (bytes, fault, offset, code) in cases {
        let mut records = Records::new(&bytes);
        assert_eq!(records.next(), Some(Err(RecordError { fault, offset })), "{bytes:?}");
        assert_eq!(records.next(), None);
        assert_eq!(fault.code(), code);
    }
}
