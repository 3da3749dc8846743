//! A blocking stream, with or without TLS, for the setup before the measurement.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::{Connection, tls};
use crate::failure::Result;

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(crate) fn new(stream: TcpStream, tls: Option<&Arc<ClientConfig>>) -> Result<Self> {
        Ok(match tls {
            None => Self::Plain(stream),
            Some(config) => Self::Tls(Box::new(StreamOwned::new(tls::connection(config)?, stream))),
        })
    }

    /// Converts it for an event loop. All received data must have been read.
    pub(crate) fn into_connection(self) -> Result<Connection> {
        match self {
            Self::Plain(stream) => Connection::new(stream),
            Self::Tls(stream) => Connection::is_tls(stream.sock, stream.conn),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
