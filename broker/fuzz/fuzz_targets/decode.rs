//! Decodes arbitrary bytes: no panic, and every decoded packet can be encoded again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautwire_protocol::{DecodeError, DecodeOptions, EncodeError, Fault, FixedHeader, Packet, ProtocolVersion, decode};

const VERSIONS: [ProtocolVersion; 3] = [ProtocolVersion::V3_1, ProtocolVersion::V3_1_1, ProtocolVersion::V5];

/// For this many leading bytes, every prefix of a packet is tried.
const BEGINNINGS: usize = 64;

fuzz_target!(|input: &[u8]| {
    for version in VERSIONS {
        let options = DecodeOptions::new(version);
        match decode(input, &options) {
            Ok((packet, length)) => check_packet(&packet, &input[..length], &options),
            Err(error) => check_error(input, &error, &options),
        }
        // A limit rejects packets and has no other effect.
        let small = DecodeOptions { max_packet_size: 16, ..options };
        assert!(decode(input, &small).is_err() || decode(input, &options) == decode(input, &small));
    }
});

fn check_packet(packet: &Packet<'_>, bytes: &[u8], options: &DecodeOptions) {
    for end in 0..bytes.len().min(BEGINNINGS) {
        let Err(error) = decode(&bytes[..end], options) else { panic!("{end} bytes were enough") };
        let Fault::Incomplete { needed } = error.fault else { panic!("the first {end} bytes were refused: {error}") };
        assert!(end < needed && needed <= bytes.len(), "{needed} bytes needed after {end} of {}", bytes.len());
    }

    let owned = packet.to_owned_packet().expect("a decoded packet can be kept");
    assert_eq!(owned.as_packet(), *packet);

    // CONNECT names its own version.
    let version = if let Packet::Connect(connect) = packet { connect.version } else { options.version };
    let mut again = Vec::new();
    let length = match packet.append_to(version, &mut again) {
        // A server has to decode it to refuse it [MQTT-3.1.3-7].
        Err(EncodeError::ClientIdMissing) => return,
        length => length.expect("a decoded packet can be encoded"),
    };
    assert_eq!(length, again.len());
    assert_eq!(packet.encoded_len(version), Ok(length));
    let (decoded, consumed) = decode(&again, options).expect("an encoded packet can be decoded");
    assert_eq!(decoded, *packet);
    assert_eq!(consumed, length);
}

fn check_error(input: &[u8], error: &DecodeError, options: &DecodeOptions) {
    assert!(error.offset <= input.len(), "at byte {} of {}", error.offset, input.len());
    if let Fault::Incomplete { needed } = error.fault {
        assert!(needed > input.len(), "{needed} bytes needed, {} there", input.len());
        if let Ok(header) = FixedHeader::decode(input, &DecodeOptions::new(options.version)) {
            assert!(needed <= header.total_len(), "{needed} bytes needed of {}", header.total_len());
        }
    } else {
        // An error stays one, whatever bytes follow.
        let mut longer = input.to_vec();
        longer.push(0);
        assert_eq!(decode(&longer, options).err(), Some(*error));
    }
}
