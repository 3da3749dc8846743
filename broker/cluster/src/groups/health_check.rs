//! Periodic health check of all groups: removes members with ended sessions, and groups without members.
//!
//! Each group is checked by one live node. It reads the session records of members that it does not serve itself. A member whose session is
//! missing twice, [`confirm_gone_ms`](crate::Settings::confirm_gone_ms) apart, is removed as if it had unsubscribed: with the epoch that
//! the group's record had before the read. A client that has returned meanwhile is a member with a later epoch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, GroupKey, Key};
use crate::numbers::Revision;
use crate::operation::{Answer, Operation, OperationId, ScannedGroup};
use crate::outbox::Purpose;
use crate::queue::pop_front_if;
use crate::record::{SessionRecord, ShareRecord};

use super::{GroupContext, Groups};

/// Records of groups per read.
const PAGE: usize = 64;
/// Sessions that are read concurrently.
const CHECKS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct HealthCheck {
    next_at_ms: u64,
    pass: Option<Pass>,
    /// Where the next pass resumes, after one that has used up its budget.
    resume_at: Option<ResumePoint>,
    checks: BTreeMap<OperationId, Check>,
    /// Members whose sessions were missing, with the time of the second check, in order.
    suspects: VecDeque<(u64, Check)>,
    status: HealthCheckStatus,
}

/// What the health check of a node has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HealthCheckStatus {
    /// Passes through all groups.
    pub passes: u64,
    /// Passes that have used up [`group_check_members_max`](crate::Settings::group_check_members_max). The next one resumes there.
    pub cut_short: u64,
    /// Members that were removed because their sessions had ended.
    pub members_removed: u64,
    /// Groups that were removed because they had no members for long.
    pub groups_removed: u64,
    /// Records that this broker could not read.
    pub unreadable: u64,
}

/// A pass through all groups, in the order of their revisions. Records that are written meanwhile appear again later.
#[derive(Debug)]
struct Pass {
    reading: Option<OperationId>,
    after: Revision,
    page: VecDeque<ScannedGroup>,
    is_end: bool,
    seen: BTreeSet<GroupKey>,
    /// All groups up to this revision were checked.
    done: Revision,
    group: Option<MemberLookup>,
    /// The number of members that may still be checked.
    left: usize,
}

/// A group whose members are being checked.
#[derive(Debug)]
struct MemberLookup {
    key: GroupKey,
    share: Arc<str>,
    revision: Revision,
    members: VecDeque<(ClientKey, u64)>,
}

/// Where a pass was cut short: after a revision, and at a member of a group.
#[derive(Debug, Clone, Copy)]
struct ResumePoint {
    after: Revision,
    group: GroupKey,
    member: ClientKey,
}

#[derive(Debug, Clone)]
struct Check {
    group: GroupKey,
    share: Arc<str>,
    client: ClientKey,
    /// The epoch of its membership.
    epoch: u64,
    is_second: bool,
}

impl HealthCheck {
    pub(crate) fn new(now_ms: u64, every_ms: u64) -> HealthCheck {
        HealthCheck {
            next_at_ms: now_ms + every_ms,
            pass: None,
            resume_at: None,
            checks: BTreeMap::new(),
            suspects: VecDeque::new(),
            status: HealthCheckStatus::default(),
        }
    }

    pub(crate) fn status(&self) -> HealthCheckStatus {
        self.status
    }

    pub(crate) fn advance(&mut self, groups: &mut Groups, cx: &mut GroupContext<'_>) {
        // A draining or suspended node leaves the check to others.
        if !cx.takes_more {
            return;
        }
        while self.checks.len() < CHECKS_MAX
            && let Some((_, check)) = pop_front_if(&mut self.suspects, |(at_ms, _)| *at_ms <= cx.now_ms)
        {
            self.ask(check, cx);
        }
        if self.pass.is_none() && self.next_at_ms <= cx.now_ms {
            self.begin(cx);
        }
        self.proceed(groups, cx);
    }

    fn begin(&mut self, cx: &GroupContext<'_>) {
        self.next_at_ms = cx.now_ms + cx.settings.group_check_interval_ms;
        self.status.passes += 1;
        let after = self.resume_at.map_or(Revision(0), |resume_at| resume_at.after);
        self.pass = Some(Pass {
            reading: None,
            after,
            page: VecDeque::new(),
            is_end: false,
            seen: BTreeSet::new(),
            done: after,
            group: None,
            left: cx.settings.group_check_members_max,
        });
    }

    fn proceed(&mut self, groups: &mut Groups, cx: &mut GroupContext<'_>) {
        while let Some(pass) = self.pass.as_mut().filter(|_| self.checks.len() < CHECKS_MAX) {
            if let Some(lookup) = &mut pass.group {
                let Some((client, epoch)) = lookup.members.pop_front() else {
                    pass.done = lookup.revision;
                    pass.group = None;
                    continue;
                };
                if groups.serves(lookup.key, client) {
                    continue;
                }
                if pass.left == 0 {
                    self.status.cut_short += 1;
                    self.resume_at = Some(ResumePoint { after: pass.done, group: lookup.key, member: client });
                    self.pass = None;
                    return;
                }
                pass.left -= 1;
                let (group, share) = (lookup.key, lookup.share.clone());
                self.ask(Check { group, share, client, epoch, is_second: false }, cx);
            } else if let Some(scanned) = pass.page.pop_front() {
                self.check_record(scanned, groups, cx);
            } else if pass.is_end {
                (self.pass, self.resume_at) = (None, None);
            } else {
                if pass.reading.is_none() {
                    let scan = Operation::ScanGroups { after: pass.after, max: PAGE };
                    pass.reading = Some(cx.out.ask(Purpose::HealthCheck, scan));
                }
                return;
            }
        }
    }

    fn check_record(&mut self, scanned: ScannedGroup, groups: &Groups, cx: &mut GroupContext<'_>) {
        let ScannedGroup { group: key, revision, age_ms, value } = scanned;
        let Some(pass) = &mut self.pass else { return };
        if !pass.seen.insert(key) || !cx.nodes.is_assigned_here(key.0, cx.now_ms, cx.settings) {
            return;
        }
        let Ok(record) = ShareRecord::decode(&value) else {
            self.status.unreadable += 1;
            return;
        };
        // Longer than any write can be in flight that expects no record.
        let is_old_enough = u64::from(cx.settings.empty_group_s) * 1000 <= age_ms;
        if record.members.is_empty() && is_old_enough && !groups.knows(key) && !is(Mutant::KeepsEmptyGroups) {
            cx.out.ask(Purpose::HealthCheck, Operation::Remove { key: Key::Group(key), expected: revision });
        }
        let from = self.resume_at.filter(|resume_at| resume_at.group == key).map(|resume_at| resume_at.member);
        let members = record.members.into_iter().filter(|(client, _)| from.is_none_or(|from| from <= *client));
        pass.group = Some(MemberLookup { key, share: record.share.into(), revision, members: members.collect() });
    }

    fn ask(&mut self, check: Check, cx: &mut GroupContext<'_>) {
        let id = cx.out.ask(Purpose::HealthCheck, Operation::Get(Key::Session(check.client)));
        self.checks.insert(id, check);
    }

    /// Handles a page of groups, a session, or the result of removing a group.
    pub(crate) fn answer(&mut self, id: OperationId, answer: &Answer, groups: &mut Groups, cx: &mut GroupContext<'_>) {
        if let Some(check) = self.checks.remove(&id) {
            self.finish_check(check, answer, groups, cx);
        } else if let Some(pass) = self.pass.as_mut().filter(|pass| pass.reading == Some(id)) {
            pass.reading = None;
            if let Answer::ScannedGroups { records, through, is_end } = answer {
                pass.after = pass.after.max(*through);
                // Active groups are written all the time. If a page has only known groups, the pass has seen all.
                let is_new = records.is_empty() || records.iter().any(|record| !pass.seen.contains(&record.group));
                pass.is_end = *is_end || !is_new;
                pass.page.extend(records.iter().cloned());
            }
        } else if *answer == Answer::Removed {
            self.status.groups_removed += 1;
        }
        if cx.takes_more {
            self.proceed(groups, cx);
        }
    }

    fn finish_check(&mut self, check: Check, answer: &Answer, groups: &mut Groups, cx: &mut GroupContext<'_>) {
        if !is_gone(&check, answer, cx) || is(Mutant::KeepsEndedMembers) {
            return;
        }
        if check.is_second || is(Mutant::TrustsOneMissingRead) {
            self.status.members_removed += 1;
            let epoch = if is(Mutant::RemovesRejoinedMember) { u64::MAX } else { check.epoch };
            groups.forget(check.group, &check.share, check.client, epoch, cx);
        } else if self.suspects.len() < cx.settings.group_check_members_max {
            self.suspects.push_back((cx.now_ms + cx.settings.confirm_gone_ms, Check { is_second: true, ..check }));
        }
    }
}

/// Whether the session behind a membership has ended, or no longer has the subscription.
fn is_gone(check: &Check, answer: &Answer, cx: &GroupContext<'_>) -> bool {
    let Answer::Got(found) = answer else { return false };
    let Some((revision, value)) = found else { return true };
    let Ok(record) = SessionRecord::decode(value) else { return false };
    // The subscription of a session with the same claim may not have been saved yet.
    let is_later = match record.owner {
        Some(_) => check.epoch < record.claimed_at.map_or(revision.0, std::num::NonZeroU64::get),
        None => check.epoch < revision.0,
    };
    is_later && (is(Mutant::RemovesOfflineMember) || !cx.settings.shares_of.may_have(&record.state, &check.share))
}
