//! A connection to the API, plain or over TLS. Its thread waits for the network, with a deadline for everything.

use std::cell::{Cell, RefCell, RefMut};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection};
use tautwire_reactor::Asker;

use super::request::time_left;

/// What the first record of TLS begins with: it is one of a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// What may be said before the answer, as often as one likes: whoever speaks HTTP/1.1 takes it, asked for or not (RFC 9110, section 15.2).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How long that is tried where there is no room for it.
const CONTINUE_WAIT: Duration = Duration::from_millis(50);

/// A connection of one request.
pub(super) struct Connection {
    socket: TcpStream,
    tls: Option<RefCell<ServerConnection>>,
    /// Whether the client takes something before the answer.
    takes_interim: Cell<bool>,
    /// It has been told something since it has ended.
    was_told: Cell<bool>,
}

impl Connection {
    pub(super) fn plain(socket: TcpStream) -> Connection {
        Connection { socket, tls: None, takes_interim: Cell::new(false), was_told: Cell::new(false) }
    }

    /// One on which the client begins a handshake.
    ///
    /// # Errors
    /// Never, as far as is known.
    pub(super) fn over_tls(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Connection> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Connection { tls: Some(RefCell::new(tls)), ..Connection::plain(socket) })
    }

    /// The client speaks HTTP/1.1.
    pub(super) fn take_for_1_1(&self) {
        self.takes_interim.set(true);
    }

    /// Says that the request is to go on: before its body, or to find out whether anybody is there.
    ///
    /// # Errors
    /// It is not taken until the deadline, or the connection is lost.
    pub(super) fn say_continue(&self, deadline: Instant) -> io::Result<()> {
        self.write_all(CONTINUE, deadline)
    }

    /// Whether what goes over it can be read by those alone who hold the two ends.
    pub(super) fn is_over_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads what there is, and waits for it until the deadline. No bytes are the end.
    pub(super) fn read(&self, bytes: &mut [u8], deadline: Instant) -> io::Result<usize> {
        let Some(tls) = &self.tls else {
            return self.wait(deadline, |mut socket| socket.read(bytes));
        };
        let mut tls = tls.borrow_mut();
        loop {
            match tls.reader().read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The lengths of HTTP say whether something is missing.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                result => return result,
            }
            self.flush(&mut tls, deadline)?;
            self.wait(deadline, |mut socket| tls.read_tls(&mut socket))?;
            if let Err(error) = tls.process_new_packets() {
                // The alert that says why.
                let _ = self.flush(&mut tls, deadline);
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// It is not taken until the deadline, or the connection is lost.
    pub(super) fn write_all(&self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = match &self.tls {
                None => self.wait_to_write(deadline, |mut socket| socket.write(rest))?,
                Some(tls) => {
                    let mut tls = tls.borrow_mut();
                    let count = tls.writer().write(rest)?;
                    self.flush(&mut tls, deadline)?;
                    count
                }
            };
            if count == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Says that nothing more comes.
    pub(super) fn end(&self, deadline: Instant) {
        if let Some(tls) = &self.tls {
            let mut tls = tls.borrow_mut();
            tls.send_close_notify();
            let _ = self.flush(&mut tls, deadline);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads what comes, which the caller forgets: over TLS it is not even opened. No bytes are the end.
    pub(super) fn discard(&self, bytes: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.wait(deadline, |mut socket| socket.read(bytes))
    }

    /// Whether the client has said that nothing more comes from it. What it has sent besides stays where it is, or is kept for the next read.
    fn has_ended(&self) -> io::Result<bool> {
        let Some(tls) = &self.tls else {
            return Ok(self.socket.peek(&mut [0])? == 0);
        };
        let mut tls = tls.borrow_mut();
        let count = tls.read_tls(&mut &self.socket)?;
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        Ok(count == 0 || state.peer_has_closed())
    }

    /// Whether a client that sends nothing more takes an answer still, as far as it can be found out. If it does not, it says so after it has been
    /// told something, and the next look finds that.
    fn takes_answers(&self) -> bool {
        if self.takes_interim.get() && !self.was_told.replace(true) {
            return self.say_continue(Instant::now() + CONTINUE_WAIT).is_ok();
        }
        self.socket.take_error().is_ok_and(|error| error.is_none())
    }

    fn flush(&self, tls: &mut RefMut<'_, ServerConnection>, deadline: Instant) -> io::Result<()> {
        while tls.wants_write() {
            if self.wait_to_write(deadline, |mut socket| tls.write_tls(&mut socket))? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    fn wait(&self, deadline: Instant, read: impl FnMut(&TcpStream) -> io::Result<usize>) -> io::Result<usize> {
        self.retry(deadline, |socket, left| socket.set_read_timeout(Some(left)), read)
    }

    fn wait_to_write(
        &self,
        deadline: Instant,
        write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.retry(deadline, |socket, left| socket.set_write_timeout(Some(left)), write)
    }

    fn retry(
        &self,
        deadline: Instant,
        limit: impl Fn(&TcpStream, std::time::Duration) -> io::Result<()>,
        mut act: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            limit(&self.socket, time_left(deadline))?;
            match act(&self.socket) {
                Err(error) if error.kind() == ErrorKind::Interrupted && Instant::now() < deadline => {}
                result => return result,
            }
        }
    }
}

/// A client may end the half of its connection by which it sends, and wait for its answer. That looks like one that has closed all of it, until
/// something is sent there.
impl Asker for Connection {
    fn is_there(&self) -> bool {
        let ended = self.socket.set_nonblocking(true).and_then(|()| self.has_ended());
        let ended = match ended {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            ended => ended,
        };
        self.socket.set_nonblocking(false).is_ok() && ended.is_ok_and(|has_ended| !has_ended || self.takes_answers())
    }
}

/// Whether the client begins a handshake of TLS; waits for its first byte.
///
/// # Errors
/// Nothing comes until the deadline.
pub(super) fn begins_tls(socket: &TcpStream, deadline: Instant) -> io::Result<bool> {
    socket.set_read_timeout(Some(time_left(deadline)))?;
    let mut first = [0];
    match socket.peek(&mut first)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(first == [HANDSHAKE]),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::SystemTime;

    use rustls::crypto::ring;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
    use rustls_pki_types::pem::PemObject as _;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

    use super::*;
    use crate::certificates::{Authority, ServerName as CertifiedName, Validity};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        (client, listener.accept().expect("it comes").0)
    }

    fn expect_gone(connection: &Connection) {
        let deadline = Instant::now() + PATIENCE;
        while connection.is_there() {
            assert!(Instant::now() < deadline, "nobody notices that the client has gone");
            thread::yield_now();
        }
    }

    /// Reads what the client writes, and is asked in between.
    fn expect_to_hear(connection: &Connection, expected: &[u8]) {
        assert!(connection.is_there());
        let mut heard = vec![0; expected.len()];
        let count = connection.read(&mut heard, Instant::now() + PATIENCE).expect("it comes");
        assert_eq!(&heard[..count], expected);
        assert!(connection.is_there());
    }

    #[test]
    fn a_client_is_there_until_it_closes_its_connection() {
        let (mut client, server) = pair();
        let connection = Connection::plain(server);
        connection.take_for_1_1();
        assert!(connection.is_there());
        client.write_all(b"request").expect("there is room");
        expect_to_hear(&connection, b"request");
        drop(client);
        expect_gone(&connection);
    }

    #[test]
    fn a_client_that_sends_nothing_more_is_there_as_long_as_it_takes_answers() {
        for is_1_1 in [true, false] {
            let (mut client, server) = pair();
            let connection = Connection::plain(server);
            if is_1_1 {
                connection.take_for_1_1();
            }
            client.shutdown(Shutdown::Write).expect("it is open");
            let deadline = Instant::now() + PATIENCE;
            while connection.socket.peek(&mut [0]).expect("it is open") > 0 {
                assert!(Instant::now() < deadline, "it has not ended");
            }
            assert!((0..10).all(|_| connection.is_there()));
            connection.write_all(b"answer", deadline).expect("there is room");
            connection.end(deadline);
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).expect("it comes");
            let expected = if is_1_1 { [CONTINUE, b"answer"].concat() } else { b"answer".to_vec() };
            assert_eq!(heard, expected, "once, and to those alone who know it");
        }
    }

    #[test]
    fn over_tls_it_is_there_until_it_is_cut_off() {
        let authority = Authority::generate().expect("an authority");
        let validity = Validity::days(SystemTime::now(), 1);
        let name = CertifiedName::parse("localhost").expect("a name");
        let made = authority.issue_to_server(&[name], validity).expect("a certificate");
        let pem = authority.certificate(validity).expect("a certificate").certificate;
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).expect("a key");
        let provider = || Arc::new(ring::default_provider());
        let served = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let served = served.expect("versions").with_no_client_auth();
        let served = Arc::new(served.with_single_cert(vec![certificate(&made.certificate)], key).expect("they fit"));
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&pem)).expect("an authority");
        let trusting = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let trusting = Arc::new(trusting.expect("versions").with_root_certificates(roots).with_no_client_auth());
        for says_goodbye in [true, false] {
            let (client, server) = pair();
            let name = ServerName::try_from("localhost").expect("a name");
            let tls = ClientConnection::new(trusting.clone(), name).expect("a configuration");
            let client = thread::spawn(move || {
                let mut client = StreamOwned::new(tls, client);
                client.write_all(b"request").expect("it is served");
                client
            });
            let connection = Connection::over_tls(server, served.clone()).expect("a configuration");
            connection.take_for_1_1();
            let mut heard = [0; 7];
            let count = connection.read(&mut heard, Instant::now() + PATIENCE).expect("it comes");
            assert_eq!(&heard[..count], b"request");
            let mut client = client.join().expect("it has written");
            assert!(connection.is_there());
            client.write_all(b"more").expect("there is room");
            expect_to_hear(&connection, b"more");
            if says_goodbye {
                client.conn.send_close_notify();
                client.flush().expect("there is room");
                assert!((0..10).all(|_| connection.is_there()), "it may wait for its answer");
            }
            drop(client);
            expect_gone(&connection);
        }
    }
}
