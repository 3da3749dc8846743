use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with};
use rustls::{ClientConfig, ClientConnection};

use super::tls::{self, Tls};
use crate::failure::{ErrorContext, Failure, Result};
use crate::mqtt::{Frame, Frames};

/// A non-blocking connection. Input is read through one [`ReadBuffer`] shared by all connections; only the start of
/// an incomplete frame is stored here, so tens of thousands of idle connections cost little.
pub(crate) struct Connection {
    stream: TcpStream,
    partial_frame: Vec<u8>,
    unsent: Vec<u8>,
    sent: usize,
    tls: Option<Box<Tls>>,
}

/// The shared read buffer of the generator.
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    /// Received TLS records before decryption.
    records: Vec<u8>,
}

/// Opens a TCP connection from a given loopback source address, blocking; `None` lets the kernel choose the source.
/// Several sources lift the limit of about 28,000 local ports per source address.
pub(crate) fn connect_from(source: Option<Ipv4Addr>, target: SocketAddr) -> Result<TcpStream> {
    let stream = bound_socket(source, target)?;
    connect(&stream, &target).during(|| format!("connecting to {target}"))?;
    Ok(stream)
}

/// The same without waiting for the handshake: data that is sent before stays queued. If the broker's backlog is full, the kernel retries
/// after a second, and only that connection waits.
pub(crate) fn begin_connecting_from(source: Option<Ipv4Addr>, target: SocketAddr) -> Result<TcpStream> {
    let stream = bound_socket(source, target)?;
    stream.set_nonblocking(true)?;
    match connect(&stream, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(stream),
        Err(error) => Err(error).during(|| format!("connecting to {target}")),
    }
}

fn bound_socket(source: Option<Ipv4Addr>, target: SocketAddr) -> Result<TcpStream> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    if let Some(source) = source {
        bind(&socket, &SocketAddr::from((source, 0))).during(|| format!("binding to {source}"))?;
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Connection {
    /// Wraps a connected stream and makes it non-blocking.
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, partial_frame: Vec::new(), unsent: Vec::new(), sent: 0, tls: None })
    }

    /// The same for a TLS stream whose handshake has started.
    pub(crate) fn is_tls(stream: TcpStream, tls: ClientConnection) -> Result<Self> {
        Ok(Self { tls: Some(Box::new(Tls::new(tls))), ..Self::new(stream)? })
    }

    /// Wraps a stream that may still be connecting, and starts TLS on it if required. Data that is sent before the end of the handshake
    /// stays queued.
    pub(crate) fn begin(stream: TcpStream, tls: Option<&Arc<ClientConfig>>) -> Result<Self> {
        match tls {
            None => Self::new(stream),
            Some(config) => Self::is_tls(stream, tls::connection(config)?),
        }
    }

    /// Whether TLS resumed an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_resumed())
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Queues bytes; the next [`flush`](Self::flush) sends them.
    #[inline]
    pub(crate) fn queue(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            None => self.unsent.extend_from_slice(bytes),
            // Writing to a Vec cannot fail, and a failed connection is detected by the next read.
            Some(tls) => _ = tls.seal(bytes, &mut self.unsent),
        }
    }

    /// Sends `bytes` in one write together with the queued bytes; the rest stays queued.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        if self.has_unsent() || self.tls.is_some() {
            self.queue(bytes);
            return self.flush();
        }
        let written = self.write(bytes)?;
        self.unsent.extend_from_slice(&bytes[written..]);
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.has_unsent() {
            return Ok(());
        }
        let unsent = std::mem::take(&mut self.unsent);
        let written = self.write(&unsent[self.sent..]);
        self.unsent = unsent;
        self.sent += written?;
        if self.sent == self.unsent.len() {
            self.unsent.clear();
            self.sent = 0;
        }
        Ok(())
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// Reads once and passes on each complete frame. Level triggering delivers the rest in the next turn.
    #[inline]
    pub(crate) fn read_frames(
        &mut self,
        buffer: &mut ReadBuffer,
        mut handle: impl FnMut(Frame<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.tls.is_some() {
            return self.read_sealed_frames(buffer, handle);
        }
        let buffered = self.partial_frame.len();
        buffer.make_room(buffered);
        let buffer = &mut buffer.bytes;
        buffer[..buffered].copy_from_slice(&self.partial_frame);
        let read = match self.stream.read(&mut buffer[buffered..]) {
            Ok(0) => return Err(Failure::new("the broker closed the connection")),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error).during(|| "reading".to_owned()),
        };
        let mut frames = Frames::of(&buffer[..buffered + read]);
        while let Some(frame) = frames.next_frame()? {
            handle(frame)?;
        }
        self.partial_frame.clear();
        self.partial_frame.extend_from_slice(frames.rest());
        Ok(())
    }

    /// The same over TLS.
    fn read_sealed_frames(
        &mut self,
        buffer: &mut ReadBuffer,
        mut handle: impl FnMut(Frame<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let ReadBuffer { records, .. } = buffer;
        records.resize(ReadBuffer::START_BYTES, 0);
        let read = match self.stream.read(records) {
            Ok(0) => return Err(Failure::new("the broker closed the connection")),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(error) => return Err(error).during(|| "reading".to_owned()),
        };
        tls.open(&records[..read], &mut self.partial_frame)?;
        // A part of the handshake, with the data that has waited for it.
        tls.seal(&[], &mut self.unsent)?;
        self.flush()?;
        let mut frames = Frames::of(&self.partial_frame);
        while let Some(frame) = frames.next_frame()? {
            handle(frame)?;
        }
        let rest = frames.rest().len();
        self.partial_frame.drain(..self.partial_frame.len() - rest);
        if rest == 0 && self.partial_frame.capacity() > ReadBuffer::START_BYTES / 4 {
            self.partial_frame = Vec::new();
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self.stream.write(bytes) {
            Ok(written) => Ok(written),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(error).during(|| "writing".to_owned()),
        }
    }
}

impl ReadBuffer {
    const START_BYTES: usize = 256 * 1024;

    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; Self::START_BYTES], records: Vec::new() }
    }

    /// Grows if a partial frame would leave little space: a frame larger than the buffer must still fit.
    fn make_room(&mut self, buffered: usize) {
        if buffered * 2 > self.bytes.len() {
            self.bytes.resize(buffered * 4, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn frames_split_over_reads_arrive_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback listens");
        let stream = connect_from(Some(Ipv4Addr::new(127, 0, 0, 7)), listener.local_addr().expect("bound"))
            .expect("loopback connects");
        let (mut far, _) = listener.accept().expect("accepts");
        stream.set_nodelay(true).expect("a socket option");
        let mut connection = Connection::new(stream).expect("non-blocking");
        // Blocking here keeps the test free of timing: each read waits for the bytes written before it.
        connection.stream.set_nonblocking(false).expect("blocking");
        let mut buffer = ReadBuffer::new();
        let mut seen = Vec::new();
        for part in [&[0x40, 2, 0][..], &[7, 0xD0], &[0, 0x40, 2, 0, 9]] {
            far.write_all(part).expect("writes");
            connection
                .read_frames(&mut buffer, |frame| {
                    seen.push((frame.first_byte, frame.body.to_vec()));
                    Ok(())
                })
                .expect("reads");
        }
        assert_eq!(seen, [(0x40, vec![0, 7]), (0xD0, vec![]), (0x40, vec![0, 9])]);
        drop(far);
        assert!(connection.read_frames(&mut buffer, |_| Ok(())).is_err());
    }
}
