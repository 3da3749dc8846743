//! Application data.

use proptest::prelude::*;

use crate::support::{Authority, Client, Pair, TLS12, TLS13, material, server};

fn pair(authority: &Authority, versions: &'static [&'static rustls::SupportedProtocolVersion]) -> Pair {
    let server = server(material(&authority.issue(&["localhost"], 1)));
    Client { versions, ..Client::of(authority) }.connect(&server)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn both_versions_transfer_data_in_both_directions() {
    let authority = Authority::new("a");
    for (versions, version) in [(&TLS13, "1.3"), (&TLS12, "1.2")] {
        let mut pair = pair(&authority, versions);
        assert!(!pair.tls.can_send() && pair.tls.is_handshaking());
        pair.client_sends(b"CONNECT");
        pair.run();
        assert_eq!(pair.received, b"CONNECT");
        assert!(pair.tls.can_send() && !pair.tls.is_handshaking() && !pair.tls.is_resumed());
        assert_eq!(pair.tls.version(), Some(version));
        let long = bytes(300_000);
        pair.send(&long);
        assert_eq!(pair.client_has(long.len()), long);
        pair.client_sends(&long);
        pair.run();
        assert_eq!(pair.received[7..], long);
    }
}

/// A large payload is not copied next to its packet header, and small packets share a record.
#[test]
fn a_large_slice_has_its_own_records_and_small_ones_share() {
    /// The content type, and the authentication tag.
    const EXTRA_BYTES: usize = 1 + 16;
    let mut pair = pair(&Authority::new("a"), &TLS13);
    pair.run();
    let (header, payload) = (bytes(10), bytes(40_000));
    let sizes = pair.send_pieces(&[&header, &payload, &header, &header, b""]);
    let contents: Vec<_> = sizes.iter().map(|size| size - EXTRA_BYTES).collect();
    assert_eq!(contents[contents.len() - 5..], [10, 16_384, 16_384, 40_000 - 2 * 16_384, 20]);
    let sent = [&header[..], &payload, &header, &header].concat();
    assert_eq!(pair.client_has(sent.len()), sent);
}

/// Sealed records are held for the client, whatever their size.
#[test]
fn a_lagging_client_receives_smaller_parts() {
    let mut pair = pair(&Authority::new("a"), &TLS13);
    pair.run();
    assert_eq!(pair.tls.plain_max_bytes(), tautwire_tls::PLAIN_MAX_BYTES);
    pair.tls.keep(b"what the network has not taken");
    assert_eq!(pair.tls.plain_max_bytes(), 64 << 10);
    pair.tls.sent(pair.tls.pending().len());
    assert_eq!(pair.tls.plain_max_bytes(), 64 << 10, "it has only caught up");
    pair.tls.keep(b"");
    assert_eq!(pair.tls.plain_max_bytes(), tautwire_tls::PLAIN_MAX_BYTES);
}

/// Some clients connect and send nothing: they must not cost much.
#[test]
fn an_idle_connection_holds_no_buffers() {
    let mut pair = pair(&Authority::new("a"), rustls::ALL_VERSIONS);
    pair.client_sends(&bytes(100_000));
    pair.run();
    pair.send(b"x");
    pair.run();
    let held_bytes = pair.tls.held_bytes();
    assert!(held_bytes < 6 << 10, "{held_bytes}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn slices_arrive_in_order(sizes in prop::collection::vec(prop_oneof![0usize..40, 8_000usize..8_400, 0usize..20_000], 0..4)) {
        let mut pair = pair(&Authority::new("a"), &TLS13);
        pair.run();
        let sent = bytes(sizes.iter().sum());
        let mut rest = &sent[..];
        let pieces: Vec<_> = sizes
            .iter()
            .map(|size| {
                let (piece, left) = rest.split_at(*size);
                rest = left;
                piece
            })
            .collect();
        pair.send_pieces(&pieces);
        prop_assert_eq!(pair.client_has(sent.len()), sent);
    }

    #[test]
    fn input_is_the_same_however_it_is_split(
        sizes in prop::collection::vec(1usize..40_000, 1..8),
        read_bytes in prop_oneof![1usize..20, 20usize..5_000, Just(usize::MAX)],
        room_bytes in prop_oneof![1usize..20, 20usize..40_000, Just(128 << 10)],
        is_old in any::<bool>(),
    ) {
        let versions = if is_old { &TLS12 } else { &TLS13 };
        let mut pair = pair(&Authority::new("a"), versions);
        pair.run();
        (pair.read_bytes, pair.room_bytes) = (read_bytes, room_bytes);
        let mut sent = Vec::new();
        for size in sizes {
            let message = bytes(size);
            pair.client_sends(&message);
            sent.extend(message);
            pair.run();
        }
        pair.client.send_close_notify();
        pair.run();
        prop_assert_eq!(pair.received, sent);
        prop_assert!(pair.has_ended);
    }
}
