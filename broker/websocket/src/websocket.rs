//! One connection, from the handshake to the closing.

use std::sync::Arc;

use crate::close::CloseCode;
use crate::decoder::{Decoder, End, FrameLimits, Violation};
use crate::handshake::{Handshake, HandshakeProgress, HandshakeRefusal, Origins, Path};
use crate::outgoing::Outgoing;

/// What holds for all connections of a listener.
#[derive(Debug, Clone)]
pub struct WebSocketConfig {
    /// Where MQTT is served.
    pub path: Path,
    /// Whose web pages may connect.
    pub origins: Origins,
    /// How large frames may be.
    pub limits: FrameLimits,
}

/// Why nothing more is taken from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The handshake was refused; the answer is on its way.
    Refused(HandshakeRefusal),
    /// The client has sent a Close frame, with this code if it had one.
    Closed(Option<CloseCode>),
    /// The client has broken the rules.
    Violation(Violation),
}

/// The server's end of one WebSocket connection.
///
/// Where it reads: hand [`receive`](WebSocket::receive) the bytes of the network, take the MQTT bytes that it leaves, then
/// look at [`take_end_reason`](WebSocket::take_end_reason). Where it writes: ask [`next`](WebSocket::next) what goes before how many
/// MQTT bytes, and tell [`written`](WebSocket::written) how much went.
#[derive(Debug)]
pub struct WebSocket {
    config: Arc<WebSocketConfig>,
    /// Until it is over.
    handshake: Option<Box<Handshake>>,
    decoder: Decoder,
    outgoing: Outgoing,
    end_reason: Option<EndReason>,
    /// The handshake was accepted.
    open: bool,
    /// Nothing is taken from the client any more.
    ended: bool,
}

impl WebSocket {
    /// A connection on which nothing has been said.
    pub fn new(config: Arc<WebSocketConfig>) -> WebSocket {
        WebSocket {
            config,
            handshake: Some(Box::default()),
            decoder: Decoder::default(),
            outgoing: Outgoing::default(),
            end_reason: None,
            open: false,
            ended: false,
        }
    }

    /// Takes in all of `bytes`, which came from the network; returns how many MQTT bytes are at the front of it now. What
    /// comes after the end of the client's half is ignored.
    pub fn receive(&mut self, bytes: &mut [u8]) -> usize {
        if self.ended {
            return 0;
        }
        let mut from = 0;
        if let Some(handshake) = &mut self.handshake {
            match handshake.advance(bytes, &self.config) {
                HandshakeProgress::Incomplete => return 0,
                HandshakeProgress::Accepted { consumed, answer } => {
                    self.outgoing.push_plain(answer.as_bytes());
                    self.handshake = None;
                    self.open = true;
                    from = consumed;
                }
                HandshakeProgress::Refused(refusal) => {
                    self.outgoing.push_plain(refusal.answer().as_bytes());
                    self.outgoing.finish();
                    self.handshake = None;
                    self.end(EndReason::Refused(refusal));
                    return 0;
                }
            }
        }
        let (payload_bytes, end) = self.decoder.decode(bytes, from, &self.config.limits, &mut self.outgoing);
        match end {
            None => {}
            Some(End::Closed(code)) => self.end(EndReason::Closed(code)),
            Some(End::Violation(violation)) => self.end(EndReason::Violation(violation)),
        }
        payload_bytes
    }

    fn end(&mut self, end_reason: EndReason) {
        self.end_reason = Some(end_reason);
        self.ended = true;
    }

    /// Why the client's half has ended, once; to be asked when all MQTT bytes before the end have been acted on. From then on
    /// a Close frame follows what is pending.
    pub fn take_end_reason(&mut self) -> Option<EndReason> {
        let end_reason = self.end_reason.take()?;
        match end_reason {
            EndReason::Refused(_) => {}
            // Section 5.5.1: the code is sent back.
            EndReason::Closed(code) => self.outgoing.close(code),
            EndReason::Violation(violation) => self.outgoing.close(Some(violation.close_code())),
        }
        Some(end_reason)
    }

    /// Whether the handshake has been accepted.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The server ends the conversation: a Close frame goes behind all that is pending, or, where the handshake is not over,
    /// an HTTP answer. Without effect where the end has been decided on already.
    pub fn close(&mut self, code: CloseCode) {
        if self.handshake.take().is_some() {
            let refusal =
                if code == CloseCode::GOING_AWAY { HandshakeRefusal::Stopping } else { HandshakeRefusal::TooSlow };
            self.outgoing.push_plain(refusal.answer().as_bytes());
            self.outgoing.finish();
            self.ended = true;
        }
        self.outgoing.close(Some(code));
    }

    /// Whether there is something to write besides `pending_bytes` of MQTT.
    pub fn has_output(&self, pending_bytes: usize) -> bool {
        self.outgoing.has_control_output(pending_bytes)
    }

    /// What to write next: these bytes, and then so many of the `pending_bytes` of MQTT. Nothing of either where there is
    /// nothing to write.
    pub fn next(&mut self, pending_bytes: usize) -> (&[u8], usize) {
        self.outgoing.next(pending_bytes)
    }

    /// `count` bytes of what [`next`](WebSocket::next) named have been written; returns how many of them were MQTT.
    pub fn written(&mut self, count: usize) -> usize {
        self.outgoing.written(count)
    }

    /// How often pings were left unanswered for a newer one since this was last asked.
    pub fn take_skipped_pings(&mut self) -> u64 {
        self.outgoing.take_skipped()
    }
}
