//! Dormant services: most clients are idle most of the time, and then only a compact record of the service remains.

use std::num::NonZeroU64;

use crate::bytes::{Reader, Writer};
use crate::names::{ClientKey, Incarnation};
use crate::operation::Revision;
use crate::queue::pop_front_if;
use crate::record::{Claim, SessionRecord, Will};

use super::service::SessionService;
use super::{SessionEntry, Sessions};

/// A service becomes dormant after between one and two of these intervals without activity, in milliseconds. When many clients connect at
/// once, the first are dormant before the last have connected, so their memory is reused.
const IDLE_MS: u64 = 100;
/// The most services that are checked in one call.
const CHECKS_MAX: usize = 1024;

/// An idle service, encoded in one allocation.
#[derive(Debug)]
pub(super) struct DormantSession(Box<[u8]>);

/// An active service, with the time of its next check.
#[derive(Debug)]
pub(super) struct ActiveSession {
    check_at_ms: u64,
    key: ClientKey,
    claim: u64,
}

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

    /// Restores the service.
    pub(super) fn wake(&self, key: ClientKey) -> Option<SessionService> {
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
        Some(SessionService::activate(key, epoch, last_refused, record, revision))
    }
}

impl ActiveSession {
    fn new(now_ms: u64, key: ClientKey, claim: u64) -> ActiveSession {
        ActiveSession { check_at_ms: now_ms + IDLE_MS, key, claim }
    }
}

impl Sessions {
    /// Adds a service.
    pub(super) fn insert_service(&mut self, key: ClientKey, service: SessionService) {
        self.active.push_back(ActiveSession::new(self.now_ms, key, service.claim));
        self.held.insert(key, SessionEntry::Serving(Box::new(service)));
    }

    /// Returns the service of a client, activating it.
    pub(super) fn service(&mut self, key: ClientKey) -> Option<&mut SessionService> {
        match self.activate(key)? {
            SessionEntry::Serving(service) => Some(service),
            _ => None,
        }
    }

    /// Returns the entry of a session, activating it.
    pub(super) fn activate(&mut self, key: ClientKey) -> Option<&mut SessionEntry> {
        let held = self.held.get_mut(&key)?;
        if let SessionEntry::DormantSession(to_dormant) = held {
            let service = to_dormant.wake(key)?;
            self.active.push_back(ActiveSession::new(self.now_ms, key, service.claim));
            *held = SessionEntry::Serving(Box::new(service));
        }
        if let SessionEntry::Serving(service) = held {
            service.is_touched = true;
        }
        Some(held)
    }

    /// Suspends services that were idle for some time.
    pub(super) fn suspend_idle(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        for _ in 0..CHECKS_MAX {
            let Some(ActiveSession { key, claim, .. }) =
                pop_front_if(&mut self.active, |active| active.check_at_ms <= now_ms)
            else {
                return;
            };
            let Some(held) = self.held.get_mut(&key) else { continue };
            let SessionEntry::Serving(service) = &mut *held else { continue };
            if service.claim != claim {
                continue;
            }
            let is_touched = std::mem::take(&mut service.is_touched);
            match if is_touched { None } else { service.to_dormant() } {
                Some(to_dormant) => *held = SessionEntry::DormantSession(to_dormant),
                None => self.active.push_back(ActiveSession::new(now_ms, key, claim)),
            }
        }
    }
}
