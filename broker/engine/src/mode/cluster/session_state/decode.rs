//! Decodes a session's state.

use std::collections::HashSet;

use tautwire_cluster::Sequence;
use tautwire_cluster::names::{PARTITIONS, Partition};
use tautwire_cluster::record::{Cursors, Place};
use tautwire_message::{Format, MessageRef};
use tautwire_protocol::{PacketId, QoS, RetainHandling, SubscriptionId, SubscriptionOptions, TopicFilter};
use tautwire_session::{SubscriptionIds, SubscriptionRecord};

use super::bytes::Reader;
use super::{
    AWAITING_PUBCOMP, FROM_LOG, MessageSource, NEXT_PACKET_ID, NO_LOCAL, QUEUED, RETAIN, RETAIN_AS_PUBLISHED,
    RETAIN_HANDLING_SHIFT, STARTED, SUBSCRIBED, SessionState, StateMessage, StatePart, VERSION,
};
use crate::mode::cluster::cluster_state::LogPlace;

impl SessionState {
    /// Decodes a state; `None` if the bytes are invalid or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SessionState> {
        let mut reader = Reader(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let (disconnected_at_ms, expiry_s) = (reader.u64()?, reader.u32()?);
        let cursors = Cursors::decode(reader.block()?).ok()?;
        let mut next = [Place::START; PARTITIONS as usize];
        for partition in Partition::all() {
            next[partition.index()] = cursors.next(partition);
        }
        let (mut parts, mut ids) = (Vec::new(), HashSet::new());
        while !reader.0.is_empty() {
            let part = part(&mut reader)?;
            // Each packet identifier is used once.
            if let StatePart::Started(packet_id, _) | StatePart::AwaitingPubComp(packet_id) = &part
                && !ids.insert(*packet_id)
            {
                return None;
            }
            parts.push(part);
        }
        Some(SessionState {
            disconnected_at_ms: (disconnected_at_ms > 0).then_some(disconnected_at_ms),
            expiry_s,
            next,
            parts,
        })
    }
}

fn part(reader: &mut Reader<'_>) -> Option<StatePart> {
    Some(match reader.u8()? {
        SUBSCRIBED => subscription(reader)?,
        STARTED => StatePart::Started(packet_id(reader)?, pending(reader)?),
        AWAITING_PUBCOMP => StatePart::AwaitingPubComp(packet_id(reader)?),
        NEXT_PACKET_ID => StatePart::NextPacketId(packet_id(reader)?),
        QUEUED => StatePart::Queued(pending(reader)?),
        _ => return None,
    })
}

fn packet_id(reader: &mut Reader<'_>) -> Option<PacketId> {
    PacketId::new(reader.u16()?)
}

fn subscription(reader: &mut Reader<'_>) -> Option<StatePart> {
    let flags = reader.u8()?;
    let options = SubscriptionOptions {
        qos: QoS::from_u8(flags & 0b11)?,
        no_local: flags & NO_LOCAL != 0,
        retain_as_published: flags & RETAIN_AS_PUBLISHED != 0,
        retain_handling: RetainHandling::from_u8(flags >> RETAIN_HANDLING_SHIFT)?,
    };
    let identifier = match reader.u32()? {
        0 => None,
        number => Some(SubscriptionId::new(number)?),
    };
    let format = match reader.u8()? {
        0 => None,
        1 => Some(Format::Protobuf),
        2 => Some(Format::MessagePack),
        3 => Some(Format::Json),
        _ => return None,
    };
    let filter = reader.text()?;
    TopicFilter::new(filter).ok()?;
    Some(StatePart::Subscribed(filter.into(), SubscriptionRecord { options, identifier, format }))
}

fn pending(reader: &mut Reader<'_>) -> Option<StateMessage> {
    let flags = reader.u8()?;
    let qos = QoS::from_u8(flags & 0b11)?;
    let count = reader.u32()?;
    let ids = (0..count).map(|_| SubscriptionId::new(reader.u32()?)).collect::<Option<Vec<_>>>()?;
    let source = if flags & FROM_LOG != 0 {
        let partition = Partition::new(reader.u8()?)?;
        MessageSource::Log(LogPlace {
            partition,
            place: Place { sequence: Sequence(reader.u64()?), index: reader.u32()? },
        })
    } else {
        let stored = reader.block()?;
        MessageRef::read_stored(stored)?;
        MessageSource::Inline(stored.into())
    };
    let is_acknowledged = qos != QoS::AtMostOnce && flags & !(0b11 | RETAIN | FROM_LOG) == 0;
    let subscription_ids = SubscriptionIds::from(&ids[..]);
    is_acknowledged.then_some(StateMessage { source, qos, retain: flags & RETAIN != 0, subscription_ids })
}
