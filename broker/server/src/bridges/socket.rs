//! A non-blocking socket with the bytes that it has not taken yet.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

/// Bytes per read.
pub(super) const READ_BYTES: usize = 64 << 10;

/// A socket of any family, with its unwritten output.
pub(super) struct Socket {
    stream: TcpStream,
    is_readable: bool,
    is_writable: bool,
    output: Vec<u8>,
    written: usize,
}

/// The result of a read.
pub(super) enum ReadResult {
    Bytes(usize),
    Closed,
    /// There is nothing now.
    WouldBlock,
}

impl Socket {
    /// Registers a non-blocking socket. Reading, writing and shutting down use the same calls for all families.
    pub(super) fn new(socket: impl Into<OwnedFd>, registry: &Registry, token: Token) -> io::Result<Socket> {
        let mut stream = TcpStream::from(socket.into());
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Socket { stream, is_readable: true, is_writable: true, output: Vec::new(), written: 0 })
    }

    /// Records what the kernel has reported.
    pub(super) fn record(&mut self, event: &Event) {
        self.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.is_writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    /// Whether all output has been written.
    pub(super) fn is_written(&self) -> bool {
        self.written == self.output.len()
    }

    /// Replaces the output, which must have been written, and returns its buffer.
    pub(super) fn set_output(&mut self, output: Vec<u8>) -> Vec<u8> {
        debug_assert!(self.is_written(), "output would be lost");
        self.written = 0;
        std::mem::replace(&mut self.output, output)
    }

    /// Adds bytes to the output.
    pub(super) fn add_output(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Writes as much as the kernel takes. Returns whether it took anything.
    pub(super) fn write(&mut self) -> io::Result<bool> {
        let before = self.written;
        while self.is_writable && !self.is_written() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.written > before)
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadResult> {
        while self.is_readable {
            match self.stream.read(buffer) {
                Ok(0) => return Ok(ReadResult::Closed),
                Ok(count) => return Ok(ReadResult::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ReadResult::WouldBlock)
    }

    /// Ends the sending side.
    pub(super) fn finish(&mut self) {
        // The socket may be closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
