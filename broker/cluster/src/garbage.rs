//! Verifying through all sessions for those that nobody sees to.
//!
//! After a burial, all living nodes do so. For a while each leaves the sessions of the others' share to them; then it takes what is left. The CAS
//! of a record decides who frees it, so shares only save work. A pass that has gone through all sessions and has found none of a buried life
//! is the proof that its record can go: a dead node writes nothing any more but claims that come too late, and these need no burial record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, Key};
use crate::operation::{Answer, Operation, OperationId, Revision, Scanned};
use crate::outbox::Purpose;
use crate::record::SessionRecord;
use crate::sessions::{Collected, SessionContext, Sessions};

#[derive(Debug)]
pub(crate) struct GarbageCollector {
    pass: Option<Pass>,
    /// When the next pass may begin.
    next_at_ms: u64,
    /// When the next one is due, whether anybody has been buried or not.
    next_collection_at_ms: u64,
    /// Since when lives are known to be buried.
    since_ms: BTreeMap<Incarnation, u64>,
    /// Sessions that are being freed.
    freeing: BTreeSet<ClientKey>,
    status: GarbageCollectorStatus,
}

/// What a node has done for sessions that nobody saw to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GarbageCollectorStatus {
    /// Passes through all sessions.
    pub passes: u64,
    /// Sessions that were freed or removed.
    pub freed: u64,
    /// Sessions that this node has taken on because of their wills.
    pub taken_over: u64,
    /// Records that this broker could not read.
    pub unreadable: u64,
    /// How often a pass has waited because `collections_max` were under way.
    pub waits: u64,
}

/// One way through all sessions, in the order of their revisions. Whatever is written meanwhile comes again further on.
#[derive(Debug)]
struct Pass {
    reading: Option<OperationId>,
    after: Revision,
    page: VecDeque<Scanned>,
    is_end: bool,
    /// Who was buried when it began, and how many sessions have named each.
    dead: BTreeMap<Incarnation, (Revision, u64)>,
}

impl GarbageCollector {
    pub(crate) fn new(now_ms: u64, collection_interval_ms: u64) -> GarbageCollector {
        GarbageCollector {
            pass: None,
            next_at_ms: now_ms,
            next_collection_at_ms: now_ms + collection_interval_ms,
            since_ms: BTreeMap::new(),
            freeing: BTreeSet::new(),
            status: GarbageCollectorStatus::default(),
        }
    }

    pub(crate) fn status(&self) -> GarbageCollectorStatus {
        self.status
    }

    pub(crate) fn advance(&mut self, sessions: &mut Sessions, cx: &mut SessionContext<'_>) {
        if !cx.is_serving {
            return;
        }
        if self.pass.is_none() && self.next_at_ms <= cx.now_ms {
            self.begin(cx);
        }
        self.proceed(sessions, cx);
    }

    fn begin(&mut self, cx: &mut SessionContext<'_>) {
        let dead: BTreeMap<_, _> = cx.nodes.removed().map(|(node, revision)| (node, (revision, 0))).collect();
        self.since_ms.retain(|node, _| dead.contains_key(node));
        dead.keys().for_each(|node| {
            self.since_ms.entry(*node).or_insert(cx.now_ms);
        });
        let is_patrol = self.next_collection_at_ms <= cx.now_ms;
        if dead.is_empty() && !is_patrol {
            return;
        }
        if is_patrol {
            self.next_collection_at_ms = cx.now_ms + cx.settings.collection_interval_ms;
            // Whatever has not been reported is found now.
            cx.out.ask(Purpose::Nodes, Operation::Nodes);
        }
        self.status.passes += 1;
        self.pass = Some(Pass { reading: None, after: Revision(0), page: VecDeque::new(), is_end: false, dead });
    }

    fn proceed(&mut self, sessions: &mut Sessions, cx: &mut SessionContext<'_>) {
        let Some(pass) = self.pass.as_mut().filter(|_| cx.is_serving) else { return };
        while let Some(scanned) = pass.page.pop_front() {
            if cx.settings.collections_max <= self.freeing.len() + sessions.takeovers() {
                pass.page.push_front(scanned);
                self.status.waits += 1;
                return;
            }
            let Ok(record) = SessionRecord::decode(&scanned.value) else {
                self.status.unreadable += 1;
                // Nobody knows whose it is, so no burial record may go.
                pass.dead.values_mut().for_each(|(_, found)| *found += 1);
                continue;
            };
            match check_record(pass, &self.since_ms, &scanned, record, sessions, cx) {
                Collected::Nothing => {}
                Collected::Freed => {
                    self.status.freed += 1;
                    self.freeing.insert(scanned.client);
                }
                Collected::TakenOver => self.status.taken_over += 1,
            }
        }
        if pass.is_end {
            return self.end(cx);
        }
        if pass.reading.is_none() {
            let scan = Operation::Scan { after: pass.after, max: cx.settings.scan_page };
            pass.reading = Some(cx.out.ask(Purpose::GarbageCollection, scan));
        }
    }

    fn end(&mut self, cx: &mut SessionContext<'_>) {
        let Some(pass) = self.pass.take() else { return };
        self.next_at_ms = cx.now_ms + cx.settings.share_ms;
        for (node, (revision, found)) in pass.dead {
            if found == 0 || is(Mutant::ForgetsTooEarly) {
                let remove = Operation::Remove { key: Key::Node(node), expected: revision };
                cx.out.ask(Purpose::Forgetting(node), remove);
            }
        }
    }

    /// A page of sessions has come.
    pub(crate) fn answer(
        &mut self,
        id: OperationId,
        answer: &Answer,
        sessions: &mut Sessions,
        cx: &mut SessionContext<'_>,
    ) {
        let Some(pass) = self.pass.as_mut().filter(|pass| pass.reading == Some(id)) else { return };
        pass.reading = None;
        if let Answer::Scanned { records, through, is_end } = answer {
            pass.after = pass.after.max(*through);
            pass.is_end = *is_end;
            pass.page.extend(records.iter().cloned());
        }
        self.proceed(sessions, cx);
    }

    /// A session has been freed, or not: then the next pass finds it again.
    pub(crate) fn freed(&mut self, key: ClientKey, sessions: &mut Sessions, cx: &mut SessionContext<'_>) {
        self.freeing.remove(&key);
        self.proceed(sessions, cx);
    }
}

fn check_record(
    pass: &mut Pass,
    since_ms: &BTreeMap<Incarnation, u64>,
    scanned: &Scanned,
    record: SessionRecord,
    sessions: &mut Sessions,
    cx: &mut SessionContext<'_>,
) -> Collected {
    let Some(owner) = record.owner.map(|claim| claim.by) else {
        // Who has released it has left a will to the next one, and that one has not come.
        let is_left = record.will.is_some() || !record.due.is_empty();
        return if is_left { sessions.collect_garbage(scanned, record, None, cx) } else { Collected::Nothing };
    };
    if let Some((_, found)) = pass.dead.get_mut(&owner) {
        *found += 1;
        let is_shared = since_ms.get(&owner).is_some_and(|since_ms| cx.now_ms < since_ms + cx.settings.share_ms);
        let is_mine = cx.nodes.is_assigned_here(scanned.client.0, cx.now_ms, cx.settings);
        if !is_mine && (is_shared || is(Mutant::SweepsOnlyItsShare)) {
            return Collected::Nothing;
        }
        let ends = cx.nodes.ends(owner).cloned();
        return match ends {
            Some(ends) => sessions.collect_garbage(scanned, record, Some(&ends), cx),
            None => Collected::Nothing,
        };
    }
    if owner == cx.me || cx.nodes.is_gone(owner) {
        // A claim that came too late.
        return sessions.collect_garbage(scanned, record, None, cx);
    }
    if !cx.nodes.is_known(owner) {
        cx.out.ask(Purpose::NodeCheck(owner), Operation::Get(Key::Node(owner)));
    }
    Collected::Nothing
}
