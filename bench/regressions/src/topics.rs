use std::hint::black_box;

use tautwire_topics::{FilterTree, MatchCache, MatchCacheLimits};

use crate::Case;
use crate::packets::{TOPICS, topic};

const FILTERS: u32 = 10_000;

/// Finds the filters that match a topic, one topic per operation.
pub fn cases() -> Vec<Case> {
    vec![tree(), cache()]
}

/// Without the cache: each topic matches three of the filters.
fn tree() -> Case {
    let mut tree = FilterTree::new();
    for number in 0..FILTERS {
        let (site, device) = (number / 1_000, number % 1_000);
        let filter = match number % 3 {
            0 => format!("site/{site}/device-{device}/+/state"),
            1 => format!("site/+/device-{}/#", device - 1),
            _ => format!("site/{site}/device-{}/temperature/+", device - 2),
        };
        tree.insert(&filter, number);
    }
    let topics: Vec<String> =
        (0..TOPICS).map(|at| format!("site/{}/device-{}/temperature/state", at % 10, at * 18)).collect();
    Case::new("route/match-10k-filters", move |times| {
        let mut matched = 0_u32;
        for topic in topics.iter().cycle().take(times as usize) {
            tree.matches(black_box(topic), &mut |_, values| matched = matched.wrapping_add(values[0]));
        }
        black_box(matched);
    })
}

fn cache() -> Case {
    let mut cache: MatchCache<Vec<u32>> = MatchCache::with_seed(MatchCacheLimits::default(), 1);
    let topics: Vec<String> = (0..TOPICS).map(topic).collect();
    Case::new("route/match-cached", move |times| {
        for topic in topics.iter().cycle().take(times as usize) {
            black_box(cache.get_or_fill(black_box(topic), 1, |values| values.push(7)));
        }
    })
}
