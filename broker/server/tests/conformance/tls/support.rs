//! A broker with three TLS and plain listeners, certificates made by `tautwire cert`, and a client based on rustls.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::support::broker::program;
use crate::support::client::EXPECT_TIMEOUT;
use crate::support::folder::Folder;

/// A folder with the output of `tautwire cert`.
pub(crate) struct Certificates(Folder);

impl Certificates {
    /// Runs the command with these arguments.
    pub(crate) fn made(arguments: &[&str]) -> Certificates {
        let certificates = Certificates(Folder::new(&[]));
        certificates.make(arguments);
        certificates
    }

    /// Runs the command again.
    pub(crate) fn make(&self, arguments: &[&str]) {
        let output = Command::new(program()).args(["cert", "--dir"]).arg(self.0.path()).args(arguments).output();
        let output = output.expect("the program starts");
        assert!(output.status.success(), "{output:?}");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.0.write(name, text);
    }

    /// A setting with the path of a file.
    pub(crate) fn setting(&self, key: &str, name: &str) -> String {
        format!("{key}={}", self.path(name).display())
    }

    /// The settings of a broker with this certificate.
    pub(crate) fn settings(&self) -> [String; 2] {
        [self.setting("tls.certificate", "server.pem"), self.setting("tls.key", "server.key")]
    }

    /// The first certificate of a file.
    pub(crate) fn certificate(&self, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path(name)).expect("a certificate")
    }

    fn key(&self, name: &str) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_file(self.path(name)).expect("a key")
    }
}

/// A running broker with `mqtts://`, `wss://` and `mqtt://`, killed on drop.
pub(crate) struct Broker {
    child: Child,
    pub(crate) mqtts: SocketAddr,
    pub(crate) wss: SocketAddr,
    pub(crate) mqtt: SocketAddr,
    log: Receiver<String>,
}

impl Broker {
    pub(crate) fn start(settings: &[String]) -> Broker {
        Broker::with("2", settings)
    }

    /// With this number of threads.
    pub(crate) fn with(threads: &str, settings: &[String]) -> Broker {
        let mut command = Command::new(program());
        command.args(["serve", "--memory", "--threads", threads]);
        for address in ["mqtts://127.0.0.1:0", "wss://127.0.0.1:0/mqtt", "mqtt://127.0.0.1:0"] {
            command.args(["--listen", address]);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the broker's program starts");
        let stdout = lines(child.stdout.take().expect("a pipe"));
        let log = lines(child.stderr.take().expect("a pipe"));
        let next = |scheme: &str, path: &str| {
            let line = stdout.recv_timeout(EXPECT_TIMEOUT).unwrap_or_default();
            let address = line.strip_prefix("listening on ").and_then(|line| line.strip_prefix(scheme));
            let address = address.and_then(|address| address.strip_suffix(path)?.parse().ok());
            address.unwrap_or_else(|| panic!("not ready: {line}; {:?}", log.try_iter().collect::<Vec<_>>()))
        };
        let (mqtts, wss, mqtt) = (next("mqtts://", ""), next("wss://", "/mqtt"), next("mqtt://", ""));
        Broker { child, mqtts, wss, mqtt, log }
    }

    /// Waits until the log has a line with this text.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        let mut lines_read = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(line) if line.contains(text) => return,
                Ok(line) => lines_read.push(line),
                Err(_) => panic!("the log does not say \"{text}\" but {lines_read:#?}"),
            }
        }
    }

    /// Reloads the broker.
    pub(crate) fn reload(&self) {
        let status = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(pipe: impl io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

/// The properties of a client.
pub(crate) struct Client<'a> {
    pub(crate) trusts: &'a Certificates,
    pub(crate) name: &'a str,
    /// Files `NAME.pem` and `NAME.key`.
    pub(crate) shows: Option<(&'a Certificates, &'a str)>,
    pub(crate) alpn: &'a [&'a str],
    pub(crate) versions: &'a [&'static SupportedProtocolVersion],
}

impl<'a> Client<'a> {
    pub(crate) fn of(trusts: &'a Certificates) -> Client<'a> {
        Client { trusts, name: "localhost", shows: None, alpn: &[], versions: rustls::ALL_VERSIONS }
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusts.certificate("ca.pem")).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(self.versions);
        let config = config.expect("versions").with_root_certificates(roots);
        let mut config = match self.shows {
            None => config.with_no_client_auth(),
            Some((folder, name)) => {
                let chain = vec![folder.certificate(&format!("{name}.pem"))];
                config.with_client_auth_cert(chain, folder.key(&format!("{name}.key"))).expect("they fit")
            }
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A connection on which nothing has been sent.
    pub(crate) fn dial(&self, address: SocketAddr) -> Connection {
        Connection::dial(self.config(), self.name, address)
    }

    /// A client that is accepted.
    #[track_caller]
    pub(crate) fn connect(&self, address: SocketAddr) -> Connection {
        let mut connection = self.dial(address);
        connection.greet().expect("the client is accepted");
        connection
    }

    /// The error of a client that is refused.
    #[track_caller]
    pub(crate) fn refused(&self, address: SocketAddr) -> String {
        self.dial(address).greet().expect_err("the client is refused").to_string()
    }
}

/// CONNECT of MQTT 3.1.1 with an assigned identifier, and the CONNACK that accepts it.
pub(crate) const CONNECT: &[u8] = b"\x10\x0C\x00\x04MQTT\x04\x02\x00\x3C\x00\x00";
const CONNACK: &[u8] = b"\x20\x02\x00\x00";
const PINGREQ: &[u8] = b"\xC0\x00";
const PINGRESP: &[u8] = b"\xD0\x00";

/// A TLS connection.
pub(crate) struct Connection(pub(crate) StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    pub(crate) fn dial(config: Arc<ClientConfig>, name: &str, address: SocketAddr) -> Connection {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(config, name).expect("a client");
        Connection(StreamOwned::new(connection, socket(address)))
    }

    /// CONNECT and CONNACK.
    pub(crate) fn greet(&mut self) -> io::Result<()> {
        self.0.write_all(CONNECT)?;
        assert_eq!(self.read(CONNACK.len())?, CONNACK);
        Ok(())
    }

    #[track_caller]
    pub(crate) fn ping(&mut self) {
        self.0.write_all(PINGREQ).expect("the broker accepts the data");
        assert_eq!(self.read(PINGRESP.len()).expect("the broker answers"), PINGRESP);
    }

    pub(crate) fn read(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).map(|()| bytes)
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The certificate that the broker has presented.
    pub(crate) fn shown(&self) -> CertificateDer<'static> {
        self.0.conn.peer_certificates().expect("the broker has presented one")[0].clone().into_owned()
    }
}

/// A TCP connection with the timeout of the tests.
pub(crate) fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("the broker listens");
    socket.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a timeout");
    socket
}
