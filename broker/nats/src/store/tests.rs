//! Tests against real servers what the simulation of `broker/cluster` assumes about them.

use std::time::Duration;

use futures_util::StreamExt;
use tautwire_cluster::names::{ClientKey, GroupKey, Incarnation, Partition};
use tautwire_cluster::record::{Body, Group};

use super::*;
use crate::clock::now_ms;
use crate::connection::connect;
use crate::records::Page;
use crate::servers::{Config, PATIENCE, Servers, program};
use crate::settings::{Access, Credentials, Limits, Settings, Storage, Syncing, Tls};
use crate::setup::prepare;
use crate::{log, records, retained};

/// A store with its subscription.
struct TestStore {
    client: Client,
    store: Store,
    answers: async_nats::Subscriber,
    last: u64,
}

fn settings(addresses: &str, servers: &Servers) -> Settings {
    Settings {
        access: Access {
            servers: crate::Address::list(addresses).expect("addresses"),
            credentials: Credentials::None,
            tls: Tls::default(),
        },
        node_name: "test".to_owned(),
        member: tautwire_cluster::Settings::default(),
        storage: Storage {
            syncing: Syncing::Monitored(servers.monitoring()),
            log_max_bytes: 64 * 1024 * 1024,
            ..Storage::default()
        },
        times: Times::default(),
        limits: Limits::default(),
    }
}

impl TestStore {
    async fn open(addresses: &str, servers: &Servers) -> TestStore {
        let settings = settings(addresses, servers);
        let (counters, connected) = (Arc::default(), Arc::default());
        let Settings { access, node_name, times, limits, .. } = &settings;
        let client = connect(access, node_name, times, limits, &counters, &connected).await.expect("a connection");
        // Servers may need a moment for new streams.
        let prepared = async {
            while let Err(error) = prepare(&client, &settings).await {
                assert!(error.is_transient(), "{error}");
            }
        };
        tokio::time::timeout(PATIENCE, prepared).await.expect("setup succeeds");
        let inbox = client.new_inbox();
        let answers = client.subscribe(format!("{inbox}.*")).await.expect("a subscription");
        let store = Store::new(client.clone(), inbox, times, counters);
        TestStore { client, store, answers, last: 0 }
    }

    fn begin(&mut self, operation: Operation) -> OperationId {
        self.last += 1;
        let id = OperationId(self.last);
        self.store.begin(now_ms(), id, operation);
        id
    }

    async fn next(&mut self) -> (OperationId, Answer) {
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        loop {
            tokio::select! {
                Some(message) = self.answers.next() => {
                    if let Some(answer) = self.store.take(now_ms(), &message) {
                        return answer;
                    }
                }
                _ = tick.tick() => {
                    self.store.connected(now_ms());
                    if let Some(answer) = self.store.next_expired(now_ms()) {
                        return answer;
                    }
                }
            }
        }
    }

    async fn ask(&mut self, operation: Operation) -> Answer {
        let id = self.begin(operation);
        let (of, answer) = self.next().await;
        assert_eq!(of, id);
        answer
    }

    /// Repeats an operation until its outcome is known.
    async fn ask_on(&mut self, operation: Operation) -> Answer {
        let asked = async {
            loop {
                match self.ask(operation.clone()).await {
                    Answer::Unknown => {}
                    answer => return answer,
                }
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("an answer")
    }
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work);
}

fn writer(number: u64) -> Incarnation {
    Incarnation(std::num::NonZeroU64::new(number).expect("not 0"))
}

fn subject(number: u64) -> LogSubject {
    LogSubject { partition: Partition::new(0).expect("a partition"), writer: writer(number) }
}

fn group(number: u64) -> Vec<u8> {
    let body = Body::Messages { messages: vec![b"message".to_vec()], to_retain: Vec::new() };
    Group { number, ordinal: 0, unsettled: None, body }.encode()
}

fn fence(number: u64) -> Vec<u8> {
    Group { number, ordinal: 0, unsettled: None, body: Body::Fence }.encode()
}

fn append(writer: u64, expected: Option<Sequence>, group: Vec<u8>) -> Operation {
    Operation::Append { subject: subject(writer), expected, group }
}

fn put(key: Key, expected: Option<Revision>, value: &[u8]) -> Operation {
    Operation::Put { key, expected, value: value.to_vec() }
}

fn appended(answer: &Answer) -> Sequence {
    match answer {
        Answer::Appended(sequence) => *sequence,
        other => panic!("not appended: {other:?}"),
    }
}

fn revision(answer: &Answer) -> Revision {
    match answer {
        Answer::Put(revision) => *revision,
        other => panic!("not written: {other:?}"),
    }
}

#[test]
fn a_key_is_written_only_with_its_current_revision() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    run(async {
        let mut test_store = TestStore::open(&servers.addresses(), &servers).await;
        let key = Key::Node(writer(1));
        assert_eq!(test_store.ask(Operation::Get(key)).await, Answer::Got(None));
        let first = revision(&test_store.ask(put(key, None, b"a")).await);
        assert_eq!(test_store.ask(put(key, None, b"b")).await, Answer::Conflict, "the key exists");
        assert_eq!(test_store.ask(Operation::Get(key)).await, Answer::Got(Some((first, b"a".to_vec()))));
        let second = revision(&test_store.ask(put(key, Some(first), b"c")).await);
        assert_eq!(test_store.ask(put(key, Some(first), b"d")).await, Answer::Conflict, "the key has another revision");
        assert_eq!(test_store.ask(Operation::Get(key)).await, Answer::Got(Some((second, b"c".to_vec()))));

        // Removed with a marker, as bucket tools do it.
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        let removed = test_store.client.request_with_headers(format!("$KV.{key}"), headers, Vec::new().into()).await;
        parse_written(&removed.expect("an answer").payload).expect("removed");
        assert_eq!(test_store.ask(Operation::Get(key)).await, Answer::Got(None));
        assert_eq!(test_store.ask(put(key, Some(second), b"e")).await, Answer::Conflict);
        let third = revision(&test_store.ask(put(key, None, b"f")).await);
        assert_eq!(test_store.ask(Operation::Get(key)).await, Answer::Got(Some((third, b"f".to_vec()))));
        assert!(
            test_store.store.is_idle() && test_store.store.deadlines.is_empty(),
            "answered operations leave no deadline"
        );
    });
}

#[test]
fn nothing_is_appended_twice_or_after_a_fence() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    run(async {
        let mut test_store = TestStore::open(&servers.addresses(), &servers).await;
        assert_eq!(test_store.ask(Operation::Last(subject(1))).await, Answer::Last(None));
        let first = appended(&test_store.ask(append(1, None, group(1))).await);
        assert_eq!(test_store.ask(append(1, None, group(1))).await, Answer::Conflict, "doubled");
        // Writes of others to the same partition do not matter.
        appended(&test_store.ask(append(2, None, group(1))).await);
        let second = appended(&test_store.ask(append(1, Some(first), group(2))).await);
        assert_eq!(test_store.ask(append(1, Some(first), group(2))).await, Answer::Conflict, "doubled");
        let last = appended(&test_store.ask(append(1, Some(second), fence(2))).await);
        assert_eq!(test_store.ask(append(1, Some(second), group(3))).await, Answer::Conflict, "late");
        assert_eq!(test_store.ask(Operation::Last(subject(1))).await, Answer::Last(Some((last, fence(2)))));

        // Of several concurrent writes with the same expectation, one succeeds, and the others are rejected, not unknown.
        let mut expected = None;
        for number in 1..=50 {
            let all: Vec<_> = (0..8).map(|_| test_store.begin(append(3, expected, group(number)))).collect();
            let mut answers = Vec::new();
            for _ in &all {
                answers.push(test_store.next().await.1);
            }
            let done: Vec<_> = answers.iter().filter(|answer| **answer != Answer::Conflict).collect();
            assert_eq!(done.len(), 1, "{answers:?}");
            expected = Some(appended(done[0]));
        }
    });
}

#[test]
fn late_writes_after_a_paused_leader_are_refused() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    run(async {
        let stream = layout::log_stream(subject(1).partition);
        let mut first = TestStore::open(&servers.addresses(), &servers).await;
        let mut second = TestStore::open(&servers.addresses(), &servers).await;
        let mut last = appended(&first.ask_on(append(1, None, group(1))).await);
        // Another server may have become the leader a moment before the pause.
        let paused = loop {
            let leader = servers.leader(&stream).expect("a leader");
            servers.pause(leader);
            match first.ask(append(1, Some(last), group(2))).await {
                Answer::Unknown => break leader,
                Answer::Appended(sequence) => last = sequence,
                answer => panic!("{answer:?}"),
            }
            servers.resume(leader);
        };

        // Another node reads from the new leader, and fences.
        let fenced = loop {
            let Answer::Last(Some((sequence, found))) = second.ask_on(Operation::Last(subject(1))).await else {
                panic!("the first group is missing")
            };
            let number = Group::decode(&found).expect("a group").number;
            match second.ask_on(append(1, Some(sequence), fence(number))).await {
                Answer::Appended(fence) => break fence,
                answer => assert_eq!(answer, Answer::Conflict),
            }
        };
        servers.resume(paused);
        assert_eq!(first.ask_on(append(1, Some(last), group(2))).await, Answer::Conflict);
        // Whichever server leads now, nothing was appended after the fence.
        for test_store in [&mut first, &mut second] {
            let Answer::Last(Some((sequence, found))) = test_store.ask_on(Operation::Last(subject(1))).await else {
                panic!("the fence is missing")
            };
            assert_eq!((sequence, Group::decode(&found).expect("a group").body), (fenced, Body::Fence));
        }
    });
}

#[test]
fn without_servers_outcomes_are_unknown_and_nothing_is_sent_later() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    run(async {
        let mut test_store = TestStore::open(&servers.addresses(), &servers).await;
        let key = Key::Node(writer(1));
        (0..3).for_each(|at| servers.pause(at));
        let lost = async {
            while test_store.store.is_connected() {
                tokio::task::yield_now().await
            }
        };
        tokio::time::timeout(PATIENCE, lost).await.expect("the silence is detected");
        assert_eq!(test_store.ask(put(key, None, b"old")).await, Answer::Unknown);
        (0..3).for_each(|at| servers.resume(at));
        // If it had been sent, it would have arrived before this.
        assert_eq!(test_store.ask_on(Operation::Get(key)).await, Answer::Got(None));
        revision(&test_store.ask_on(put(key, None, b"new")).await);
    });
}

#[test]
fn the_log_is_read_in_order_and_followed() {
    let Some(program) = program() else { return };
    let mut servers = Servers::start(&program, 3, &Config::default());
    run(async {
        let mut test_store = TestStore::open(&servers.addresses(), &servers).await;
        let (partition, wait) = (subject(1).partition, Duration::from_secs(5));
        assert_eq!(log::end(&test_store.client, partition).await, Ok(1));
        let nothing = log::Groups { first: 1, groups: Vec::new() };
        assert_eq!(log::read(&test_store.client, partition, 1, 1000, wait).await, Ok(nothing));

        let mut follower = log::Follower::new(test_store.client.clone(), Arc::default(), partition);
        let mut expected = None;
        for number in 1..=20 {
            let sequence = appended(&test_store.ask_on(append(1, expected, group(number))).await);
            assert_eq!(sequence, Sequence(number));
            expected = Some(sequence);
            let groups = follower.next(number, 1 << 20).await;
            assert_eq!(groups, log::Groups { first: number, groups: vec![(number, group(number))] });
        }
        assert_eq!(log::end(&test_store.client, partition).await, Ok(21));

        let size = group(1).len();
        let read = log::read(&test_store.client, partition, 3, 3 * size, wait).await.expect("an answer");
        assert_eq!(read.groups.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), [3, 4, 5]);
        let one = log::read(&test_store.client, partition, 7, 1, wait).await.expect("an answer");
        assert_eq!((one.first, one.groups.len()), (7, 1), "at least one");
        let again = follower.next(3, 3 * size).await;
        assert_eq!((again.first, again.groups.len()), (3, 3), "it reads from the requested sequence");

        // Expired groups are gone, and the first available one is named.
        let purged = test_store.client.request("$JS.API.STREAM.PURGE.TW_LOG_00", r#"{"seq":10}"#.into()).await;
        assert!(purged.expect("an answer").payload.windows(14).any(|text| text == b"\"success\":true"));
        let rest = async {
            loop {
                let rest = log::read(&test_store.client, partition, 3, 1 << 20, wait).await.expect("an answer");
                // A replica may keep it for a moment longer.
                if rest.first != 3 {
                    return rest;
                }
            }
        };
        let rest = tokio::time::timeout(PATIENCE, rest).await.expect("gone from all replicas");
        assert_eq!((rest.first, rest.groups.len()), (10, 1));

        // A reader survives a restart of all servers.
        let follower = &mut log::Follower::new(test_store.client.clone(), Arc::default(), partition);
        assert_eq!(follower.next(15, 1 << 20).await.groups.len(), 6);
        (0..3).for_each(|at| servers.kill(at));
        (0..3).for_each(|at| servers.restart(at));
        servers.wait_until_well();
        appended(&test_store.ask_on(append(1, expected, group(21))).await);
        let followed = async {
            loop {
                let groups = follower.next(21, 1 << 20).await;
                if !groups.groups.is_empty() {
                    return groups.groups;
                }
            }
        };
        let followed = tokio::time::timeout(PATIENCE, followed).await.expect("it continues");
        assert_eq!(followed, [(21, group(21))]);
    });
}

#[test]
fn keys_expire_or_are_removed_and_are_read_together() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    run(async {
        let mut test_store = TestStore::open(&servers.addresses(), &servers).await;
        let (client, wait) = (test_store.client.clone(), Duration::from_secs(5));
        let key = |number: u128| Key::Session(ClientKey(number));
        let mut revisions = Vec::new();
        for number in 0..20 {
            revisions.push(revision(&test_store.ask(put(key(number), None, b"value")).await));
        }
        let names = |records: &[records::Record]| records.iter().map(|record| record.revision).collect::<Vec<_>>();
        let Page { records: all, is_end, .. } = records::scan(&client, Revision(0), 100, wait).await.expect("records");
        assert!(is_end && names(&all) == revisions && all.iter().all(|record| record.age_ms < 60_000));
        assert_eq!(format!("tw_session.{}", all[3].name), key(3).to_string());
        let Page { records: some, is_end, .. } = records::scan(&client, revisions[4], 5, wait).await.expect("records");
        assert!(!is_end && names(&some) == revisions[5..10]);

        assert_eq!(records::remove(&client, key(3), revisions[4]).await, Ok(records::WriteResult::Conflict));
        assert!(matches!(records::remove(&client, key(3), revisions[3]).await, Ok(records::WriteResult::At(_))));
        let written = records::put_for(&client, key(4), revisions[4], b"for a second".to_vec(), 1).await;
        let Ok(records::WriteResult::At(short)) = written else { panic!("not written: {written:?}") };
        assert_eq!(test_store.ask(Operation::Get(key(3))).await, Answer::Got(None));
        let gone = async { while test_store.ask(Operation::Get(key(4))).await != Answer::Got(None) {} };
        tokio::time::timeout(PATIENCE, gone).await.expect("it expires");
        let late = put(key(4), Some(Revision(short)), b"late");
        assert_eq!(test_store.ask(late).await, Answer::Conflict, "a writer that has seen it learns that it is gone");
        revision(&test_store.ask(put(key(4), None, b"new")).await);
        let Page { records: left, is_end, .. } = records::scan(&client, Revision(0), 100, wait).await.expect("records");
        assert!(is_end && left.len() == 19, "{left:?}");
        // If all keys of a page were removed, the next page continues after it.
        let mut last = Revision(0);
        for record in &left {
            let name = ClientKey::of_text(&record.name).expect("a key");
            let removed = records::remove(&client, Key::Session(name), record.revision).await;
            let Ok(records::WriteResult::At(revision)) = removed else { panic!("not removed: {removed:?}") };
            last = Revision(revision);
        }
        let (mut after, mut is_end) = (Revision(0), false);
        while !is_end {
            let page = records::scan(&client, after, 5, wait).await.expect("records");
            assert!(page.records.is_empty() && (page.is_end || after < page.through), "{page:?}");
            (after, is_end) = (page.through, page.is_end);
        }
        assert_eq!(after, last);

        for number in 0..5 {
            revision(&test_store.ask(put(Key::Group(GroupKey(number)), None, b"group")).await);
        }
        let first = records::scan_groups(&client, Revision(0), 3, wait).await.expect("groups");
        assert!(first.records.len() == 3 && !first.is_end && first.records.iter().all(|record| record.age_ms < 60_000));
        let second = records::scan_groups(&client, first.through, 3, wait).await.expect("groups");
        let numbers: Vec<_> =
            first.records.iter().chain(&second.records).filter_map(|record| GroupKey::of_text(&record.name)).collect();
        assert!(second.is_end && numbers == (0..5).map(GroupKey).collect::<Vec<_>>(), "{numbers:?}");

        let nodes: Vec<_> = [7, 8].into_iter().map(writer).collect();
        for node in &nodes {
            revision(&test_store.ask(put(Key::Node(*node), None, b"record")).await);
        }
        let found = records::nodes(&client).await.expect("records");
        assert_eq!(found.iter().map(|(node, ..)| *node).collect::<Vec<_>>(), nodes);
    });
}

#[test]
fn retained_messages_are_mirrored() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    run(async {
        let client = TestStore::open(&servers.addresses(), &servers).await.client;
        let mut mirror = retained::Mirror::new(client.clone(), Arc::default());
        let retain = async |subject: &str, expected, value: &[u8], for_s| match retained::retain(
            &client,
            subject,
            expected,
            value.to_vec(),
            for_s,
        )
        .await
        {
            Ok(records::WriteResult::At(sequence)) => Some(sequence),
            Ok(records::WriteResult::Conflict) => None,
            Err(failure) => panic!("{failure}"),
        };
        let a = retain("a", None, b"1", None).await.expect("written");
        assert_eq!(retain("a", None, b"2", None).await, None, "the topic has a retained message");
        let b = retain("b.c", None, b"3", Some(1)).await.expect("written");
        let second = retain("a", Some(a), b"4", None).await.expect("written");
        assert_eq!(retained::last(&client, "a").await, Ok(Some((second, b"4".to_vec()))));

        // A copy is complete as of some time once the mirror reports the end.
        let (mut copy, mut through, mut is_end) = (std::collections::BTreeMap::new(), 0, false);
        let mut follow = async |copy: &mut std::collections::BTreeMap<String, Vec<u8>>| {
            let part = mirror.next(through, 1000).await.expect("a part");
            for kept in part.kept {
                match kept.value {
                    Some(value) => copy.insert(kept.subject, value),
                    None => copy.remove(&kept.subject),
                };
            }
            (through, is_end) = (part.through, part.is_end);
            (through, is_end)
        };
        let reached = async {
            while follow(&mut copy).await < (second, true) {}
            // Expired entries disappear from the copy, too.
            while copy.contains_key("b.c") {
                follow(&mut copy).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("everything is mirrored");
        assert_eq!(copy, [("a".to_owned(), b"4".to_vec())].into());
        assert_eq!(retained::last(&client, "b.c").await, Ok(None));
        let again = retain("b.c", None, b"5", None).await.expect("its marker does not matter");
        assert!(again > b);

        // The last entry is removed without a trace: the mirror learns that nothing more follows.
        let purge = r#"{"filter":"tw.r.b.c"}"#;
        client.request("$JS.API.STREAM.PURGE.TW_RETAINED", purge.into()).await.expect("an answer");
        let end = retained::end(&client).await.expect("an answer");
        let reached = async { while follow(&mut copy).await < (end, true) {} };
        tokio::time::timeout(PATIENCE, reached).await.expect("the end is reached");
    });
}

#[test]
fn an_isolated_leader_does_not_report_the_end_of_retained_messages() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    run(async {
        let client = TestStore::open(&servers.addresses(), &servers).await.client;
        let leader = loop {
            if let Some(leader) = servers.leader("TW_RETAINED") {
                break leader;
            }
        };
        drop(client);
        let addresses = servers.addresses();
        let address = addresses.split(',').nth(leader).expect("an address of each");
        let client = TestStore::open(address, &servers).await.client;
        let first = retained::end(&client).await.expect("a quorum");
        assert!(first < retained::end(&client).await.expect("a quorum"), "each mark is a new end");
        let others: Vec<_> = (0..3).filter(|at| *at != leader).collect();
        others.iter().for_each(|at| servers.pause(*at));
        let known = crate::jetstream::bounds(&client, "TW_RETAINED").await;
        let marked = retained::end(&client).await;
        others.iter().for_each(|at| servers.resume(*at));
        assert!(known.is_ok(), "it still answers reads: {known:?}");
        assert!(marked.is_err(), "but has no quorum: {marked:?}");
    });
}
