//! What MQTT bytes travel by: TCP, with or without layers on it. Reading and writing go through here alone, so that a layer is
//! something in this file and not a second loop of reading or writing.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use tautwire_engine::{Counters, Output};
use tautwire_websocket::{CloseCode, Ending, WebSocket};

/// Pieces handed to one write.
const SLICES_MAX: usize = 64;

/// The transport of one connection, from the network up: TCP, then WebSocket where there is one. TLS belongs between the two.
#[derive(Debug)]
pub(crate) struct Transport<'a> {
    stream: &'a mut TcpStream,
    websocket: Option<&'a mut WebSocket>,
    /// What comes is thrown away.
    is_draining: bool,
}

/// What one read brought.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    /// MQTT bytes, at the front of the buffer. There may be none although the network gave some.
    pub(crate) bytes: usize,
    /// The buffer was filled: there may be more.
    pub(crate) is_full: bool,
    /// The peer sends nothing more.
    pub(crate) has_ended: bool,
}

/// What one write took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) output_bytes: usize,
    /// Bytes of the transport itself.
    pub(crate) own_bytes: usize,
}

impl<'a> Transport<'a> {
    pub(super) fn new(
        stream: &'a mut TcpStream,
        websocket: Option<&'a mut WebSocket>,
        is_draining: bool,
    ) -> Transport<'a> {
        Transport { stream, websocket, is_draining }
    }

    /// Reads once; `None` where there is nothing to read now. The buffer is not empty.
    ///
    /// # Errors
    /// Those of the network, without "would block" and "interrupted".
    pub(crate) fn read(&mut self, buffer: &mut [u8], counters: &Counters) -> io::Result<Option<Received>> {
        let count = loop {
            match self.stream.read(buffer) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        counters.bytes_received.add(count as u64);
        let is_full = count == buffer.len();
        let bytes = match &mut self.websocket {
            _ if self.is_draining => 0,
            Some(websocket) if count > 0 => unframe(websocket, &mut buffer[..count], counters),
            _ => count,
        };
        Ok(Some(Received { bytes, is_full, has_ended: count == 0 }))
    }

    /// Writes once, of the transport's own bytes and of `output`, as much as the network takes; `None` where
    /// there is nothing to write.
    ///
    /// # Errors
    /// Those of the network, "would block" and "interrupted" among them.
    pub(crate) fn write(&mut self, output: Option<&Output>) -> io::Result<Option<Written>> {
        let output_bytes = output.map_or(0, Output::pending_bytes);
        let (ahead, output_max_bytes) = match &mut self.websocket {
            Some(websocket) => websocket.next(output_bytes),
            None => (&[][..], output_bytes),
        };
        let Some(output) = output.filter(|_| output_max_bytes > 0) else {
            if ahead.is_empty() {
                return Ok(None);
            }
            let written = self.stream.write(ahead)?;
            return Ok(Some(self.note_written(written)));
        };
        let written = match output.single() {
            Some(bytes) if ahead.is_empty() && bytes.len() == output_max_bytes => self.stream.write(bytes)?,
            _ => {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                // An empty slice in front would be one too many for nothing.
                let first = usize::from(!ahead.is_empty());
                slices[0] = IoSlice::new(ahead);
                let filled = first + output.fill(&mut slices[first..], output_max_bytes);
                self.stream.write_vectored(&slices[..filled])?
            }
        };
        Ok(Some(self.note_written(written)))
    }

    fn note_written(&mut self, written: usize) -> Written {
        let output_bytes = match &mut self.websocket {
            Some(websocket) => websocket.written(written),
            None => written,
        };
        Written { output_bytes, own_bytes: written - output_bytes }
    }

    /// Whether bytes of the transport itself are to be written, given how many of output are.
    pub(crate) fn has_own_bytes(&self, output_bytes: usize) -> bool {
        self.websocket.as_ref().is_some_and(|websocket| websocket.has_output(output_bytes))
    }

    /// Why the peer's half has ended, once; to be asked when all MQTT bytes before the end have been acted on.
    pub(crate) fn take_ending(&mut self) -> Option<Ending> {
        self.websocket.as_mut()?.take_ending()
    }

    /// Has the transport's last word follow what is pending.
    pub(crate) fn close(&mut self, code: CloseCode) {
        if let Some(websocket) = &mut self.websocket {
            websocket.close(code);
        }
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn finish(&mut self) {
        // The peer may have gone; then there is nothing left to say.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

/// Leaves the MQTT bytes at the front of `bytes`; says how many.
fn unframe(websocket: &mut WebSocket, bytes: &mut [u8], counters: &Counters) -> usize {
    let was_open = websocket.is_open();
    let left = websocket.receive(bytes);
    counters.websocket_handshakes.add(u64::from(!was_open && websocket.is_open()));
    counters.websocket_pings_passed_over.add(websocket.take_pings_passed_over());
    left
}
