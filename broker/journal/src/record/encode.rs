//! Encodes records.

use tautwire_message::{Format, MessageId, MessageRef};

use crate::record::{PendingRecord, Record};

pub(super) const MESSAGE: u8 = 1;
pub(super) const OPENED: u8 = 2;
pub(super) const ENDED: u8 = 3;
pub(super) const EXPIRY_INTERVAL: u8 = 4;
pub(super) const CONNECTED: u8 = 5;
pub(super) const DISCONNECTED: u8 = 6;
pub(super) const WILL: u8 = 7;
pub(super) const WILL_GONE: u8 = 8;
pub(super) const SUBSCRIBED: u8 = 9;
pub(super) const UNSUBSCRIBED: u8 = 10;
pub(super) const QUEUED: u8 = 11;
pub(super) const UNQUEUED: u8 = 12;
pub(super) const STARTED: u8 = 13;
pub(super) const STARTED_QUEUED: u8 = 14;
pub(super) const RECEIVED: u8 = 15;
pub(super) const COMPLETED: u8 = 16;
pub(super) const TAKEN: u8 = 17;
pub(super) const RELEASED: u8 = 18;
pub(super) const RETAINED_SET: u8 = 19;
pub(super) const RETAINED_CLEARED: u8 = 20;
pub(super) const FORWARDED: u8 = 21;
pub(super) const FORWARD_ACCEPTED: u8 = 22;
pub(super) const NEXT_PACKET_ID: u8 = 23;
pub(super) const AWAITING_PUB_COMP: u8 = 24;
pub(super) const COUNTED: u8 = 25;
pub(super) const RUN_STARTED: u8 = 26;

pub(super) const DELIVERY_RETAIN: u8 = 0b0100;
pub(super) const DELIVERY_SHARE: u8 = 0b1000;
pub(super) const OPTION_NO_LOCAL: u8 = 1 << 2;
pub(super) const OPTION_RETAIN_AS_PUBLISHED: u8 = 1 << 3;
pub(super) const OPTION_RETAIN_HANDLING_SHIFT: u8 = 4;

impl Record<'_> {
    /// Appends the record. Strings and messages are shorter than 4 GiB, as everything in MQTT is.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let mut out = Writer(out);
        match *self {
            Record::Message(message) => out.kind(MESSAGE).message(&message),
            Record::Opened { session, at_ms, client_id } => {
                out.kind(OPENED).u64(session.get()).u64(at_ms).text(client_id)
            }
            Record::Ended { session } => out.kind(ENDED).u64(session.get()),
            Record::ExpiryInterval { session, seconds } => out.kind(EXPIRY_INTERVAL).u64(session.get()).u32(seconds),
            Record::Connected { session, at_ms } => out.kind(CONNECTED).u64(session.get()).u64(at_ms),
            Record::Disconnected { session, at_ms } => out.kind(DISCONNECTED).u64(session.get()).u64(at_ms),
            Record::Will { session, delay_s, message_expiry_s, message } => out
                .kind(WILL)
                .u64(session.get())
                .u32(delay_s)
                .u32(message_expiry_s.unwrap_or(0))
                .u8(message_expiry_s.is_some().into())
                .message(&message),
            Record::WillGone { session } => out.kind(WILL_GONE).u64(session.get()),
            Record::Subscribed { session, options, identifier, format, filter } => {
                let flags = options.qos.as_u8()
                    | if options.no_local { OPTION_NO_LOCAL } else { 0 }
                    | if options.retain_as_published { OPTION_RETAIN_AS_PUBLISHED } else { 0 }
                    | options.retain_handling.as_u8() << OPTION_RETAIN_HANDLING_SHIFT;
                out.kind(SUBSCRIBED)
                    .u64(session.get())
                    .u8(flags)
                    .u32(identifier.map_or(0, |identifier| identifier.get()))
                    .u8(format_number(format))
                    .text(filter)
            }
            Record::Unsubscribed { session, filter } => out.kind(UNSUBSCRIBED).u64(session.get()).text(filter),
            Record::Queued { session, delivery } => out.kind(QUEUED).u64(session.get()).delivery(&delivery),
            Record::Unqueued { session } => out.kind(UNQUEUED).u64(session.get()),
            Record::Started { session, packet_id, delivery } => {
                out.kind(STARTED).u64(session.get()).u16(packet_id.get()).delivery(&delivery)
            }
            Record::StartedQueued { session, packet_id } => {
                out.kind(STARTED_QUEUED).u64(session.get()).u16(packet_id.get())
            }
            Record::Received { session, packet_id } => out.kind(RECEIVED).u64(session.get()).u16(packet_id.get()),
            Record::Completed { session, packet_id } => out.kind(COMPLETED).u64(session.get()).u16(packet_id.get()),
            Record::Taken { session, packet_id } => out.kind(TAKEN).u64(session.get()).u16(packet_id.get()),
            Record::Released { session, packet_id } => out.kind(RELEASED).u64(session.get()).u16(packet_id.get()),
            Record::RetainedSet { sequence, message } => out.kind(RETAINED_SET).u64(sequence).id(message),
            Record::RetainedCleared { sequence, topic } => out.kind(RETAINED_CLEARED).u64(sequence).text(topic),
            Record::RunStarted { shards, seed } => out.kind(RUN_STARTED).u16(shards).u64(seed),
            Record::Forwarded { from, to, sequence, message, member } => {
                let out =
                    out.kind(FORWARDED).u16(from.0).u16(to.0).u64(sequence).id(message).u8(member.is_some().into());
                match member {
                    Some(member) => out.u64(member.session.get()).text(member.share),
                    None => out,
                }
            }
            Record::ForwardAccepted { from, to, sequence } => {
                out.kind(FORWARD_ACCEPTED).u16(from.0).u16(to.0).u64(sequence)
            }
            Record::NextPacketId { session, packet_id } => {
                out.kind(NEXT_PACKET_ID).u64(session.get()).u16(packet_id.get())
            }
            Record::AwaitingPubComp { session, packet_id } => {
                out.kind(AWAITING_PUB_COMP).u64(session.get()).u16(packet_id.get())
            }
            Record::Counted { last_session, last_sequence } => out.kind(COUNTED).u64(last_session).u64(last_sequence),
        };
    }
}

/// 0 means "as published"; formats start at 1.
pub(super) fn format_number(format: Option<Format>) -> u8 {
    match format {
        None => 0,
        Some(Format::Protobuf) => 1,
        Some(Format::MessagePack) => 2,
        Some(Format::Json) => 3,
    }
}

struct Writer<'a>(&'a mut Vec<u8>);

impl<'a> Writer<'a> {
    fn kind(&mut self, kind: u8) -> Writer<'_> {
        Writer(self.0).u8(kind)
    }

    fn u8(self, value: u8) -> Writer<'a> {
        self.0.push(value);
        self
    }

    fn u16(self, value: u16) -> Writer<'a> {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u32(self, value: u32) -> Writer<'a> {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(self, value: u64) -> Writer<'a> {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn len(self, value: usize) -> Writer<'a> {
        self.u32(value as u32)
    }

    fn id(self, id: MessageId) -> Writer<'a> {
        self.u64(id.run).u64(id.number)
    }

    fn text(self, text: &str) -> Writer<'a> {
        let out = self.len(text.len());
        out.0.extend_from_slice(text.as_bytes());
        out
    }

    fn message(self, message: &MessageRef<'_>) -> Writer<'a> {
        let out = self.len(message.stored_bytes());
        message.append_stored(out.0);
        out
    }

    fn delivery(self, delivery: &PendingRecord<'_>) -> Writer<'a> {
        let flags = delivery.qos.as_u8()
            | if delivery.retain { DELIVERY_RETAIN } else { 0 }
            | if delivery.share.is_some() { DELIVERY_SHARE } else { 0 };
        let mut out = self.id(delivery.message).u8(flags).len(delivery.subscription_ids.len());
        for id in delivery.subscription_ids.iter() {
            out = out.u32(id.get());
        }
        match delivery.share {
            Some(share) => out.text(share),
            None => out,
        }
    }
}
