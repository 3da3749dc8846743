//! A WebSocket connection, from the handshake to the close.

use std::sync::Arc;

use crate::close::CloseCode;
use crate::config::WebSocketConfig;
use crate::decoder::{Decoder, End};
use crate::handshake::{Handshake, HandshakeProgress, HandshakeRefusal};
use crate::outgoing::Outgoing;
use crate::violation::Violation;

/// Why nothing more is accepted from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The handshake was refused; the response is pending.
    Refused(HandshakeRefusal),
    /// The client has sent a Close frame, with this code if it had one.
    Closed(Option<CloseCode>),
    /// The client has violated the protocol or a limit.
    Violation(Violation),
}

/// The server side of one WebSocket connection.
///
/// To read: pass the bytes of the network to [`receive`](WebSocket::receive), consume the MQTT bytes that it leaves, then check
/// [`take_end_reason`](WebSocket::take_end_reason). To write: [`next`](WebSocket::next) returns the bytes to write and the number of MQTT
/// bytes after them; pass the number of written bytes to [`written`](WebSocket::written).
#[derive(Debug)]
pub struct WebSocket {
    config: Arc<WebSocketConfig>,
    /// Present until the handshake is complete.
    handshake: Option<Box<Handshake>>,
    decoder: Decoder,
    outgoing: Outgoing,
    end_reason: Option<EndReason>,
    /// The handshake was accepted.
    open: bool,
    /// Nothing more is accepted from the client.
    ended: bool,
}

impl WebSocket {
    /// A connection before its handshake.
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

    /// Processes all of `bytes`, which came from the network; returns how many MQTT bytes are at the front of it now. Ignores bytes after
    /// the end of the client's stream.
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

    /// Returns once why the client's stream has ended. Call it after all MQTT bytes before the end have been processed. From then on a
    /// Close frame follows the pending output.
    pub fn take_end_reason(&mut self) -> Option<EndReason> {
        let end_reason = self.end_reason.take()?;
        match end_reason {
            EndReason::Refused(_) => {}
            // Section 5.5.1: the code is echoed.
            EndReason::Closed(code) => self.outgoing.close(code),
            EndReason::Violation(violation) => self.outgoing.close(Some(violation.close_code())),
        }
        Some(end_reason)
    }

    /// Whether the handshake is complete.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Closes the connection: queues a Close frame after all pending output, or an HTTP response if the handshake is not complete. No
    /// effect if the end has already been decided.
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

    /// What to write next: these bytes, and then this many of the `pending_bytes` of MQTT. Both are empty if there is nothing to write.
    pub fn next(&mut self, pending_bytes: usize) -> (&[u8], usize) {
        self.outgoing.next(pending_bytes)
    }

    /// Marks `count` bytes of the output of [`next`](WebSocket::next) as written; returns how many of them were MQTT.
    pub fn written(&mut self, count: usize) -> usize {
        self.outgoing.written(count)
    }

    /// Returns and resets the number of pings that a newer one replaced.
    pub fn take_skipped_pings(&mut self) -> u64 {
        self.outgoing.take_skipped()
    }
}
