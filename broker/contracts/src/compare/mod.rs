//! Compatibility of contract changes with existing readers and writers.

mod message;
mod schema;

use std::fmt;

use crate::catalogue::Catalogue;
use crate::contract::Contract;
use crate::payload_types::Types;

/// A difference between two versions of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The contract's name.
    pub contract: String,
    /// The field, or the key of the contract.
    pub path: String,
    /// A description of the difference.
    pub what: String,
    /// What it breaks.
    pub effect: Effect,
}

/// What a difference breaks. Payloads are written with the old or the new schema, and read with either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing.
    None,
    /// Readers with the old schema cannot read new payloads: only backward compatible.
    OldReaders,
    /// Old payloads violate the new schema: only forward compatible.
    OldWriters,
    /// Both.
    Both,
}

impl Effect {
    fn and(self, other: Effect) -> Effect {
        match (self, other) {
            (Effect::None, other) | (other, Effect::None) => other,
            (one, other) if one == other => one,
            _ => Effect::Both,
        }
    }

    /// The name of the effect: `compatible`, `backward`, `forward` or `breaking`.
    pub fn verdict(self) -> &'static str {
        match self {
            Effect::None => "compatible",
            Effect::OldReaders => "backward",
            Effect::OldWriters => "forward",
            Effect::Both => "breaking",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.contract)?;
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {} [{}]", self.what, self.effect.verdict())
    }
}

/// The combined effect of all differences.
pub fn effect(differences: &[Difference]) -> Effect {
    differences.iter().fold(Effect::None, |effect, difference| effect.and(difference.effect))
}

/// All differences, by contract.
pub fn compare(old: &Catalogue, new: &Catalogue) -> Vec<Difference> {
    let mut notes = DifferenceList { contract: String::new(), path: Vec::new(), found: Vec::new() };
    for contract in old.contracts() {
        notes.contract = contract.name().to_owned();
        match new.named(contract.name()) {
            Some(newer) => compare_contracts(contract, newer, &mut notes),
            None => notes.add("the contract was removed: payloads are no longer checked", Effect::OldReaders),
        }
    }
    for contract in new.contracts().iter().filter(|contract| old.named(contract.name()).is_none()) {
        notes.contract = contract.name().to_owned();
        notes.add("the contract was added: payloads are checked now", Effect::OldWriters);
    }
    notes.found
}

fn compare_contracts(old: &Contract, new: &Contract, notes: &mut DifferenceList) {
    if old.topics().as_str() != new.topics().as_str() {
        let effect = if old.topics().filter() == new.topics().filter() { Effect::None } else { Effect::Both };
        let what = format!("was {}, is {}", old.topics().as_str(), new.topics().as_str());
        notes.within("topics", |notes| notes.add(what, effect));
    }
    notes.within("format", |notes| {
        for gone in old.formats().iter().filter(|format| !new.formats().contains(format)) {
            notes.add(format!("{} was removed", gone.name()), Effect::OldWriters);
        }
        for added in new.formats().iter().filter(|format| !old.formats().contains(format)) {
            notes.add(format!("{} was added", added.name()), Effect::OldReaders);
        }
        if old.formats().first() != new.formats().first() && old.formats().len() == new.formats().len() {
            notes.add("the first format, which is the default, has changed", Effect::Both);
        }
    });
    if old.on_violation() != new.on_violation() {
        let what = format!("was {}, is {}", old.on_violation().name(), new.on_violation().name());
        let stricter = old.on_violation() == crate::OnViolation::Observe;
        notes.within("on_violation", |notes| notes.add(what, if stricter { Effect::OldWriters } else { Effect::None }));
    }
    if old.unknown_fields_refused() != new.unknown_fields_refused() {
        let (what, effect) = match new.unknown_fields_refused() {
            true => ("unknown fields are rejected now", Effect::OldWriters),
            false => ("unknown fields are allowed now", Effect::OldReaders),
        };
        notes.within("unknown_fields", |notes| notes.add(what, effect));
    }
    for (level, field) in
        new.topic_fields().filter(|field_binding| !old.topic_fields().any(|other| other == *field_binding))
    {
        notes.within("topic_fields", |notes| notes.add(format!("{level} is tied to {field} now"), Effect::OldWriters));
    }
    for (level, field) in
        old.topic_fields().filter(|field_binding| !new.topic_fields().any(|other| other == *field_binding))
    {
        notes.within("topic_fields", |notes| {
            notes.add(format!("{level} is no longer tied to {field}"), Effect::OldReaders)
        });
    }
    let in_text = old.formats().iter().any(|format| *format != crate::Format::Protobuf);
    match (&old.types, &new.types) {
        (Types::Message(old), Types::Message(new)) => message::compare(old, new, in_text, notes),
        (Types::Schema(old), Types::Schema(new)) => schema::compare(old, new, notes),
        _ => notes.add("the schema language has changed", Effect::Both),
    }
}

/// The differences found so far, and the current position.
struct DifferenceList {
    contract: String,
    path: Vec<String>,
    found: Vec<Difference>,
}

impl DifferenceList {
    fn add(&mut self, what: impl Into<String>, effect: Effect) {
        let difference =
            Difference { contract: self.contract.clone(), path: self.path.join("."), what: what.into(), effect };
        self.found.push(difference);
    }

    fn within(&mut self, name: &str, look: impl FnOnce(&mut DifferenceList)) {
        self.path.push(name.to_owned());
        look(self);
        self.path.pop();
    }
}
