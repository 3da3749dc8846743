//! What is said inside.

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
fn both_sides_hear_each_other_in_both_versions() {
    let authority = Authority::new("a");
    for (versions, version) in [(&TLS13, "1.3"), (&TLS12, "1.2")] {
        let mut pair = pair(&authority, versions);
        assert!(!pair.tls.may_send() && pair.tls.is_handshaking());
        pair.client_sends(b"CONNECT");
        pair.run();
        assert_eq!(pair.received, b"CONNECT");
        assert!(pair.tls.may_send() && !pair.tls.is_handshaking() && !pair.tls.is_resumed());
        assert_eq!(pair.tls.version(), Some(version));
        let long = bytes(300_000);
        pair.send(&long);
        assert_eq!(pair.client_has(long.len()), long);
        pair.client_sends(&long);
        pair.run();
        assert_eq!(pair.received[7..], long);
    }
}

/// Some who have connected say nothing: they must not cost much.
#[test]
fn one_that_does_nothing_holds_no_buffers() {
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
    fn what_comes_is_the_same_however_it_is_cut(
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
