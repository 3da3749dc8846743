//! One connection.

use std::fmt;
use std::io::IoSlice;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use rustls::{HandshakeKind, ProtocolVersion};

use crate::error::TlsError;

/// Maximum of plain bytes that are sealed at a time: more than one turn reads from one client, so that the responses to it leave in one
/// write.
pub const PLAIN_MAX_BYTES: usize = 264 << 10;
/// The maximum while the network has not accepted the last records at once, so that a slow client holds little memory.
const PLAIN_BACKLOG_MAX_BYTES: usize = 64 << 10;
/// Maximum number of bytes per read.
const READ_MAX_BYTES: usize = 128 << 10;
/// The largest record of RFC 8446, section 5.2, and of RFC 5246, section 6.2.3, with its header.
const RECORD_MAX_BYTES: usize = 5 + (16 << 10) + 2048;
/// Overhead of a record, for all cipher suites.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// Plain bytes per record.
const RECORD_PLAIN_BYTES: usize = 16 << 10;
/// Slices of at least this size get their own records. Copying them next to others would cost more than another record.
const SEPARATE_RECORD_MIN_BYTES: usize = 8 << 10;
/// Room for records that rustls may insert: tickets and key updates.
const EXTRA_BYTES: usize = 4 << 10;
/// Maximum length of buffered partial records: there is always room for one more record.
const PARTIAL_MAX_BYTES: usize = READ_MAX_BYTES - RECORD_MAX_BYTES;
/// Maximum number of bytes from a client during the handshake: rustls accepts certificate chains of at most 64 KiB.
pub const HANDSHAKE_MAX_BYTES: usize = 128 << 10;

/// Buffers shared by all connections of a thread, in use while one of them reads or writes. Allocated on first use.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Bytes from the network.
    incoming: Vec<u8>,
    /// Small slices of plain bytes, joined.
    joined: Vec<u8>,
    /// Bytes for the network.
    outgoing: Vec<u8>,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainRead {
    /// Plain bytes at the front of the reader's buffer.
    pub plain_bytes: usize,
    /// There is more to read although the network may have nothing: plain bytes that did not fit, or the end of the stream.
    pub has_more: bool,
}

/// The server side of one TLS connection.
///
/// To read: take [`rest`](Tls::rest) first; then read from the network into [`space`](Tls::space) and pass the number of bytes to
/// [`receive`](Tls::receive). To write: write [`pending`](Tls::pending) until it is empty, then encrypt plain bytes with
/// [`seal`](Tls::seal).
pub struct Tls {
    connection: UnbufferedServerConnection,
    /// The beginning of a record, or whole records with the beginning of a handshake message. rustls keeps offsets into it, so it is passed
    /// to each call.
    partial: Vec<u8>,
    /// Plain bytes that did not fit the reader's buffer.
    surplus: Vec<u8>,
    /// Records to write; the first `sent_bytes` have been written.
    outgoing: Vec<u8>,
    sent_bytes: usize,
    /// The network did not accept all of the last records at once.
    has_backlog: bool,
    /// Bytes received during the handshake.
    handshake_bytes: usize,
    failure: Option<TlsError>,
    /// Nothing more is accepted from the client.
    ended: bool,
    /// The client has sent close_notify.
    peer_closed: bool,
    close: Close,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("version", &self.version()).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// The state of our close_notify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    No,
    /// To be sent after the pending bytes.
    Due,
    Sent,
}

impl Tls {
    pub(crate) fn new(connection: UnbufferedServerConnection) -> Tls {
        Tls {
            connection,
            partial: Vec::new(),
            surplus: Vec::new(),
            outgoing: Vec::new(),
            sent_bytes: 0,
            has_backlog: false,
            handshake_bytes: 0,
            failure: None,
            ended: false,
            peer_closed: false,
            close: Close::No,
        }
    }

    // Reading.

    /// Plain bytes that did not fit the last time, if any; do not read from the network then. The end of the client's stream is reported as
    /// a read of no bytes.
    pub fn rest(&mut self, plain: &mut [u8]) -> Option<PlainRead> {
        if self.surplus.is_empty() {
            return self.peer_closed.then_some(PlainRead { plain_bytes: 0, has_more: false });
        }
        let count = self.surplus.len().min(plain.len());
        plain[..count].copy_from_slice(&self.surplus[..count]);
        if count == self.surplus.len() {
            self.surplus = Vec::new();
        } else {
            self.surplus.drain(..count);
        }
        Some(PlainRead { plain_bytes: count, has_more: true })
    }

    /// The buffer to read into, for a reader with room for `room_bytes`.
    pub fn space<'a>(&self, scratch: &'a mut Scratch, room_bytes: usize) -> &'a mut [u8] {
        scratch.incoming.resize(READ_MAX_BYTES, 0);
        let from = self.partial.len();
        // Even with little room, a record must become complete.
        let wanted_bytes = room_bytes.saturating_sub(from).max(self.missing_bytes());
        let to = from.saturating_add(wanted_bytes).min(READ_MAX_BYTES);
        &mut scratch.incoming[from..to]
    }

    /// The number of missing bytes of an incomplete record; those of the next header if there is none.
    fn missing_bytes(&self) -> usize {
        const HEADER_BYTES: usize = 5;
        match self.partial.get(3..HEADER_BYTES) {
            None => HEADER_BYTES - self.partial.len(),
            Some(length) => {
                let record_bytes = HEADER_BYTES + usize::from(u16::from_be_bytes([length[0], length[1]]));
                // A longer record is rejected before it is complete.
                record_bytes.min(RECORD_MAX_BYTES).saturating_sub(self.partial.len()).max(1)
            }
        }
    }

    /// Processes `count` bytes that were read into [`space`](Tls::space), and writes plain bytes at the front of `plain`. If this ends the
    /// connection, [`take_failure`](Tls::take_failure) returns the reason, unless the client closed it cleanly.
    pub fn receive(&mut self, scratch: &mut Scratch, count: usize, plain: &mut [u8]) -> PlainRead {
        let Scratch { incoming, .. } = scratch;
        let from = self.partial.len();
        incoming[..from].copy_from_slice(&self.partial);
        let incoming = &mut incoming[..from + count];
        let mut plain_bytes = 0;
        let consumed = if self.ended { incoming.len() } else { self.open(incoming, plain, &mut plain_bytes) };
        if self.is_handshaking() && !self.ended {
            self.handshake_bytes += count;
            if self.handshake_bytes > HANDSHAKE_MAX_BYTES {
                self.end(rustls::Error::General("the handshake is too long".to_owned()));
            }
        }
        let mut left = if self.ended { &[][..] } else { &incoming[consumed..] };
        if left.len() > PARTIAL_MAX_BYTES {
            self.end(rustls::Error::General("a handshake message is in too many fragments".to_owned()));
            left = &[];
        }
        if left.is_empty() {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.reserve_exact(left.len());
            self.partial.extend_from_slice(left);
        }
        // The end is reported on its own, after all bytes.
        let has_more = !self.surplus.is_empty() || (self.peer_closed && plain_bytes > 0);
        PlainRead { plain_bytes, has_more }
    }

    /// Whether the client has sent close_notify and all its bytes have been returned.
    pub fn has_ended(&self) -> bool {
        self.peer_closed && self.surplus.is_empty()
    }

    /// Decrypts all complete records; returns their length in bytes.
    fn open(&mut self, incoming: &mut [u8], plain: &mut [u8], plain_bytes: &mut usize) -> usize {
        let mut at = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(&mut incoming[at..]);
            let mut is_done = false;
            let mut error = None;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                let fit_bytes = record.payload.len().min(plain.len() - *plain_bytes);
                                let (now, later) = record.payload.split_at(fit_bytes);
                                plain[*plain_bytes..*plain_bytes + fit_bytes].copy_from_slice(now);
                                *plain_bytes += fit_bytes;
                                self.surplus.extend_from_slice(later);
                            }
                            Err(failed) => error = Some(failed),
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    push(&mut self.outgoing, |room| match data.encode(room) {
                        Ok(count) => Ok(count),
                        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                            Err(required_size)
                        }
                        Err(EncodeError::AlreadyEncoded) => Ok(0),
                    })
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_closed = true;
                    self.ended = true;
                    is_done = true;
                }
                // Early data is not offered.
                Ok(_) => is_done = true,
                Err(failed) => error = Some(failed),
            }
            at += discard;
            if let Some(error) = error {
                self.push_alert(&mut incoming[at..]);
                self.end(error);
                is_done = true;
            }
            if is_done {
                return at;
            }
        }
    }

    /// Queues the alert that rustls has for an error, if any. `incoming` is what it has not discarded.
    fn push_alert(&mut self, incoming: &mut [u8]) {
        // In TLS 1.3 a part of the server's handshake may precede the alert. Stop when nothing is left to write, or rustls would continue
        // to read.
        while self.connection.wants_write() {
            let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(mut data)), .. } =
                self.connection.process_tls_records(incoming)
            else {
                return;
            };
            push(&mut self.outgoing, |room| match data.encode(room) {
                Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => Err(required_size),
                result => Ok(result.unwrap_or(0)),
            });
        }
    }

    fn end(&mut self, error: rustls::Error) {
        self.ended = true;
        self.close = Close::Sent;
        self.failure = Some(TlsError::from(error));
    }

    /// Returns once why the connection cannot continue. Call it after all plain bytes before the failure have been processed.
    pub fn take_failure(&mut self) -> Option<TlsError> {
        if self.surplus.is_empty() { self.failure.take() } else { None }
    }

    // Writing.

    /// Records that must be written before anything else.
    pub fn pending(&self) -> &[u8] {
        &self.outgoing[self.sent_bytes..]
    }

    /// Marks `count` bytes of them as written.
    pub fn sent(&mut self, count: usize) {
        self.sent_bytes += count;
        if self.sent_bytes == self.outgoing.len() {
            self.outgoing = Vec::new();
            self.sent_bytes = 0;
        }
    }

    /// Whether there is something to write besides plain bytes.
    pub fn has_output(&self) -> bool {
        !self.pending().is_empty() || self.close == Close::Due
    }

    /// Whether plain bytes can be sent: the handshake is complete, and neither side has closed.
    pub fn can_send(&self) -> bool {
        !self.is_handshaking() && self.close != Close::Sent
    }

    /// How many plain bytes can be sealed at a time, at the moment.
    pub fn plain_max_bytes(&self) -> usize {
        if self.has_backlog { PLAIN_BACKLOG_MAX_BYTES } else { PLAIN_MAX_BYTES }
    }

    /// Encrypts slices of plain bytes, [`PLAIN_MAX_BYTES`] of them at most. The plain bytes are consumed: pass the records that the network
    /// does not accept to [`keep`](Tls::keep). Requires that nothing is [`pending`](Tls::pending) and that [`can_send`](Tls::can_send) is
    /// true.
    ///
    /// # Errors
    /// The keys are exhausted, and the client has not received new ones.
    pub fn seal<'a>(&mut self, pieces: &[IoSlice<'_>], scratch: &'a mut Scratch) -> Result<&'a [u8], TlsError> {
        debug_assert!(pieces.iter().map(|piece| piece.len()).sum::<usize>() <= PLAIN_MAX_BYTES);
        let Scratch { joined, outgoing, .. } = scratch;
        let mut sealed_bytes = 0;
        if let [piece] = pieces {
            self.seal_piece(piece, outgoing, &mut sealed_bytes)?;
            return Ok(&outgoing[..sealed_bytes]);
        }
        joined.clear();
        for piece in pieces {
            if piece.len() < SEPARATE_RECORD_MIN_BYTES {
                joined.extend_from_slice(piece);
                continue;
            }
            self.seal_piece(joined, outgoing, &mut sealed_bytes)?;
            joined.clear();
            self.seal_piece(piece, outgoing, &mut sealed_bytes)?;
        }
        self.seal_piece(joined, outgoing, &mut sealed_bytes)?;
        Ok(&outgoing[..sealed_bytes])
    }

    /// Appends the records of one slice after the first `sealed_bytes` of `outgoing`.
    fn seal_piece(&mut self, plain: &[u8], outgoing: &mut Vec<u8>, sealed_bytes: &mut usize) -> Result<(), TlsError> {
        if plain.is_empty() {
            return Ok(());
        }
        let records = plain.len().div_ceil(RECORD_PLAIN_BYTES);
        let room_bytes = plain.len() + records * RECORD_OVERHEAD_BYTES + EXTRA_BYTES;
        if outgoing.len() < *sealed_bytes + room_bytes {
            outgoing.resize(*sealed_bytes + room_bytes, 0);
        }
        loop {
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.partial);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(&mut outgoing[*sealed_bytes..]) {
                    Ok(count) => *sealed_bytes += count,
                    Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                        outgoing.resize(*sealed_bytes + required_size + room_bytes, 0);
                        if let Ok(count) = data.encode(&mut outgoing[*sealed_bytes..]) {
                            *sealed_bytes += count;
                        }
                    }
                    Err(EncodeError::AlreadyEncoded) => {}
                },
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let sealed = match traffic.encrypt(plain, &mut outgoing[*sealed_bytes..]) {
                        Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                            outgoing.resize(*sealed_bytes + required_size, 0);
                            traffic.encrypt(plain, &mut outgoing[*sealed_bytes..])
                        }
                        result => result,
                    };
                    *sealed_bytes += sealed.map_err(|_| TlsError::from(rustls::Error::EncryptError))?;
                    return Ok(());
                }
                Ok(_) => return Err(TlsError::from(rustls::Error::HandshakeNotComplete)),
                Err(error) => return Err(TlsError::from(error)),
            }
        }
    }

    /// Stores the end of `sealed` that the network has not accepted.
    pub fn keep(&mut self, left: &[u8]) {
        debug_assert!(self.outgoing.is_empty());
        self.has_backlog = !left.is_empty();
        self.outgoing = left.to_vec();
        self.sent_bytes = 0;
    }

    /// Requests a close_notify after everything has been written.
    pub fn close(&mut self) {
        if self.close == Close::No && self.is_handshaking() {
            self.close = Close::Sent;
            self.ended = true;
        } else if self.close == Close::No {
            self.close = Close::Due;
        }
    }

    /// Creates the close_notify record if it is due. Requires that nothing is [`pending`](Tls::pending) and that there are no more plain
    /// bytes to send. Bytes that the client sends from now on are ignored: no alert could be sent about them [RFC 8446, section 6.1].
    pub fn seal_close_notify(&mut self) {
        if self.close != Close::Due {
            return;
        }
        self.close = Close::Sent;
        if let UnbufferedStatus { state: Ok(ConnectionState::WriteTraffic(mut traffic)), .. } =
            self.connection.process_tls_records(&mut self.partial)
        {
            push(&mut self.outgoing, |room| match traffic.queue_close_notify(room) {
                Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => Err(required_size),
                result => Ok(result.unwrap_or(0)),
            });
        }
        self.ended = true;
    }

    // Connection information.

    /// Whether the handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the client resumed an earlier session with an abbreviated handshake.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The negotiated version, `1.2` or `1.3`, once it is known.
    pub fn version(&self) -> Option<&'static str> {
        match self.connection.protocol_version()? {
            ProtocolVersion::TLSv1_3 => Some("1.3"),
            ProtocolVersion::TLSv1_2 => Some("1.2"),
            _ => None,
        }
    }

    /// The client's verified certificate in DER, if it presented one.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        self.connection.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Memory of the connection in bytes, as far as known.
    pub fn held_bytes(&self) -> usize {
        /// Memory that rustls allocates for an idle connection: keys and handshake state.
        const RUSTLS_BYTES: usize = 2 << 10;
        /// Additional memory during the handshake.
        const HANDSHAKE_BYTES: usize = 4 << 10;
        let handshake_bytes = if self.is_handshaking() { HANDSHAKE_BYTES } else { 0 };
        let certificates = self.connection.peer_certificates().unwrap_or_default();
        let buffers = [&self.partial, &self.surplus, &self.outgoing];
        size_of::<Tls>()
            + RUSTLS_BYTES
            + handshake_bytes
            + certificates.iter().map(|certificate| certificate.len()).sum::<usize>()
            + buffers.iter().map(|buffer| buffer.capacity()).sum::<usize>()
    }
}

/// Appends a record. `write` returns how much it has written, or how much room it needs.
fn push(records: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    const GUESS_BYTES: usize = 2 << 10;
    let from = records.len();
    let mut room_bytes = GUESS_BYTES;
    for _ in 0..2 {
        records.resize(from + room_bytes, 0);
        match write(&mut records[from..]) {
            Ok(count) => {
                records.truncate(from + count);
                return;
            }
            Err(required_bytes) => room_bytes = required_bytes,
        }
    }
    records.truncate(from);
}
