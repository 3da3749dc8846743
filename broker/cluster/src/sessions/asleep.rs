//! Services whose clients say nothing: most of them, most of the time. Of such a one there is its record, and little else.

use std::num::NonZeroU64;

use crate::bytes::{Reader, Writer};
use crate::names::{ClientKey, Incarnation};
use crate::operation::Revision;
use crate::queue::pop_front_if;
use crate::record::{Claim, SessionRecord, Will};

use super::service::Service;
use super::{Held, Sessions};

/// A service falls asleep when nothing has happened to it for so long, in milliseconds, or for twice as long. Where many clients come at once, the
/// first are asleep before the last have come, and their room is used again.
const REST_MS: u64 = 100;
/// So many are looked at in one call.
const LOOKS_MAX: usize = 1024;

/// A service of which nothing is under way: its bytes, in one piece.
#[derive(Debug)]
pub(super) struct Asleep(Box<[u8]>);

/// A service that is awake, and is looked at then.
#[derive(Debug)]
pub(super) struct Awake {
    look_at_ms: u64,
    key: ClientKey,
    claim: u64,
}

impl Asleep {
    /// `record`: without messages and wills that are on their way.
    pub(super) fn new(epoch: u64, last_refused: u64, revision: Revision, record: &SessionRecord) -> Asleep {
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
        Asleep(writer.0.into())
    }

    /// The service as it was.
    pub(super) fn wake(&self, key: ClientKey) -> Option<Service> {
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
        Some(Service::woken(key, epoch, last_refused, record, revision))
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
            let service = asleep.wake(key)?;
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
            match if was_busy { None } else { service.asleep() } {
                Some(asleep) => *held = Held::Asleep(asleep),
                None => self.awake.push_back(Awake::new(now_ms, key, claim)),
            }
        }
    }
}
