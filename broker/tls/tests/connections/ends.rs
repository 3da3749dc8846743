//! How connections end.

use tautwire_tls::TlsErrorKind;

use crate::support::{Authority, Client, material, server};

#[test]
fn the_close_follows_all_data() {
    let authority = Authority::new("a");
    let server = server(material(&authority.issue(&["localhost"], 1)));
    let mut pair = Client::of(&authority).connect(&server);
    pair.run();
    assert!(!pair.has_ended);
    pair.client_sends(b"DISCONNECT");
    pair.client.send_close_notify();
    pair.run();
    assert_eq!(pair.received, b"DISCONNECT");
    assert!(pair.has_ended && pair.tls.has_ended());
    assert!(pair.tls.take_failure().is_none());
    // The other direction is open.
    pair.send(b"x");
    assert_eq!(pair.client_has(1), b"x");
}

#[test]
fn the_client_receives_close_notify() {
    let authority = Authority::new("a");
    let server = server(material(&authority.issue(&["localhost"], 1)));
    let mut pair = Client::of(&authority).connect(&server);
    pair.run();
    pair.send(b"last");
    pair.tls.close();
    assert!(pair.tls.has_output() && pair.tls.can_send());
    pair.run();
    assert!(!pair.tls.has_output() && !pair.tls.can_send());
    assert_eq!(pair.client_has(4), b"last");
    let state = pair.client.process_new_packets().expect("no error");
    assert!(state.peer_has_closed());
    // Bytes that arrive now are ignored.
    pair.client_sends(b"late");
    pair.run();
    pair.inject(b"1\x07no TLS");
    pair.run();
    assert_eq!((&*pair.received, pair.tls.take_failure().is_none()), (&b""[..], true));
    assert!(!pair.tls.has_output());
}

#[test]
fn a_client_without_tls_is_detected() {
    let authority = Authority::new("a");
    let server = server(material(&authority.issue(&["localhost"], 1)));
    for bytes in [&b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00"[..], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut pair = Client::of(&authority).connect(&server);
        let mut unheard = Vec::new();
        pair.client.write_tls(&mut unheard).expect("memory");
        pair.inject(bytes);
        pair.run();
        let failure = pair.tls.take_failure().expect("it fails");
        assert_eq!(failure.kind(), TlsErrorKind::NotTls, "{failure}");
        assert!(failure.to_string().ends_with("[tls_not_supported]"));
        assert!(pair.tls.take_failure().is_none() && !pair.tls.can_send());
    }
}

#[test]
fn tampering_ends_the_connection() {
    let authority = Authority::new("a");
    let server = server(material(&authority.issue(&["localhost"], 1)));
    let mut pair = Client::of(&authority).connect(&server);
    pair.run();
    pair.client_sends(b"good");
    pair.run();
    pair.inject(&[23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
    pair.client_sends(b"ignored");
    pair.run();
    assert_eq!(pair.received, b"good");
    assert_eq!(pair.tls.take_failure().expect("it fails").kind(), TlsErrorKind::Violation);
    let error = pair.client_error.expect("the client gets an alert");
    assert!(matches!(error, rustls::Error::AlertReceived(_)), "{error:?}");
}

/// However it is split, input that is not TLS fails without a panic, and holds little memory.
#[test]
fn random_bytes_hold_little_memory() {
    let authority = Authority::new("a");
    let server = server(material(&authority.issue(&["localhost"], 1)));
    for seed in 0..200u32 {
        let mut pair = Client::of(&authority).connect(&server);
        let mut hello = Vec::new();
        pair.client.write_tls(&mut hello).expect("memory");
        let at = seed as usize * 31 % hello.len();
        hello[at] ^= 1 << (seed % 8);
        pair.read_bytes = 1 + seed as usize % 97;
        pair.inject(&hello);
        pair.inject(&vec![seed as u8; 40_000]);
        pair.run();
        assert!(pair.tls.held_bytes() < 64 << 10);
        assert!(pair.tls.take_failure().is_some() || pair.tls.is_handshaking());
    }
}
