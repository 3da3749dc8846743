//! The state that previous owners have left in a session's record.

use crate::mutant::{Mutant, is};
use crate::nodes::Ends;
use crate::record::{DueWill, Intent, SessionRecord, Taken};

/// Messages and wills of previous owners, with their outcomes resolved.
#[derive(Debug)]
pub(super) struct InheritedState {
    pub(super) taken: Vec<Taken>,
    pub(super) due: Vec<DueWill>,
}

impl InheritedState {
    /// The owner was removed: everything up to its last ordinals is in the log, and nothing beyond ever will be.
    pub(super) fn of_removed_node(record: &SessionRecord, ends: &Ends) -> InheritedState {
        let is_in_log = |intent: Intent| intent.ordinal <= ends[intent.partition.index()].ordinal;
        let is_stored = |taken: &&Taken| match taken.intent {
            None => true,
            Some(_) if is(Mutant::DropsIntents) => false,
            Some(_) if is(Mutant::AssumesIntentsStored) => true,
            Some(intent) => is_in_log(intent),
        };
        let is_published = |due: &&DueWill| match due.intent {
            Some(_) if is(Mutant::PublishesWillsAgain) => false,
            intent => intent.is_some_and(is_in_log),
        };
        InheritedState {
            taken: record.taken.iter().filter(is_stored).map(|taken| Taken { intent: None, ..*taken }).collect(),
            due: record.due.iter().filter(|due| !is_published(due)).map(open).collect(),
        }
    }

    /// The record has no owner, or one that never served: nothing in it is in flight.
    pub(super) fn as_it_is(record: &SessionRecord) -> InheritedState {
        InheritedState { taken: record.taken.clone(), due: record.due.iter().map(open).collect() }
    }
}

/// Whether messages or wills of the record may be in flight to the log.
pub(super) fn has_intents(record: &SessionRecord) -> bool {
    record.taken.iter().any(|taken| taken.intent.is_some()) || record.due.iter().any(|due| due.intent.is_some())
}

fn open(due: &DueWill) -> DueWill {
    DueWill { will: due.will.clone(), intent: None }
}
