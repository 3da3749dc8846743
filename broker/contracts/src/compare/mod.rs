//! What a change of contracts means for those who speak the old ones.

mod message;
mod schema;

use std::fmt;

use crate::catalogue::Catalogue;
use crate::contract::{Contract, Types};

/// One difference between two versions of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The contract's name.
    pub contract: String,
    /// The field, or the key of the contract.
    pub path: String,
    /// What is different.
    pub what: String,
    /// Whom it breaks.
    pub effect: Effect,
}

/// Whom a difference breaks. Payloads are written by the old schema or the new one, and read by either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nobody.
    None,
    /// Those who read new payloads with the old schema: it is backward compatible only.
    OldReaders,
    /// Those who write old payloads, read or checked by the new schema: it is forward compatible only.
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

    /// The verdict as it is called: `compatible`, `backward`, `forward` or `breaking`.
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

/// The effect of all differences together.
pub fn effect(differences: &[Difference]) -> Effect {
    differences.iter().fold(Effect::None, |effect, difference| effect.and(difference.effect))
}

/// Everything that is different, by contract.
pub fn compare(old: &Catalogue, new: &Catalogue) -> Vec<Difference> {
    let mut notes = DifferenceList { contract: String::new(), path: Vec::new(), found: Vec::new() };
    for contract in old.contracts() {
        notes.contract = contract.name().to_owned();
        match new.named(contract.name()) {
            Some(newer) => compare_contracts(contract, newer, &mut notes),
            None => notes.add("the contract is gone: payloads are not checked any more", Effect::OldReaders),
        }
    }
    for contract in new.contracts().iter().filter(|contract| old.named(contract.name()).is_none()) {
        notes.contract = contract.name().to_owned();
        notes.add("the contract is new: what was published freely is checked now", Effect::OldWriters);
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
            notes.add(format!("{} is gone", gone.name()), Effect::OldWriters);
        }
        for added in new.formats().iter().filter(|format| !old.formats().contains(format)) {
            notes.add(format!("{} is new", added.name()), Effect::OldReaders);
        }
        if old.formats().first() != new.formats().first() && old.formats().len() == new.formats().len() {
            notes.add("another one is first, and holds for payloads that do not say", Effect::Both);
        }
    });
    if old.on_violation() != new.on_violation() {
        let what = format!("was {}, is {}", old.on_violation().name(), new.on_violation().name());
        let stricter = old.on_violation() == crate::OnViolation::Observe;
        notes.within("on_violation", |notes| notes.add(what, if stricter { Effect::OldWriters } else { Effect::None }));
    }
    if old.unknown_fields_refused() != new.unknown_fields_refused() {
        let (what, effect) = match new.unknown_fields_refused() {
            true => ("unknown fields are refused now", Effect::OldWriters),
            false => ("unknown fields are allowed now", Effect::OldReaders),
        };
        notes.within("unknown_fields", |notes| notes.add(what, effect));
    }
    for (level, field) in new.ties().filter(|field_binding| !old.ties().any(|other| other == *field_binding)) {
        notes.within("ties", |notes| notes.add(format!("{level} is tied to {field} now"), Effect::OldWriters));
    }
    for (level, field) in old.ties().filter(|field_binding| !new.ties().any(|other| other == *field_binding)) {
        notes.within("ties", |notes| notes.add(format!("{level} is not tied to {field} any more"), Effect::OldReaders));
    }
    let in_text = old.formats().iter().any(|format| *format != crate::Format::Protobuf);
    match (&old.types, &new.types) {
        (Types::Message(old), Types::Message(new)) => message::compare(old, new, in_text, notes),
        (Types::Schema(old), Types::Schema(new)) => schema::compare(old, new, notes),
        _ => notes.add("the schema is of another language", Effect::Both),
    }
}

/// What has been found so far, and where the comparison is.
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
