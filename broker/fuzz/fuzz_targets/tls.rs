//! A TLS connection with arbitrary bytes: no panic, little memory, and an undisturbed client can connect.

#![no_main]

use std::io::{IoSlice, Write as _};
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tautwire_tls::{ClientCertificates, Identity, Pem, Protocol, Scratch, Tls, TlsServer, TlsServerConfig};

/// Maximum memory of a connection, including its buffers.
const HELD_MAX_BYTES: usize = 256 << 10;

struct Ends {
    server: TlsServer,
    client: Arc<ClientConfig>,
}

fn ends() -> &'static Ends {
    static ENDS: OnceLock<Ends> = OnceLock::new();
    ENDS.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let pem = |text: String| Pem { source: "made here".to_owned(), bytes: text.into_bytes() };
        let certificate = pem(made.cert.pem());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&certificate.bytes).expect("PEM")).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let client = client.expect("versions").with_root_certificates(roots).with_no_client_auth();
        let server = TlsServer::new(
            TlsServerConfig {
                identities: vec![Identity { chain: certificate.clone(), key: pem(made.signing_key.serialize_pem()) }],
                client_certificates: ClientCertificates::Optional,
                client_authorities: vec![certificate],
                ..TlsServerConfig::default()
            },
            Protocol::Mqtt,
        );
        Ends { server: server.expect("right"), client: Arc::new(client) }
    })
}

/// A client, the server side, and the bytes in transit to it.
struct World {
    client: ClientConnection,
    tls: Tls,
    scratch: Scratch,
    in_transit: Vec<u8>,
    received: Vec<u8>,
    is_disturbed: bool,
}

impl World {
    fn server_reads(&mut self, read_bytes: usize, room_bytes: usize) -> bool {
        let mut plain = vec![0; room_bytes];
        if let Some(rest) = self.tls.rest(&mut plain) {
            self.received.extend_from_slice(&plain[..rest.plain_bytes]);
            return rest.plain_bytes > 0;
        }
        let space = self.tls.space(&mut self.scratch, room_bytes);
        assert!(!space.is_empty(), "there is always room");
        let count = space.len().min(read_bytes).min(self.in_transit.len());
        if count == 0 {
            return false;
        }
        space[..count].copy_from_slice(&self.in_transit[..count]);
        self.in_transit.drain(..count);
        let arrival = self.tls.receive(&mut self.scratch, count, &mut plain);
        self.received.extend_from_slice(&plain[..arrival.plain_bytes]);
        assert!(self.tls.held_bytes() < HELD_MAX_BYTES);
        let mut pending = self.tls.pending();
        let written = pending.len();
        while !pending.is_empty() && self.client.read_tls(&mut pending).is_ok_and(|count| count > 0) {
            if self.client.process_new_packets().is_err() {
                break;
            }
        }
        self.tls.sent(written);
        true
    }

    fn carry(&mut self, read_bytes: usize, room_bytes: usize) {
        loop {
            while self.client.wants_write() && self.client.write_tls(&mut self.in_transit).is_ok() {}
            if !self.server_reads(read_bytes, room_bytes) && !self.client.wants_write() {
                return;
            }
        }
    }

    /// Splits the handshake record at the front, if there is one, in two.
    fn split_record(&mut self, at: usize) {
        if self.in_transit.len() < 7 || self.in_transit[0] != 22 {
            return;
        }
        let length = usize::from(u16::from_be_bytes([self.in_transit[3], self.in_transit[4]]));
        if length < 2 || self.in_transit.len() < 5 + length {
            return;
        }
        let first = 1 + at % (length - 1);
        let second = (length - first) as u16;
        let header = [22, 3, 3, (second >> 8) as u8, second as u8];
        self.in_transit.splice(5 + first..5 + first, header);
        self.in_transit[3..5].copy_from_slice(&(first as u16).to_be_bytes());
    }
}

fuzz_target!(|data: &[u8]| {
    let ends = ends();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut world = World {
        client: ClientConnection::new(ends.client.clone(), name).expect("a client"),
        tls: ends.server.accept().expect("a connection"),
        scratch: Scratch::default(),
        in_transit: Vec::new(),
        received: Vec::new(),
        is_disturbed: false,
    };
    // Writes are never partial.
    world.client.set_buffer_limit(None);
    let mut sent = Vec::new();
    let _ = world.client.write_tls(&mut world.in_transit);
    let mut script = data.iter().copied();
    let mut next = || script.next().map(usize::from);
    while let (Some(what), Some(how)) = (next(), next()) {
        match what % 8 {
            0 => {
                let message = vec![how as u8; how * 300];
                if world.client.writer().write_all(&message).is_ok() {
                    sent.extend(message);
                }
            }
            1 => world.carry(1 + how, 1 + next().unwrap_or(0)),
            2 => world.carry(usize::MAX, 128 << 10),
            3 => {
                let place = how * 256 + next().unwrap_or(0);
                if let Some(byte) = world.in_transit.get_mut(place) {
                    *byte ^= 1 << (what / 8 % 8);
                    world.is_disturbed = true;
                }
            }
            4 => world.split_record(how * 256 + next().unwrap_or(0)),
            5 => {
                let bytes: Vec<u8> = std::iter::from_fn(&mut next).take(how).map(|byte| byte as u8).collect();
                world.in_transit.extend(bytes);
                world.is_disturbed = true;
            }
            6 if world.tls.can_send() && world.tls.pending().is_empty() => {
                let plain = vec![7; how * 250];
                let (first, second) = plain.split_at(how);
                let pieces = [IoSlice::new(first), IoSlice::new(second)];
                let sealed = world.tls.seal(&pieces, &mut world.scratch).expect("the keys are not exhausted");
                let mut sealed = sealed.to_vec();
                sealed.truncate(sealed.len().saturating_sub(what / 8));
                world.is_disturbed |= what / 8 > 0;
                let mut sealed = &sealed[..];
                while !sealed.is_empty() && world.client.read_tls(&mut sealed).is_ok_and(|count| count > 0) {
                    if world.client.process_new_packets().is_err() {
                        break;
                    }
                }
            }
            7 => {
                world.tls.close();
                world.tls.seal_close_notify();
                world.is_disturbed = true;
            }
            _ => {}
        }
    }
    world.carry(usize::MAX, 128 << 10);
    if !world.is_disturbed {
        assert!(world.tls.take_failure().is_none() && world.tls.can_send());
        assert_eq!(world.received, sent);
    }
});
