//! Services whose clients say nothing: most of them, most of the time. Of such a one there is its record, and little else.

use std::num::NonZeroU64;

use crate::names::ClientKey;
use crate::operation::Revision;
use crate::queue::pop_front_if;
use crate::record::{Claim, SessionRecord, Will};

use super::service::Service;
use super::{Held, Sessions};

/// A service falls asleep when nothing has happened to it for so long, in milliseconds, or for twice as long. Where many clients come at once, the
/// first are asleep before the last have come, and their room is used again.
const REST_MS: u64 = 200;
/// So many are looked at in one call.
const LOOKS_MAX: usize = 1024;

/// A service of which nothing is under way.
#[derive(Debug)]
pub(super) struct Asleep {
    pub(super) epoch: u64,
    pub(super) last_refused: u64,
    pub(super) revision: Revision,
    pub(super) record: RestingRecord,
}

/// The record of a session without messages and wills that are on their way.
#[derive(Debug)]
pub(super) struct RestingRecord {
    client_id: Box<str>,
    epoch: u64,
    write: u64,
    claimed_at: Option<NonZeroU64>,
    owner: Option<Claim>,
    expiry_s: u32,
    away_ms: Option<u64>,
    will: Option<Box<Will>>,
    state: Box<[u8]>,
}

/// A service that is awake, and is looked at then.
#[derive(Debug)]
pub(super) struct Awake {
    look_at_ms: u64,
    key: ClientKey,
    claim: u64,
}

impl RestingRecord {
    /// The record is taken out.
    pub(super) fn of(record: &mut SessionRecord) -> RestingRecord {
        RestingRecord {
            client_id: std::mem::take(&mut record.client_id).into(),
            epoch: record.epoch,
            write: record.write,
            claimed_at: record.claimed_at,
            owner: record.owner,
            expiry_s: record.expiry_s,
            away_ms: record.away_ms,
            will: record.will.take().map(Box::new),
            state: std::mem::take(&mut record.state).into(),
        }
    }

    /// The record is taken out again.
    pub(super) fn take(&mut self) -> SessionRecord {
        SessionRecord {
            client_id: std::mem::take(&mut self.client_id).into(),
            epoch: self.epoch,
            write: self.write,
            claimed_at: self.claimed_at,
            owner: self.owner,
            taken: Vec::new(),
            expiry_s: self.expiry_s,
            away_ms: self.away_ms,
            will: self.will.take().map(|will| *will),
            due: Vec::new(),
            state: std::mem::take(&mut self.state).into(),
        }
    }
}

impl Awake {
    fn new(now_ms: u64, key: ClientKey, claim: u64) -> Awake {
        Awake { look_at_ms: now_ms + REST_MS, key, claim }
    }
}

impl Sessions {
    /// A session is served from now on.
    pub(super) fn hold(&mut self, key: ClientKey, service: Service) {
        self.awake.push_back(Awake::new(self.now_ms, key, service.claim));
        self.held.insert(key, Held::Serving(Box::new(service)));
    }

    /// The service of a client, which is awake then.
    pub(super) fn service(&mut self, key: ClientKey) -> Option<&mut Service> {
        match self.woken(key)? {
            Held::Serving(service) => Some(service),
            _ => None,
        }
    }

    /// What is held of a session; it does not sleep then.
    pub(super) fn woken(&mut self, key: ClientKey) -> Option<&mut Held> {
        let held = self.held.get_mut(&key)?;
        if let Held::Asleep(asleep) = held {
            let service = Service::woken(key, asleep);
            self.awake.push_back(Awake::new(self.now_ms, key, service.claim));
            *held = Held::Serving(Box::new(service));
        }
        if let Held::Serving(service) = held {
            service.was_busy = true;
        }
        Some(held)
    }

    /// Services fall asleep to which nothing has happened for some time.
    pub(super) fn let_rest(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        for _ in 0..LOOKS_MAX {
            let Some(Awake { key, claim, .. }) = pop_front_if(&mut self.awake, |awake| awake.look_at_ms <= now_ms)
            else {
                return;
            };
            let Some(held) = self.held.get_mut(&key) else { continue };
            let Held::Serving(service) = &mut *held else { continue };
            if service.claim != claim {
                continue;
            }
            let was_busy = std::mem::take(&mut service.was_busy);
            match if was_busy { None } else { service.fall_asleep() } {
                Some(asleep) => *held = Held::Asleep(Box::new(asleep)),
                None => self.awake.push_back(Awake::new(now_ms, key, claim)),
            }
        }
    }
}
