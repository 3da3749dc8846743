//! QoS 2 messages that Mosquitto has received but not published, as it waits for PUBREL. This broker publishes a message on receipt [MQTT
//! 5.0 section 4.3.3], so the subscribers get them at import.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tautwire_message::Message;
use tautwire_protocol::{QoS, SubscriptionId, TopicFilter, topic_matches};
use tautwire_session::{PendingMessage, RetainedChange, SessionNumber, SubscriptionIds, SubscriptionRecord};

use crate::imported_state::ImportedState;

/// The messages, and their candidate subscriptions.
#[derive(Default)]
pub(crate) struct Unreleased<'a> {
    messages: Vec<(SessionNumber, Message)>,
    subscriptions: Vec<(SessionNumber, &'a str, SubscriptionRecord)>,
}

/// How a session gets a message that several of its subscriptions match [MQTT-3.3.4-2], [MQTT-3.3.4-3].
struct Match {
    qos: QoS,
    retain: bool,
    ids: Vec<SubscriptionId>,
}

impl<'a> Unreleased<'a> {
    /// Adds a subscription.
    pub(crate) fn add_candidate(&mut self, session: SessionNumber, filter: &'a str, record: SubscriptionRecord) {
        self.subscriptions.push((session, filter, record));
    }

    /// Adds a message from `publisher`.
    pub(crate) fn add(&mut self, publisher: SessionNumber, message: Message) {
        self.messages.push((publisher, message));
    }

    /// Publishes all messages, in order.
    pub(crate) fn publish(self, imported: &mut ImportedState) {
        for (publisher, message) in &self.messages {
            self.publish_one(imported, *publisher, message);
        }
    }

    fn publish_one(&self, imported: &mut ImportedState, publisher: SessionNumber, message: &Message) {
        let parts = message.as_ref();
        if parts.retain {
            // A message without a payload clears its topic [MQTT-3.3.1-6].
            let is_cleared = parts.payload.is_empty();
            imported.report.retained += u64::from(!is_cleared);
            imported.set_retained(if is_cleared {
                RetainedChange::Cleared(parts.topic.into())
            } else {
                RetainedChange::Set(message.clone())
            });
        }
        let (mut matches, mut shares) = (BTreeMap::<SessionNumber, Match>::new(), HashSet::new());
        for (session, filter, record) in &self.subscriptions {
            let Ok(parsed) = TopicFilter::new(filter) else { continue };
            let qos = parts.qos.min(record.options.qos);
            let is_own = record.options.no_local && *session == publisher;
            if qos == QoS::AtMostOnce || is_own || !topic_matches(parsed.matched(), parts.topic) {
                continue;
            }
            let retain = parts.retain && record.options.retain_as_published;
            if parsed.share().is_some() {
                // Only one member gets it.
                if shares.insert(*filter) {
                    let ids: Vec<_> = record.identifier.into_iter().collect();
                    imported.queue(*session, pending(message, qos, retain, &ids, Some(Arc::from(*filter))));
                }
                continue;
            }
            let found = matches.entry(*session).or_insert(Match { qos, retain, ids: Vec::new() });
            found.qos = found.qos.max(qos);
            found.retain |= retain;
            found.ids.extend(record.identifier);
        }
        for (session, Match { qos, retain, ids }) in matches {
            imported.queue(session, pending(message, qos, retain, &ids, None));
        }
    }
}

fn pending(
    message: &Message,
    qos: QoS,
    retain: bool,
    ids: &[SubscriptionId],
    share: Option<Arc<str>>,
) -> PendingMessage {
    PendingMessage { message: message.clone().into(), qos, retain, subscription_ids: SubscriptionIds::from(ids), share }
}
