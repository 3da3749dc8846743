//! What a bridge writes to the log while it is connected: messages that it does not forward, and subscriptions that are refused.

use std::time::{Duration, Instant};

use tautwire_bridge::{Link, LinkCounters};

use super::plan::BridgePlan;

/// The shortest time between two lines about dropped messages.
const INTERVAL: Duration = Duration::from_secs(1);

/// What has been written about the current link.
#[derive(Default)]
pub(super) struct Report {
    dropped: Dropped,
    /// Whether the refusal of each rule has been written.
    refused_rules: Vec<bool>,
    written: Option<Instant>,
}

/// Counts of messages that were not forwarded.
#[derive(Default, PartialEq, Eq)]
struct Dropped {
    refused_in: u64,
    refused_out: u64,
    looped: u64,
    unmatched: u64,
    unmappable: u64,
}

impl Dropped {
    fn of(counters: &LinkCounters) -> Dropped {
        Dropped {
            refused_in: counters.refused_in,
            refused_out: counters.refused_out,
            looped: counters.looped,
            unmatched: counters.unmatched,
            unmappable: counters.unmappable,
        }
    }
}

impl Report {
    /// The time until there is something to write; `None` if there is nothing.
    pub(super) fn due(&self, link: &Link) -> Option<Duration> {
        let refused = link.refused_rules().iter().filter(|refused| refused.is_some()).count();
        let written = self.refused_rules.iter().filter(|written| **written).count();
        (refused != written || Dropped::of(link.counters()) != self.dropped)
            .then(|| self.written.map_or(Duration::ZERO, |written| INTERVAL.saturating_sub(written.elapsed())))
    }

    /// Writes what is new.
    pub(super) fn write(&mut self, plan: &BridgePlan, link: &Link) {
        self.written = Some(Instant::now());
        self.refused_rules.resize(link.refused_rules().len(), false);
        for ((rule, refused), written) in plan.link.rules.iter().zip(link.refused_rules()).zip(&mut self.refused_rules)
        {
            if let (Some((side, reason)), false) = (refused, *written) {
                *written = true;
                log::warn!(
                    bridge = &*plan.name, filter = &*rule.filter;
                    "{side} refused the subscription of a rule, so nothing is forwarded by it in that direction: {reason}"
                );
            }
        }
        let dropped = Dropped::of(link.counters());
        if dropped != self.dropped {
            let Dropped { refused_in, refused_out, looped, unmatched, unmappable } = dropped;
            log::warn!(
                bridge = &*plan.name, refused_in, refused_out, looped, unmatched, unmappable;
                "messages were not forwarded; the numbers are those since the bridge was connected"
            );
            self.dropped = dropped;
        }
    }
}
