//! The transport to a server, for programs with a protocol machine of their own, such as a bridge.
//!
//! [`open`] connects a socket. [`Layers`] turn packets into the bytes of the socket and back: unchanged, through TLS, WebSocket or both.

use std::net::TcpStream;
use std::time::Instant;

use crate::driver::dial;
use crate::wire::Wire;
use crate::{Error, Options};

/// Resolves the name of the server, connects to it, and blocks for that until `until` at most. The socket is non-blocking. For a server at a
/// Unix socket, only reading, writing and shutting down are possible.
///
/// # Errors
/// [`Error::NameNotFound`], [`Error::Unreachable`] and [`Error::ConnectTimeout`].
pub fn open(options: &Options, until: Instant) -> Result<TcpStream, Error> {
    dial(&options.server, until)
}

/// The layers between packets and a socket. They do no I/O.
pub struct Layers(Wire);

impl Layers {
    /// Creates the layers for the scheme of the address, and writes the first bytes for the socket to `out`.
    ///
    /// # Errors
    /// [`Error::Options`], and errors of the TLS configuration.
    pub fn new(options: &Options, out: &mut Vec<u8>) -> Result<Layers, Error> {
        let mut wire = Wire::new(options)?;
        wire.begin(out)?;
        Ok(Layers(wire))
    }

    /// Whether all handshakes are complete, so that packets can be sent.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    /// Adds the bytes of `packets` to `out`.
    ///
    /// # Errors
    /// TLS errors.
    pub fn encode(&mut self, packets: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.encode(packets, out)
    }

    /// Adds the packets in received bytes to `packets`, and replies of the layers to `out`.
    ///
    /// # Errors
    /// TLS and WebSocket errors. `out` may contain an alert to send.
    pub fn decode(&mut self, bytes: &[u8], packets: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.decode(bytes, packets, out)
    }

    /// Adds the closing bytes of the layers to `out`, after the last packet.
    ///
    /// # Errors
    /// TLS errors.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.end(out)
    }

    /// The error if the server closes the connection without DISCONNECT.
    #[must_use]
    pub fn closed(&self) -> Error {
        self.0.ended()
    }
}

impl std::fmt::Debug for Layers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layers").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}
