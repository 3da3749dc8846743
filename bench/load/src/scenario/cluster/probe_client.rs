//! A blocking client that performs one operation at a time, for measurements that must not share a thread.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::failure::{ErrorContext, Failure, Result};
use crate::mqtt::{Frames, Incoming};
use crate::net::connect_from;

const CHUNK_BYTES: usize = 4096;

pub(super) struct ProbeClient {
    stream: TcpStream,
    input: Vec<u8>,
    v5: bool,
}

/// The broker's response to CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnackResult {
    pub refusal: u8,
    pub session_present: bool,
}

impl ProbeClient {
    /// A TCP connection on which nothing waits longer than `stall_timer`.
    pub(super) fn reach(address: SocketAddr, v5: bool, stall_timer: Duration) -> Result<Self> {
        let stream = connect_from(None, address)?;
        stream.set_read_timeout(Some(stall_timer))?;
        Ok(Self { stream, input: Vec::new(), v5 })
    }

    pub(super) fn send(&mut self, packet: &[u8]) -> Result<()> {
        self.stream.write_all(packet).during(|| "sending a packet".to_owned())
    }

    /// Sends CONNECT and waits for CONNACK.
    pub(super) fn connect(&mut self, packet: &[u8]) -> Result<ConnackResult> {
        self.send(packet)?;
        self.next(|_, incoming| match incoming {
            Incoming::ConnAck { refusal, session_present } => Ok(ConnackResult { refusal, session_present }),
            other => Err(Failure::new(format!("unexpected response to CONNECT: {other:?}"))),
        })
    }

    /// Reads the next packet: its first byte and its meaning.
    pub(super) fn next<T>(&mut self, take: impl FnOnce(u8, Incoming<'_>) -> Result<T>) -> Result<T> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            let mut frames = Frames::of(&self.input);
            if let Some(frame) = frames.next_frame()? {
                let taken = take(frame.first_byte, frame.read(self.v5)?);
                let rest = self.input.len() - frames.rest().len();
                self.input.drain(..rest);
                return taken;
            }
            let read = self.stream.read(&mut chunk).during(|| "waiting for the broker".to_owned())?;
            if read == 0 {
                return Err(Failure::new("the broker closed the connection"));
            }
            self.input.extend_from_slice(&chunk[..read]);
        }
    }
}
