//! Encodes a session's state.

use tautwire_cluster::names::{PARTITIONS, Partition};
use tautwire_cluster::record::{Cursors, Place};
use tautwire_message::{Body, Format};
use tautwire_protocol::PacketId;
use tautwire_session::{Change, PendingMessage, Session, SubscriptionRecord};

use super::bytes::Writer;
use super::{
    AWAITING_PUBCOMP, FROM_LOG, NEXT_PACKET_ID, NO_LOCAL, QUEUED, RETAIN, RETAIN_AS_PUBLISHED, RETAIN_HANDLING_SHIFT,
    STARTED, SUBSCRIBED, VERSION,
};
use crate::mode::cluster::cluster_state::LogPlace;
use crate::mutant::{Mutant, is};

/// Encodes a session. `next` returns its next place in a partition, unless its own messages require an earlier one.
pub(crate) fn encode(session: &Session, disconnected_at_ms: Option<u64>, next: impl Fn(Partition) -> Place) -> Vec<u8> {
    let mut open: Vec<LogPlace> = Vec::new();
    let mut waiting: [Option<Place>; PARTITIONS as usize] = [None; PARTITIONS as usize];
    let (mut parts, mut skips) = (Writer::default(), false);
    session.describe(|change, packet_id| match change {
        // Its group has it, and delivers it to another member.
        Change::Started(delivery) | Change::Queued(delivery) if delivery.share.is_some() => {
            skips |= matches!(change, Change::Started(_));
        }
        Change::Subscribed(filter, record) => subscription(&mut parts, filter, record),
        Change::Started(delivery) => {
            open.extend(LogPlace::of(delivery.message.id()));
            if let Some(packet_id) = packet_id {
                message(parts.u8(STARTED).u16(packet_id.get()), delivery);
            }
        }
        Change::AwaitingPubComp(packet_id) => with_id(&mut parts, AWAITING_PUBCOMP, *packet_id),
        Change::NextPacketId(packet_id) => with_id(&mut parts, NEXT_PACKET_ID, *packet_id),
        Change::Queued(delivery) => match LogPlace::of(delivery.message.id()) {
            // It is read again from the log, for the same subscriptions.
            Some(_) if is(Mutant::OmitsQueuedMessages) => {}
            Some(at) => {
                waiting[at.partition.index()].get_or_insert(at.place);
            }
            None => {
                message(parts.u8(QUEUED), delivery);
            }
        },
        // The record has fields for these, or does not contain them.
        Change::ExpiryInterval(_) | Change::Taken(_) | Change::Will(_) => {}
        Change::Unsubscribed(_)
        | Change::Unqueued
        | Change::StartedQueued
        | Change::Received(_)
        | Change::Completed(_)
        | Change::Released(_) => {}
    });
    // The client may still hold the packet identifiers of omitted messages.
    if let Some(packet_id) = session.next_packet_id().filter(|_| skips) {
        with_id(&mut parts, NEXT_PACKET_ID, packet_id);
    }
    open.sort_unstable();
    open.dedup();
    let cursors = cursors(&open, |partition| waiting[partition.index()].unwrap_or(next(partition)));
    let mut writer = Writer::default();
    writer.u8(VERSION).u64(disconnected_at_ms.unwrap_or(0)).u32(session.expiry_interval_s()).block(&cursors);
    writer.0.append(&mut parts.0);
    writer.0
}

/// Messages that were sent are open; the next place is behind them.
fn cursors(open: &[LogPlace], next: impl Fn(Partition) -> Place) -> Vec<u8> {
    let mut cursors = Cursors::new([Place::START; PARTITIONS as usize]);
    for at in open {
        cursors.mark_delivered(at.partition, at.place);
    }
    for partition in Partition::all() {
        let last = open.iter().rfind(|at| at.partition == partition);
        let after = last.map_or(Place::START, |at| at.place.behind());
        cursors.pass(partition, next(partition).max(after));
    }
    cursors.encode()
}

fn with_id(parts: &mut Writer, kind: u8, packet_id: PacketId) {
    parts.u8(kind).u16(packet_id.get());
}

fn subscription(parts: &mut Writer, filter: &str, record: &SubscriptionRecord) {
    let options = &record.options;
    let flags = options.qos.as_u8()
        | if options.no_local { NO_LOCAL } else { 0 }
        | if options.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 }
        | options.retain_handling.as_u8() << RETAIN_HANDLING_SHIFT;
    parts
        .u8(SUBSCRIBED)
        .u8(flags)
        .u32(record.identifier.map_or(0, |identifier| identifier.get()))
        .u8(format_number(record.format))
        .block(filter.as_bytes());
}

/// 0 is the published format; the other formats start at 1.
fn format_number(format: Option<Format>) -> u8 {
    match format {
        None => 0,
        Some(Format::Protobuf) => 1,
        Some(Format::MessagePack) => 2,
        Some(Format::Json) => 3,
    }
}

fn message(parts: &mut Writer, delivery: &PendingMessage) {
    let at = LogPlace::of(delivery.message.id());
    let flags =
        delivery.qos.as_u8() | if delivery.retain { RETAIN } else { 0 } | if at.is_some() { FROM_LOG } else { 0 };
    parts.u8(flags);
    let ids = delivery.subscription_ids.as_slice();
    parts.u32(ids.len() as u32);
    for id in ids {
        parts.u32(id.get());
    }
    match (at, &delivery.message) {
        (Some(LogPlace { partition, place }), _) => {
            parts.u8(partition.index() as u8).u64(place.sequence.0).u32(place.index);
        }
        (None, Body::Loaded(message)) => {
            let mut stored = Vec::with_capacity(message.as_ref().stored_bytes());
            message.as_ref().append_stored(&mut stored);
            parts.block(&stored);
        }
        // A shard in a cluster does not spill messages.
        (None, Body::Spilled(_)) => {
            parts.block(&[]);
        }
    }
}
