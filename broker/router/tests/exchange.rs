//! Tests the exchange against simple models, and from several threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tautwire_message::{Body, MessageId, MessageRef};
use tautwire_protocol::{QoS, topic_matches};
use tautwire_router::{
    Exchange, InterestChange, Member, MemberCredit, Progress, RetainError, RetainedClaim, RetainedLimits,
    RetainedQuota, Routes, SessionKey, ShardIndex,
};

const ROOMY: RetainedLimits = RetainedLimits { messages: 100_000, bytes: 100 << 20 };
const FIRST: InterestChange = InterestChange { any: true, persistent: false };
const FURTHER: InterestChange = InterestChange { any: false, persistent: false };
const TOPICS: [&str; 6] = ["a", "a/b", "a/b/c", "b", "b/b", "$s/b"];
const FILTERS: [&str; 8] = ["a", "a/#", "+/b", "#", "+/+", "a/b/c", "$s/#", "b/b"];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

fn message<'a>(topic: &'a str, payload: &'a [u8], expires_at_ms: Option<u64>) -> MessageRef<'a> {
    MessageRef {
        id: MessageId::NONE,
        topic,
        properties: &[],
        payload,
        qos: QoS::AtLeastOnce,
        retain: true,
        expires_at_ms,
    }
}

fn member(shard: u8, index: u32) -> Member {
    Member {
        session: SessionKey { shard: ShardIndex(shard), index, generation: 0 },
        number: None,
        qos: QoS::AtLeastOnce,
        retain_as_published: false,
        identifier: None,
        format: None,
        room: Arc::new(MemberCredit::new(true)),
    }
}

#[test]
fn routes_lead_to_interested_shards_and_groups() {
    let exchange = Exchange::new(4, ROOMY);
    let mut random = Random(1);
    let mut interest: BTreeSet<(u8, &str)> = BTreeSet::new();
    let mut members: BTreeSet<(String, u32)> = BTreeSet::new();
    let mut known: BTreeMap<&str, (u64, Vec<u8>, BTreeSet<String>)> = BTreeMap::new();
    for _ in 0..5_000 {
        let shard = random.below(4) as u8;
        let filter = FILTERS[random.below(FILTERS.len())];
        if random.below(2) == 0 {
            if interest.insert((shard, filter)) {
                exchange.subscribe(ShardIndex(shard), filter, FIRST, false);
            } else if random.below(2) == 0 {
                interest.remove(&(shard, filter));
                exchange.unsubscribe(ShardIndex(shard), filter, FIRST);
            }
        } else {
            let whole = format!("$share/g{}/{filter}", random.below(2));
            let session = random.below(3) as u32;
            if members.insert((whole.clone(), session)) {
                exchange.join(&whole, filter, member(shard, session));
            } else {
                members.remove(&(whole.clone(), session));
                // A member leaves with its session, from any shard.
                for shard in 0..4 {
                    exchange.leave(&whole, member(shard, session).session);
                }
            }
        }

        let groups: BTreeSet<&String> = members.iter().map(|(filter, _)| filter).collect();
        assert_eq!(exchange.shares(), groups.len());
        let topic = TOPICS[random.below(TOPICS.len())];
        let generation = exchange.generation();
        let mut routes = Routes::default();
        exchange.routes(topic, &mut routes);
        let shards: Vec<u8> = routes.shards.map(|shard| shard.0).collect();
        let cares = |shard: &u8| interest.iter().any(|(held, filter)| held == shard && topic_matches(filter, topic));
        assert_eq!(shards, (0..4).filter(cares).collect::<Vec<_>>(), "{topic}");
        let shares: BTreeSet<String> = routes.shares.iter().map(|group| group.filter().to_string()).collect();
        let matched =
            |filter: &&&String| filter.splitn(3, '/').nth(2).is_some_and(|filter| topic_matches(filter, topic));
        assert_eq!(shares, groups.iter().filter(matched).map(|filter| filter.to_string()).collect(), "{topic}");

        // Cached routes are invalidated when they change.
        let now = (generation, shards, shares);
        if let Some(before) = known.insert(topic, now.clone()) {
            assert!(before.0 < generation || before == now, "the routes of {topic} changed and the generation did not");
        }
    }
}

#[test]
fn the_last_message_of_each_topic_is_retained_within_the_limits() {
    const LIMITS: RetainedLimits = RetainedLimits { messages: 4, bytes: 400 };
    let exchange = Exchange::new(1, LIMITS);
    let mut random = Random(2);
    let mut model: BTreeMap<&str, (Vec<u8>, Option<u64>)> = BTreeMap::new();
    let stored = |topic: &str, payload: &[u8]| message(topic, payload, None).allocated_bytes();
    let mut last_sequence = 0;
    for now_ms in 0..5_000u64 {
        let topic = TOPICS[random.below(TOPICS.len())];
        let payload = vec![b'x'; random.below(200)];
        let expires_at_ms = (random.below(3) == 0).then(|| now_ms + random.below(20) as u64);
        let kept = exchange
            .retain(&message(topic, &payload, expires_at_ms), || message(topic, &payload, expires_at_ms).to_message());
        let others = model.iter().filter(|(held, _)| **held != topic);
        let bytes: usize = others.clone().map(|(topic, (payload, _))| stored(topic, payload)).sum();
        let fits = others.count() < LIMITS.messages && bytes + stored(topic, &payload) <= LIMITS.bytes;
        assert_eq!(kept.is_ok(), payload.is_empty() || fits);
        if let Ok(kept) = kept {
            assert!(kept.sequence > last_sequence);
            last_sequence = kept.sequence;
            model.remove(topic);
            if !payload.is_empty() {
                model.insert(topic, (payload, expires_at_ms));
            }
        }
        if random.below(4) == 0 {
            let expired =
                |(_, expires_at_ms): &(Vec<u8>, Option<u64>)| expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
            let due = model.values().filter(|held| expired(held)).count();
            assert_eq!(exchange.drop_expired_retained(now_ms, 100), due);
            model.retain(|_, held| !expired(held));
        }
        for topic in TOPICS {
            let held = exchange.retained_message(topic);
            assert_eq!(
                held.as_ref().and_then(Body::loaded).map(|held| held.payload()),
                model.get(topic).map(|(payload, _)| &payload[..])
            );
        }
        let bytes = model.iter().map(|(topic, (payload, _))| stored(topic, payload)).sum();
        assert_eq!(exchange.retained(), (model.len(), bytes));
        if random.below(10) == 0 {
            let filter = FILTERS[random.below(FILTERS.len())];
            let shown = shown(&exchange, ShardIndex(0), filter).1.into_keys().collect();
            let expected: BTreeSet<String> =
                model.keys().filter(|topic| topic_matches(filter, topic)).map(|topic| topic.to_string()).collect();
            assert_eq!(expected, shown, "{filter}");
        }
    }
}

/// Subscribes and reads all retained messages: returns the generation, and the payload of each topic.
fn shown(exchange: &Exchange, shard: ShardIndex, filter: &str) -> (u64, BTreeMap<String, Vec<u8>>) {
    let (since, scan) = exchange.subscribe(shard, filter, FURTHER, true);
    let mut shown = BTreeMap::new();
    if let Some(mut scan) = scan {
        loop {
            match exchange.next_retained(&mut scan, &mut { 50 }) {
                Progress::Found(body) => {
                    let message = body.loaded().expect("nothing is spilled");
                    let twice = shown.insert(message.topic().to_owned(), message.payload().to_vec());
                    assert!(twice.is_none(), "{} is shown twice", message.topic());
                }
                Progress::Paused => {}
                Progress::Ended => break,
            }
        }
    }
    (since, shown)
}

/// A payload is copied before the lock is taken, so that no one waits for the copy.
#[test]
fn reads_continue_while_a_message_is_being_retained() {
    const PATIENCE: Duration = Duration::from_secs(90);
    let exchange = Arc::new(Exchange::new(2, ROOMY));
    let message = message("a", b"x", None);
    let kept = exchange.retain(&message, || {
        let (said, heard) = channel();
        let reader = exchange.clone();
        thread::spawn(move || said.send(reader.retained().0));
        assert_eq!(heard.recv_timeout(PATIENCE), Ok(0), "a thread waits for the lock");
        message.to_message()
    });
    assert!(kept.is_ok());
    assert_eq!(exchange.retained().0, 1);
}

/// A subscriber gets each retained message once, by its scan or live, as its generation determines.
#[test]
fn a_message_is_replayed_or_routed_and_never_both() {
    const MESSAGES: usize = 10_000;
    // More topics than one step of a scan visits.
    const SPREAD: usize = 300;
    let exchange = Exchange::new(2, ROOMY);
    let is_over = AtomicBool::new(false);
    let topic_of = |number: usize| format!("t/{}", number % SPREAD);
    // The topic's place and the number of the message.
    let number_of = |payload: &[u8]| {
        let number: usize = String::from_utf8_lossy(payload).parse().expect("a number was sent");
        (number % SPREAD, number)
    };
    thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let generations: Vec<u64> = (0..MESSAGES)
                .map(|number| {
                    let (topic, payload) = (topic_of(number), number.to_string());
                    let kept = exchange.retain(&message(&topic, payload.as_bytes(), None), || {
                        message(&topic, payload.as_bytes(), None).to_message()
                    });
                    kept.expect("not full").generation
                })
                .collect();
            is_over.store(true, Ordering::Release);
            generations
        });
        let mut rounds = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            rounds.push(shown(&exchange, ShardIndex(1), "t/#"));
        }
        let generations = publisher.join().expect("the publisher ends");
        assert!(generations.is_sorted(), "one thread published them all");
        for (since, shown) in rounds {
            // The subscription is ordered between these two.
            let (before, after) = generations.split_at(generations.partition_point(|generation| *generation < since));
            let shown: BTreeMap<usize, usize> = shown.into_values().map(|payload| number_of(&payload)).collect();
            for topic in 0..SPREAD.min(before.len()) {
                let last_before = (0..before.len()).rev().find(|number| number % SPREAD == topic);
                let published_since = (before.len()..MESSAGES).find(|number| number % SPREAD == topic);
                match shown.get(&topic) {
                    Some(number) => assert_eq!(Some(*number), last_before, "shown as of generation {since}"),
                    None => assert!(published_since.is_some(), "topic {topic} was neither shown nor published since"),
                }
            }
            assert!(shown.keys().all(|topic| *topic < before.len()), "{} messages followed", after.len());
        }
    });
}

#[test]
fn quotas_hold_for_concurrent_threads() {
    const CLIENTS: usize = 4;
    const TOPICS: usize = 20;
    let exchange = Exchange::new(2, ROOMY);
    let quota = RetainedQuota { messages: 5, bytes: usize::MAX };
    let claim = |client: usize| RetainedClaim { owner: exchange.retained_owner(&format!("client-{client}")), quota };
    let retain = |client: usize, topic: &str, payload: &[u8], expires_at_ms| {
        let message = message(topic, payload, expires_at_ms);
        exchange.retain_for(Some(&claim(client)), &message, || message.to_message()).map(|_| ())
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (exchange, retain) = (&exchange, &retain);
            scope.spawn(move || {
                let mut random = Random(client as u64);
                for _ in 0..5_000 {
                    let topic = format!("t/{}", random.below(TOPICS));
                    let payload = [&b""[..], b"x", b"xx", b"xxx"][random.below(4)];
                    let expires_at_ms = (random.below(5) == 0).then_some(1);
                    let outcome = retain(client, &topic, payload, expires_at_ms);
                    assert!(matches!(outcome, Ok(()) | Err(RetainError::Quota)), "{outcome:?}");
                    assert!(exchange.retained().0 <= CLIENTS * quota.messages);
                    if random.below(10) == 0 {
                        exchange.drop_expired_retained(1, 3);
                    }
                }
            });
        }
    });
    for topic in 0..TOPICS {
        retain(0, &format!("t/{topic}"), b"", None).expect("any file can be removed");
    }
    assert_eq!(exchange.retained(), (0, 0));
    // All usage is gone, and each client has its full quota.
    for client in 0..CLIENTS {
        for number in 0..quota.messages {
            assert_eq!(retain(client, &format!("{client}/{number}"), b"x", None), Ok(()));
        }
        assert_eq!(retain(client, &format!("{client}/more"), b"x", None), Err(RetainError::Quota));
    }
}

#[test]
fn subscribing_visits_no_retained_message_and_a_scan_is_bounded() {
    const MESSAGES: u64 = 20_000;
    const PORTION: u64 = 1_000;
    let exchange = Exchange::new(2, ROOMY);
    for number in 0..MESSAGES {
        let topic = format!("d{number}/state");
        exchange.retain(&message(&topic, b"x", None), || message(&topic, b"x", None).to_message()).expect("not full");
    }
    let (_, nothing) = exchange.subscribe(ShardIndex(0), "elsewhere/+/state", FIRST, true);
    assert!(nothing.is_none(), "no topic begins like that");
    let (_, nothing) = exchange.subscribe(ShardIndex(0), "d1/other", FIRST, true);
    assert!(nothing.is_none(), "a filter without wildcards is looked up");

    let (_, scan) = exchange.subscribe(ShardIndex(0), "+/none", FIRST, true);
    let mut scan = scan.expect("some topic may match");
    assert_eq!(exchange.next_retained(&mut scan, &mut 0), Progress::Paused);
    for _ in 0..MESSAGES / PORTION {
        let mut steps = PORTION;
        assert_eq!(exchange.next_retained(&mut scan, &mut steps), Progress::Paused);
        assert_eq!(steps, 0, "exactly this many nodes were visited");
    }
    let mut steps = PORTION;
    assert_eq!(exchange.next_retained(&mut scan, &mut steps), Progress::Ended);
    assert!(steps >= PORTION - 1, "the last nodes were visited");
}

#[test]
fn dropped_scans_leave_nothing() {
    let exchange = Exchange::new(1, ROOMY);
    for number in 0..1_000 {
        let topic = format!("d{number}/state");
        exchange.retain(&message(&topic, b"x", None), || message(&topic, b"x", None).to_message()).expect("not full");
    }
    let scans: Vec<_> = (1..50)
        .map(|steps| {
            let mut scan = exchange.subscribe(ShardIndex(0), "+/none", FURTHER, true).1.expect("some topic may match");
            assert_eq!(exchange.next_retained(&mut scan, &mut { steps }), Progress::Paused);
            scan
        })
        .collect();
    for number in 0..1_000 {
        exchange
            .retain(&message(&format!("d{number}/state"), b"", None), || {
                message(&format!("d{number}/state"), b"", None).to_message()
            })
            .expect("clearing");
    }
    assert_eq!((exchange.retained(), exchange.retained_held_bytes()), ((0, 0), 0));
    drop(scans);
    assert_eq!(exchange.drop_expired_retained(0, 10), 0, "tidies up too");
    assert!(exchange.subscribe(ShardIndex(0), "+/none", FURTHER, true).1.is_none(), "the nodes are removed");
}

/// Members join and leave wherever a group is among others with the same filter.
#[test]
fn very_many_groups_of_one_filter_can_be_created_and_removed() {
    const GROUPS: u32 = 20_000;
    let exchange = Exchange::new(2, ROOMY);
    let whole = |number: u32| format!("$share/g{number}/t");
    for number in 0..GROUPS {
        exchange.join(&whole(number), "t", member(1, number));
        exchange.join(&whole(number), "t", member(0, number));
    }
    let mut routes = Routes::default();
    exchange.routes("t", &mut routes);
    assert_eq!((routes.shares.len(), exchange.shares()), (GROUPS as usize, GROUPS as usize));
    for number in 0..GROUPS {
        exchange.leave(&whole(number), member(1, number).session);
        let left = exchange.group(&whole(number)).and_then(|group| group.pick()).expect("a member is left");
        assert_eq!(left.session, member(0, number).session);
        exchange.leave(&whole(number), member(0, number).session);
        assert!(exchange.group(&whole(number)).is_none());
    }
    exchange.routes("t", &mut routes);
    assert_eq!((routes.shares.len(), exchange.shares()), (0, 0));
}

/// Several concurrent scans, while topics are added and removed around them and some scans are dropped.
#[test]
fn scans_find_stable_messages_once_during_changes() {
    const ROUNDS: usize = 300;
    const PLACES: usize = 600;
    const SCANNERS: u64 = 3;
    let exchange = Exchange::new(1, ROOMY);
    // Every third topic stays; the others are added and removed, with levels above and below them.
    let topic = |place: usize| match place % 3 {
        0 => format!("t/{place}/stays"),
        1 => format!("t/{}/{place}", place - 1),
        _ => format!("t/{place}"),
    };
    let retain = |place: usize, payload: &[u8]| {
        exchange
            .retain(&message(&topic(place), payload, None), || message(&topic(place), payload, None).to_message())
            .expect("not full");
    };
    (0..PLACES).for_each(|place| retain(place, b"x"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let scanners: Vec<_> = (0..SCANNERS)
            .map(|seed| {
                let (exchange, is_over) = (&exchange, &is_over);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    let mut whole = 0;
                    while !is_over.load(Ordering::Acquire) || whole == 0 {
                        let scan = exchange.subscribe(ShardIndex(0), "t/#", FURTHER, true).1;
                        let mut scan = scan.expect("something always matches");
                        let given_up = random.below(3) == 0;
                        let mut shown = BTreeSet::new();
                        loop {
                            match exchange.next_retained(&mut scan, &mut { 1 + random.below(40) as u64 }) {
                                Progress::Found(body) => {
                                    let message = body.loaded().expect("nothing is spilled");
                                    let topic = message.topic().to_owned();
                                    assert!(shown.insert(topic), "{} is shown twice", message.topic());
                                }
                                Progress::Paused if given_up && random.below(20) == 0 => break,
                                Progress::Paused => {}
                                Progress::Ended => {
                                    let stayed = shown.iter().filter(|topic| topic.ends_with("stays")).count();
                                    assert_eq!(stayed, PLACES.div_ceil(3));
                                    whole += 1;
                                    break;
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        let mut random = Random(99);
        for _ in 0..ROUNDS {
            for place in (0..PLACES).filter(|place| place % 3 != 0) {
                match random.below(4) {
                    0 => retain(place, b"x"),
                    1 => retain(place, b""),
                    _ => {}
                }
            }
        }
        is_over.store(true, Ordering::Release);
        for scanner in scanners {
            scanner.join().expect("the scanner ends");
        }
    });
    (0..PLACES).for_each(|place| retain(place, b""));
    exchange.drop_expired_retained(0, 0);
    assert!(exchange.subscribe(ShardIndex(0), "t/+", FURTHER, true).1.is_none(), "no place is left");
}
