//! The transport of MQTT bytes: TCP, with or without layers. All reads and writes go through this file, so that a layer does not need a
//! read or write loop of its own.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use tautwire_engine::{Counters, Output};
use tautwire_tls::{Scratch, Tls, TlsError};
use tautwire_websocket::{CloseCode, WebSocket};

use super::layers::Layers;

/// The most slices per write.
const SLICES_MAX: usize = 64;

/// The transport of one connection, from the network up: TCP, optionally TLS, optionally WebSocket.
#[derive(Debug)]
pub(crate) struct Transport<'a> {
    stream: &'a mut TcpStream,
    layers: Option<&'a mut Layers>,
    /// Buffers for TLS.
    scratch: &'a mut Scratch,
    /// Input is discarded.
    is_draining: bool,
}

/// The result of one read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadResult {
    /// MQTT bytes, at the front of the buffer. May be 0 although the network delivered bytes.
    pub(crate) bytes: usize,
    /// There may be more to read.
    pub(crate) is_full: bool,
    /// The peer has closed its half.
    pub(crate) has_ended: bool,
}

/// The result of one write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteResult {
    pub(crate) output_bytes: usize,
    /// Bytes of the transport itself.
    pub(crate) transport_bytes: usize,
}

/// Why the peer's half of a transport has ended.
#[derive(Debug)]
pub(crate) enum EndReason {
    Tls(TlsError),
    WebSocket(tautwire_websocket::EndReason),
}

impl<'a> Transport<'a> {
    pub(super) fn new(
        stream: &'a mut TcpStream,
        layers: Option<&'a mut Layers>,
        scratch: &'a mut Scratch,
        is_draining: bool,
    ) -> Transport<'a> {
        Transport { stream, layers, scratch, is_draining }
    }

    // Reading.

    /// Reads once. Returns `None` if there is nothing to read now. The buffer must not be empty.
    ///
    /// # Errors
    /// Network errors except "would block" and "interrupted".
    pub(crate) fn read(&mut self, buffer: &mut [u8], counters: &Counters) -> io::Result<Option<ReadResult>> {
        let Some(layers) = self.layers.as_deref_mut() else {
            let Some(count) = read_once(self.stream, buffer)? else { return Ok(None) };
            counters.bytes_received.add(count as u64);
            let bytes = if self.is_draining { 0 } else { count };
            return Ok(Some(ReadResult { bytes, is_full: count == buffer.len(), has_ended: count == 0 }));
        };
        let received = match &mut layers.tls {
            Some(tls) => read_tls(self.stream, tls, self.scratch, buffer, counters)?,
            None => read_once(self.stream, buffer)?.map(|count| {
                counters.bytes_received.add(count as u64);
                ReadResult { bytes: count, is_full: count == buffer.len(), has_ended: count == 0 }
            }),
        };
        let Some(mut received) = received else { return Ok(None) };
        received.bytes = match &mut layers.websocket {
            _ if self.is_draining => 0,
            Some(websocket) if received.bytes > 0 => unframe(websocket, &mut buffer[..received.bytes], counters),
            _ => received.bytes,
        };
        layers.update_charge();
        Ok(Some(received))
    }

    // Writing.

    /// Writes once, the transport's own bytes and `output`, as much as the network accepts. Returns `None` if there is nothing to write.
    ///
    /// # Errors
    /// Network errors, including "would block" and "interrupted".
    pub(crate) fn write(&mut self, output: Option<&Output>) -> io::Result<Option<WriteResult>> {
        if self.layers.as_ref().is_some_and(|layers| layers.tls.is_some()) {
            return self.write_tls(output);
        }
        let output_bytes = output.map_or(0, Output::pending_bytes);
        let (ahead, output_max_bytes) = websocket_prefix(self.layers.as_deref_mut(), output_bytes);
        let Some(output) = output.filter(|_| output_max_bytes > 0) else {
            if ahead.is_empty() {
                return Ok(None);
            }
            let written = self.stream.write(ahead)?;
            return Ok(Some(self.record_written(written)));
        };
        let written = match output.single() {
            Some(bytes) if ahead.is_empty() && bytes.len() == output_max_bytes => self.stream.write(bytes)?,
            _ => {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                // Skip an empty first slice.
                let first = usize::from(!ahead.is_empty());
                slices[0] = IoSlice::new(ahead);
                let filled = first + output.fill(&mut slices[first..], output_max_bytes);
                self.stream.write_vectored(&slices[..filled])?
            }
        };
        Ok(Some(self.record_written(written)))
    }

    /// Writes once with TLS. Output that was encrypted counts as written, whether the network has accepted it or not; no more is encrypted
    /// until it has.
    fn write_tls(&mut self, output: Option<&Output>) -> io::Result<Option<WriteResult>> {
        let Transport { stream, layers: Some(layers), scratch, .. } = self else { return Ok(None) };
        let Some(tls) = &mut layers.tls else { return Ok(None) };
        let output_bytes = output.filter(|_| tls.can_send()).map_or(0, Output::pending_bytes);
        let mut taken_bytes = 0;
        let mut transport_bytes = 0;
        if tls.pending().is_empty() {
            let (ahead, output_max_bytes) = match &mut layers.websocket {
                Some(websocket) if tls.can_send() => websocket.next(output_bytes),
                Some(_) => (&[][..], 0),
                None => (&[][..], output_bytes),
            };
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let first = usize::from(!ahead.is_empty());
            slices[0] = IoSlice::new(ahead);
            let room_bytes = tls.plain_max_bytes().saturating_sub(ahead.len());
            let filled = match output.filter(|_| output_max_bytes > 0) {
                Some(output) => first + output.fill(&mut slices[first..], output_max_bytes.min(room_bytes)),
                None => first,
            };
            let slices = &slices[..filled];
            taken_bytes = slices.iter().map(|slice| slice.len()).sum();
            let sealed = if taken_bytes > 0 { tls.seal(slices, scratch) } else { Ok(&[][..]) };
            let sealed = sealed.map_err(io::Error::other)?;
            if !sealed.is_empty() {
                transport_bytes = sealed.len() - taken_bytes;
                let count = match stream.write(sealed) {
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                    Err(error) => return Err(error),
                };
                tls.keep(&sealed[count..]);
            } else {
                tls.seal_close_notify();
            }
        }
        if taken_bytes == 0 {
            if tls.pending().is_empty() {
                return Ok(None);
            }
            let count = stream.write(tls.pending())?;
            tls.sent(count);
        }
        layers.update_charge();
        let output_bytes = match &mut layers.websocket {
            Some(websocket) if taken_bytes > 0 => websocket.written(taken_bytes),
            _ => taken_bytes,
        };
        Ok(Some(WriteResult { output_bytes, transport_bytes: transport_bytes + taken_bytes - output_bytes }))
    }

    fn record_written(&mut self, written: usize) -> WriteResult {
        let output_bytes = match self.websocket() {
            Some(websocket) => websocket.written(written),
            None => written,
        };
        WriteResult { output_bytes, transport_bytes: written - output_bytes }
    }

    fn websocket(&mut self) -> Option<&mut WebSocket> {
        self.layers.as_deref_mut()?.websocket.as_deref_mut()
    }

    /// Whether output can be written, now or when the socket is writable: after the handshake, and before the transport has ended.
    pub(crate) fn takes_output(&self) -> bool {
        let tls = self.layers.as_ref().and_then(|layers| layers.tls.as_ref());
        tls.is_none_or(|tls| tls.can_send())
    }

    /// Whether bytes of the transport itself must be written, with `output_bytes` of output.
    pub(crate) fn has_transport_bytes(&self, output_bytes: usize) -> bool {
        self.layers.as_ref().is_some_and(|layers| {
            let tls = layers.tls.as_ref();
            let websocket = layers.websocket.as_ref().filter(|_| tls.is_none_or(|tls| tls.can_send()));
            tls.is_some_and(|tls| tls.has_output())
                || websocket.is_some_and(|websocket| websocket.has_output(output_bytes))
        })
    }

    // Ending.

    /// Returns why the peer's half has ended, once. Call it after all MQTT bytes before the end were processed.
    pub(crate) fn take_end_reason(&mut self) -> Option<EndReason> {
        let layers = self.layers.as_deref_mut()?;
        let failure = layers.tls.as_mut().and_then(|tls| tls.take_failure());
        failure.map(EndReason::Tls).or_else(|| layers.websocket.as_mut()?.take_end_reason().map(EndReason::WebSocket))
    }

    /// Appends the transport's closing message to the pending output.
    pub(crate) fn close(&mut self, code: CloseCode) {
        let Some(layers) = self.layers.as_deref_mut() else { return };
        if let Some(websocket) = &mut layers.websocket {
            websocket.close(code);
        }
        if let Some(tls) = &mut layers.tls {
            tls.close();
        }
    }

    /// Closes our half.
    pub(crate) fn finish(&mut self) {
        // If the peer is gone, there is nothing to close.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

/// Reads once. Returns `None` if there is nothing to read now.
fn read_once(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match stream.read(buffer) {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn read_tls(
    stream: &mut TcpStream,
    tls: &mut Tls,
    scratch: &mut Scratch,
    buffer: &mut [u8],
    counters: &Counters,
) -> io::Result<Option<ReadResult>> {
    if let Some(rest) = tls.rest(buffer) {
        return Ok(Some(ReadResult {
            bytes: rest.plain_bytes,
            is_full: rest.has_more,
            has_ended: tls.has_ended() && rest.plain_bytes == 0,
        }));
    }
    let space = tls.space(scratch, buffer.len());
    let space_bytes = space.len();
    let Some(count) = read_once(stream, space)? else { return Ok(None) };
    counters.bytes_received.add(count as u64);
    if count == 0 {
        return Ok(Some(ReadResult { bytes: 0, is_full: false, has_ended: true }));
    }
    let arrival = tls.receive(scratch, count, buffer);
    Ok(Some(ReadResult {
        bytes: arrival.plain_bytes,
        is_full: arrival.has_more || count == space_bytes,
        has_ended: tls.has_ended() && arrival.plain_bytes == 0,
    }))
}

/// Returns the WebSocket frame header, if there is a WebSocket, and the length of the output in that frame.
fn websocket_prefix(layers: Option<&mut Layers>, output_bytes: usize) -> (&[u8], usize) {
    match layers.and_then(|layers| layers.websocket.as_deref_mut()) {
        Some(websocket) => websocket.next(output_bytes),
        None => (&[], output_bytes),
    }
}

/// Removes the WebSocket framing. Returns the number of MQTT bytes, which are at the front of `bytes`.
fn unframe(websocket: &mut WebSocket, bytes: &mut [u8], counters: &Counters) -> usize {
    let was_open = websocket.is_open();
    let left = websocket.receive(bytes);
    counters.websocket_handshakes.add(u64::from(!was_open && websocket.is_open()));
    counters.websocket_pings_skipped.add(websocket.take_skipped_pings());
    left
}
