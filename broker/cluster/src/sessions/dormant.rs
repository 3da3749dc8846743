//! Dormant services: most clients are idle most of the time, and then only a compact record of the service remains.

use std::num::NonZeroU64;

use crate::bytes::{Reader, Writer};
use crate::names::Incarnation;
use crate::numbers::Revision;
use crate::record::{Claim, SessionRecord, Will};

/// An idle service, encoded in one allocation.
#[derive(Debug)]
pub(super) struct DormantSession(Box<[u8]>);

impl DormantSession {
    /// `record`: without messages and wills in flight.
    pub(super) fn new(epoch: u64, last_refused: u64, revision: Revision, record: &SessionRecord) -> DormantSession {
        let mut writer = Writer::default();
        writer.varint(epoch).varint(last_refused).varint(revision.0);
        writer.varint(record.epoch).varint(record.write).varint(record.claimed_at.map_or(0, NonZeroU64::get));
        writer.option(record.owner, |writer, Claim { by, number }| {
            writer.u64(by.0.get()).varint(number);
        });
        writer.varint(record.expiry_s.into());
        writer.option(record.away_ms, |writer, away_ms| {
            writer.varint(away_ms);
        });
        writer.option(record.will.as_ref(), |writer, will| will.write(writer));
        writer.varint(record.client_id.len() as u64).bytes(record.client_id.as_bytes()).bytes(&record.state);
        DormantSession(writer.0.into())
    }

    /// Returns what it was created from.
    pub(super) fn decode(&self) -> Option<(u64, u64, Revision, SessionRecord)> {
        let mut reader = Reader::new(&self.0);
        let (epoch, last_refused, revision) = (reader.varint()?, reader.varint()?, Revision(reader.varint()?));
        let record = SessionRecord {
            epoch: reader.varint()?,
            write: reader.varint()?,
            claimed_at: NonZeroU64::new(reader.varint()?),
            owner: reader.option(|reader| {
                let by = Incarnation(NonZeroU64::new(reader.u64()?)?);
                Some(Claim { by, number: reader.varint()? })
            })?,
            taken: Vec::new(),
            expiry_s: reader.varint()?.try_into().ok()?,
            away_ms: reader.option(Reader::varint)?,
            will: reader.option(Will::read)?,
            due: Vec::new(),
            client_id: {
                let length = reader.varint()?.try_into().ok()?;
                std::str::from_utf8(reader.bytes(length)?).ok()?.to_owned()
            },
            state: reader.bytes(reader.left())?.to_vec(),
        };
        Some((epoch, last_refused, revision, record))
    }
}
