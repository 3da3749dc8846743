//! One connection.

use std::fmt;
use std::io::IoSlice;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use rustls::{HandshakeKind, ProtocolVersion};

use crate::error::TlsError;

/// Most plain bytes that become records at a time: more than a turn reads of one client, so that what it brings leaves in one write.
pub const PLAIN_MAX_BYTES: usize = 264 << 10;
/// The same where the network did not take the last ones at once, so that a slow client holds little.
const PLAIN_BACKLOG_MAX_BYTES: usize = 64 << 10;
/// Most that is read at a time.
const READ_MAX_BYTES: usize = 128 << 10;
/// The largest record of RFC 8446, section 5.2, and of RFC 5246, section 6.2.3, with its header.
const RECORD_MAX_BYTES: usize = 5 + (16 << 10) + 2048;
/// What a record adds to its content, whatever the cipher suite.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// Plain bytes in one record.
const RECORD_PLAIN_BYTES: usize = 16 << 10;
/// A piece of this size gets records of its own. To copy it beside its neighbours would cost more than one record more does.
const SEPARATE_RECORD_MIN_BYTES: usize = 8 << 10;
/// Records that rustls may want to put in front of ours: tickets, an update of keys.
const EXTRA_BYTES: usize = 4 << 10;
/// Most that is kept of what has come: there is always room for one more record.
const PARTIAL_MAX_BYTES: usize = READ_MAX_BYTES - RECORD_MAX_BYTES;
/// Most that is taken from a client before the handshake is over: chains of certificates of 64 KiB are all that rustls takes.
pub const HANDSHAKE_MAX_BYTES: usize = 128 << 10;

/// Buffers for all connections of a thread, while one of them reads or writes. They are made when the first needs them.
#[derive(Debug, Default)]
pub struct Scratch {
    /// What comes from the network.
    incoming: Vec<u8>,
    /// Small pieces of plain bytes, side by side.
    joined: Vec<u8>,
    /// What goes to the network.
    outgoing: Vec<u8>,
}

/// What has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainRead {
    /// Plain bytes at the front of the reader's buffer.
    pub plain_bytes: usize,
    /// There are more, although the network may have none: plain bytes for which there was no room, or the end.
    pub has_more: bool,
}

/// The server's end of one connection.
///
/// Where it reads: take what [`rest`](Tls::rest) has first; then read from the network into [`space`](Tls::space) and hand over the
/// number of bytes with [`receive`](Tls::receive). Where it writes: write [`pending`](Tls::pending) until nothing is, then have plain
/// bytes made records by [`seal`](Tls::seal).
pub struct Tls {
    connection: UnbufferedServerConnection,
    /// The beginning of a record, or whole ones with the beginning of a message of a handshake. rustls knows places in it, so it is shown to it at each call.
    partial: Vec<u8>,
    /// Plain bytes for which the reader had no room.
    surplus: Vec<u8>,
    /// Records to be written, but for the first `sent_bytes`.
    outgoing: Vec<u8>,
    sent_bytes: usize,
    /// The network did not take all of the last records at once.
    has_backlog: bool,
    /// Bytes of the handshake that have come.
    handshake_bytes: usize,
    failure: Option<TlsError>,
    /// Nothing is taken from the client any more.
    ended: bool,
    /// The client has said that it sends no more.
    peer_closed: bool,
    close: Close,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("version", &self.version()).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Whether the client is told that nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    No,
    /// Behind what is still to be written.
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

    /// Plain bytes that had no room the last time, if there are any; then the network is not to be read from. The end of what the client
    /// sends is an arrival of no bytes.
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

    /// Where to read to, for a reader who has room for `room_bytes`.
    pub fn space<'a>(&self, scratch: &'a mut Scratch, room_bytes: usize) -> &'a mut [u8] {
        scratch.incoming.resize(READ_MAX_BYTES, 0);
        let from = self.partial.len();
        // Where there is hardly any room, a record must still become whole.
        let wanted_bytes = room_bytes.saturating_sub(from).max(self.missing_bytes());
        let to = from.saturating_add(wanted_bytes).min(READ_MAX_BYTES);
        &mut scratch.incoming[from..to]
    }

    /// How much of a record that has begun is missing; the header of the next one where none has.
    fn missing_bytes(&self) -> usize {
        const HEADER_BYTES: usize = 5;
        match self.partial.get(3..HEADER_BYTES) {
            None => HEADER_BYTES - self.partial.len(),
            Some(length) => {
                let record_bytes = HEADER_BYTES + usize::from(u16::from_be_bytes([length[0], length[1]]));
                // A longer one is refused before it is whole.
                record_bytes.min(RECORD_MAX_BYTES).saturating_sub(self.partial.len()).max(1)
            }
        }
    }

    /// Takes in `count` bytes that have been read into [`space`](Tls::space), and leaves plain bytes at the front of `plain`. Where this
    /// is the end of the connection, [`take_failure`](Tls::take_failure) says why, unless the client has ended it in order.
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
            self.end(rustls::Error::General("a message of a handshake is in too many pieces".to_owned()));
            left = &[];
        }
        if left.is_empty() {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.reserve_exact(left.len());
            self.partial.extend_from_slice(left);
        }
        // The end is told alone, after all bytes.
        let has_more = !self.surplus.is_empty() || (self.peer_closed && plain_bytes > 0);
        PlainRead { plain_bytes, has_more }
    }

    /// Whether the client has said that it sends no more, and all that it sent has been handed out.
    pub fn has_ended(&self) -> bool {
        self.peer_closed && self.surplus.is_empty()
    }

    /// Opens all whole records; gives how many bytes those were.
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
                                let fits = record.payload.len().min(plain.len() - *plain_bytes);
                                let (now, later) = record.payload.split_at(fits);
                                plain[*plain_bytes..*plain_bytes + fits].copy_from_slice(now);
                                *plain_bytes += fits;
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
                // Early data is never offered.
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

    /// What rustls has to say about an error, if anything. `incoming` is what it has not discarded.
    fn push_alert(&mut self, incoming: &mut [u8]) {
        // In TLS 1.3 a part of the server's handshake may come before the alert. When all is said rustls is not asked again: it would read on.
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

    /// Why the connection cannot go on, once; to be asked when all plain bytes before have been acted on.
    pub fn take_failure(&mut self) -> Option<TlsError> {
        if self.surplus.is_empty() { self.failure.take() } else { None }
    }

    // Writing.

    /// Records that are to be written before anything else.
    pub fn pending(&self) -> &[u8] {
        &self.outgoing[self.sent_bytes..]
    }

    /// So many of them have been written.
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

    /// Whether plain bytes can be sent: the handshake is over, and neither side has ended.
    pub fn can_send(&self) -> bool {
        !self.is_handshaking() && self.close != Close::Sent
    }

    /// How many plain bytes may become records at a time, at the moment.
    pub fn plain_max_bytes(&self) -> usize {
        if self.has_backlog { PLAIN_BACKLOG_MAX_BYTES } else { PLAIN_MAX_BYTES }
    }

    /// Makes records of plain bytes that lie in several places, [`PLAIN_MAX_BYTES`] of them at most. The plain bytes are done with: what the network does
    /// not take of the records is to be [kept](Tls::keep). Nothing is [`pending`](Tls::pending), and [`can_send`](Tls::can_send) is true.
    ///
    /// # Errors
    /// The keys are used up, and the client does not know of new ones.
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

    /// Puts the records of one piece behind the first `sealed_bytes` of `outgoing`.
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

    /// The network has taken all of `sealed` but this.
    pub fn keep(&mut self, left: &[u8]) {
        debug_assert!(self.outgoing.is_empty());
        self.has_backlog = !left.is_empty();
        self.outgoing = left.to_vec();
        self.sent_bytes = 0;
    }

    /// The client is to be told that nothing more comes, once all is written.
    pub fn close(&mut self) {
        if self.close == Close::No && self.is_handshaking() {
            self.close = Close::Sent;
            self.ended = true;
        } else if self.close == Close::No {
            self.close = Close::Due;
        }
    }

    /// Makes the record that says so, where it is due. Nothing is [`pending`](Tls::pending), and no plain bytes are to be sent. What the
    /// client sends from now on is not looked at: it could be told of no mistake in it [RFC 8446, section 6.1].
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

    // What is known.

    /// Whether the handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the client came back to a session that it had before, so that the handshake was short.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The version that is spoken, `1.2` or `1.3`, once that is decided.
    pub fn version(&self) -> Option<&'static str> {
        match self.connection.protocol_version()? {
            ProtocolVersion::TLSv1_3 => Some("1.3"),
            ProtocolVersion::TLSv1_2 => Some("1.2"),
            _ => None,
        }
    }

    /// The client's certificate in DER, where it has shown one. It has been looked at.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        self.connection.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Bytes of memory that the connection takes, as far as they are known.
    pub fn held_bytes(&self) -> usize {
        /// What rustls allocates for a connection on which nothing happens: keys and what it remembers of the handshake.
        const RUSTLS_BYTES: usize = 2 << 10;
        /// What it has besides while the handshake goes on.
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

/// Puts a record behind those that are there. `write` says how much it has written, or how much room it needs.
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
