//! The session expiry and will that apply when a client's connection ends. The cluster's machine stores both in the record of the session,
//! publishes the will, and has the store remove the session.

use tautwire_cluster::DisconnectSettings;
use tautwire_cluster::record::{Retain, Will};
use tautwire_message::MessageRef;
use tautwire_session::{Change, StoredWill};

use super::port::ClusterRequest;
use crate::index::SessionIndex;
use crate::mode::Clustered;
use crate::mutant::{Mutant, is};
use crate::shard::ShardState;

impl ShardState<Clustered> {
    /// Sends changed settings of a session to the cluster. They are stored with the next saved or released state.
    pub(super) fn send_disconnect_settings(&mut self, session: SessionIndex, is_leaving: bool) {
        let now_ms = self.clock.now_ms();
        let state = &self.sessions[session];
        // A will's expiry starts when it is published, which is not known before the connection ends.
        let expires = is_leaving && state.will().is_some_and(|will| will.message_expiry_s.is_some());
        let cluster = &mut self.mode.cluster;
        if !(cluster.take_disconnect_settings_changed(session) || expires)
            || is(Mutant::OmitsDisconnectSettings)
            || is_leaving && is(Mutant::OmitsWillRemoval)
        {
            return;
        }
        let Some(client) = cluster.served(session).map(|served| served.client()) else { return };
        let expiry_s = state.expiry_interval_s();
        let disconnected_at_ms = is_leaving.then_some(now_ms);
        let will = state.will().map(|will| will_for_record(will, expiry_s, disconnected_at_ms));
        cluster.push_request(ClusterRequest::SetDisconnectSettings {
            client,
            settings: DisconnectSettings { expiry_s, will },
        });
    }

    /// Removes the will of a session: the cluster publishes it, or the client has withdrawn it.
    #[cold]
    pub(crate) fn remove_will(&mut self, session: SessionIndex) {
        self.sessions.entry(session).apply(Change::Will(None));
    }
}

fn will_for_record(will: &StoredWill, expiry_s: u32, disconnected_at_ms: Option<u64>) -> Will {
    let StoredWill { message, delay_s, message_expiry_s } = will;
    let parts = message.as_ref();
    let after_s = |seconds: u32| move |at_ms: u64| at_ms + u64::from(seconds) * 1000;
    // The will's delay ends with the session at the latest [MQTT-3.1.2-8].
    let published_at_ms = disconnected_at_ms.map(after_s((*delay_s).min(expiry_s)));
    let expires_at_ms = message_expiry_s.and_then(|seconds| published_at_ms.map(after_s(seconds)));
    let parts = MessageRef { expires_at_ms, ..parts };
    let mut bytes = Vec::with_capacity(parts.stored_bytes());
    parts.append_stored(&mut bytes);
    let retain = match message_expiry_s {
        _ if !parts.retain => None,
        _ if parts.payload.is_empty() => Some(Retain::Clear),
        Some(seconds) => Some(Retain::Seconds(*seconds)),
        None => Some(Retain::Always),
    };
    Will { delay_s: *delay_s, topic: parts.topic.to_owned(), retain, message: bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_message::MessageId;
    use tautwire_protocol::QoS;

    fn will(payload: &[u8], retain: bool, delay_s: u32, message_expiry_s: Option<u32>) -> StoredWill {
        let message = MessageRef {
            id: MessageId::NONE,
            topic: "w",
            properties: &[],
            payload,
            qos: QoS::AtLeastOnce,
            retain,
            expires_at_ms: None,
        };
        StoredWill { message: message.to_message(), delay_s, message_expiry_s }
    }

    #[test]
    fn a_will_expires_relative_to_its_publication() {
        let expires_at_ms = |will: &StoredWill, expiry_s, disconnected_at_ms| {
            let record = will_for_record(will, expiry_s, disconnected_at_ms);
            MessageRef::read_stored(&record.message).expect("a message").expires_at_ms
        };
        let will = will(b"x", true, 10, Some(5));
        assert_eq!(expires_at_ms(&will, 60, None), None);
        assert_eq!(expires_at_ms(&will, 60, Some(1_000)), Some(16_000));
        assert_eq!(expires_at_ms(&will, 2, Some(1_000)), Some(8_000), "the session ends before");
        assert_eq!(will_for_record(&will, 60, None).retain, Some(Retain::Seconds(5)));
    }

    #[test]
    fn a_will_is_retained_like_its_message() {
        let retain = |payload, retain| will_for_record(&will(payload, retain, 0, None), 0, None).retain;
        assert_eq!(retain(b"x", true), Some(Retain::Always));
        assert_eq!(retain(b"", true), Some(Retain::Clear));
        assert_eq!(retain(b"x", false), None);
    }
}
