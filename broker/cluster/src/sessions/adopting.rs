//! Sessions that nobody sees to: those of dead nodes, and what late claims and nodes that gave up have left behind.

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Key};
use crate::nodes::Ends;
use crate::operation::{Answer, Operation, OperationId, Revision, Scanned};
use crate::outbox::Purpose;
use crate::record::{Claim, SessionRecord};

use super::inheriting::{Inherited, has_intents};
use super::service::Service;
use super::{Held, Sessions, Surroundings, write_of};

/// A session that this node takes on without its client, because it has a will.
#[derive(Debug)]
pub(super) struct Adopting {
    operation: OperationId,
    record: SessionRecord,
    before_ms: u64,
}

/// What is done about a record that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// Nothing: somebody sees to it.
    Nothing,
    /// It is being freed: the answer comes for this client, with [`Purpose::Freeing`].
    Freed,
    /// This node takes it on.
    Adopted,
}

impl Sessions {
    /// Frees a session whose owner will never serve it again, or takes it on if it has a will. `ends` are those of the owner, if it is buried.
    pub(crate) fn sweep(
        &mut self,
        scanned: &Scanned,
        record: SessionRecord,
        ends: Option<&Ends>,
        cx: &mut Surroundings<'_>,
    ) -> Swept {
        let key = scanned.client;
        if self.held.contains_key(&key) || ends.is_none() && has_intents(&record) {
            return Swept::Nothing;
        }
        let Inherited { taken, due } = match ends {
            Some(ends) => Inherited::of_buried(&record, ends),
            None => Inherited::as_it_is(&record),
        };
        let record = SessionRecord { taken, due, write: record.write + 1, ..record };
        // The clock of the store may have jumped meanwhile. What is done too late does no harm.
        let age_ms = scanned.age_ms.saturating_sub(u64::from(cx.settings.expiry_margin_s) * 1000);
        if (record.will.is_none() || is(Mutant::ForgetsSweptWills)) && record.due.is_empty() {
            let record = SessionRecord { will: None, ..record };
            let (record, for_s) = record.at_rest(age_ms, cx.settings);
            cx.out.ask(Purpose::Freeing(key), write_of(key, scanned.revision, record.as_ref(), for_s));
            return Swept::Freed;
        }
        self.last_claim += 1;
        let owner = Some(Claim { by: cx.me, number: self.last_claim });
        let before_ms = record.away_ms.map_or(0, |away_ms| away_ms + age_ms);
        let away_ms = Some(before_ms);
        let record = SessionRecord { epoch: record.epoch + 1, write: 0, claimed_at: None, owner, away_ms, ..record };
        let write = write_of(key, scanned.revision, Some(&record), None);
        let operation = cx.out.ask(Purpose::Session(key), write);
        self.held.insert(key, Held::Adopting(Box::new(Adopting { operation, record, before_ms })));
        self.adoptions += 1;
        Swept::Adopted
    }

    pub(super) fn answer_adoption(
        &mut self,
        key: ClientKey,
        id: OperationId,
        answer: &Answer,
        cx: &mut Surroundings<'_>,
    ) {
        let Some(Held::Adopting(adopting)) = self.held.get_mut(&key) else { return };
        if adopting.operation != id {
            return;
        }
        match answer {
            Answer::Put(revision) => self.adopt(key, *revision, cx),
            Answer::Got(Some((revision, value))) if SessionRecord::decode(value).as_ref() == Ok(&adopting.record) => {
                self.adopt(key, *revision, cx);
            }
            Answer::Unknown => {
                adopting.operation = cx.out.ask(Purpose::Session(key), Operation::Get(Key::Session(key)));
            }
            // Somebody else was faster. If this claim comes too late after all, a patrol finds it.
            _ => self.drop_adoption(key),
        }
    }

    fn adopt(&mut self, key: ClientKey, revision: Revision, cx: &mut Surroundings<'_>) {
        let Some(Held::Adopting(adopting)) = self.held.remove(&key) else { return };
        self.adoptions -= 1;
        let service = Service::adopted(key, adopting.record, revision, adopting.before_ms, cx.now_ms);
        self.hold(key, service);
        self.go_on(key, cx);
    }

    pub(super) fn drop_adoption(&mut self, key: ClientKey) {
        if let Some(Held::Adopting(_)) = self.held.get(&key) {
            self.held.remove(&key);
            self.adoptions -= 1;
        }
    }
}
