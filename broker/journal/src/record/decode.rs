//! Decodes records.

use tautwire_message::{Format, MessageId, MessageRef};
use tautwire_protocol::{PacketId, QoS, RetainHandling, SubscriptionId, SubscriptionOptions};

use crate::numbers::{SessionId, ShardNumber};
use crate::record::encode as number;
use crate::record::{Ids, Member, PendingRecord, Record, RecordError, RecordFault, SHARDS_MAX};

/// Iterates over the records of a frame's body. Ends after an error, because the next record cannot be found.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Records<'a> {
    /// Creates an iterator over the records in these bytes.
    pub fn new(body: &'a [u8]) -> Records<'a> {
        Records { cursor: Cursor::new(body) }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_at_end() {
            return None;
        }
        let record = self.cursor.record();
        if record.is_err() {
            self.cursor.at = self.cursor.bytes.len();
        }
        Some(record)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn record(&mut self) -> Result<Record<'a>, RecordError> {
        let start = self.at;
        Ok(match self.u8()? {
            number::MESSAGE => Record::Message(self.message()?),
            number::OPENED => Record::Opened { session: self.session()?, at_ms: self.u64()?, client_id: self.text()? },
            number::ENDED => Record::Ended { session: self.session()? },
            number::EXPIRY_INTERVAL => Record::ExpiryInterval { session: self.session()?, seconds: self.u32()? },
            number::CONNECTED => Record::Connected { session: self.session()?, at_ms: self.u64()? },
            number::DISCONNECTED => Record::Disconnected { session: self.session()?, at_ms: self.u64()? },
            number::WILL => self.will()?,
            number::WILL_GONE => Record::WillGone { session: self.session()? },
            number::SUBSCRIBED => Record::Subscribed {
                session: self.session()?,
                options: self.options()?,
                identifier: self.identifier()?,
                format: self.format()?,
                filter: self.text()?,
            },
            number::UNSUBSCRIBED => Record::Unsubscribed { session: self.session()?, filter: self.text()? },
            number::QUEUED => Record::Queued { session: self.session()?, delivery: self.delivery()? },
            number::UNQUEUED => Record::Unqueued { session: self.session()? },
            number::STARTED => {
                Record::Started { session: self.session()?, packet_id: self.packet_id()?, delivery: self.delivery()? }
            }
            number::STARTED_QUEUED => Record::StartedQueued { session: self.session()?, packet_id: self.packet_id()? },
            number::RECEIVED => Record::Received { session: self.session()?, packet_id: self.packet_id()? },
            number::COMPLETED => Record::Completed { session: self.session()?, packet_id: self.packet_id()? },
            number::TAKEN => Record::Taken { session: self.session()?, packet_id: self.packet_id()? },
            number::RELEASED => Record::Released { session: self.session()?, packet_id: self.packet_id()? },
            number::RETAINED_SET => Record::RetainedSet { sequence: self.u64()?, message: self.id()? },
            number::RETAINED_CLEARED => Record::RetainedCleared { sequence: self.u64()?, topic: self.text()? },
            number::RUN_STARTED => {
                let is_possible = |shards: &u16| (1..=SHARDS_MAX).contains(shards);
                let shards = self.checked(Cursor::u16, |shards| Some(shards).filter(is_possible))?;
                Record::RunStarted { shards, seed: self.u64()? }
            }
            number::FORWARDED => Record::Forwarded {
                from: ShardNumber(self.u16()?),
                to: ShardNumber(self.u16()?),
                sequence: self.u64()?,
                message: self.id()?,
                member: if self.flag()? { Some(self.member()?) } else { None },
            },
            number::FORWARD_ACCEPTED => Record::ForwardAccepted {
                from: ShardNumber(self.u16()?),
                to: ShardNumber(self.u16()?),
                sequence: self.u64()?,
            },
            number::NEXT_PACKET_ID => Record::NextPacketId { session: self.session()?, packet_id: self.packet_id()? },
            number::AWAITING_PUB_COMP => {
                Record::AwaitingPubComp { session: self.session()?, packet_id: self.packet_id()? }
            }
            number::COUNTED => Record::Counted { last_session: self.u64()?, last_sequence: self.u64()? },
            _ => return Err(RecordError { fault: RecordFault::UnknownRecord, offset: start }),
        })
    }

    fn will(&mut self) -> Result<Record<'a>, RecordError> {
        let (session, delay_s) = (self.session()?, self.u32()?);
        let start = self.at;
        let (seconds, has_expiry) = (self.u32()?, self.flag()?);
        if !has_expiry && seconds != 0 {
            return Err(invalid_value(start));
        }
        let message_expiry_s = has_expiry.then_some(seconds);
        Ok(Record::Will { session, delay_s, message_expiry_s, message: self.message()? })
    }

    pub(super) fn session(&mut self) -> Result<SessionId, RecordError> {
        self.checked(Cursor::u64, SessionId::new)
    }

    fn packet_id(&mut self) -> Result<PacketId, RecordError> {
        self.checked(Cursor::u16, PacketId::new)
    }

    fn identifier(&mut self) -> Result<Option<SubscriptionId>, RecordError> {
        self.checked(Cursor::u32, |id| if id == 0 { Some(None) } else { SubscriptionId::new(id).map(Some) })
    }

    fn flag(&mut self) -> Result<bool, RecordError> {
        self.checked(Cursor::u8, |flag| (flag <= 1).then_some(flag == 1))
    }

    fn format(&mut self) -> Result<Option<Format>, RecordError> {
        self.checked(Cursor::u8, |format| match format {
            0 => Some(None),
            1 => Some(Some(Format::Protobuf)),
            2 => Some(Some(Format::MessagePack)),
            3 => Some(Some(Format::Json)),
            _ => None,
        })
    }

    fn options(&mut self) -> Result<SubscriptionOptions, RecordError> {
        self.checked(Cursor::u8, |options| {
            Some(SubscriptionOptions {
                qos: QoS::from_u8(options & 0b11)?,
                no_local: options & number::OPTION_NO_LOCAL != 0,
                retain_as_published: options & number::OPTION_RETAIN_AS_PUBLISHED != 0,
                retain_handling: RetainHandling::from_u8(options >> number::OPTION_RETAIN_HANDLING_SHIFT)?,
            })
        })
    }

    fn delivery(&mut self) -> Result<PendingRecord<'a>, RecordError> {
        let message = self.id()?;
        let known = 0b11 | number::DELIVERY_RETAIN | number::DELIVERY_SHARE;
        let (flags, qos) = self.checked(Cursor::u8, |flags| {
            let qos = QoS::from_u8(flags & 0b11).filter(|_| flags & !known == 0)?;
            Some((flags, qos))
        })?;
        let count = self.u32()? as usize;
        let start = self.at;
        let ids = self.take(count.saturating_mul(4))?;
        Ok(PendingRecord {
            message,
            qos,
            retain: flags & number::DELIVERY_RETAIN != 0,
            subscription_ids: Ids::stored(ids).ok_or(invalid_value(start))?,
            share: if flags & number::DELIVERY_SHARE != 0 { Some(self.text()?) } else { None },
        })
    }

    fn member(&mut self) -> Result<Member<'a>, RecordError> {
        Ok(Member { session: self.session()?, share: self.text()? })
    }

    fn message(&mut self) -> Result<MessageRef<'a>, RecordError> {
        let len = self.u32()? as usize;
        let offset = self.at;
        let stored = self.take(len)?;
        MessageRef::read_stored(stored).ok_or(RecordError { fault: RecordFault::InvalidMessage, offset })
    }

    fn id(&mut self) -> Result<MessageId, RecordError> {
        Ok(MessageId { run: self.u64()?, number: self.u64()? })
    }

    pub(super) fn text(&mut self) -> Result<&'a str, RecordError> {
        let len = self.u32()? as usize;
        let offset = self.at;
        std::str::from_utf8(self.take(len)?).map_err(|_| RecordError { fault: RecordFault::InvalidUtf8, offset })
    }

    fn checked<V: Copy, T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'a>) -> Result<V, RecordError>,
        check: impl FnOnce(V) -> Option<T>,
    ) -> Result<T, RecordError> {
        let start = self.at;
        let value = read(self)?;
        check(value).ok_or(invalid_value(start))
    }

    fn u8(&mut self) -> Result<u8, RecordError> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, RecordError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let offset = self.at;
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| RecordError { fault: RecordFault::Truncated, offset })
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], RecordError> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        let bytes = bytes.ok_or(RecordError { fault: RecordFault::Truncated, offset: self.at })?;
        self.at += len;
        Ok(bytes)
    }
}

fn invalid_value(offset: usize) -> RecordError {
    RecordError { fault: RecordFault::InvalidValue, offset }
}
