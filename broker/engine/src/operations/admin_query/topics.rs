//! The tree of topics with retained messages, one level at a time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tautwire_router::{Exchange, RetainedListing};

use super::page::PAGE_MAX;
use super::retained::keep_first;
use crate::scheduling::work_budget::JOB_SLICE_STEPS;

/// Which part of the tree is wanted.
#[derive(Debug, Clone)]
pub struct TopicsQuery {
    /// The levels right below this topic; `None` for the first levels of all topics.
    pub below: Option<Box<str>>,
    /// Only levels behind this one, in the order of their bytes.
    pub after: Option<Box<str>>,
    /// So many, at most [`PAGE_MAX`].
    pub limit: usize,
}

/// What is known of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicLevel {
    /// Whether the topic that ends with it retains a message.
    pub retained: bool,
    /// Retained messages further below.
    pub below: u64,
}

/// Levels in their order, each with what is known of it.
pub type TopicLevels = Vec<(Box<str>, TopicLevel)>;

/// A look at all messages below a topic, which keeps the first levels.
#[derive(Debug)]
pub(crate) struct TopicSearch {
    query: TopicsQuery,
    look: Option<RetainedListing>,
    levels: BTreeMap<Box<str>, TopicLevel>,
}

impl TopicSearch {
    pub(crate) fn new(exchange: &Exchange, query: TopicsQuery) -> TopicSearch {
        let query = TopicsQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
        let filter = query.below.as_ref().map(|below| format!("{below}/#"));
        let look = exchange.list_retained(filter.as_deref());
        TopicSearch { query, look, levels: BTreeMap::new() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.look.as_ref().is_none_or(RetainedListing::is_done)
    }

    /// Looks at some more messages; says how many steps that took.
    pub(crate) fn advance(&mut self, exchange: &Exchange, now_ms: u64) -> usize {
        let TopicSearch { query: TopicsQuery { below, after, limit }, look, levels } = self;
        let Some(look) = look else { return 1 };
        let mut left = JOB_SLICE_STEPS as u64;
        exchange.continue_listing(look, &mut left, |topic, body| {
            let rest = match below {
                Some(below) => topic.strip_prefix(&**below).and_then(|rest| rest.strip_prefix('/')),
                None => Some(topic),
            };
            // The filter covers the topic above as well.
            if let Some(rest) = rest.filter(|_| !body.is_expired(now_ms)) {
                let (level, deeper) = rest.split_once('/').map_or((rest, false), |(level, _)| (level, true));
                // A level that is left out here, or dropped for lower ones, never comes back: what is counted is whole.
                if let Some(found) = keep_first(levels, *limit, level, after.as_deref(), TopicLevel::default) {
                    found.retained |= !deeper;
                    found.below += u64::from(deeper);
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
            exchange.retain(&message, || message.to_message()).expect("there is room");
        }
        exchange
    }

    fn levels(exchange: &Exchange, below: Option<&str>, after: Option<&str>, limit: usize) -> Vec<(String, bool, u64)> {
        let query = TopicsQuery { below: below.map(Box::from), after: after.map(Box::from), limit };
        let mut search = TopicSearch::new(exchange, query);
        while !search.is_done() {
            assert!(search.advance(exchange, 0) <= JOB_SLICE_STEPS);
        }
        search.finish().into_iter().map(|(level, found)| (level.into(), found.retained, found.below)).collect()
    }

    #[test]
    fn a_level_says_what_is_there_and_below() {
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
    fn a_page_counts_in_full_whatever_order_the_tree_has() {
        let topics: Vec<String> = (0..3_000).map(|number| format!("r/{:03}/{number}", number * 7 % 300)).collect();
        let exchange = exchange(&topics.iter().map(String::as_str).collect::<Vec<_>>());
        let mut after = None;
        for page in 0..30 {
            let found = levels(&exchange, Some("r"), after.as_deref(), 10);
            let expected: Vec<_> = (0..10).map(|at| (format!("{:03}", page * 10 + at), false, 10)).collect();
            assert_eq!(found, expected);
            after = found.last().map(|(level, ..)| level.clone());
        }
    }
}
