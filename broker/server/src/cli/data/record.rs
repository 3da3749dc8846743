//! A record as named values.

use tautwire_journal::record::{PendingRecord, Record};
use tautwire_message::{MessageId, MessageRef};
use tautwire_session::split_session_name;

use crate::fields::{Fields, Value};

/// The values of a record. Payloads are included on request.
pub(super) fn fields(record: &Record<'_>, with_payloads: bool) -> Fields {
    let mut fields = Fields::default();
    match *record {
        Record::Message(message) => add_message(&mut fields, &message, with_payloads),
        Record::Opened { at_ms, client_id, .. } => {
            fields.add("at_ms", at_ms);
            if let (Some(mount_point), _) = split_session_name(client_id) {
                fields.add("mount_point", mount_point);
            }
        }
        Record::Connected { at_ms, .. } | Record::Disconnected { at_ms, .. } => {
            fields.add("at_ms", at_ms);
        }
        Record::ExpiryInterval { seconds, .. } => fields.add("seconds", u64::from(seconds)),
        Record::Will { delay_s, message_expiry_s, message, .. } => {
            add_message(&mut fields, &message, with_payloads);
            fields.add("delay_s", u64::from(delay_s));
            fields.add("message_expiry_s", message_expiry_s.map(u64::from));
        }
        Record::Subscribed { options, identifier, format, filter, .. } => {
            fields.add("filter", filter);
            fields.add("qos", options.qos as u64);
            fields.add("no_local", options.no_local);
            fields.add("retain_as_published", options.retain_as_published);
            fields.add("identifier", identifier.map(|id| u64::from(id.get())));
            fields.add("format", format.map(|format| format.name()));
        }
        Record::Unsubscribed { filter, .. } => fields.add("filter", filter),
        Record::Queued { delivery, .. } => add_delivery(&mut fields, &delivery),
        Record::Started { packet_id, delivery, .. } => {
            fields.add("packet_id", u64::from(packet_id.get()));
            add_delivery(&mut fields, &delivery);
        }
        Record::StartedQueued { packet_id, .. }
        | Record::Received { packet_id, .. }
        | Record::Completed { packet_id, .. }
        | Record::Taken { packet_id, .. }
        | Record::Released { packet_id, .. }
        | Record::NextPacketId { packet_id, .. }
        | Record::AwaitingPubComp { packet_id, .. } => fields.add("packet_id", u64::from(packet_id.get())),
        Record::RetainedSet { sequence, message } => {
            fields.add("sequence", sequence);
            fields.add("message", message.to_string());
        }
        Record::RetainedCleared { sequence, topic } => {
            fields.add("sequence", sequence);
            fields.add("topic", topic);
        }
        Record::RunStarted { shards, seed } => {
            fields.add("shards", u64::from(shards));
            fields.add("seed", format!("{seed:016x}"));
        }
        Record::Forwarded { from, to, sequence, message, member } => {
            fields.add("from_shard", u64::from(from.0));
            fields.add("to_shard", u64::from(to.0));
            fields.add("sequence", sequence);
            fields.add("message", message.to_string());
            if let Some(member) = member {
                fields.add("member", member.session.get());
                fields.add("share", member.share);
            }
        }
        Record::ForwardAccepted { from, to, sequence } => {
            fields.add("from_shard", u64::from(from.0));
            fields.add("to_shard", u64::from(to.0));
            fields.add("sequence", sequence);
        }
        Record::Counted { last_session, last_sequence } => {
            fields.add("last_session", last_session);
            fields.add("last_sequence", last_sequence);
        }
        // Records that have only a name and a session.
        _ => {}
    }
    fields
}

/// The message that a record contains or refers to.
pub(super) fn message_of(record: &Record<'_>) -> Option<MessageId> {
    match record {
        Record::Message(message) => Some(message.id),
        Record::Queued { delivery, .. } | Record::Started { delivery, .. } => Some(delivery.message),
        Record::RetainedSet { message, .. } | Record::Forwarded { message, .. } => Some(*message),
        _ => None,
    }
}

fn add_message(fields: &mut Fields, message: &MessageRef<'_>, with_payload: bool) {
    fields.add("message", message.id.to_string());
    fields.add("topic", message.topic);
    fields.add("qos", message.qos as u64);
    fields.add("retain", message.retain);
    fields.add("expires_at_ms", message.expires_at_ms);
    fields.add("payload_bytes", message.payload.len() as u64);
    if with_payload {
        let (name, payload) = match std::str::from_utf8(message.payload) {
            Ok(text) => ("payload", text.to_owned()),
            Err(_) => ("payload_hex", message.payload.iter().map(|byte| format!("{byte:02x}")).collect()),
        };
        fields.add(name, payload);
    }
}

fn add_delivery(fields: &mut Fields, delivery: &PendingRecord<'_>) {
    fields.add("message", delivery.message.to_string());
    fields.add("qos", delivery.qos as u64);
    fields.add("retain", delivery.retain);
    let ids: Vec<u64> = delivery.subscription_ids.iter().map(|id| u64::from(id.get())).collect();
    fields.add("subscription_ids", if ids.is_empty() { Value::Null } else { ids.into() });
    fields.add("share", delivery.share);
}
