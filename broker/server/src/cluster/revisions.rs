//! Revisions of the shared configuration, passed from the cluster's thread to the thread that applies them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tautwire_cluster::record::ConfigPart;
use tautwire_contracts::Files;

use crate::shared::{Part, Parts, Shared};

/// The name prefix of a part that is a file of the contracts folder.
const FILE_PREFIX: &str = "contracts/";

/// The known revisions, and the one in effect on this node.
#[derive(Default)]
pub(super) struct Revisions {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The last revision that could be read.
    seen: Arc<Shared>,
    /// The revision in effect.
    held: Arc<Shared>,
    /// The number of the last revision that was applied or refused.
    settled: u64,
    /// The pending task of the applying thread.
    work: Option<RevisionTask>,
    /// Why the latest revision is not in effect.
    refused: Option<RefusedRevision>,
    /// The number of revisions refused since the broker started.
    refusals: u64,
    is_over: bool,
}

/// A revision that this broker does not apply, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedRevision {
    /// `None` if not even the number can be read.
    pub(super) number: Option<u64>,
    pub(super) why: Vec<String>,
}

enum RevisionTask {
    Apply(Arc<Shared>),
    /// The revision needs a newer broker.
    Refuse(u64),
}

/// The state of the revisions.
pub(super) struct RevisionStatus {
    pub(super) held: Arc<Shared>,
    pub(super) refused: Option<RefusedRevision>,
    pub(super) refusals: u64,
}

impl Revisions {
    /// Offers a new revision of the cluster. It replaces one that is still pending.
    pub(super) fn offer(&self, number: u64, parts: &[ConfigPart]) {
        let mut state = self.state();
        match read(parts) {
            Ok(parts) => {
                state.seen = Arc::new(Shared { number, parts });
                // It replaces whatever was refused before.
                if let Some(refused) = &mut state.refused {
                    refused.number = Some(number);
                }
                state.work = Some(RevisionTask::Apply(state.seen.clone()));
            }
            Err(why) => {
                state.refuse(RefusedRevision { number: Some(number), why: vec![why] });
                state.work = Some(RevisionTask::Refuse(number));
                state.settled = number;
            }
        }
        self.changed.notify_all();
    }

    /// Records that the cluster has a revision that cannot be read.
    pub(super) fn mark_unsupported(&self) {
        let why = "it is in a newer format; upgrade this broker [cluster_configuration]".to_owned();
        self.state().refuse(RefusedRevision { number: None, why: vec![why] });
        self.changed.notify_all();
    }

    /// Retries a refused revision after a local change.
    pub(super) fn retry_refused(&self) {
        let mut state = self.state();
        let seen = state.seen.clone();
        if state.refused.as_ref().is_some_and(|refused| refused.number == Some(seen.number)) && state.work.is_none() {
            state.work = Some(RevisionTask::Apply(seen));
            self.changed.notify_all();
        }
    }

    /// Applies revisions until the end. `answer` reports to the cluster whether each one is in effect.
    pub(super) fn apply(&self, apply: impl Fn(&Arc<Shared>) -> Result<(), Vec<String>>, answer: impl Fn(u64, bool)) {
        loop {
            let mut state = self.state();
            let work = loop {
                match state.work.take() {
                    _ if state.is_over => return,
                    Some(work) => break work,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            let is_unchanged = matches!(&work, RevisionTask::Apply(next) if *next == state.held);
            drop(state);
            match work {
                RevisionTask::Refuse(number) => answer(number, false),
                RevisionTask::Apply(next) => {
                    let result = if is_unchanged { Ok(()) } else { apply(&next) };
                    let (number, is_applied) = (next.number, result.is_ok());
                    self.settle(next, result);
                    answer(number, is_applied);
                }
            }
        }
    }

    fn settle(&self, next: Arc<Shared>, result: Result<(), Vec<String>>) {
        let number = next.number;
        let mut state = self.state();
        match result {
            Ok(()) => {
                if *next != *state.held {
                    let parts: Vec<_> = next.parts.names().collect();
                    let shared = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
                    log::info!("revision {number} of the cluster's configuration is in effect; it shares {shared}");
                }
                state.held = next;
                // The refusal of a later revision remains.
                if state.refused.as_ref().is_some_and(|refused| (1..=number).contains(&refused.number.unwrap_or(0))) {
                    state.refused = None;
                }
            }
            Err(why) => state.refuse(RefusedRevision { number: Some(number), why }),
        }
        state.settled = number;
        self.changed.notify_all();
    }

    /// The last revision that could be read.
    pub(super) fn seen(&self) -> Arc<Shared> {
        self.state().seen.clone()
    }

    /// The same, after waiting for this number or a later one, until the deadline.
    pub(super) fn await_revision_seen(&self, number: u64, deadline: Instant) -> Arc<Shared> {
        self.wait(deadline, |state| state.seen.number >= number).seen.clone()
    }

    /// Waits until this or a later revision has been applied or refused, or until the deadline.
    pub(super) fn await_applied(&self, number: u64, deadline: Instant) {
        drop(self.wait(deadline, |state| state.settled >= number));
    }

    pub(super) fn status(&self) -> RevisionStatus {
        let state = self.state();
        RevisionStatus { held: state.held.clone(), refused: state.refused.clone(), refusals: state.refusals }
    }

    /// Stops applying revisions.
    pub(super) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    fn wait(&self, deadline: Instant, is_done: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.state(), left, |state| !is_done(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuse(&mut self, refused: RefusedRevision) {
        if self.refused.as_ref() == Some(&refused) {
            return;
        }
        let number = refused.number.map_or("the latest revision".to_owned(), |number| format!("revision {number}"));
        refused.why.iter().for_each(|line| log::error!("{number} of the cluster's configuration: {line}"));
        log::error!(
            "cannot apply {number} of the cluster's configuration: this broker keeps its current configuration and accepts no new clients \
             [cluster_configuration]"
        );
        self.refusals += 1;
        self.refused = Some(refused);
    }
}

/// Decodes the parts of a revision.
fn read(parts: &[ConfigPart]) -> Result<Parts, String> {
    let mut read = Parts::default();
    for ConfigPart { name, bytes } in parts {
        let newer = || format!("unknown part {name:?}; upgrade this broker [cluster_configuration]");
        let text = || String::from_utf8(bytes.clone()).map_err(|_| newer());
        match (Part::of(name), name.strip_prefix(FILE_PREFIX)) {
            (Some(Part::Acl), _) => read.acl = Some(text()?),
            (Some(Part::Users), _) => read.users = Some(text()?),
            (Some(Part::Bans), _) => read.bans = Some(text()?),
            (Some(Part::Contracts), _) if bytes.is_empty() => drop(read.contracts.get_or_insert_with(Files::new)),
            (None, Some(path)) => drop(read.contracts.get_or_insert_with(Files::new).insert(path.to_owned(), text()?)),
            _ => return Err(newer()),
        }
    }
    Ok(read)
}

/// Encodes the parts for the store.
pub(super) fn to_config_parts(parts: &Parts) -> Vec<ConfigPart> {
    let part = |name: &str, text: &str| ConfigPart { name: name.to_owned(), bytes: text.as_bytes().to_vec() };
    let mut encoded: Vec<ConfigPart> = parts.texts().map(|(name, text)| part(name.name(), text)).collect();
    if let Some(files) = &parts.contracts {
        // A folder without files is shared as well.
        encoded.push(part(Part::Contracts.name(), ""));
        encoded.extend(files.iter().map(|(path, text)| part(&format!("{FILE_PREFIX}{path}"), text)));
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    fn users(text: &str) -> Parts {
        Parts { users: Some(text.to_owned()), ..Parts::default() }
    }

    /// Runs the pending task, and returns the answers to the cluster.
    fn work(revisions: &Revisions, is_good: bool) -> Vec<(u64, bool)> {
        let answers = RefCell::new(Vec::new());
        let apply = |_: &Arc<Shared>| if is_good { Ok(()) } else { Err(vec!["wrong".to_owned()]) };
        revisions.apply(apply, |number, is_applied| {
            answers.borrow_mut().push((number, is_applied));
            revisions.end();
        });
        revisions.state().is_over = false;
        answers.into_inner()
    }

    #[test]
    fn a_revision_round_trips() {
        let files: Files = [("contracts.toml", "x"), ("managed/a.toml", "ü")].map(|(a, b)| (a.into(), b.into())).into();
        for contracts in [None, Some(Files::new()), Some(files)] {
            let bans = Some("{}".to_owned());
            let parts = Parts { acl: Some("rules".to_owned()), users: None, contracts, bans };
            assert!(read(&to_config_parts(&parts)) == Ok(parts));
        }
    }

    #[test]
    fn an_unknown_part_needs_a_newer_broker() {
        for (name, bytes) in [("quotas", &b""[..]), ("acl", b"\xff"), ("contracts", b"x")] {
            let revisions = Revisions::default();
            revisions.offer(4, &[ConfigPart { name: name.to_owned(), bytes: bytes.to_vec() }]);
            assert_eq!(work(&revisions, true), [(4, false)]);
            let RevisionStatus { held, refused, refusals } = revisions.status();
            assert_eq!((held.number, refusals), (0, 1));
            let refused = refused.expect("it is refused");
            assert_eq!(refused.number, Some(4));
            assert!(refused.why[0].contains("upgrade this broker"), "{:?}", refused.why);
        }
    }

    #[test]
    fn a_refused_revision_is_retried_and_then_applied() {
        let revisions = Revisions::default();
        revisions.offer(1, &to_config_parts(&users("ann:x")));
        assert_eq!(work(&revisions, false), [(1, false)]);
        assert!(revisions.status().refused.is_some_and(|refused| refused.why == ["wrong"]));
        revisions.retry_refused();
        assert_eq!(work(&revisions, true), [(1, true)]);
        let RevisionStatus { held, refused, refusals } = revisions.status();
        assert_eq!((held.number, refused, refusals), (1, None, 1));
        // Nothing is left to retry.
        revisions.retry_refused();
        assert!(revisions.state().work.is_none());
    }

    #[test]
    fn the_next_incarnation_knows_the_applied_revision() {
        let revisions = Revisions::default();
        for is_good in [true, false] {
            revisions.offer(1, &to_config_parts(&users("ann:x")));
            assert_eq!(work(&revisions, is_good), [(1, true)]);
        }
        // The same number in a store that was recreated is another revision.
        revisions.offer(1, &to_config_parts(&users("bob:x")));
        assert_eq!(work(&revisions, false), [(1, false)]);
        assert_eq!(revisions.status().held.parts, users("ann:x"));
    }

    #[test]
    fn a_later_revision_unblocks_an_earlier_one() {
        let revisions = Revisions::default();
        revisions.offer(1, &to_config_parts(&users("a")));
        work(&revisions, false);
        revisions.mark_unsupported();
        assert!(revisions.status().refused.is_some_and(|refused| refused.number.is_none()));
        revisions.offer(2, &to_config_parts(&users("b")));
        assert_eq!(work(&revisions, true), [(2, true)]);
        assert_eq!(revisions.status().refused, None);
    }

    #[test]
    fn an_applied_revision_is_not_awaited() {
        let revisions = Revisions::default();
        revisions.offer(2, &to_config_parts(&users("a")));
        let now = Instant::now();
        assert_eq!(revisions.await_revision_seen(2, now + Duration::from_secs(60)).number, 2);
        assert_eq!(revisions.await_revision_seen(3, now).number, 2);
        work(&revisions, false);
        revisions.await_applied(2, now + Duration::from_secs(60));
    }
}
