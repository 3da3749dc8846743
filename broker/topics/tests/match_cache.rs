//! The cache gives the correct result in every state, repeats it cheaply, and bypasses itself when it does not help.

use tautwire_topics::{BYPASS_WINDOWS, CacheCounters, MatchCache, MatchCacheLimits};

type Cache = MatchCache<Vec<u64>>;

/// Properties that hold for any hashing are tested with several seeds.
const SEEDS: std::ops::Range<u64> = 0..100;

fn small(max_slots: usize, seed: u64) -> Cache {
    let limits = MatchCacheLimits { max_slots, ..MatchCacheLimits::default() };
    MatchCache::with_seed(limits, seed)
}

/// Looks up `topic` and checks the result, which consists of the topic's length, a number and the generation.
fn ask(cache: &mut Cache, topic: &str, number: u64, generation: u64) -> bool {
    let mut filled = false;
    let answer = [topic.len() as u64, number, generation];
    let result = cache.get_or_fill(topic, generation, |result| {
        assert!(result.is_empty(), "a result to fill starts empty");
        result.extend(answer);
        filled = true;
    });
    assert_eq!(result[..], answer);
    filled
}

#[test]
fn a_repeated_topic_is_computed_once_per_generation() {
    let mut cache = small(16, 0);
    assert!(ask(&mut cache, "a/b", 1, 1));
    assert!(!ask(&mut cache, "a/b", 1, 1));
    assert!(ask(&mut cache, "a/b", 1, 2));
    assert!(!ask(&mut cache, "a/b", 1, 2));
    assert_eq!(cache.counters(), CacheCounters { hits: 2, misses: 2, ..CacheCounters::default() });
}

#[test]
fn results_stay_correct_while_the_cache_grows_and_overflows() {
    for seed in SEEDS {
        let mut cache = small(64, seed);
        for round in 0..6 {
            for number in 0..500_u64 {
                ask(&mut cache, &format!("topic/{number}"), number, round / 2);
                ask(&mut cache, "hot", 9999, round / 2);
            }
        }
        let counters = cache.counters();
        assert_eq!(counters.hits + counters.misses + counters.bypassed, 6 * 500 * 2);
        assert!(counters.hits > 2500, "the hot topic stays cached: {counters:?}, seed {seed}");
    }
}

#[test]
fn nearly_all_topics_that_fit_are_cached() {
    for seed in SEEDS {
        let mut cache = small(1024, seed);
        for _ in 0..20 {
            for number in 0..300_u64 {
                ask(&mut cache, &format!("topic/{number}"), number, 1);
            }
        }
        let counters = cache.counters();
        assert!(counters.misses < 1800, "{counters:?}, seed {seed}");
    }
}

#[test]
fn alternating_topics_in_a_full_cache_do_not_evict_each_other() {
    for seed in SEEDS {
        let mut cache = small(64, seed);
        for _ in 0..40 {
            for number in 0..96_u64 {
                ask(&mut cache, &format!("topic/{number}"), number, 1);
            }
        }
        let counters = cache.counters();
        assert_eq!(counters.bypassed, 0, "{counters:?}, seed {seed}");
        assert!(counters.hits > counters.misses / 2, "{counters:?}, seed {seed}");
    }
}

#[test]
fn the_cache_disables_itself_for_unique_topics_and_retries() {
    let slots = 16;
    let window = slots as u64 * 4;
    let mut cache = small(slots, 0);
    let mut number = 0;
    let mut fresh = |cache: &mut Cache, count: u64| {
        for _ in 0..count {
            number += 1;
            assert!(ask(cache, &format!("topic/{number}"), number, 1));
        }
    };
    fresh(&mut cache, window);
    assert_eq!((cache.counters().misses, cache.counters().bypassed), (window, 0));
    let off = window * BYPASS_WINDOWS as u64;
    fresh(&mut cache, off);
    assert_eq!((cache.counters().misses, cache.counters().bypassed), (window, off));

    // Now the same topic again and again: the next window detects it, and the cache stays enabled.
    for _ in 0..window * 3 {
        ask(&mut cache, "same", 1, 1);
    }
    assert_eq!((cache.counters().hits, cache.counters().bypassed), (window * 3 - 1, off));
}

#[test]
fn a_generation_that_changes_with_every_lookup_counts_as_unique() {
    let mut cache = small(16, 0);
    for generation in 0..1000 {
        assert!(ask(&mut cache, "same", 1, generation));
    }
    assert!(cache.counters().bypassed > 900);
}

#[test]
fn outdated_results_are_evicted_first() {
    let mut cache = small(2, 0);
    for topic in ["a", "b", "a", "b"] {
        ask(&mut cache, topic, 1, 1);
    }
    assert_eq!(cache.counters().hits, 2);
    assert!(ask(&mut cache, "c", 1, 1), "both were used, so it is not cached");
    for topic in ["a", "b"] {
        assert!(!ask(&mut cache, topic, 1, 1));
    }
    assert!(ask(&mut cache, "c", 1, 2));
    assert!(!ask(&mut cache, "c", 1, 2), "no current entry was in its set");
}

#[test]
fn an_unused_result_is_spared_only_once() {
    let mut cache = small(2, 0);
    for topic in ["a", "b", "a", "b"] {
        ask(&mut cache, topic, 1, 1);
    }
    assert!(ask(&mut cache, "c", 1, 1), "not cached the first time");
    assert!(ask(&mut cache, "c", 1, 1), "cached the second time");
    assert!(!ask(&mut cache, "c", 1, 1));
}

#[test]
fn long_topics_are_not_cached() {
    let mut cache: Cache = MatchCache::with_seed(MatchCacheLimits::default(), 0);
    let longest = "x".repeat(MatchCacheLimits::default().max_topic_bytes);
    let too_long = format!("{longest}y");
    assert!(ask(&mut cache, &longest, 1, 1));
    assert!(!ask(&mut cache, &longest, 1, 1));
    assert!(ask(&mut cache, &too_long, 1, 1));
    assert!(ask(&mut cache, &too_long, 1, 1));
    assert_eq!(cache.counters().topics_too_long, 2);
}

#[test]
fn an_unused_cache_uses_no_memory_and_a_full_one_is_bounded() {
    let max_content_bytes = 64 << 10;
    let mut cache: Cache = MatchCache::new(MatchCacheLimits { max_content_bytes, ..MatchCacheLimits::default() });
    assert_eq!(cache.memory_bytes(), 0);
    let slots_bytes = {
        let mut empty_results: Cache = MatchCache::with_seed(MatchCacheLimits::default(), 0);
        for number in 0..4096 * 4 {
            empty_results.get_or_fill(&format!("{number}"), 1, |_| {});
            empty_results.get_or_fill("again", 1, |_| {});
        }
        empty_results.memory_bytes()
    };
    for number in 0..10_000_u64 {
        let result = cache.get_or_fill(&format!("topic/{number}"), 1, |result| result.extend([number; 100]));
        assert_eq!(result[..], [number; 100]);
        ask(&mut cache, "again", 1, 1);
        assert!(cache.memory_bytes() <= slots_bytes + max_content_bytes + max_content_bytes / 8);
    }
    assert!(cache.counters().flushes > 0);

    let large: Vec<u64> = (0..2000).collect();
    let answer = cache.get_or_fill("large", 1, |result| result.extend(&large));
    assert_eq!(*answer, large);
    assert_eq!(cache.counters().results_too_large, 1);
    assert!(ask(&mut cache, "large", 1, 1), "it was not cached");
}

#[test]
fn unique_topics_use_little_memory() {
    let mut cache: Cache = MatchCache::with_seed(MatchCacheLimits::default(), 0);
    let mut ask_all = || {
        for number in 0..3_000_u64 {
            ask(&mut cache, &format!("topic/{number}"), number, 1);
        }
        (cache.memory_bytes(), cache.counters().hits)
    };
    let (bytes, hits) = ask_all();
    assert!(bytes < 8 << 10 && hits == 0, "{bytes} B, {hits} hits");
    // The second time they count as repeating, and the third time many are cached.
    let (_, found_second) = ask_all();
    let (_, found) = ask_all();
    assert!(found - found_second > 1_500, "{found_second}, then {found}");
}

#[test]
fn a_second_lookup_for_the_same_message_is_no_repetition() {
    let mut cache: Cache = MatchCache::with_seed(MatchCacheLimits::default(), 0);
    for number in 0..3_000_u64 {
        let topic = format!("topic/{number}");
        let answer = [topic.len() as u64, number, 1];
        assert_eq!(cache.get_or_fill_first(&topic, 1, |result| result.extend(answer)), &answer);
        ask(&mut cache, &topic, number, 1);
    }
    let counters = cache.counters();
    assert!(cache.memory_bytes() < 8 << 10, "{} B", cache.memory_bytes());
    assert_eq!((counters.hits, counters.misses), (0, 3_000));
}

#[test]
fn the_space_of_one_large_result_is_reusable() {
    let mut cache = small(2, 0);
    cache.get_or_fill("a", 1, |result| result.extend(0..20_000));
    let large_bytes = cache.memory_bytes();
    for generation in 2..5 {
        cache.get_or_fill("a", generation, |result| result.push(1));
    }
    assert!(cache.memory_bytes() < large_bytes / 10);
}
