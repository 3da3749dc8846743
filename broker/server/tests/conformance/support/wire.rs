//! The transport to the broker: TCP, or WebSocket with the same bytes inside.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::websocket::{BINARY, CLOSE, FIN, WebSocket, frame};

/// Largest frame, so that a write can end in the middle of the data.
const FRAME_BYTES: usize = 16 * 1024;

/// A transport to the broker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Transport {
    Tcp(SocketAddr),
    WebSocket(SocketAddr),
}

/// One connection.
pub(crate) enum Wire {
    Tcp(TcpStream),
    WebSocket {
        stream: TcpStream,
        /// A frame that the kernel has not accepted completely.
        unsent: Vec<u8>,
        /// Bytes of incomplete frame headers.
        received: Vec<u8>,
        /// Remaining MQTT bytes of the current frame.
        left: u64,
        /// A Close frame has arrived.
        closed: bool,
    },
}

impl Wire {
    pub(crate) fn dial(transport: Transport) -> Wire {
        match transport {
            Transport::Tcp(address) => {
                let stream = TcpStream::connect(address).expect("the broker accepts connections");
                stream.set_nodelay(true).expect("a TCP socket takes TCP_NODELAY");
                Wire::Tcp(stream)
            }
            Transport::WebSocket(address) => {
                let mut websocket = WebSocket::dial(address);
                // A refused connection appears as closed, as with TCP.
                let closed = websocket.try_open().is_none();
                let stream = websocket.stream;
                Wire::WebSocket { stream, unsent: Vec::new(), received: Vec::new(), left: 0, closed }
            }
        }
    }

    fn stream(&self) -> &TcpStream {
        match self {
            Wire::Tcp(stream) | Wire::WebSocket { stream, .. } => stream,
        }
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream().set_read_timeout(timeout)
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream().set_write_timeout(timeout)
    }

    pub(crate) fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream().peek(bytes)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream().shutdown(how)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Tcp(stream) => stream.write(bytes),
            Wire::WebSocket { .. } => {
                self.flush()?;
                let Wire::WebSocket { unsent, .. } = self else { return Ok(0) };
                let now = &bytes[..bytes.len().min(FRAME_BYTES)];
                *unsent = frame(FIN | BINARY, now);
                // It counts as written once the frame is started: the rest is sent first the next time.
                match self.flush() {
                    Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                        Err(error)
                    }
                    _ => Ok(now.len()),
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Wire::WebSocket { stream, unsent, .. } = self else { return Ok(()) };
        while !unsent.is_empty() {
            match stream.write(unsent) {
                Ok(count) => drop(unsent.drain(..count)),
                // With a timeout the kernel does not restart the call of a process that was stopped.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // The broker may accept now what it did not accept before.
        let _ = self.flush();
        match self {
            Wire::Tcp(stream) => stream.read(bytes),
            Wire::WebSocket { stream, received, left, closed, .. } => loop {
                if *closed {
                    return Ok(0);
                }
                if *left > 0 {
                    let most = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    let count = stream.read(&mut bytes[..most])?;
                    *left -= count as u64;
                    return Ok(count);
                }
                let mut byte = [0];
                if stream.read(&mut byte)? == 0 {
                    return Ok(0);
                }
                received.push(byte[0]);
                let (opcode, length) = match &received[..] {
                    [first, length @ 0..=125] => (first & 0x0F, u64::from(*length)),
                    [first, 126, a, b] => (first & 0x0F, u64::from(u16::from_be_bytes([*a, *b]))),
                    [first, 127, rest @ ..] if rest.len() == 8 => {
                        (first & 0x0F, rest.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)))
                    }
                    _ => continue,
                };
                assert!(opcode == BINARY || opcode == CLOSE, "a frame of kind {opcode}");
                received.clear();
                *closed = opcode == CLOSE;
                *left = length;
            },
        }
    }
}
