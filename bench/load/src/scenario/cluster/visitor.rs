//! A client that does one thing after the other, blocking: for who must not share its time with others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::failure::{Failure, Result, While};
use crate::mqtt::{Frames, Incoming};
use crate::net::connect_from;

const CHUNK_BYTES: usize = 4096;

pub(super) struct Visitor {
    stream: TcpStream,
    input: Vec<u8>,
    v5: bool,
}

/// How a broker has answered CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Welcome {
    pub refusal: u8,
    pub session_present: bool,
}

impl Visitor {
    /// A connection of TCP, on which nothing waits longer than `patience`.
    pub(super) fn reach(address: SocketAddr, v5: bool, patience: Duration) -> Result<Self> {
        let stream = connect_from(None, address)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self { stream, input: Vec::new(), v5 })
    }

    pub(super) fn send(&mut self, packet: &[u8]) -> Result<()> {
        self.stream.write_all(packet).during(|| "sending a packet".to_owned())
    }

    /// Sends CONNECT and waits for CONNACK.
    pub(super) fn connect(&mut self, packet: &[u8]) -> Result<Welcome> {
        self.send(packet)?;
        self.next(|_, incoming| match incoming {
            Incoming::ConnAck { refusal, session_present } => Ok(Welcome { refusal, session_present }),
            other => Err(Failure::new(format!("the broker answered CONNECT with {other:?}"))),
        })
    }

    /// The next packet, by its first byte and what it means.
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
