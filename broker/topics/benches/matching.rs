//! CPU time of the trees and the cache at the promised sizes. Run: `cargo bench -p tautwire-topics`.
//!
//! Measures the CPU time of this thread, so other load on the machine matters little.

use std::fmt::Write as _;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

use tautwire_topics::{FilterTree, MatchCache, RetainedTree};

/// A record of the size of a subscription in the broker.
#[derive(Clone, Copy)]
struct Subscription {
    session: u32,
    _options: [u32; 3],
}

const FILTERS: u32 = 100_000;
const RETAINED: u32 = 1_000_000;
const LOOKUPS: u32 = 2_000_000;

fn main() {
    wildcard_filters();
    cache();
    fan_out();
    retained();
}

/// 100,000 distinct filters; a topic matches its own three filters, or two where they coincide, and is never repeated in a row, so CPU
/// caches do not help.
fn wildcard_filters() {
    let mut tree = FilterTree::new();
    let rss_before = resident_bytes();
    let mut filter = String::new();
    report("insert one of 100,000 wildcard filters", FILTERS, || {
        for i in 0..FILTERS {
            filter.clear();
            // Half by device and any sensor, a quarter by sensor of any device in a room, a quarter by room and rest.
            let _ = match i % 4 {
                0 | 1 => write!(filter, "site/{}/device-{i}/+/state", i / 1000),
                2 => write!(filter, "site/{}/+/sensor-{i}/state", i / 1000),
                _ => write!(filter, "site/{}/device-{}/#", i / 1000, i - 3),
            };
            tree.insert(&filter, Subscription { session: i, _options: [0; 3] });
        }
    });
    println!(
        "  {:.0} bytes per filter by memory_bytes, {:.0} by resident memory",
        tree.memory_bytes() as f64 / f64::from(FILTERS),
        (resident_bytes() - rss_before) as f64 / f64::from(FILTERS),
    );

    let topics = shuffled_topics(65_536);
    let mut matched = 0_u64;
    let mut sessions = 0_u64;
    report("match a topic", LOOKUPS, || {
        for topic in topics.iter().cycle().take(LOOKUPS as usize) {
            tree.matches(black_box(topic), &mut |_, values| {
                for value in values {
                    matched += 1;
                    sessions += u64::from(value.session);
                }
            });
        }
    });
    black_box(sessions);
    println!("  {:.2} filters covered by a topic", matched as f64 / f64::from(LOOKUPS));
    report("find a filter", LOOKUPS, || {
        for topic in topics.iter().cycle().take(LOOKUPS as usize) {
            black_box(tree.find(black_box(topic)));
        }
    });
}

fn shuffled_topics(count: u32) -> Vec<String> {
    let mut state = 0x1234_5678_9abc_def0_u64;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let device = (state >> 33) as u32 % (FILTERS / 4) * 4;
            format!("site/{}/device-{device}/sensor-{}/state", device / 1000, device + 2)
        })
        .collect()
}

fn cache() {
    for distinct in [1, 100, 3_000] {
        let topics: Vec<String> = (0..distinct).map(|i| format!("site/{i}/device-{i}/sensor/state")).collect();
        let mut cache: MatchCache<Vec<u32>> = MatchCache::default();
        report(&format!("cache, {distinct} topics in turn"), LOOKUPS, || {
            for topic in topics.iter().cycle().take(LOOKUPS as usize) {
                black_box(cache.get_or_fill(black_box(topic), 1, |matches| matches.push(7)));
            }
        });
        println!("  {:?}, {} bytes", cache.counters(), cache.memory_bytes());
    }
    let topics: Vec<String> = (0..1_000_000).map(|i| format!("site/{i}/device-{i}/sensor/state")).collect();
    let mut cache: MatchCache<Vec<u32>> = MatchCache::default();
    report("cache, topics that do not repeat", 1_000_000, || {
        for topic in &topics {
            black_box(cache.get_or_fill(black_box(topic), 1, |matches| matches.push(7)));
        }
    });
    println!("  {:?}, {} bytes", cache.counters(), cache.memory_bytes());
}

/// Many subscribers to one filter, which leave in a different order than they joined.
fn fan_out() {
    let mut tree = FilterTree::new();
    let node = tree.entry("news");
    let session = |value: &Subscription| value.session;
    report("join a filter with up to 20,000 others", 20_000, || {
        for i in 0..20_000_u32 {
            let subscription = Subscription { session: i.wrapping_mul(7919) % 20_000, _options: [0; 3] };
            tree.insert_sorted_by_key(node, subscription, session);
        }
    });
    report("leave it", 20_000, || {
        for i in 0..20_000_u32 {
            tree.remove_by_key(node, &(i.wrapping_mul(104_729) % 20_000), session);
        }
    });
}

fn retained() {
    let mut tree: RetainedTree<Box<u64>> = RetainedTree::new();
    let mut topic = String::new();
    let mut longest_ns = 0;
    report("insert one of 1,000,000 retained topics", RETAINED, || {
        for i in 0..RETAINED {
            topic.clear();
            let _ = write!(topic, "site/{}/device-{i}/state", i / 1000);
            let start = Instant::now();
            tree.insert(&topic, Box::new(u64::from(i)));
            longest_ns = longest_ns.max(start.elapsed().as_nanos());
        }
    });
    println!("  longest {:.1} ms of wall time", longest_ns as f64 / 1e6);
    println!("  {:.0} bytes per topic by memory_bytes", tree.memory_bytes() as f64 / f64::from(RETAINED));
    let mut found = 0_u32;
    report("find one of them through site/+/+/state", RETAINED, || {
        let _: ControlFlow<()> = tree.for_each_match("site/+/+/state", |_, _| {
            found += 1;
            ControlFlow::Continue(())
        });
    });
    assert_eq!(found, RETAINED);
    report("get one of them", RETAINED, || {
        for i in 0..RETAINED {
            topic.clear();
            let _ = write!(topic, "site/{}/device-{i}/state", i / 1000);
            black_box(tree.get(&topic));
        }
    });
    report("remove one of them", RETAINED, || {
        for i in 0..RETAINED {
            topic.clear();
            let _ = write!(topic, "site/{}/device-{i}/state", i / 1000);
            black_box(tree.remove(&topic));
        }
    });
}

fn report(what: &str, operations: u32, run: impl FnOnce()) {
    let start = cpu_ns();
    run();
    println!("{what}: {:.1} ns", (cpu_ns() - start) as f64 / f64::from(operations));
}

/// CPU time of this thread so far; wall time if the kernel does not provide it.
fn cpu_ns() -> u64 {
    let from_kernel = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let on_cpu = from_kernel.as_deref().and_then(|text| text.split(' ').next()?.parse().ok());
    on_cpu.unwrap_or_else(|| {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    })
}

/// Resident memory of this process; 0 if the kernel does not provide it.
fn resident_bytes() -> usize {
    const PAGE_BYTES: usize = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * PAGE_BYTES
}
