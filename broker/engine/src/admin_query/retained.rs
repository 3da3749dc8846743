//! Retained messages: a page of them, one of them, and their removal by filter.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tautwire_message::{Body, Message, Spilled};
use tautwire_protocol::{QoS, TopicName};
use tautwire_router::{Exchange, RetainedListing};

use super::PAGE_MAX;
use crate::connections::{LoadQueue, LoadResult};
use crate::jobs::JOB_SLICE_STEPS;
use crate::mode::Mode;
use crate::operator::{Publication, PublishConfirm, PublishFailure};
use crate::shard::Shard;
use crate::state::ShardState;

/// Messages that one slice removes. Each is a publish, to the log and to subscribers.
const REMOVED_PER_SLICE: usize = 32;
/// What a removal counts for in the steps of a turn.
const REMOVAL_STEPS: usize = JOB_SLICE_STEPS / REMOVED_PER_SLICE;
/// Messages that one request removes; whoever asks goes on with another one.
const REMOVED_MAX: u64 = 10_000;

/// Which retained messages are wanted.
#[derive(Debug, Clone)]
pub struct RetainedQuery {
    /// The filter that covers their topics.
    pub filter: Box<str>,
    /// Only topics behind this one, in the order of their bytes.
    pub after: Option<Box<str>>,
    /// So many, at most [`PAGE_MAX`].
    pub limit: usize,
}

/// Some retained messages, in the order of their topics.
#[derive(Debug, Default)]
pub struct RetainedPage {
    /// How many the filter covers in all, before and behind these as well.
    pub matched: u64,
    /// Topics with their messages.
    pub messages: Vec<(Box<str>, Body)>,
}

/// What a topic retains.
#[derive(Debug)]
pub enum FetchedMessage {
    /// Nothing.
    Nothing,
    /// This.
    Message(Message),
    /// A message that could not be read back from the disk.
    Unreadable,
}

/// What has come of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemovalResult {
    /// Messages that have gone.
    pub removed: u64,
    /// Messages that may not be removed: those of the broker itself, and what the access rules keep from operators.
    pub refused: u64,
    /// There may be more: so many have gone as one request removes, or the log or another thread is behind.
    pub has_more: bool,
    /// What has been written down because of it. It is to be kept before anybody is told.
    pub promise: Option<PublishConfirm>,
}

/// A look at all that a filter covers, which keeps the first messages of the order.
#[derive(Debug)]
pub(crate) struct RetainedSearch {
    query: RetainedQuery,
    look: Option<RetainedListing>,
    page: BTreeMap<Box<str>, Body>,
    matched: u64,
}

impl RetainedSearch {
    pub(crate) fn new(exchange: &Exchange, query: RetainedQuery) -> RetainedSearch {
        let query = RetainedQuery { limit: query.limit.clamp(1, PAGE_MAX), ..query };
        let look = exchange.list_retained(Some(&query.filter));
        RetainedSearch { query, look, page: BTreeMap::new(), matched: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.look.as_ref().is_none_or(RetainedListing::is_done)
    }

    /// Looks at some more messages; says how many steps that took.
    pub(crate) fn advance(&mut self, exchange: &Exchange, now_ms: u64) -> usize {
        let RetainedSearch { query: RetainedQuery { after, limit, .. }, look, page, matched } = self;
        let Some(look) = look else { return 1 };
        let mut left = JOB_SLICE_STEPS as u64;
        exchange.continue_listing(look, &mut left, |topic, body| {
            if !body.is_expired(now_ms) {
                *matched += 1;
                keep_first(page, *limit, topic, after.as_deref(), || body.clone());
            }
            ControlFlow::Continue(())
        });
        (JOB_SLICE_STEPS - left as usize).max(1)
    }

    pub(crate) fn finish(self) -> RetainedPage {
        RetainedPage { matched: self.matched, messages: self.page.into_iter().collect() }
    }
}

/// Keeps an entry if it is among the first `limit` behind `after`; gives it where it is kept.
pub(super) fn keep_first<'p, V>(
    page: &'p mut BTreeMap<Box<str>, V>,
    limit: usize,
    key: &str,
    after: Option<&str>,
    make: impl FnOnce() -> V,
) -> Option<&'p mut V> {
    if after.is_some_and(|after| key <= after) {
        return None;
    }
    if !page.contains_key(key) {
        if page.len() == limit {
            if page.last_key_value().is_some_and(|(last, _)| &**last < key) {
                return None;
            }
            page.pop_last();
        }
        page.insert(key.into(), make());
    }
    page.get_mut(key)
}

/// A message that somebody wants to see, and that may have to be read back first.
#[derive(Debug)]
pub(crate) struct Fetch {
    topic: Box<str>,
    pub(crate) load_queue: LoadQueue,
    /// It has been asked for.
    cold: Option<Spilled>,
}

impl Fetch {
    pub(crate) fn new(topic: Box<str>) -> Fetch {
        Fetch { topic, load_queue: LoadQueue::default(), cold: None }
    }

    /// What the topic retains, or what must be read first.
    pub(crate) fn look<M: Mode>(&mut self, state: &ShardState<M>) -> Result<FetchedMessage, Spilled> {
        if let Some(cold) = self.cold.clone() {
            return match self.load_queue.take(&cold) {
                LoadResult::Loaded(message) => Ok(FetchedMessage::Message(message)),
                LoadResult::Failed => Ok(FetchedMessage::Unreadable),
                LoadResult::Missing => Err(cold),
            };
        }
        match state.context.exchange().retained_message(&self.topic) {
            Some(body) if body.is_expired(state.clock.now_ms()) => Ok(FetchedMessage::Nothing),
            Some(Body::Loaded(message)) => Ok(FetchedMessage::Message(message)),
            Some(Body::Spilled(cold)) => Err(self.cold.insert(cold).clone()),
            None => Ok(FetchedMessage::Nothing),
        }
    }
}

/// A removal of all that a filter covers.
#[derive(Debug)]
pub(crate) struct Removal {
    look: Option<RetainedListing>,
    outcome: RemovalResult,
}

impl Removal {
    pub(crate) fn new(exchange: &Exchange, filter: &str) -> Removal {
        Removal { look: exchange.list_retained(Some(filter)), outcome: RemovalResult::default() }
    }

    /// Whether there is nothing more to do for this request.
    pub(crate) fn is_done(&self) -> bool {
        self.outcome.has_more || self.look.as_ref().is_none_or(RetainedListing::is_done)
    }

    pub(crate) fn finish(self) -> RemovalResult {
        self.outcome
    }
}

impl<M: Mode> Shard<M> {
    /// One slice of a removal, and how many steps it took. Each message goes as if a client had published an empty one with RETAIN
    /// [MQTT-3.3.1-6]: the log has it, and who subscribes to the topic is told.
    pub(crate) fn go_on_removing(&mut self, removal: &mut Removal) -> usize {
        let Removal { look: Some(look), outcome } = removal else { return 1 };
        let mut left = JOB_SLICE_STEPS as u64;
        let mut topics: Vec<Box<str>> = Vec::with_capacity(REMOVED_PER_SLICE);
        self.state.context.exchange().continue_listing(look, &mut left, |topic, _| {
            topics.push(topic.into());
            if topics.len() == REMOVED_PER_SLICE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let mut steps = JOB_SLICE_STEPS - left as usize;
        for topic in topics {
            if outcome.removed >= REMOVED_MAX {
                outcome.has_more = true;
                break;
            }
            steps += REMOVAL_STEPS;
            match self.remove_retained(&topic) {
                Ok(promise) => {
                    outcome.removed += 1;
                    outcome.promise = PublishConfirm::both(outcome.promise, promise);
                }
                Err(PublishFailure::Refused(..)) => outcome.refused += 1,
                Err(PublishFailure::Busy | PublishFailure::NotDurable | PublishFailure::RejectedByCluster) => {
                    outcome.has_more = true;
                    break;
                }
            }
        }
        steps.max(1)
    }

    fn remove_retained(&mut self, topic: &str) -> Result<Option<PublishConfirm>, PublishFailure> {
        let topic = TopicName::new(topic).map_err(|error| {
            PublishFailure::Refused(tautwire_protocol::ReasonCode::TopicNameInvalid, error.to_string().into())
        })?;
        let publication = Publication { topic, content_type: None, payload: &[], qos: QoS::AtMostOnce, retain: true };
        let now_ms = self.state.clock.now_ms();
        Ok(self.publish_for_operator(&publication.to_message(), now_ms)?.promise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::mpsc::{Receiver, channel};

    use crate::mode::Volatile;
    use tautwire_router::{RetainedLimits, ShardIndex};

    use crate::admin_query::{AdminQuery, Reply};
    use crate::jobs::STEPS_MAX;
    use crate::{Settings, Shared};

    const NOW_MS: u64 = 1_700_000_000_000;
    const MESSAGES: usize = 100_000;

    fn shard(messages: usize) -> Shard<Volatile> {
        let limits = RetainedLimits { messages: MESSAGES, bytes: 1 << 30 };
        let shard =
            Shard::new(ShardIndex(0), Shared::new(Settings::default(), Exchange::new(1, limits)), Volatile, NOW_MS);
        for number in 0..messages {
            retain(&shard, &format!("r/s{}/d{number:05}", number % 100), b"x");
        }
        shard
    }

    fn retain(shard: &Shard<Volatile>, topic: &str, payload: &[u8]) {
        let topic = TopicName::new(topic).expect("a valid topic");
        let publication = Publication { topic, content_type: None, payload, qos: QoS::AtMostOnce, retain: true };
        let message = publication.to_message();
        shard.state.context.exchange().retain(&message.as_ref(), || message.clone()).expect("there is room");
    }

    fn ask<T: Send + 'static>(shard: &mut Shard<Volatile>, survey: impl FnOnce(Reply<T>) -> AdminQuery) -> Receiver<T> {
        let (sender, answer) = channel();
        shard.run_admin_query(survey(Reply::new(move |found| _ = sender.send(found))), NOW_MS);
        answer
    }

    /// Makes turns until the answer is there; gives it and the number of turns.
    fn turns<T>(shard: &mut Shard<Volatile>, answer: &Receiver<T>) -> (T, usize) {
        for turns in 0..1_000_000 {
            if let Ok(answer) = answer.try_recv() {
                return (answer, turns);
            }
            shard.do_jobs();
        }
        panic!("there is no answer");
    }

    fn list(shard: &mut Shard<Volatile>, filter: &str, after: Option<&str>, limit: usize) -> (RetainedPage, usize) {
        let query = RetainedQuery { filter: filter.into(), after: after.map(Box::from), limit };
        let answer = ask(shard, |reply| AdminQuery::Retained(query, reply));
        turns(shard, &answer)
    }

    #[test]
    fn no_turn_looks_at_more_than_its_share_of_100_000_messages() {
        let mut shard = shard(MESSAGES);
        let (page, turns) = list(&mut shard, "#", None, 3);
        let topics: Vec<&str> = page.messages.iter().map(|(topic, _)| &**topic).collect();
        assert_eq!(topics, ["r/s0/d00000", "r/s0/d00100", "r/s0/d00200"]);
        assert_eq!(page.matched, MESSAGES as u64);
        // Each message is at least a step, and there are few places besides.
        assert!((MESSAGES / STEPS_MAX..MESSAGES / STEPS_MAX + 8).contains(&turns), "{turns} turns");
        let (page, _) = list(&mut shard, "r/+/d99999", None, 10);
        assert_eq!((page.matched, page.messages.len()), (1, 1));
    }

    #[test]
    fn a_search_ends_when_whoever_asked_has_gone_and_a_removal_does_not() {
        let mut shard = shard(20_000);
        let asker = std::sync::Arc::new(());
        let (sender, answer) = channel();
        let query = || RetainedQuery { filter: "#".into(), after: None, limit: 1 };
        for _ in 0..super::super::ADMIN_QUERIES_MAX - 1 {
            let sender = sender.clone();
            shard.run_admin_query(
                AdminQuery::Retained(query(), Reply::to(&asker, move |page| _ = sender.send(page))),
                NOW_MS,
            );
        }
        drop(sender);
        let removed = ask(&mut shard, |reply| AdminQuery::RemoveRetained("r/s0/#".into(), reply));
        shard.do_jobs();
        assert!(shard.has_jobs());
        drop(asker);
        assert_eq!(turns(&mut shard, &removed).0.removed, 200);
        assert!(!shard.has_jobs() && answer.recv().is_err(), "nobody is told anything");
        assert_eq!(shard.state.counters().surveys_abandoned.get(), super::super::ADMIN_QUERIES_MAX as u64 - 1);
        // There is room for as many again.
        assert_eq!(list(&mut shard, "#", None, 1).0.matched, 20_000 - 200);
    }

    #[test]
    fn pages_follow_one_another_and_leave_nothing_out() {
        let mut shard = shard(1_000);
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let (page, _) = list(&mut shard, "r/#", after.as_deref(), 64);
            assert_eq!(page.matched, 1_000);
            let Some((last, _)) = page.messages.last() else { break };
            after = Some(last.to_string());
            found.extend(page.messages.into_iter().map(|(topic, _)| topic));
        }
        assert!(found.len() == 1_000 && found.is_sorted());
    }

    #[test]
    fn a_turn_removes_no_more_than_its_share_and_a_request_no_more_than_its_own() {
        let mut shard = shard(REMOVED_MAX as usize + 500);
        let remove = |shard: &mut Shard<Volatile>, filter: &str| {
            let answer = ask(shard, |reply| AdminQuery::RemoveRetained(filter.into(), reply));
            turns(shard, &answer)
        };
        let (first, turns) = remove(&mut shard, "r/#");
        assert_eq!((first.removed, first.refused, first.has_more), (REMOVED_MAX, 0, true));
        let per_turn = STEPS_MAX / REMOVAL_STEPS;
        assert!(turns >= REMOVED_MAX as usize / per_turn, "{turns} turns");
        let (second, _) = remove(&mut shard, "r/#");
        assert_eq!((second.removed, second.has_more), (500, false));
        assert_eq!(shard.state.context.exchange().retained().0, 0);
        retain(&shard, "$SYS/x", b"1");
        let (kept, _) = remove(&mut shard, "$SYS/#");
        assert_eq!((kept.removed, kept.refused), (0, 1), "the broker's own messages stay");
        assert_eq!(remove(&mut shard, "none").0, RemovalResult::default());
    }

    #[test]
    fn one_message_is_fetched_and_what_has_expired_is_not() {
        let mut shard = shard(1);
        let fetch = |shard: &mut Shard<Volatile>, topic: &str| {
            let answer = ask(shard, |reply| AdminQuery::RetainedMessage(topic.into(), reply));
            turns(shard, &answer).0
        };
        assert!(
            matches!(fetch(&mut shard, "r/s0/d00000"), FetchedMessage::Message(message) if message.payload() == b"x")
        );
        assert!(matches!(fetch(&mut shard, "r/s0"), FetchedMessage::Nothing));
        let message = Publication {
            topic: TopicName::new("old").expect("a valid topic"),
            content_type: None,
            payload: b"x",
            qos: QoS::AtMostOnce,
            retain: true,
        }
        .to_message();
        let old = tautwire_message::MessageRef { expires_at_ms: Some(NOW_MS - 1), ..message.as_ref() };
        shard.state.context.exchange().retain(&old, || old.to_message()).expect("there is room");
        assert!(matches!(fetch(&mut shard, "old"), FetchedMessage::Nothing));
        assert_eq!(list(&mut shard, "old", None, 1).0.matched, 0);
    }
}
