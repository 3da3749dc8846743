//! The floors of every MQTT figure: a blocking TCP ping-pong, and an epoll relay that forwards bytes without
//! MQTT. Each runs in a separate process, placed like a broker.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::{Connection, Poller};
use crate::failure::{Failure, Result};
use crate::measure::Histogram;

/// The role that a connection requests from the relay with its first five bytes: one of these and the frame length (u32, big endian).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Bytes are echoed on the same connection.
    Echo,
    /// Bytes are forwarded to every subscriber, in whole frames.
    Publisher,
    Subscriber,
}

impl Role {
    /// The byte with which the relay confirms a role.
    pub(crate) const ACCEPTED: u8 = b'+';

    pub(crate) fn hello(self, frame_bytes: u32) -> [u8; 5] {
        let role = match self {
            Role::Echo => b'E',
            Role::Publisher => b'P',
            Role::Subscriber => b'S',
        };
        let [a, b, c, d] = frame_bytes.to_be_bytes();
        [role, a, b, c, d]
    }

    pub(super) fn read(hello: [u8; 5]) -> Option<(Role, usize)> {
        let role = match hello[0] {
            b'E' => Role::Echo,
            b'P' => Role::Publisher,
            b'S' => Role::Subscriber,
            _ => return None,
        };
        let frame_bytes = u32::from_be_bytes([hello[1], hello[2], hello[3], hello[4]]) as usize;
        (frame_bytes > 0).then_some((role, frame_bytes))
    }
}

/// A blocking echo server, one connection at a time, which never returns. Prints its address when ready.
pub(crate) fn serve_echo() -> Result<()> {
    let listener = announce("echo")?;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => stream.write_all(&buffer[..read])?,
            }
        }
    }
}

/// Ping-pongs `packet_bytes` over a blocking connection for `duration`. Returns the number of round trips
/// and the exact time.
pub(crate) fn measure_ping_pong(
    stream: &mut TcpStream,
    packet_bytes: usize,
    duration: Duration,
    latencies: &mut Histogram,
) -> Result<(u64, Duration)> {
    let ping = vec![0x5A; packet_bytes];
    let mut pong = vec![0; packet_bytes];
    let started = Instant::now();
    let mut last = started;
    let mut round_trips = 0;
    while last.duration_since(started) < duration {
        stream.write_all(&ping)?;
        stream.read_exact(&mut pong)?;
        let now = Instant::now();
        latencies.record(now.duration_since(last).as_nanos() as u64);
        last = now;
        round_trips += 1;
    }
    Ok((round_trips, last.duration_since(started)))
}

/// Runs the relay, which never returns. Prints its address when ready.
pub(crate) fn serve_relay() -> Result<()> {
    let mut relay = Relay {
        listener: announce("relay")?,
        poller: Poller::new()?,
        peers: Vec::new(),
        subscribers: Vec::new(),
        buffer: vec![0; 256 * 1024],
    };
    relay.poller.add(&relay.listener, LISTENER)?;
    loop {
        relay.turn()?;
    }
}

const LISTENER: usize = usize::MAX;

struct Relay {
    listener: TcpListener,
    poller: Poller,
    peers: Vec<Option<Peer>>,
    subscribers: Vec<usize>,
    buffer: Vec<u8>,
}

struct Peer {
    connection: Connection,
    role: Option<(Role, usize)>,
    /// The bytes of an incomplete hello or frame.
    held: Vec<u8>,
    waits_for_writable: bool,
}

impl Relay {
    fn turn(&mut self) -> Result<()> {
        self.poller.wait(None)?;
        let ready_count = self.poller.ready_count();
        for index in 0..ready_count {
            let ready = self.poller.ready(index);
            if ready.token == LISTENER {
                self.accept()?;
                continue;
            }
            // A broken peer is dropped; the relay continues.
            if ready.readable && self.read(ready.token, ready_count == 1).is_err() {
                self.subscribers.retain(|&subscriber| subscriber != ready.token);
                self.peers[ready.token] = None;
            }
        }
        for index in 0..self.peers.len() {
            self.flush(index)?;
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<()> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nodelay(true)?;
        self.poller.add(&stream, self.peers.len())?;
        let connection = Connection::new(stream)?;
        self.peers.push(Some(Peer { connection, role: None, held: Vec::new(), waits_for_writable: false }));
        Ok(())
    }

    /// Reads once and forwards. If nothing else is ready, the bytes go directly from the read buffer to the socket.
    fn read(&mut self, token: usize, alone: bool) -> Result<()> {
        let Some(peer) = self.peers[token].as_mut() else {
            return Ok(());
        };
        let held = peer.held.len();
        self.buffer[..held].copy_from_slice(&peer.held);
        let read = match peer.connection.stream().read(&mut self.buffer[held..]) {
            Ok(0) => return Err(Failure::new("closed")),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let available = held + read;
        let whole = match peer.role {
            None => return self.take_hello(token, available),
            Some((_, frame_bytes)) => available - available % frame_bytes,
        };
        peer.held.clear();
        peer.held.extend_from_slice(&self.buffer[whole..available]);
        match peer.role {
            Some((Role::Echo, _)) => peer.connection.send(&self.buffer[..whole])?,
            Some((Role::Publisher, _)) => {
                for &subscriber in &self.subscribers {
                    let Some(peer) = self.peers[subscriber].as_mut() else {
                        continue;
                    };
                    if alone {
                        peer.connection.send(&self.buffer[..whole])?;
                    } else {
                        peer.connection.queue(&self.buffer[..whole]);
                    }
                }
            }
            Some((Role::Subscriber, _)) | None => {}
        }
        Ok(())
    }

    fn take_hello(&mut self, token: usize, available: usize) -> Result<()> {
        let Some(peer) = self.peers[token].as_mut() else {
            return Ok(());
        };
        let Some(hello) = self.buffer[..available].first_chunk::<5>() else {
            peer.held = self.buffer[..available].to_vec();
            return Ok(());
        };
        let role = Role::read(*hello).ok_or_else(|| Failure::new("not a hello"))?;
        peer.role = Some(role);
        peer.held.clear();
        if role.0 == Role::Subscriber {
            self.subscribers.push(token);
        }
        peer.connection.send(&[Role::ACCEPTED])
    }

    fn flush(&mut self, index: usize) -> Result<()> {
        let Some(peer) = self.peers[index].as_mut() else {
            return Ok(());
        };
        if !peer.connection.has_unsent() && !peer.waits_for_writable {
            return Ok(());
        }
        let broken = peer.connection.flush().is_err();
        let waits_for_writable = peer.connection.has_unsent();
        if waits_for_writable != peer.waits_for_writable {
            peer.waits_for_writable = waits_for_writable;
            self.poller.set_writable_interest(peer.connection.stream(), index, waits_for_writable)?;
        }
        if broken {
            self.subscribers.retain(|&subscriber| subscriber != index);
            self.peers[index] = None;
        }
        Ok(())
    }
}

pub(super) fn announce(scheme: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    println!("listening on {scheme}://{}", listener.local_addr()?);
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_round_trips() {
        for role in [Role::Echo, Role::Publisher, Role::Subscriber] {
            assert_eq!(Role::read(role.hello(1234)), Some((role, 1234)));
        }
        assert_eq!(Role::read([b'X', 0, 0, 0, 1]), None);
        assert_eq!(Role::read(Role::Echo.hello(0)), None);
    }
}
