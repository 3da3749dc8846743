//! Random packets survive a round trip; random bytes never panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod strategies;

use proptest::prelude::*;
use strategies::version_and_packet;
use tautwire_protocol::malformed::Frame;
use tautwire_protocol::{DecodeOptions, Fault, FixedHeader, Packet, ProtocolVersion, decode};

const VERSIONS: [ProtocolVersion; 3] = [ProtocolVersion::V3_1, ProtocolVersion::V3_1_1, ProtocolVersion::V5];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn encoded_packets_decode_to_the_same_packet((version, packet) in version_and_packet()) {
        let mut bytes = Vec::new();
        let len = packet.append_to(version, &mut bytes).unwrap();
        prop_assert_eq!(len, bytes.len());
        prop_assert_eq!(packet.encoded_len(version), Ok(len));
        let (decoded, consumed) = decode(&bytes, &DecodeOptions::new(version)).unwrap();
        prop_assert_eq!(decoded, packet);
        prop_assert_eq!(consumed, len);

        let mut again = vec![0xEE; len + 3];
        prop_assert_eq!(decoded.encode(version, &mut again), Ok(len));
        prop_assert_eq!(&again[..len], &bytes[..]);
        prop_assert_eq!(&again[len..], &[0xEE; 3]);

        let owned = decoded.to_owned_packet().unwrap();
        prop_assert_eq!(owned.as_packet(), packet);
        prop_assert_eq!(&packet.to_owned_packet().unwrap(), &owned);
    }

    #[test]
    fn every_prefix_of_a_packet_is_incomplete((version, packet) in version_and_packet(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        packet.append_to(version, &mut bytes).unwrap();
        let cut = cut.index(bytes.len());
        let error = decode(&bytes[..cut], &DecodeOptions::new(version)).unwrap_err();
        match error.fault {
            Fault::Incomplete { needed } => prop_assert!(cut < needed && needed <= bytes.len()),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn a_damaged_packet_is_refused_or_round_trips(
        (version, packet) in version_and_packet(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = Vec::new();
        packet.append_to(version, &mut bytes).unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check(&bytes, version);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        for version in VERSIONS {
            check(&bytes, version);
        }
    }

    #[test]
    fn arbitrary_bodies_are_refused_or_round_trip(
        first_byte in any::<u8>(),
        body in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..60),
    ) {
        let bytes = Frame::new(first_byte).bytes(&body).build();
        for version in VERSIONS {
            check(&bytes, version);
        }
    }
}

/// For any bytes: no panic, `needed` is at most what the header says, and what decodes can be encoded and decodes again to the same.
fn check(bytes: &[u8], version: ProtocolVersion) {
    let options = DecodeOptions::new(version);
    match decode(bytes, &options) {
        Ok((packet, consumed)) => {
            assert!(consumed <= bytes.len());
            let version = if let Packet::Connect(connect) = packet { connect.version } else { version };
            let mut encoded = Vec::new();
            let len = packet.append_to(version, &mut encoded).unwrap();
            assert!(len <= consumed);
            assert_eq!(decode(&encoded, &options), Ok((packet, len)));
            assert_eq!(packet.to_owned_packet().unwrap().as_packet(), packet);
        }
        Err(error) => match error.fault {
            Fault::Incomplete { needed } => {
                assert!(needed > bytes.len());
                match FixedHeader::decode(bytes, &options) {
                    Ok(header) => assert_eq!(needed, header.total_len()),
                    Err(_) => assert!(needed <= 5),
                }
            }
            _ => assert!(error.offset <= bytes.len() && error.reason.is_error()),
        },
    }
}
