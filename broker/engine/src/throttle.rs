//! Filters of sessions that hold more than their share of memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use tautwire_protocol::TopicFilter;
use tautwire_router::SessionKey;
use tautwire_topics::FilterTree;

use crate::formats;

/// The filters that are closed for messages of QoS 1 and 2, on all shards. There are few, or none most of the time.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    closed: AtomicUsize,
    filters: RwLock<FilterTree<SessionKey>>,
}

impl Throttle {
    /// Closes `filter` for the sake of a session. It may be the filter of a shared subscription, or a topic.
    pub(crate) fn close(&self, filter: &str, session: SessionKey) {
        let mut filters = self.filters.write().unwrap_or_else(PoisonError::into_inner);
        let node = filters.entry(matched(filter));
        filters.push_value(node, session);
        self.closed.fetch_add(1, Ordering::Release);
    }

    /// Opens it again, if it was closed for this session.
    pub(crate) fn open(&self, filter: &str, session: SessionKey) {
        let mut filters = self.filters.write().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = filters.find(matched(filter)) else { return };
        // A session may have several subscriptions whose filters match the same topics: one of them at a time.
        let found = filters.remove_value(node, |held| *held == session).is_some();
        filters.prune(node);
        if found {
            self.closed.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether somebody who wants messages of `topic` cannot take any now.
    #[inline]
    pub(crate) fn is_closed(&self, topic: &str) -> bool {
        self.closed.load(Ordering::Acquire) > 0 && self.matches(topic)
    }

    #[cold]
    fn matches(&self, topic: &str) -> bool {
        let mut found = false;
        let filters = self.filters.read().unwrap_or_else(PoisonError::into_inner);
        filters.matches(topic, &mut |_, sessions: &[SessionKey]| found |= !sessions.is_empty());
        found
    }
}

/// The part of a filter that is compared with topics.
fn matched(filter: &str) -> &str {
    let wanted = TopicFilter::new(filter).ok().and_then(|filter| formats::wanted(filter, None).ok());
    wanted.map_or(filter, |wanted| wanted.filter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_router::ShardIndex;

    fn session(index: u32) -> SessionKey {
        SessionKey { shard: ShardIndex(0), index, generation: 0 }
    }

    #[test]
    fn a_filter_that_names_a_format_closes_the_topics_that_it_matches() {
        let throttle = Throttle::default();
        throttle.close("$as/json/a/+", session(1));
        assert!(throttle.is_closed("a/b"));
        throttle.open("$as/json/a/+", session(1));
        assert!(!throttle.is_closed("a/b"));
    }

    #[test]
    fn a_topic_is_closed_until_everybody_has_caught_up() {
        let throttle = Throttle::default();
        assert!(!throttle.is_closed("a/b"));
        throttle.close("a/+", session(1));
        throttle.close("$share/g/a/+", session(1));
        throttle.close("a/#", session(2));
        assert!(throttle.is_closed("a/b") && !throttle.is_closed("b"));
        throttle.open("a/+", session(1));
        throttle.open("a/#", session(2));
        assert!(throttle.is_closed("a/b"), "the shared subscription is still closed");
        throttle.open("a/#", session(2));
        throttle.open("$share/g/a/+", session(1));
        assert!(!throttle.is_closed("a/b"));
    }
}
