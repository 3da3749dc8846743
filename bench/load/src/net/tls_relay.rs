//! The floor of every TLS figure: a relay that decrypts the records of publishers and encrypts records of the same bytes for subscribers,
//! only with rustls. It forwards whole frames, without MQTT.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};

use super::floor::{Role, announce};
use super::{Poller, tls};
use crate::failure::{ErrorContext, Failure, Result};

const LISTENER: usize = usize::MAX;
const BUFFER_BYTES: usize = 256 << 10;
/// The overhead of records and of a handshake, for a whole buffer.
const OVERHEAD_BYTES: usize = 16 << 10;

/// Runs the relay, which never returns. Prints its address when ready.
pub(crate) fn serve_tls_relay(certificate: &Path, key: &Path) -> Result<()> {
    let config = tls::server_config(certificate, key)?;
    let listener = announce("relay-tls")?;
    let mut relay = Relay {
        poller: Poller::new()?,
        peers: Vec::new(),
        incoming: vec![0; BUFFER_BYTES],
        plain: Vec::with_capacity(BUFFER_BYTES),
        outgoing: vec![0; BUFFER_BYTES + OVERHEAD_BYTES],
    };
    relay.poller.add(&listener, LISTENER)?;
    loop {
        relay.turn(&listener, &config)?;
    }
}

struct Relay {
    poller: Poller,
    peers: Vec<Option<Peer>>,
    incoming: Vec<u8>,
    /// The bytes of one read.
    plain: Vec<u8>,
    outgoing: Vec<u8>,
}

struct Peer {
    stream: TcpStream,
    tls: UnbufferedServerConnection,
    /// The start of a record.
    partial: Vec<u8>,
    role: Option<(Role, usize)>,
    /// The start of a hello or of a frame.
    held: Vec<u8>,
    unsent: Vec<u8>,
    waits_for_writable: bool,
}

impl Relay {
    fn turn(&mut self, listener: &TcpListener, config: &Arc<ServerConfig>) -> Result<()> {
        self.poller.wait(None)?;
        for index in 0..self.poller.ready_count() {
            let token = self.poller.ready(index).token;
            if token == LISTENER {
                self.accept(listener, config)?;
            } else if self.serve(token).is_err() {
                // A broken peer is dropped; the relay continues.
                self.peers[token] = None;
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: &TcpListener, config: &Arc<ServerConfig>) -> Result<()> {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.poller.add(&stream, self.peers.len())?;
        let tls = UnbufferedServerConnection::new(config.clone()).during(|| "TLS".to_owned())?;
        let (partial, held, unsent) = (Vec::new(), Vec::new(), Vec::new());
        self.peers.push(Some(Peer { stream, tls, partial, role: None, held, unsent, waits_for_writable: false }));
        Ok(())
    }

    fn serve(&mut self, token: usize) -> Result<()> {
        let Some(peer) = self.peers[token].as_mut() else { return Ok(()) };
        self.plain.clear();
        self.plain.append(&mut peer.held);
        peer.flush()?;
        let has_read = peer.read(&mut self.incoming, &mut self.plain)?;
        self.watch(token)?;
        let Some(peer) = self.peers[token].as_mut().filter(|_| has_read) else { return Ok(()) };
        match peer.role {
            None => {
                let Some((hello, rest)) = self.plain.split_first_chunk::<5>() else {
                    peer.held.extend_from_slice(&self.plain);
                    return Ok(());
                };
                peer.role = Some(Role::read(*hello).ok_or_else(|| Failure::new("not a hello"))?);
                peer.held.extend_from_slice(rest);
                peer.send(&[Role::ACCEPTED], &mut self.outgoing)?;
                self.watch(token)
            }
            Some((Role::Publisher, frame_bytes)) => {
                let whole = self.plain.len() - self.plain.len() % frame_bytes;
                peer.held.extend_from_slice(&self.plain[whole..]);
                for subscriber in 0..self.peers.len() {
                    let Some(peer) = self.peers[subscriber].as_mut() else { continue };
                    if !matches!(peer.role, Some((Role::Subscriber, _))) {
                        continue;
                    }
                    for some in self.plain[..whole].chunks(BUFFER_BYTES) {
                        peer.send(some, &mut self.outgoing)?;
                    }
                    self.watch(subscriber)?;
                }
                Ok(())
            }
            Some((Role::Echo, _)) => {
                peer.send(&self.plain, &mut self.outgoing)?;
                self.watch(token)
            }
            Some((Role::Subscriber, _)) => Ok(()),
        }
    }

    fn watch(&mut self, token: usize) -> Result<()> {
        match self.peers[token].as_mut() {
            Some(peer) if peer.waits_for_writable == peer.unsent.is_empty() => {
                peer.waits_for_writable = !peer.unsent.is_empty();
                self.poller.set_writable_interest(&peer.stream, token, peer.waits_for_writable)
            }
            _ => Ok(()),
        }
    }
}

impl Peer {
    /// Reads once. Returns false if there was nothing.
    fn read(&mut self, incoming: &mut [u8], plain: &mut Vec<u8>) -> Result<bool> {
        let held = self.partial.len();
        incoming[..held].copy_from_slice(&self.partial);
        let read = match self.stream.read(&mut incoming[held..]) {
            Ok(0) => return Err(Failure::new("closed")),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let records = &mut incoming[..held + read];
        let mut at = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(&mut records[at..]);
            let mut is_done = false;
            match state.during(|| "TLS".to_owned())? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.during(|| "TLS".to_owned())?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let from = self.unsent.len();
                    let mut room_bytes = OVERHEAD_BYTES;
                    let written = loop {
                        self.unsent.resize(from + room_bytes, 0);
                        match data.encode(&mut self.unsent[from..]) {
                            Ok(written) => break written,
                            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                                room_bytes = required_size;
                            }
                            Err(EncodeError::AlreadyEncoded) => break 0,
                        }
                    };
                    self.unsent.truncate(from + written);
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed | ConnectionState::Closed => return Err(Failure::new("closed")),
                _ => is_done = true,
            }
            at += discard;
            if is_done {
                break;
            }
        }
        self.partial.clear();
        self.partial.extend_from_slice(&records[at..]);
        self.flush()?;
        Ok(true)
    }

    /// Encrypts records of these bytes, at most as many as a buffer holds, and writes as much as the network accepts.
    fn send(&mut self, plain: &[u8], outgoing: &mut [u8]) -> Result<()> {
        let state = self.tls.process_tls_records(&mut self.partial).state.during(|| "TLS".to_owned())?;
        let ConnectionState::WriteTraffic(mut traffic) = state else {
            return Err(Failure::new("the handshake is not complete"));
        };
        let sealed = traffic.encrypt(plain, outgoing).during(|| "TLS".to_owned())?;
        let written = if self.unsent.is_empty() { write(&mut self.stream, &outgoing[..sealed])? } else { 0 };
        self.unsent.extend_from_slice(&outgoing[written..sealed]);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let written = write(&mut self.stream, &self.unsent)?;
        self.unsent.drain(..written);
        Ok(())
    }
}

fn write(stream: &mut TcpStream, bytes: &[u8]) -> Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match stream.write(bytes) {
        Ok(written) => Ok(written),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error.into()),
    }
}
