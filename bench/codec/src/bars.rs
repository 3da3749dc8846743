//! What the codec must keep to.

use crate::libraries::{TAUTWIRE, TAUTWIRE_OWNED};
use crate::measure::Measured;

/// A bar and whether it holds.
pub struct Verdict {
    pub bar: &'static str,
    pub limit: f64,
    pub measured: f64,
    pub holds: bool,
}

/// Each bar against the medians.
pub fn verdicts(results: &[Measured]) -> Vec<Verdict> {
    let median = |case: &str, library: &str| {
        let found = results.iter().find(|result| result.case == case && result.library == library);
        found.unwrap_or_else(|| panic!("{case} of {library} was not measured")).median
    };
    let best_peer = |case: &str| {
        results
            .iter()
            .filter(|result| result.case == case && ![TAUTWIRE, TAUTWIRE_OWNED].contains(&result.library))
            .map(|result| result.median)
            .fold(f64::INFINITY, f64::min)
    };
    let at_most = |bar, measured, limit| Verdict { bar, limit, measured, holds: measured <= limit };
    let at_least = |bar, measured, limit| Verdict { bar, limit, measured, holds: measured >= limit };
    let publish = "decode_publish_qos1_64b";
    vec![
        at_most("decode PUBLISH QoS 1 64 B borrowed, ns, at most", median(publish, TAUTWIRE), 10.0),
        at_least("  best peer's time ÷ ours, at least", best_peer(publish) / median(publish, TAUTWIRE), 5.0),
        at_most("decode PUBLISH QoS 1 64 B owned, ns, at most", median(publish, TAUTWIRE_OWNED), 38.0),
        at_most("encode PUBLISH QoS 1 64 B, ns, at most", median("encode_publish_qos1_64b", TAUTWIRE), 4.0),
        at_most("decode CONNECT with properties, ns, at most", median("decode_connect_properties", TAUTWIRE), 60.0),
    ]
}
