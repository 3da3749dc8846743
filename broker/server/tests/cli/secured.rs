//! A folder with certificates, and a broker that uses them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::process::{Ended, Process, run};

/// A folder for one test, removed when this is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tautwire-cert-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder can be made");
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("the file is there")
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    /// `tautwire cert` in this folder.
    pub(crate) fn cert(&self, arguments: &[&str]) -> Ended {
        run(&[&["cert", "--dir", &self.0.display().to_string()], arguments].concat())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A broker with the certificates of a folder, and further settings.
pub(crate) struct Broker {
    process: Process,
    pub(crate) port: u16,
    /// The WebSocket port.
    pub(crate) web_port: u16,
}

impl Broker {
    pub(crate) fn start(folder: &Folder, settings: &[&str]) -> Broker {
        let certificate = format!("tls.certificate={}", folder.path("server.pem"));
        let key = format!("tls.key={}", folder.path("server.key"));
        Broker::with(&[&[certificate.as_str(), key.as_str()], settings].concat())
    }

    /// Starts a broker with only these settings.
    pub(crate) fn with(settings: &[&str]) -> Broker {
        let mut arguments = vec!["serve", "--memory", "--threads", "1"];
        arguments.extend(["--listen", "mqtts://127.0.0.1:0", "--listen", "wss://127.0.0.1:0/mqtt"]);
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let mut process = Process::start_without_reader(&arguments);
        let mut port = |scheme: &str, path: &str| {
            let line = process.output_line();
            let port = line.strip_prefix("listening on ").and_then(|line| line.strip_prefix(scheme));
            let port = port.and_then(|port| port.strip_suffix(path)).and_then(|port| port.parse().ok());
            port.unwrap_or_else(|| panic!("not ready: {line}"))
        };
        let port_of_mqtt = port("mqtts://127.0.0.1:", "");
        let web_port = port("wss://127.0.0.1:", "/mqtt");
        Broker { process, port: port_of_mqtt, web_port }
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Runs `tautwire pub` over TLS with these options.
    pub(crate) fn publish(&self, options: &[&str]) -> Ended {
        let port = self.port.to_string();
        run(&[&["pub", "-p", &port, "demo/hello", "hi"], options].concat())
    }

    /// Connects using a name; returns the response to CONNECT, or the error.
    pub(crate) fn connect(&self, folder: &Folder, name: &str, client: Option<&str>) -> Result<Vec<u8>, String> {
        const CONNECT: &[u8] = b"\x10\x0D\x00\x04MQTT\x04\x02\x00\x0A\x00\x01a";
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(folder.read("ca.pem").as_bytes()).expect("PEM");
        roots.add(authority).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_root_certificates(roots);
        let config = match client {
            None => config.with_no_client_auth(),
            Some(client) => {
                let chain = CertificateDer::from_pem_slice(folder.read(&format!("{client}.pem")).as_bytes());
                let key = PrivateKeyDer::from_pem_slice(folder.read(&format!("{client}.key")).as_bytes());
                let config = config.with_client_auth_cert(vec![chain.expect("PEM")], key.expect("PEM"));
                config.expect("they fit")
            }
        };
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(config.into(), name).expect("a client");
        let socket = TcpStream::connect(("127.0.0.1", self.port)).expect("the broker listens");
        socket.set_read_timeout(Some(Duration::from_secs(90))).expect("a timeout");
        let mut stream = StreamOwned::new(connection, socket);
        let mut answer = vec![0; 4];
        let answered = stream.write_all(CONNECT).and_then(|()| stream.read_exact(&mut answer));
        answered.map(|()| answer).map_err(|error| error.to_string())
    }
}
