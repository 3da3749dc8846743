//! The bytes of one side of a link.

use tautwire_protocol::{Packet, ProtocolVersion};

/// The output of one side above which nothing more is read from the other side.
const OUTPUT_MAX_BYTES: usize = 256 << 10;
/// The output of one side above which nothing is read from the other side even if both outputs are full.
const RELIEF_MAX_BYTES: usize = 64 << 20;
/// The capacity above which an empty buffer is freed.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

/// The input and output of the connection to one broker.
#[derive(Debug)]
pub(crate) struct Half {
    pub(crate) version: ProtocolVersion,
    /// The largest packet that is accepted from the broker.
    pub(crate) packet_max_bytes: u32,
    /// Received bytes that are not processed yet.
    pub(crate) input: Vec<u8>,
    /// Bytes to send.
    pub(crate) output: Vec<u8>,
    /// When the last bytes were received.
    pub(crate) received_ms: u64,
    /// When the last bytes were handed out to be sent.
    pub(crate) sent_ms: u64,
}

impl Half {
    pub(crate) fn new(version: ProtocolVersion, packet_max_bytes: u32, now_ms: u64) -> Half {
        Half { version, packet_max_bytes, input: Vec::new(), output: Vec::new(), received_ms: now_ms, sent_ms: now_ms }
    }

    /// Adds a packet to the output.
    pub(crate) fn send(&mut self, packet: &Packet<'_>) {
        // What cannot be encoded for the version is a fault of the caller, and must not end the process.
        let encoded = packet.append_to(self.version, &mut self.output);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
    }

    /// Whether the other side must wait until output has been sent.
    pub(crate) fn is_full(&self) -> bool {
        self.output.len() >= OUTPUT_MAX_BYTES
    }

    /// Whether there is space beyond [`Half::is_full`], for when both sides are full.
    pub(crate) fn has_relief(&self) -> bool {
        self.output.len() < RELIEF_MAX_BYTES
    }

    /// Takes the output and leaves an empty buffer.
    pub(crate) fn take_output(&mut self, mut spare: Vec<u8>, now_ms: u64) -> Vec<u8> {
        if !self.output.is_empty() {
            self.sent_ms = now_ms;
        }
        spare.clear();
        if spare.capacity() > BUFFER_KEPT_BYTES {
            spare = Vec::new();
        }
        std::mem::replace(&mut self.output, spare)
    }

    /// Removes processed bytes from `input`, the taken buffer, and puts back what is left of it.
    pub(crate) fn restore_input(&mut self, mut input: Vec<u8>, processed: usize) {
        debug_assert!(self.input.is_empty(), "input was taken");
        if processed == input.len() && input.capacity() > BUFFER_KEPT_BYTES {
            return;
        }
        input.drain(..processed);
        self.input = input;
    }
}
