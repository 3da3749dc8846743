//! Comparison of two versions of a JSON Schema.

use super::{DifferenceList, Effect};
use crate::schema::{SchemaPlan, Shape};

pub(super) fn compare(old: &SchemaPlan, new: &SchemaPlan, notes: &mut DifferenceList) {
    let mut met = Vec::new();
    shapes(old.shape(), new.shape(), &mut met, notes);
}

fn shapes<'s>(old: Shape<'s>, new: Shape<'s>, met: &mut Vec<(usize, usize)>, notes: &mut DifferenceList) {
    if met.contains(&(old.id(), new.id())) {
        return;
    }
    met.push((old.id(), new.id()));
    for gone in old.types().filter(|name| !new.types().any(|other| other == *name)) {
        notes.add(format!("may no longer be {gone}"), Effect::OldWriters);
    }
    for added in new.types().filter(|name| !old.types().any(|other| other == *name)) {
        notes.add(format!("may be {added} now"), Effect::OldReaders);
    }
    for (rule, old, new) in old.limits(new) {
        if let Some(effect) = old.change_to(new) {
            let what = match effect {
                Effect::OldWriters => format!("{rule} is stricter"),
                Effect::OldReaders => format!("{rule} is looser"),
                _ => format!("{rule} has changed"),
            };
            notes.add(what, effect);
        }
    }
    for (name, property, required) in old.properties() {
        notes.within(name, |notes| match new.property(name) {
            Some((newer, still)) => {
                match (required, still) {
                    (false, true) => notes.add("is required now", Effect::OldWriters),
                    (true, false) => notes.add("is optional now", Effect::OldReaders),
                    _ => {}
                }
                shapes(property, newer, met, notes);
            }
            None => {
                let refused = if new.is_closed() { Effect::OldWriters } else { Effect::None };
                let needed = if required { Effect::OldReaders } else { Effect::None };
                notes.add("was removed", refused.and(needed));
            }
        });
    }
    for (name, _, required) in new.properties().filter(|(name, ..)| old.property(name).is_none()) {
        let refused = if old.is_closed() { Effect::OldReaders } else { Effect::None };
        let needed = if required { Effect::OldWriters } else { Effect::None };
        notes.within(name, |notes| notes.add("was added", refused.and(needed)));
    }
    match (old.is_closed(), new.is_closed()) {
        (false, true) => notes.add("additional properties are rejected now", Effect::OldWriters),
        (true, false) => notes.add("additional properties are allowed now", Effect::OldReaders),
        _ => {}
    }
    if let (Some(old), Some(new)) = (old.items(), new.items()) {
        notes.within("[]", |notes| shapes(old, new, met, notes));
    }
}
