//! Sessions without a live owner: those of dead nodes, and leftovers of late claims and of nodes that gave up.

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Key};
use crate::nodes::Ends;
use crate::numbers::Revision;
use crate::operation::{Answer, Operation, OperationId, Scanned};
use crate::outbox::Purpose;
use crate::record::{Claim, SessionRecord};

use super::context::SessionContext;
use super::inheritance::{InheritedState, has_intents};
use super::record::write_operation;
use super::service::SessionService;
use super::{SessionEntry, Sessions, Takeover};

/// What is done with a found record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CollectionResult {
    /// Nothing: another node is responsible.
    Nothing,
    /// It is being freed: the answer arrives for this client, with [`Purpose::Freeing`].
    Freed,
    /// This node takes it over.
    TakenOver,
}

impl Sessions {
    /// Frees a session whose owner will never serve it again, or takes it over if it has a will. `ends` are the ends of the owner, if it
    /// was removed.
    pub(crate) fn collect_garbage(
        &mut self,
        scanned: &Scanned,
        record: SessionRecord,
        ends: Option<&Ends>,
        cx: &mut SessionContext<'_>,
    ) -> CollectionResult {
        let key = scanned.client;
        if self.held.contains_key(&key) || ends.is_none() && has_intents(&record) {
            return CollectionResult::Nothing;
        }
        let InheritedState { taken, due } = match ends {
            Some(ends) => InheritedState::of_removed_node(&record, ends),
            None => InheritedState::as_it_is(&record),
        };
        let record = SessionRecord { taken, due, write: record.write + 1, ..record };
        // The clock of the store may have jumped meanwhile. Acting too late is harmless.
        let age_ms = scanned.age_ms.saturating_sub(u64::from(cx.settings.expiry_margin_s) * 1000);
        if (record.will.is_none() || is(Mutant::DropsCollectedWills)) && record.due.is_empty() {
            let record = SessionRecord { will: None, ..record };
            let (record, for_s) = record.detached_record(age_ms, cx.settings);
            cx.out.ask(Purpose::Freeing(key), write_operation(key, scanned.revision, record.as_ref(), for_s));
            return CollectionResult::Freed;
        }
        self.last_claim += 1;
        let owner = Some(Claim { by: cx.me, number: self.last_claim });
        let before_ms = record.away_ms.map_or(0, |away_ms| away_ms + age_ms);
        let away_ms = Some(before_ms);
        let record = SessionRecord { epoch: record.epoch + 1, write: 0, claimed_at: None, owner, away_ms, ..record };
        let write = write_operation(key, scanned.revision, Some(&record), None);
        let operation = cx.out.ask(Purpose::Session(key), write);
        self.held.insert(key, SessionEntry::Takeover(Box::new(Takeover { operation, record, before_ms })));
        self.takeovers += 1;
        CollectionResult::TakenOver
    }

    pub(super) fn answer_takeover(
        &mut self,
        key: ClientKey,
        id: OperationId,
        answer: &Answer,
        cx: &mut SessionContext<'_>,
    ) {
        let Some(SessionEntry::Takeover(taking_over)) = self.held.get_mut(&key) else { return };
        if taking_over.operation != id {
            return;
        }
        match answer {
            Answer::Put(revision) => self.take_over(key, *revision, cx),
            Answer::Got(Some((revision, value)))
                if SessionRecord::decode(value).as_ref() == Ok(&taking_over.record) =>
            {
                self.take_over(key, *revision, cx);
            }
            Answer::Unknown => {
                taking_over.operation = cx.out.ask(Purpose::Session(key), Operation::Get(Key::Session(key)));
            }
            // Another node was faster. If this claim is written late after all, garbage collection finds it.
            _ => self.drop_takeover(key),
        }
    }

    fn take_over(&mut self, key: ClientKey, revision: Revision, cx: &mut SessionContext<'_>) {
        let Some(SessionEntry::Takeover(taking_over)) = self.held.remove(&key) else { return };
        self.takeovers -= 1;
        let service = SessionService::taken_over(key, taking_over.record, revision, taking_over.before_ms, cx.now_ms);
        self.insert_service(key, service);
        self.proceed(key, cx);
    }

    pub(super) fn drop_takeover(&mut self, key: ClientKey) {
        if let Some(SessionEntry::Takeover(_)) = self.held.get(&key) {
            self.held.remove(&key);
            self.takeovers -= 1;
        }
    }
}
