//! The record of a session: its owner, messages accepted from its client, and the engine's state.

use std::num::{NonZeroU16, NonZeroU64};

use crate::bytes::{Reader, Writer};
use crate::names::Incarnation;

use super::intent::{Intent, read_intent, write_intent};
use super::{DueWill, RecordError, VERSION, Will, read};

/// The Session Expiry Interval of a session that never expires [MQTT 5.0 section 3.1.2.11.2].
pub const NEVER_EXPIRES: u32 = u32::MAX;

/// The stored data of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// The Client Identifier, because keys may collide.
    pub client_id: String,
    /// The number of claims since the record was created. It restarts when a session has ended: [`Claim`] distinguishes all claims, and the
    /// revision of a claim orders them.
    pub epoch: u64,
    /// The number of writes by the owner.
    pub write: u64,
    /// The claim by which the last owner has written this; `None` in the claim itself, whose revision it is.
    pub claimed_at: Option<NonZeroU64>,
    /// The owner of the session; `None` while its client is offline.
    pub owner: Option<Claim>,
    /// QoS 2 messages that were accepted and not released, in the order of their Packet Identifiers.
    pub taken: Vec<Taken>,
    /// Session Expiry Interval, in seconds [MQTT 5.0 section 3.1.2.11.2].
    pub expiry_s: u32,
    /// How long the client had been offline when this was written, in milliseconds; `None` while it is connected.
    pub away_ms: Option<u64>,
    /// The will to publish when the client disconnects; or after it has disconnected, if the will has a delay.
    pub will: Option<Will>,
    /// Wills to publish in any case.
    pub due: Vec<DueWill>,
    /// The rest of the session, which only the engine interprets.
    pub state: Vec<u8>,
}

/// A claim of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The node that has claimed it.
    pub by: Incarnation,
    /// The number of the claim in that incarnation, which makes claims distinct.
    pub number: u64,
}

/// A QoS 2 message from the session's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Its Packet Identifier.
    pub packet_id: NonZeroU16,
    /// Where the owner of the record will write it; `None` if it is known to be in the log.
    pub intent: Option<Intent>,
}

impl SessionRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let (by, number) = self.owner.map_or((0, 0), |claim| (claim.by.0.get(), claim.number));
        let claimed_at = self.claimed_at.map_or(0, NonZeroU64::get);
        writer.u8(VERSION).u64(self.epoch).u64(self.write).u64(claimed_at).u64(by).u64(number);
        // A Packet Identifier has 16 bits, and no two entries have the same one.
        writer.u16(self.taken.len() as u16);
        for taken in &self.taken {
            write_intent(taken.intent, writer.u16(taken.packet_id.get()));
        }
        writer.u32(self.expiry_s).option(self.away_ms, |writer, away_ms| {
            writer.u64(away_ms);
        });
        writer.option(self.will.as_ref(), |writer, will| will.write(writer));
        writer.u16(self.due.len() as u16);
        self.due.iter().for_each(|due| due.write(&mut writer));
        writer.block(self.client_id.as_bytes()).block(&self.state);
        writer.0
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The bytes are not a record of this version.
    pub fn decode(bytes: &[u8]) -> Result<SessionRecord, RecordError> {
        read(bytes, "session record", |reader| {
            let (epoch, write, claimed_at) = (reader.u64()?, reader.u64()?, NonZeroU64::new(reader.u64()?));
            let (by, number) = (reader.u64()?, reader.u64()?);
            let owner = NonZeroU64::new(by).map(|by| Claim { by: Incarnation(by), number });
            let taken = (0..reader.u16()?)
                .map(|_| {
                    let packet_id = NonZeroU16::new(reader.u16()?)?;
                    Some(Taken { packet_id, intent: read_intent(reader)? })
                })
                .collect::<Option<Vec<_>>>()?;
            let (expiry_s, away_ms) = (reader.u32()?, reader.option(Reader::u64)?);
            let will = reader.option(Will::read)?;
            let due = (0..reader.u16()?).map(|_| DueWill::read(reader)).collect::<Option<Vec<_>>>()?;
            let (client_id, state) = (reader.text()?.to_owned(), reader.block()?.to_vec());
            Some(SessionRecord {
                client_id,
                epoch,
                write,
                claimed_at,
                owner,
                taken,
                expiry_s,
                away_ms,
                will,
                due,
                state,
            })
        })
    }
}
