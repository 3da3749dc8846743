//! Topic filters that are closed for messages of QoS 1 and 2, on all shards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tautwire_protocol::TopicFilter;
use tautwire_topics::FilterTree;

use crate::routing::transcoding;
use crate::session::slow_consumer::{SlowConsumer, SlowConsumers};

/// Why a filter is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThrottleCause {
    /// A session holds more than its share of memory.
    Memory,
    /// The queue of a session is full, and what that means for publishers depends on the topic and on the session's user.
    Queue(Option<Arc<str>>),
}

/// What a message on a closed topic meets. The first is the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ThrottleEffect {
    /// A session that wants it has no memory left.
    NoMemory,
    /// The queue of a session that wants it is full, and the message is refused.
    Refused,
    /// The queue of a session that wants it is full, and the publisher waits.
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

/// How many sessions have closed a filter for one cause.
#[derive(Debug)]
struct FilterClosure {
    cause: ThrottleCause,
    sessions: usize,
}

/// The filters that are closed, on all shards. There are few, or none most of the time.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    closed: AtomicUsize,
    filters: RwLock<FilterTree<FilterClosure>>,
}

impl Throttle {
    /// Closes `filter` once more. It may be the filter of a shared subscription, or a topic. Each call needs its own [`Throttle::open`]
    /// with the same arguments.
    pub(crate) fn close(&self, filter: &str, cause: &ThrottleCause) {
        let mut filters = self.filters.write().unwrap_or_else(PoisonError::into_inner);
        let node = filters.entry(matched(filter));
        let sessions = filters.remove_value(node, |held| held.cause == *cause).map_or(0, |held| held.sessions);
        filters.push_value(node, FilterClosure { cause: cause.clone(), sessions: sessions + 1 });
        self.closed.fetch_add(1, Ordering::Release);
    }

    /// Takes back one [`Throttle::close`].
    pub(crate) fn open(&self, filter: &str, cause: &ThrottleCause) {
        let mut filters = self.filters.write().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = filters.find(matched(filter)) else { return };
        let Some(held) = filters.remove_value(node, |held| held.cause == *cause) else { return };
        if held.sessions > 1 {
            filters.push_value(node, FilterClosure { sessions: held.sessions - 1, ..held });
        }
        filters.prune(node);
        self.closed.fetch_sub(1, Ordering::Release);
    }

    /// What stops a message of `topic`, if something does.
    #[inline]
    pub(crate) fn blocked(&self, topic: &str, policies: &SlowConsumers) -> Option<ThrottleEffect> {
        if self.closed.load(Ordering::Acquire) == 0 { None } else { self.strictest(topic, policies) }
    }

    #[cold]
    fn strictest(&self, topic: &str, policies: &SlowConsumers) -> Option<ThrottleEffect> {
        let mut strictest: Option<ThrottleEffect> = None;
        let filters = self.filters.read().unwrap_or_else(PoisonError::into_inner);
        filters.matches(topic, &mut |_, closings: &[FilterClosure]| {
            let blocked = closings.iter().filter_map(|closing| ThrottleEffect::by(&closing.cause, topic, policies));
            strictest = strictest.into_iter().chain(blocked).min();
        });
        strictest
    }
}

/// The part of a filter that is compared with topics.
fn matched(filter: &str) -> &str {
    let wanted = TopicFilter::new(filter).ok().and_then(|filter| transcoding::requested_format(filter, None).ok());
    wanted.map_or(filter, |wanted| wanted.filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_closed(throttle: &Throttle, topic: &str) -> bool {
        throttle.blocked(topic, &SlowConsumers::default()).is_some()
    }

    #[test]
    fn a_filter_that_names_a_format_closes_the_topics_that_it_matches() {
        let throttle = Throttle::default();
        throttle.close("$as/json/a/+", &ThrottleCause::Memory);
        assert!(is_closed(&throttle, "a/b"));
        throttle.open("$as/json/a/+", &ThrottleCause::Memory);
        assert!(!is_closed(&throttle, "a/b"));
    }

    #[test]
    fn a_topic_is_closed_until_each_closing_has_been_taken_back() {
        let throttle = Throttle::default();
        assert!(!is_closed(&throttle, "a/b"));
        throttle.close("a/+", &ThrottleCause::Memory);
        throttle.close("$share/g/a/+", &ThrottleCause::Memory);
        throttle.close("a/#", &ThrottleCause::Memory);
        assert!(is_closed(&throttle, "a/b") && !is_closed(&throttle, "b"));
        throttle.open("a/+", &ThrottleCause::Memory);
        throttle.open("a/#", &ThrottleCause::Memory);
        assert!(is_closed(&throttle, "a/b"), "the shared subscription is still closed");
        throttle.open("a/#", &ThrottleCause::Memory);
        throttle.open("$share/g/a/+", &ThrottleCause::Memory);
        assert!(!is_closed(&throttle, "a/b"));
        assert_eq!(throttle.closed.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_a_full_queue_means_depends_on_the_topic_then_on_the_user_and_on_what_is_configured_now() {
        let throttle = Throttle::default();
        throttle.close("#", &ThrottleCause::Queue(Some("ann".into())));
        let blocked = |topic, policies: &SlowConsumers| throttle.blocked(topic, policies);
        let mut policies = SlowConsumers::from(SlowConsumer::Refuse);
        assert_eq!(blocked("a", &policies), Some(ThrottleEffect::Refused));
        policies.users = vec![("bob".into(), SlowConsumer::DropNew), ("ann".into(), SlowConsumer::PausePublisher)];
        assert_eq!(blocked("a", &policies), Some(ThrottleEffect::Paused));
        policies.topics = vec![("telemetry/#".into(), SlowConsumer::DropOld)];
        assert_eq!(blocked("telemetry/a", &policies), None);
        assert_eq!(blocked("a", &SlowConsumers::default()), None);
        throttle.close("a", &ThrottleCause::Memory);
        assert_eq!(blocked("a", &policies), Some(ThrottleEffect::NoMemory), "the strictest counts");
    }
}
