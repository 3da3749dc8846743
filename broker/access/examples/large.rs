//! Measures a rule file with 10,000 rules and 100,000 users: load time, memory, and cost per check.
//!
//! `cargo run --release -p tautwire-access --example large`

use std::fmt::Write as _;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use tautwire_access::{Policy, PublishCache, Subject, TopicStamp};
use tautwire_protocol::{QoS, TopicFilter};

const RULES: usize = 10_000;
const USERS: usize = 100_000;
/// Each site has a role with ten rules.
const SITES: usize = RULES / 10;

fn main() {
    let text = file();
    let before = Instant::now();
    let policy = Arc::new(Policy::parse("access.toml", &text).expect("a valid file"));
    println!(
        "loaded {} rules and {} users, {} KiB, in {:?}",
        policy.rule_count(),
        policy.user_count(),
        text.len() >> 10,
        before.elapsed()
    );
    println!(
        "the policy takes {} KiB; the process took {} KiB at most, the text included",
        policy.memory_bytes() >> 10,
        peak_kib()
    );

    let subject = Subject { client_id: "sensor-7", user: Some("user-4711"), listener: "tls", claims: &[], roles: &[] };
    println!("a client connects in {} ns", nanoseconds(|_| _ = black_box(policy.resolve(black_box(&subject)))));
    let permissions = policy.resolve(&subject);
    println!(
        "permissions: {} bytes, and {} heap bytes per client",
        size_of_val(&permissions),
        permissions.own_heap_bytes()
    );
    let topic = "site/711/sensor-7/up/temperature";
    assert!(permissions.may_publish(topic, QoS::AtLeastOnce, false).is_allowed());
    let publish = nanoseconds(|_| _ = black_box(permissions.may_publish(black_box(topic), QoS::AtLeastOnce, false)));
    println!("may_publish uncached: {publish} ns");
    let mut cache = PublishCache::new(permissions.clone());
    let remembered = nanoseconds(|turn| {
        let stamp = NonZeroU64::new(turn % 4 + 1).map(TopicStamp::new);
        _ = black_box(cache.may_publish(black_box(stamp), black_box(topic), QoS::AtLeastOnce, false));
    });
    println!("may_publish cached: {remembered} ns, {} bytes", size_of_val(&cache));
    for filter in ["site/711/sensor-7/cmd/#", "site/+/public/#", "site/#", "+/+/public/+"] {
        let parsed = TopicFilter::new(filter).expect("a filter");
        let verdict = permissions.may_subscribe(parsed, QoS::AtLeastOnce);
        let cost = nanoseconds(|_| _ = black_box(permissions.may_subscribe(black_box(parsed), QoS::AtLeastOnce)));
        println!("may_subscribe {filter}: {verdict:?} in {cost} ns");
    }
    cross();
}

/// A filter with wildcards and many deny rules, none of which matches a topic of the filter.
fn cross() {
    for count in [120, 500, 1_000, 10_000] {
        let denials: String = (0..count)
            .map(|n| format!("{{ deny = 'subscribe', topics = ['+/d{n}/secret', 'p{n}/+/private'] }},\n"))
            .collect();
        let text = format!("[[role]]\nname = 'r'\nrules = [{denials}{{ allow = 'subscribe', topics = '#' }}]");
        let policy = Arc::new(Policy::parse("access.toml", &text).expect("a valid file"));
        let subject = Subject { client_id: "c", user: None, listener: "tls", claims: &[], roles: &["r"] };
        let permissions = policy.resolve(&subject);
        let filter = TopicFilter::new("+/+/a").expect("a filter");
        let mut left = usize::MAX;
        let verdict = permissions.start_subscribe(filter, QoS::AtLeastOnce, &mut left);
        let before = Instant::now();
        for _ in 0..100 {
            _ = black_box(permissions.may_subscribe(black_box(filter), QoS::AtLeastOnce));
        }
        let cost = before.elapsed().as_nanos() / 100;
        println!("+/+/a with 2 × {count} rules: {verdict:?} in {} steps, {cost} ns", usize::MAX - left);
    }
}

fn file() -> String {
    let mut text = String::new();
    for site in 0..SITES {
        let _ = writeln!(text, "[[role]]\nname = \"site-{site}\"\nrules = [");
        let _ = writeln!(text, "    {{ deny = \"publish\", topics = \"site/{site}/{{client_id}}/up/clock\" }},");
        let _ = writeln!(
            text,
            "    {{ allow = \"publish\", topics = \"site/{site}/{{client_id}}/up/#\", qos = [0, 1], retain = false }},"
        );
        let _ = writeln!(
            text,
            "    {{ allow = \"subscribe\", topics = [\"site/{site}/{{client_id}}/cmd/#\", \"site/{site}/all/#\"] }},"
        );
        for part in 0..5 {
            let _ = writeln!(
                text,
                "    {{ allow = [\"publish\", \"subscribe\"], topics = \"site/{site}/part-{part}/+/state\" }},"
            );
        }
        let _ = writeln!(text, "    {{ allow = \"subscribe\", topics = \"site/+/public/#\" }},\n]");
    }
    text.push_str("[[assign]]\nclient_id = \"gateway-*\"\nroles = \"site-0\"\n[users]\n");
    for user in 0..USERS {
        let _ = match user % 2 {
            0 => writeln!(text, "user-{user} = [\"site-{}\", \"site-{}\"]", user % SITES, (user + 1) % SITES),
            _ => writeln!(text, "user-{user} = \"site-{}\"", user % SITES),
        };
    }
    text
}

/// The best of many rounds, per call.
fn nanoseconds(mut call: impl FnMut(u64)) -> u128 {
    const CALLS: u64 = 1_000;
    let round = |_| {
        let before = Instant::now();
        (0..CALLS).for_each(&mut call);
        before.elapsed().as_nanos() / u128::from(CALLS)
    };
    (0..200).map(round).min().unwrap_or_default()
}

fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
