//! Tests the removal of members whose sessions have ended unnoticed, and of groups without members.

use std::num::NonZeroU64;

use tautwire_cluster::mutant::Mutant;
use tautwire_cluster::names::{GroupKey, Key};
use tautwire_cluster::record::{Claim, Place, SessionRecord, ShareRecord};
use tautwire_cluster::{Answer, Decision, Operation, Revision, ScannedGroup, Settings, SharesOf, Start};

use crate::node::{Node, SEED, is_found, life};

const SHARE: &str = "$share/g/a/+";

/// A state contains the subscription if its bytes name it.
fn shares_of(state: &[u8]) -> Option<Vec<String>> {
    match state {
        b"member" => Some(vec![SHARE.to_owned()]),
        b"broken" => None,
        _ => Some(Vec::new()),
    }
}

fn settings() -> Settings {
    // No other background checks run, and the lease is valid.
    Settings {
        shares_of: SharesOf(shares_of),
        collection_interval_ms: u64::MAX / 2,
        lease_ms: u64::MAX / 2,
        ..Settings::default()
    }
}

fn key() -> GroupKey {
    SEED.group(SHARE)
}

fn group_of(members: &[(&str, u64)]) -> ShareRecord {
    let members = members.iter().map(|(name, epoch)| (SEED.client(name), *epoch)).collect();
    ShareRecord { members, ..ShareRecord::new(SHARE, [Place::START; 16]) }
}

fn session(owner: Option<u64>, claimed_at: u64, state: &[u8]) -> Vec<u8> {
    let record = SessionRecord {
        client_id: "a".to_owned(),
        epoch: 1,
        write: 1,
        claimed_at: NonZeroU64::new(claimed_at),
        owner: owner.map(|number| Claim { by: life(7), number }),
        taken: Vec::new(),
        expiry_s: 100,
        away_ms: None,
        will: None,
        due: Vec::new(),
        state: state.to_vec(),
    };
    record.encode()
}

fn is_scan(operation: &Operation) -> bool {
    matches!(operation, Operation::ScanGroups { .. })
}

fn is_check(operation: &Operation) -> bool {
    matches!(operation, Operation::Get(Key::Session(_)))
}

impl Node {
    fn asks(&self, which: fn(&Operation) -> bool) -> usize {
        self.asked.values().filter(|operation| which(operation)).count()
    }

    /// The next pass begins, and finds one group.
    fn finds(&mut self, record: &ShareRecord, age_ms: u64) {
        self.advance(settings().group_check_interval_ms);
        let value = record.encode();
        let records = vec![ScannedGroup { group: key(), revision: Revision(9), age_ms, value }];
        self.answer(is_scan, Answer::ScannedGroups { records, through: Revision(9), is_end: true });
    }

    /// Whether the member "a" with epoch 5 is removed if the store has this session record.
    fn removes(found: Option<(u64, Vec<u8>)>) -> bool {
        let mut node = Node::begin(settings());
        let record = group_of(&[("a", 5), ("b", 6)]);
        node.finds(&record, 0);
        let found = Answer::Got(found.map(|(revision, value)| (Revision(revision), value)));
        let of_a = |operation: &Operation| *operation == Operation::Get(Key::Session(SEED.client("a")));
        node.answer(of_a, found.clone());
        node.answer(is_check, Answer::Unknown);
        assert!(!node.asked.values().any(is_of_group), "one check is not enough");
        node.advance(settings().confirm_gone_ms);
        if !node.asked.values().any(of_a) {
            return false;
        }
        node.answer(of_a, found);
        node.answer(is_of_group, Answer::Got(Some((Revision(9), record.encode()))));
        let written = node.asked.values().find_map(|operation| match operation {
            Operation::Put { key: Key::Group(_), expected: Some(Revision(9)), value } => Some(value.clone()),
            _ => None,
        });
        assert_eq!(ShareRecord::decode(&written.expect("it is written")), Ok(group_of(&[("b", 6)])));
        true
    }
}

fn is_of_group(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Get(Key::Group(_)) | Operation::Put { key: Key::Group(_), .. } | Operation::Remove { .. }
    )
}

#[test]
fn a_member_without_a_session_or_subscription_is_removed() {
    assert!(Node::removes(None), "it has expired, or was removed by a dead node's successor");
    assert!(Node::removes(Some((8, session(None, 5, b"other")))), "it was written without the subscription");
    assert!(Node::removes(Some((8, session(None, 7, b"")))), "it is none");
    assert!(Node::removes(Some((8, session(Some(1), 7, b"other")))), "another claim has it, without the subscription");
    assert!(Node::removes(Some((7, session(Some(1), 0, b"other")))), "the same, and that claim is the record");
}

#[test]
fn a_member_whose_session_may_have_the_subscription_stays() {
    assert!(!Node::removes(Some((8, session(None, 5, b"member")))), "its client is away");
    assert!(!Node::removes(Some((8, session(Some(1), 7, b"member")))), "another node serves it");
    assert!(!Node::removes(Some((8, session(Some(1), 5, b"other")))), "it has just subscribed and is not saved yet");
    assert!(!Node::removes(Some((5, session(Some(1), 0, b"other")))), "the same, with the claim that it subscribed by");
    assert!(!Node::removes(Some((4, session(None, 3, b"other")))), "the record is older than the member");
    assert!(!Node::removes(Some((8, session(None, 5, b"broken")))), "its subscriptions are unknown");
}

#[test]
fn a_member_that_has_rejoined_meanwhile_stays() {
    let mut node = Node::begin(settings());
    node.finds(&group_of(&[("a", 5)]), 0);
    node.answer(is_check, Answer::Got(None));
    node.advance(settings().confirm_gone_ms);
    node.answer(is_check, Answer::Got(None));
    node.answer(is_of_group, Answer::Got(Some((Revision(10), group_of(&[("a", 11)]).encode()))));
    assert_eq!(node.asks(is_of_group), 0, "nothing is written");
    assert_eq!(node.member.groups(), 0);
}

#[test]
fn a_pass_that_exhausts_its_budget_is_continued_by_the_next() {
    let mut node = Node::begin(Settings { group_check_members_max: 2, ..settings() });
    let names = ["a", "b", "c", "d", "e"];
    let record = group_of(&names.map(|name| (name, 5)));
    let mut last_check = Vec::new();
    for _ in 0..3 {
        node.finds(&record, 0);
        for operation in node.asked.values() {
            if let Operation::Get(Key::Session(client)) = operation {
                last_check.push(*client);
            }
        }
        while node.asks(is_check) > 0 {
            node.answer(is_check, Answer::Got(Some((Revision(5), session(None, 5, b"member")))));
        }
    }
    assert_eq!(last_check, record.members.keys().copied().collect::<Vec<_>>(), "each once");
    let status = node.member.status(node.now_ms).health_check;
    assert_eq!((status.passes, status.cut_short), (3, 2));
}

#[test]
fn the_record_of_a_group_without_members_is_deleted_later() {
    let age_ms = u64::from(settings().empty_group_s) * 1000;
    for (members, age_ms, goes) in
        [(&[][..], age_ms, true), (&[][..], age_ms - 1, false), (&[("a", 5)][..], age_ms, false)]
    {
        let mut node = Node::begin(settings());
        node.finds(&group_of(members), age_ms);
        let remove = Operation::Remove { key: Key::Group(key()), expected: Revision(9) };
        assert_eq!(node.asked.values().any(|operation| *operation == remove), goes);
        if goes {
            node.answer(is_of_group, Answer::Removed);
            assert_eq!(node.member.status(node.now_ms).health_check.groups_removed, 1);
        }
    }
}

#[test]
fn a_clean_start_ends_memberships_of_the_previous_session() {
    for (start, is_forgotten) in [(Start::Clean, true), (Start::Resume, false)] {
        let mut node = Node::begin(settings());
        node.member.claim(0, 1, "a", start);
        node.collect();
        node.answer(is_check, Answer::Got(Some((Revision(8), session(None, 5, b"member")))));
        node.answer(
            |operation| matches!(operation, Operation::Put { key: Key::Session(_), .. }),
            Answer::Put(Revision(12)),
        );
        assert!(node.decisions.iter().any(|decision| matches!(decision, Decision::Serve { epoch: 12, .. })));
        assert_eq!(node.asks(is_of_group), usize::from(is_forgotten));
        if is_forgotten {
            // It subscribes again before the group was read, and is a member with its new session.
            node.member.join(0, SEED.client("a"), 12, SHARE);
            node.collect();
            node.answer(is_of_group, Answer::Got(Some((Revision(9), group_of(&[("a", 5)]).encode()))));
            let written = node.asked.values().find_map(|operation| match operation {
                Operation::Put { key: Key::Group(_), value, .. } => ShareRecord::decode(value).ok(),
                _ => None,
            });
            assert_eq!(written.map(|record| record.members), Some([(SEED.client("a"), 12)].into()));
        }
    }
}

#[test]
fn a_health_check_that_removes_too_much_or_too_little_is_found() {
    let gone: fn() = a_member_without_a_session_or_subscription_is_removed;
    is_found(Mutant::KeepsEndedMembers, gone);
    is_found(Mutant::TrustsOneMissingRead, gone);
    is_found(Mutant::RemovesOfflineMember, a_member_whose_session_may_have_the_subscription_stays);
    is_found(Mutant::RemovesRejoinedMember, a_member_that_has_rejoined_meanwhile_stays);
    is_found(Mutant::KeepsEmptyGroups, the_record_of_a_group_without_members_is_deleted_later);
}
