//! A connection to the API, plain or over TLS. Its thread waits for the network, with a deadline for everything.

use std::cell::{RefCell, RefMut};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use rustls::{ServerConfig, ServerConnection};

use super::request::time_left;

/// What the first record of TLS begins with: it is one of a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// A connection of one request.
pub(super) struct Connection {
    socket: TcpStream,
    tls: Option<RefCell<ServerConnection>>,
}

impl Connection {
    pub(super) fn plain(socket: TcpStream) -> Connection {
        Connection { socket, tls: None }
    }

    /// One on which the client begins a handshake.
    ///
    /// # Errors
    /// Never, as far as is known.
    pub(super) fn over_tls(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Connection> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Connection { socket, tls: Some(RefCell::new(tls)) })
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
