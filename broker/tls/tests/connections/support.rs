//! Authorities, certificates, and a rustls client on an in-memory network.

use std::io::{IoSlice, Read as _, Write as _};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tautwire_tls::{Identity, Pem, Protocol, Scratch, Tls, TlsServer, TlsServerConfig};

/// TLS 1.2 only.
pub(crate) static TLS12: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
pub(crate) static TLS13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// A certificate authority.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, in PEM.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub(crate) certificate: String,
    pub(crate) key: String,
    serial: u64,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("random numbers");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("it can be signed") }
    }

    pub(crate) fn pem(&self) -> Pem {
        pem("authority", &self.issuer.pem())
    }

    pub(crate) fn issue(&self, names: &[&str], serial: u64) -> Leaf {
        self.issue_until(names, serial, 2100)
    }

    pub(crate) fn issue_until(&self, names: &[&str], serial: u64, year: i32) -> Leaf {
        let mut params =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("names");
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("random numbers");
        let certificate = params.signed_by(&key, &self.issuer).expect("it can be signed");
        Leaf { certificate: certificate.pem(), key: key.serialize_pem(), serial }
    }

    pub(crate) fn revoke(&self, leaves: &[&Leaf], next_update_year: i32) -> Pem {
        let revoked = |leaf: &&Leaf| RevokedCertParams {
            serial_number: SerialNumber::from(leaf.serial),
            revocation_time: date_time_ymd(2001, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2001, 1, 1),
            next_update: date_time_ymd(next_update_year, 1, 1),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: leaves.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        pem("list", &list.signed_by(&self.issuer).expect("it can be signed").pem().expect("PEM"))
    }
}

pub(crate) fn pem(source: &str, text: &str) -> Pem {
    Pem { source: source.to_owned(), bytes: text.as_bytes().to_vec() }
}

impl Leaf {
    pub(crate) fn identity(&self) -> Identity {
        Identity { chain: pem("chain.pem", &self.certificate), key: pem("key.pem", &self.key) }
    }
}

pub(crate) fn material(leaf: &Leaf) -> TlsServerConfig {
    TlsServerConfig { identities: vec![leaf.identity()], ..TlsServerConfig::default() }
}

pub(crate) fn server(material: TlsServerConfig) -> TlsServer {
    TlsServer::new(material, Protocol::Mqtt).expect("a valid configuration")
}

/// The options of a client.
pub(crate) struct Client<'a> {
    pub(crate) trusts: &'a Authority,
    pub(crate) name: &'a str,
    pub(crate) client_certificate: Option<&'a Leaf>,
    pub(crate) alpn: &'a [&'a [u8]],
    pub(crate) versions: &'a [&'static SupportedProtocolVersion],
}

impl<'a> Client<'a> {
    pub(crate) fn of(trusts: &'a Authority) -> Client<'a> {
        Client { trusts, name: "localhost", client_certificate: None, alpn: &[], versions: rustls::ALL_VERSIONS }
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.trusts.pem().bytes).expect("PEM")).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.versions)
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match self.client_certificate {
            None => config.with_no_client_auth(),
            Some(leaf) => {
                let chain = vec![CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).expect("PEM");
                config.with_client_auth_cert(chain, key).expect("they fit")
            }
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    pub(crate) fn connect(&self, server: &TlsServer) -> Pair {
        Pair::new(self.config(), self.name, server)
    }
}

/// A client and the server side of its connection.
pub(crate) struct Pair {
    pub(crate) client: ClientConnection,
    pub(crate) tls: Tls,
    pub(crate) scratch: Scratch,
    /// The number of bytes that the server reads at a time and has room for.
    pub(crate) read_bytes: usize,
    pub(crate) room_bytes: usize,
    /// Plain bytes that the server has received.
    pub(crate) received: Vec<u8>,
    /// Plain bytes that the client has received.
    client_received: Vec<u8>,
    /// The server has seen the end of the client's stream.
    pub(crate) has_ended: bool,
    /// The error that the client reports.
    pub(crate) client_error: Option<rustls::Error>,
    to_server: Vec<u8>,
}

impl Pair {
    pub(crate) fn new(config: Arc<ClientConfig>, name: &str, server: &TlsServer) -> Pair {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        Pair {
            client: ClientConnection::new(config, name).expect("a client"),
            tls: server.accept().expect("a connection"),
            scratch: Scratch::default(),
            read_bytes: usize::MAX,
            room_bytes: 128 << 10,
            received: Vec::new(),
            client_received: Vec::new(),
            has_ended: false,
            client_error: None,
            to_server: Vec::new(),
        }
    }

    /// Transfers bytes in both directions until neither side has more.
    pub(crate) fn run(&mut self) {
        loop {
            while self.client.wants_write() {
                self.client.write_tls(&mut self.to_server).expect("writing to memory");
            }
            let has_read = self.server_reads();
            let has_written = self.server_writes();
            if !has_read && !has_written && !self.client.wants_write() {
                return;
            }
        }
    }

    fn server_reads(&mut self) -> bool {
        let mut plain = vec![0; self.room_bytes];
        if let Some(rest) = self.tls.rest(&mut plain) {
            self.received.extend_from_slice(&plain[..rest.plain_bytes]);
            let has_progress = rest.has_more || !self.has_ended;
            self.has_ended |= rest.plain_bytes == 0;
            return has_progress;
        }
        let space = self.tls.space(&mut self.scratch, self.room_bytes);
        let count = space.len().min(self.read_bytes).min(self.to_server.len());
        if count == 0 {
            return false;
        }
        space[..count].copy_from_slice(&self.to_server[..count]);
        self.to_server.drain(..count);
        let arrival = self.tls.receive(&mut self.scratch, count, &mut plain);
        self.received.extend_from_slice(&plain[..arrival.plain_bytes]);
        true
    }

    fn server_writes(&mut self) -> bool {
        if self.tls.pending().is_empty() {
            self.tls.seal_close_notify();
        }
        let written = self.tls.pending().to_vec();
        let mut pending = &written[..];
        let count = pending.len();
        while !pending.is_empty() && self.client_error.is_none() {
            self.client.read_tls(&mut pending).expect("reading from memory");
            self.client_error = self.client.process_new_packets().err();
            self.take_from_client();
        }
        self.tls.sent(count);
        count > 0
    }

    /// Sends plain bytes from the server.
    pub(crate) fn send(&mut self, plain: &[u8]) {
        for part in plain.chunks(tautwire_tls::PLAIN_MAX_BYTES) {
            self.send_pieces(&[part]);
        }
    }

    /// Sends slices of plain bytes from the server; returns the content length of each record.
    pub(crate) fn send_pieces(&mut self, pieces: &[&[u8]]) -> Vec<usize> {
        assert!(self.tls.can_send() && self.tls.pending().is_empty());
        let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let sealed = self.tls.seal(&pieces, &mut self.scratch).expect("it can be sealed").to_vec();
        let mut left = &sealed[..];
        while !left.is_empty() {
            self.client.read_tls(&mut left).expect("reading from memory");
            self.client.process_new_packets().expect("it can be opened");
            self.take_from_client();
        }
        content_bytes_of(&sealed)
    }

    /// Sends plain bytes from the client.
    pub(crate) fn client_sends(&mut self, plain: &[u8]) {
        self.client.set_buffer_limit(None);
        self.client.writer().write_all(plain).expect("writing to memory");
    }

    fn take_from_client(&mut self) {
        let mut part = [0; 4096];
        while let Ok(count @ 1..) = self.client.reader().read(&mut part) {
            self.client_received.extend_from_slice(&part[..count]);
        }
    }

    /// Passes bytes that are not TLS to the server.
    pub(crate) fn inject(&mut self, bytes: &[u8]) {
        self.to_server.extend_from_slice(bytes);
    }

    /// Plain bytes that the client has received.
    pub(crate) fn client_has(&mut self, count: usize) -> Vec<u8> {
        assert!(self.client_received.len() >= count, "they have come");
        self.client_received.drain(..count).collect()
    }
}

fn content_bytes_of(mut records: &[u8]) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = records {
        let size = usize::from(u16::from_be_bytes([*high, *low]));
        sizes.push(size);
        records = &rest[size..];
    }
    sizes
}
