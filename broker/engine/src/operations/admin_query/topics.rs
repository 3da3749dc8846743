//! Queries for the tree of topics with retained messages, one level at a time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tautwire_router::{Exchange, RetainedListing};

use super::page::PAGE_MAX;
use super::retained::insert_if_first;
use crate::scheduling::work_budget::JOB_SLICE_STEPS;

/// Selects a part of the tree.
#[derive(Debug, Clone)]
pub struct TopicsQuery {
    /// The topic whose next levels are listed; `None` for the first levels of all topics.
    pub below: Option<Box<str>>,
    /// Only levels after this one, in byte order.
    pub after: Option<Box<str>>,
    /// The maximum number of levels, up to [`PAGE_MAX`].
    pub limit: usize,
}

/// The retained messages of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicLevel {
    /// Whether the topic that ends with this level has a retained message.
    pub retained: bool,
    /// The number of retained messages below it.
    pub below: u64,
}

/// Levels in order, with their retained messages.
pub type TopicLevels = Vec<(Box<str>, TopicLevel)>;

/// A search over all messages below a topic, which collects the first levels.
#[derive(Debug)]
pub(crate) struct TopicSearch {
    query: TopicsQuery,
    listing: Option<RetainedListing>,
    levels: BTreeMap<Box<str>, TopicLevel>,
}

impl TopicSearch {
    pub(crate) fn new(exchange: &Exchange, query: TopicsQuery) -> TopicSearch {
        let query = TopicsQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
        let filter = query.below.as_ref().map(|below| format!("{below}/#"));
        let listing = exchange.list_retained(filter.as_deref());
        TopicSearch { query, listing, levels: BTreeMap::new() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.listing.as_ref().is_none_or(RetainedListing::is_done)
    }

    /// Scans more messages; returns the number of steps.
    pub(crate) fn advance(&mut self, exchange: &Exchange, now_ms: u64) -> usize {
        let TopicSearch { query: TopicsQuery { below, after, limit }, listing, levels } = self;
        let Some(listing) = listing else { return 1 };
        let mut left = JOB_SLICE_STEPS as u64;
        exchange.continue_listing(listing, &mut left, |topic, body| {
            let rest = match below {
                Some(below) => topic.strip_prefix(&**below).and_then(|rest| rest.strip_prefix('/')),
                None => Some(topic),
            };
            // The filter also covers the topic above.
            if let Some(rest) = rest.filter(|_| !body.is_expired(now_ms)) {
                let (level, deeper) = rest.split_once('/').map_or((rest, false), |(level, _)| (level, true));
                // A level that is omitted here, or evicted for lower ones, is never inserted again, so counts are complete.
                if let Some(counts) = insert_if_first(levels, *limit, level, after.as_deref(), TopicLevel::default) {
                    counts.retained |= !deeper;
                    counts.below += u64::from(deeper);
                }
            }
            ControlFlow::Continue(())
        });
        (JOB_SLICE_STEPS - left as usize).max(1)
    }

    pub(crate) fn finish(self) -> TopicLevels {
        self.levels.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tautwire_message::{MessageId, MessageRef};
    use tautwire_protocol::QoS;
    use tautwire_router::RetainedLimits;

    fn exchange(topics: &[&str]) -> Exchange {
        let exchange = Exchange::new(1, RetainedLimits { messages: 10_000, bytes: 1 << 20 });
        for topic in topics {
            let message = MessageRef {
                id: MessageId::NONE,
                topic,
                properties: &[],
                payload: b"x",
                qos: QoS::AtMostOnce,
                retain: true,
                expires_at_ms: None,
            };
            exchange.retain(&message, || message.to_message()).expect("a retained message");
        }
        exchange
    }

    fn levels(exchange: &Exchange, below: Option<&str>, after: Option<&str>, limit: usize) -> Vec<(String, bool, u64)> {
        let query = TopicsQuery { below: below.map(Box::from), after: after.map(Box::from), limit };
        let mut search = TopicSearch::new(exchange, query);
        while !search.is_done() {
            assert!(search.advance(exchange, 0) <= JOB_SLICE_STEPS);
        }
        search.finish().into_iter().map(|(level, counts)| (level.into(), counts.retained, counts.below)).collect()
    }

    #[test]
    fn a_level_lists_its_messages_and_levels() {
        let exchange = exchange(&["a", "a/b", "a/b/c", "a/d/e", "/x", "ab", "$SYS/n", "a/b/c/d"]);
        let of = |level: &str, retained, below| (level.to_owned(), retained, below);
        assert_eq!(
            levels(&exchange, None, None, 10),
            [of("", false, 1), of("$SYS", false, 1), of("a", true, 4), of("ab", true, 0)]
        );
        assert_eq!(levels(&exchange, Some("a"), None, 10), [of("b", true, 2), of("d", false, 1)]);
        assert_eq!(levels(&exchange, Some(""), None, 10), [of("x", true, 0)]);
        assert_eq!(levels(&exchange, Some("$SYS"), None, 10), [of("n", true, 0)]);
        assert_eq!(levels(&exchange, Some("nothing"), None, 10), []);
        assert_eq!(levels(&exchange, None, Some("$SYS"), 1), [of("a", true, 4)]);
    }

    #[test]
    fn a_page_is_complete_in_any_tree_order() {
        let topics: Vec<String> = (0..3_000).map(|number| format!("r/{:03}/{number}", number * 7 % 300)).collect();
        let exchange = exchange(&topics.iter().map(String::as_str).collect::<Vec<_>>());
        let mut after = None;
        for page in 0..30 {
            let counts = levels(&exchange, Some("r"), after.as_deref(), 10);
            let expected: Vec<_> = (0..10).map(|at| (format!("{:03}", page * 10 + at), false, 10)).collect();
            assert_eq!(counts, expected);
            after = counts.last().map(|(level, ..)| level.clone());
        }
    }
}
