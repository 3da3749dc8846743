//! Garbage collection of sessions without a live owner.
//!
//! After the removal of a node, all live nodes collect. At first each leaves sessions in the share of another node to that node; later it
//! takes the rest. A compare-and-set of the record decides who frees it, so shares only save work. A pass through all sessions that finds
//! none of a removed incarnation proves that its record can be deleted: a dead node writes nothing any more except late claims, and these
//! need no removal record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Incarnation, Key};
use crate::numbers::Revision;
use crate::operation::{Answer, Operation, OperationId, Scanned};
use crate::outbox::Purpose;
use crate::record::SessionRecord;
use crate::sessions::{CollectionResult, SessionContext, Sessions};

#[derive(Debug)]
pub(crate) struct GarbageCollector {
    pass: Option<Pass>,
    /// The earliest time of the next pass.
    next_at_ms: u64,
    /// The time of the next pass even if no node was removed.
    next_collection_at_ms: u64,
    /// The time since which removed incarnations are known.
    since_ms: BTreeMap<Incarnation, u64>,
    /// Sessions that are being freed.
    freeing: BTreeSet<ClientKey>,
    status: GarbageCollectorStatus,
}

/// What the garbage collector of a node has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GarbageCollectorStatus {
    /// Passes through all sessions.
    pub passes: u64,
    /// Sessions that were freed or removed.
    pub freed: u64,
    /// Sessions that this node has taken over because of their wills.
    pub taken_over: u64,
    /// Records that this broker could not read.
    pub unreadable: u64,
    /// Times a pass has waited because `collections_max` sessions were being freed.
    pub waits: u64,
}

/// A pass through all sessions, in the order of their revisions. Records that are written meanwhile appear again later.
#[derive(Debug)]
struct Pass {
    reading: Option<OperationId>,
    after: Revision,
    page: VecDeque<Scanned>,
    is_end: bool,
    /// The nodes that were removed when the pass began, and how many sessions have named each.
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
        let is_periodic = self.next_collection_at_ms <= cx.now_ms;
        if dead.is_empty() && !is_periodic {
            return;
        }
        if is_periodic {
            self.next_collection_at_ms = cx.now_ms + cx.settings.collection_interval_ms;
            // Finds nodes whose changes were not reported.
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
                // The owner is unknown, so no removal record may be deleted.
                pass.dead.values_mut().for_each(|(_, found)| *found += 1);
                continue;
            };
            match check_record(pass, &self.since_ms, &scanned, record, sessions, cx) {
                CollectionResult::Nothing => {}
                CollectionResult::Freed => {
                    self.status.freed += 1;
                    self.freeing.insert(scanned.client);
                }
                CollectionResult::TakenOver => self.status.taken_over += 1,
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
            if found == 0 || is(Mutant::DeletesRecordTooEarly) {
                let remove = Operation::Remove { key: Key::Node(node), expected: revision };
                cx.out.ask(Purpose::Forgetting(node), remove);
            }
        }
    }

    /// Handles a page of sessions.
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

    /// A session was freed, or not: then the next pass finds it again.
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
) -> CollectionResult {
    let Some(owner) = record.owner.map(|claim| claim.by) else {
        // The former owner has left a will to the next owner, which does not exist yet.
        let is_left = record.will.is_some() || !record.due.is_empty();
        return if is_left { sessions.collect_garbage(scanned, record, None, cx) } else { CollectionResult::Nothing };
    };
    if let Some((_, found)) = pass.dead.get_mut(&owner) {
        *found += 1;
        let is_shared = since_ms.get(&owner).is_some_and(|since_ms| cx.now_ms < since_ms + cx.settings.share_ms);
        let is_mine = cx.nodes.is_assigned_here(scanned.client.0, cx.now_ms, cx.settings);
        if !is_mine && (is_shared || is(Mutant::CollectsOnlyItsShare)) {
            return CollectionResult::Nothing;
        }
        let ends = cx.nodes.ends(owner).cloned();
        return match ends {
            Some(ends) => sessions.collect_garbage(scanned, record, Some(&ends), cx),
            None => CollectionResult::Nothing,
        };
    }
    if owner == cx.me || cx.nodes.is_deleted(owner) {
        // A claim that came too late.
        return sessions.collect_garbage(scanned, record, None, cx);
    }
    if !cx.nodes.is_known(owner) {
        cx.out.ask(Purpose::NodeCheck(owner), Operation::Get(Key::Node(owner)));
    }
    CollectionResult::Nothing
}
