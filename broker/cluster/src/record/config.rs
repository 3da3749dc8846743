//! A revision of the configuration that all nodes share: contracts, rules and users. It is one value, so that no node ever has a part of
//! it.

use crate::bytes::Writer;
use crate::names::Incarnation;

use super::{RecordError, VERSION, read};
use std::num::NonZeroU64;

/// One revision of the shared configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigRecord {
    /// The number of the revision, from 1.
    pub number: u64,
    /// The node that has written it, and the number of that node's proposal, by which the node recognizes it.
    pub by: (Incarnation, u64),
    /// The parts, by name.
    pub parts: Vec<ConfigPart>,
}

/// A part of a revision. Only the engine interprets its content.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigPart {
    /// The name, such as `contracts`.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for ConfigRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConfigRecord({} by {}, {:?})", self.number, self.by.0, self.parts)
    }
}

impl std::fmt::Debug for ConfigPart {
    /// Omits the bytes, which may contain users.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConfigPart({}, {} bytes)", self.name, self.bytes.len())
    }
}

impl ConfigRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(VERSION).u64(self.number).u64(self.by.0.0.get()).u64(self.by.1).u32(self.parts.len() as u32);
        for part in &self.parts {
            writer.block(part.name.as_bytes()).block(&part.bytes);
        }
        writer.0
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The bytes are not a record of this version.
    pub fn decode(bytes: &[u8]) -> Result<ConfigRecord, RecordError> {
        read(bytes, "configuration record", |reader| {
            let number = reader.u64()?;
            let by = (Incarnation(NonZeroU64::new(reader.u64()?)?), reader.u64()?);
            let parts = (0..reader.u32()?)
                .map(|_| Some(ConfigPart { name: reader.text()?.to_owned(), bytes: reader.block()?.to_vec() }))
                .collect::<Option<_>>()?;
            Some(ConfigRecord { number, by, parts })
        })
    }
}
