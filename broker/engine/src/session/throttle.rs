//! Topic filters that are blocked for messages of QoS 1 and 2, on all shards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tautwire_protocol::TopicFilter;
use tautwire_topics::FilterTree;

use crate::routing::transcoding;
use crate::session::slow_consumer::{SlowConsumer, SlowConsumers};

/// Why a filter is blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThrottleCause {
    /// A session holds more than its share of memory.
    Memory,
    /// The queue of a session is full. The effect on publishers depends on the topic and the session's user.
    Queue(Option<Arc<str>>),
}

/// The effect of a blocked filter on a message. The first is the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ThrottleEffect {
    /// A receiving session has reached its share of memory.
    NoMemory,
    /// The queue of a receiving session is full, and the message is refused.
    Refused,
    /// The queue of a receiving session is full, and the publisher is paused.
    Paused,
}

impl ThrottleEffect {
    fn by(cause: &ThrottleCause, topic: &str, policies: &SlowConsumers) -> Option<ThrottleEffect> {
        match cause {
            ThrottleCause::Memory => Some(ThrottleEffect::NoMemory),
            ThrottleCause::Queue(user) => match policies.policy(topic, user.as_deref()) {
                SlowConsumer::Refuse => Some(ThrottleEffect::Refused),
                SlowConsumer::PausePublisher => Some(ThrottleEffect::Paused),
                SlowConsumer::DropNew | SlowConsumer::DropOld | SlowConsumer::Disconnect => None,
            },
        }
    }
}

/// The number of sessions that block a filter for one cause.
#[derive(Debug)]
struct FilterBlock {
    cause: ThrottleCause,
    sessions: usize,
}

/// The blocked filters, on all shards. Usually there are none, or few.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    blocked: AtomicUsize,
    filters: RwLock<FilterTree<FilterBlock>>,
}

impl Throttle {
    /// Blocks `filter`, which may be a shared subscription's or a topic. Each call needs its own [`Throttle::unblock`] with the same
    /// arguments.
    pub(crate) fn block(&self, filter: &str, cause: &ThrottleCause) {
        let mut filters = self.filters.write().unwrap_or_else(PoisonError::into_inner);
        let node = filters.entry(matched(filter));
        let sessions = filters.remove_value(node, |held| held.cause == *cause).map_or(0, |held| held.sessions);
        filters.push_value(node, FilterBlock { cause: cause.clone(), sessions: sessions + 1 });
        self.blocked.fetch_add(1, Ordering::Release);
    }

    /// Reverts one [`Throttle::block`].
    pub(crate) fn unblock(&self, filter: &str, cause: &ThrottleCause) {
        let mut filters = self.filters.write().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = filters.find(matched(filter)) else { return };
        let Some(held) = filters.remove_value(node, |held| held.cause == *cause) else { return };
        if held.sessions > 1 {
            filters.push_value(node, FilterBlock { sessions: held.sessions - 1, ..held });
        }
        filters.prune(node);
        self.blocked.fetch_sub(1, Ordering::Release);
    }

    /// The effect of blocked filters on a message of `topic`, if any.
    #[inline]
    pub(crate) fn effect_on(&self, topic: &str, policies: &SlowConsumers) -> Option<ThrottleEffect> {
        if self.blocked.load(Ordering::Acquire) == 0 { None } else { self.strictest(topic, policies) }
    }

    #[cold]
    fn strictest(&self, topic: &str, policies: &SlowConsumers) -> Option<ThrottleEffect> {
        let mut strictest: Option<ThrottleEffect> = None;
        let filters = self.filters.read().unwrap_or_else(PoisonError::into_inner);
        filters.matches(topic, &mut |_, found: &[FilterBlock]| {
            let effects = found.iter().filter_map(|filter| ThrottleEffect::by(&filter.cause, topic, policies));
            strictest = strictest.into_iter().chain(effects).min();
        });
        strictest
    }
}

/// The part of a filter that is matched against topics.
fn matched(filter: &str) -> &str {
    let request = TopicFilter::new(filter).ok().and_then(|filter| transcoding::requested_format(filter, None).ok());
    request.map_or(filter, |request| request.filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(throttle: &Throttle, topic: &str) -> bool {
        throttle.effect_on(topic, &SlowConsumers::default()).is_some()
    }

    #[test]
    fn a_filter_with_a_format_blocks_the_topics_that_it_matches() {
        let throttle = Throttle::default();
        throttle.block("$as/json/a/+", &ThrottleCause::Memory);
        assert!(is_blocked(&throttle, "a/b"));
        throttle.unblock("$as/json/a/+", &ThrottleCause::Memory);
        assert!(!is_blocked(&throttle, "a/b"));
    }

    #[test]
    fn a_topic_is_blocked_until_all_blocks_are_removed() {
        let throttle = Throttle::default();
        assert!(!is_blocked(&throttle, "a/b"));
        throttle.block("a/+", &ThrottleCause::Memory);
        throttle.block("$share/g/a/+", &ThrottleCause::Memory);
        throttle.block("a/#", &ThrottleCause::Memory);
        assert!(is_blocked(&throttle, "a/b") && !is_blocked(&throttle, "b"));
        throttle.unblock("a/+", &ThrottleCause::Memory);
        throttle.unblock("a/#", &ThrottleCause::Memory);
        assert!(is_blocked(&throttle, "a/b"), "the shared subscription still blocks it");
        throttle.unblock("a/#", &ThrottleCause::Memory);
        throttle.unblock("$share/g/a/+", &ThrottleCause::Memory);
        assert!(!is_blocked(&throttle, "a/b"));
        assert_eq!(throttle.blocked.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_policy_of_a_full_queue_depends_on_topic_user_and_config() {
        let throttle = Throttle::default();
        throttle.block("#", &ThrottleCause::Queue(Some("ann".into())));
        let blocked = |topic, policies: &SlowConsumers| throttle.effect_on(topic, policies);
        let mut policies = SlowConsumers::from(SlowConsumer::Refuse);
        assert_eq!(blocked("a", &policies), Some(ThrottleEffect::Refused));
        policies.users = vec![("bob".into(), SlowConsumer::DropNew), ("ann".into(), SlowConsumer::PausePublisher)];
        assert_eq!(blocked("a", &policies), Some(ThrottleEffect::Paused));
        policies.topics = vec![("telemetry/#".into(), SlowConsumer::DropOld)];
        assert_eq!(blocked("telemetry/a", &policies), None);
        assert_eq!(blocked("a", &SlowConsumers::default()), None);
        throttle.block("a", &ThrottleCause::Memory);
        assert_eq!(blocked("a", &policies), Some(ThrottleEffect::NoMemory), "the strictest applies");
    }
}
