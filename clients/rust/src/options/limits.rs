use std::time::Duration;

/// The limits of queues and buffers. Each has a counter in [`crate::Counters`] that says how often it was reached.
///
/// ```
/// # use tautwire_client::{Limits, Options};
/// let mut limits = Limits::default();
/// limits.queue_messages = 100;
/// let options = Options::new("mqtt://localhost:1883")?.limits(limits);
/// # Ok::<(), tautwire_client::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Encoded packets that wait for the socket, in bytes; above it, publishing waits. Default: 256 KiB.
    pub output_bytes: usize,
    /// Messages that wait to be sent: without a connection, or because [`Limits::in_flight`] is reached. Above it,
    /// publishing waits. Default: 10,000.
    pub queue_messages: usize,
    /// Bytes of those messages. Default: 16 MiB.
    pub queue_bytes: usize,
    /// QoS 1 and 2 messages that are sent but not completely acknowledged; a lower Receive Maximum of the server takes
    /// precedence [MQTT-3.3.4-9]. Default: 1000.
    pub in_flight: u16,
    /// QoS 1 and 2 messages of an earlier session that no stream has claimed. Above it, the oldest are acknowledged and
    /// dropped. Default: 1000.
    pub unclaimed_messages: usize,
    /// How long a full stream may pause reading for all streams of the client ([`Overflow::Wait`](crate::Overflow)). Then
    /// [`ConnectionEvent::HeldUp`](crate::ConnectionEvent) names it, and QoS 0 messages for it are dropped until it is read again.
    /// Default: 1 s.
    pub read_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            output_bytes: 256 << 10,
            queue_messages: 10_000,
            queue_bytes: 16 << 20,
            in_flight: 1000,
            unclaimed_messages: 1000,
            read_pause: Duration::from_secs(1),
        }
    }
}
