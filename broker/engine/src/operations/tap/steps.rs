//! Steps of [`super`] that need several states of a shard.

use tautwire_message::MessageRef;
use tautwire_protocol::topic_matches;
use tautwire_session::split_session_name;

use super::TappedMessage;
use crate::mode::Mode;
use crate::routing::route::MessageSource;
use crate::shard::ShardState;

/// The maximum number of payload bytes that are copied.
const TAPPED_PAYLOAD_MAX_BYTES: usize = 4 * 1024;

impl<M: Mode> ShardState<M> {
    /// Sends a copy of a published message to the taps that match it.
    #[cold]
    pub(crate) fn notify_taps(&self, message: &MessageRef<'_>, publisher: MessageSource) {
        for tap in self.operations.tap.taps.iter().filter(|tap| topic_matches(&tap.filter, message.topic)) {
            tap.try_send(self.clock.now_ms(), || {
                let client_id = match publisher {
                    MessageSource::Session(session) => Some(split_session_name(self.sessions[session].name()).1.into()),
                    MessageSource::Broker | MessageSource::Shard | MessageSource::Log(_) => None,
                };
                TappedMessage {
                    at_ms: self.clock.now_ms(),
                    topic: message.topic.into(),
                    qos: message.qos,
                    retain: message.retain,
                    client_id,
                    properties: message.properties.into(),
                    payload: message.payload[..message.payload.len().min(TAPPED_PAYLOAD_MAX_BYTES)].into(),
                    payload_bytes: message.payload.len(),
                }
            });
        }
    }
}
