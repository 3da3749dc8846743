//! Steps of [`super`] that need several states of a shard.

use std::ops::ControlFlow;

use tautwire_message::{Body, Spilled};
use tautwire_protocol::{QoS, TopicName};

use super::{Fetch, FetchedMessage, Removal};
use crate::connection::connections::{LoadQueue, LoadResult};
use crate::mode::Mode;
use crate::operations::operator::{Publication, PublishConfirm, PublishFailure};
use crate::scheduling::work_budget::JOB_SLICE_STEPS;
use crate::shard::Shard;
use crate::shard::ShardState;

/// The maximum number of messages that one slice removes. Each is a publish, to the log and to subscribers.
const REMOVED_PER_SLICE: usize = 32;

/// The steps of a turn that one removal counts for.
const REMOVAL_STEPS: usize = JOB_SLICE_STEPS / REMOVED_PER_SLICE;

/// The maximum number of messages that one request removes; the caller sends another request for more.
const REMOVED_MAX: u64 = 10_000;

impl Fetch {
    pub(crate) fn new(topic: Box<str>) -> Fetch {
        Fetch { topic, load_queue: LoadQueue::default(), spilled: None }
    }

    /// The topic's retained message, or the spilled message to load first.
    pub(crate) fn find<M: Mode>(&mut self, state: &ShardState<M>) -> Result<FetchedMessage, Spilled> {
        if let Some(spilled) = self.spilled.clone() {
            return match self.load_queue.take(&spilled) {
                LoadResult::Loaded(message) => Ok(FetchedMessage::Message(message)),
                LoadResult::Failed => Ok(FetchedMessage::Unreadable),
                LoadResult::Missing => Err(spilled),
            };
        }
        match state.context.exchange().retained_message(&self.topic) {
            Some(body) if body.is_expired(state.clock.now_ms()) => Ok(FetchedMessage::Nothing),
            Some(Body::Loaded(message)) => Ok(FetchedMessage::Message(message)),
            Some(Body::Spilled(spilled)) => Err(self.spilled.insert(spilled).clone()),
            None => Ok(FetchedMessage::Nothing),
        }
    }
}

impl<M: Mode> Shard<M> {
    /// Runs one slice of a removal and returns its steps. Each message is removed as if a client had published an empty one with RETAIN
    /// [MQTT-3.3.1-6]: it is recorded in the log and sent to subscribers.
    pub(crate) fn continue_removal(&mut self, removal: &mut Removal) -> usize {
        let Removal { listing: Some(listing), outcome } = removal else { return 1 };
        let mut left = JOB_SLICE_STEPS as u64;
        let mut topics: Vec<Box<str>> = Vec::with_capacity(REMOVED_PER_SLICE);
        self.state.context.exchange().continue_listing(listing, &mut left, |topic, _| {
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
                Ok(confirm) => {
                    outcome.removed += 1;
                    outcome.confirm = PublishConfirm::both(outcome.confirm, confirm);
                }
                Err(PublishFailure::Refused(..)) => outcome.refused += 1,
                Err(PublishFailure::Busy | PublishFailure::NotDurable | PublishFailure::NotStored) => {
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
        Ok(self.publish_for_operator(&publication.to_message(), now_ms)?.confirm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::mpsc::{Receiver, channel};

    use crate::mode::Volatile;
    use tautwire_router::{Exchange, RetainedLimits, ShardIndex};

    use crate::operations::admin_query::page::ADMIN_QUERIES_MAX;
    use crate::operations::admin_query::{AdminQuery, RemovalResult, Reply, RetainedPage, RetainedQuery};
    use crate::scheduling::work_budget::STEPS_MAX;
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
        shard.state.context.exchange().retain(&message.as_ref(), || message.clone()).expect("a retained message");
    }

    fn ask<T: Send + 'static>(shard: &mut Shard<Volatile>, query: impl FnOnce(Reply<T>) -> AdminQuery) -> Receiver<T> {
        let (sender, answer) = channel();
        shard.run_admin_query(query(Reply::new(move |found| _ = sender.send(found))), NOW_MS);
        answer
    }

    /// Runs turns until the answer arrives; returns it and the number of turns.
    fn turns<T>(shard: &mut Shard<Volatile>, answer: &Receiver<T>) -> (T, usize) {
        for turns in 0..1_000_000 {
            if let Ok(answer) = answer.try_recv() {
                return (answer, turns);
            }
            shard.do_jobs();
        }
        panic!("no answer");
    }

    fn list(shard: &mut Shard<Volatile>, filter: &str, after: Option<&str>, limit: usize) -> (RetainedPage, usize) {
        let query = RetainedQuery { filter: filter.into(), after: after.map(Box::from), limit };
        let answer = ask(shard, |reply| AdminQuery::Retained(query, reply));
        turns(shard, &answer)
    }

    #[test]
    fn a_turn_visits_a_bounded_part_of_100_000_messages() {
        let mut shard = shard(MESSAGES);
        let (page, turns) = list(&mut shard, "#", None, 3);
        let topics: Vec<&str> = page.messages.iter().map(|(topic, _)| &**topic).collect();
        assert_eq!(topics, ["r/s0/d00000", "r/s0/d00100", "r/s0/d00200"]);
        assert_eq!(page.matched, MESSAGES as u64);
        // Each message takes at least one step, and there are few other slots.
        assert!((MESSAGES / STEPS_MAX..MESSAGES / STEPS_MAX + 8).contains(&turns), "{turns} turns");
        let (page, _) = list(&mut shard, "r/+/d99999", None, 10);
        assert_eq!((page.matched, page.messages.len()), (1, 1));
    }

    #[test]
    fn a_disconnected_request_ends_a_scan_but_not_a_removal() {
        let mut shard = shard(20_000);
        let caller = std::sync::Arc::new(());
        let (sender, answer) = channel();
        let query = || RetainedQuery { filter: "#".into(), after: None, limit: 1 };
        for _ in 0..ADMIN_QUERIES_MAX - 1 {
            let sender = sender.clone();
            shard.run_admin_query(
                AdminQuery::Retained(query(), Reply::to(&caller, move |page| _ = sender.send(page))),
                NOW_MS,
            );
        }
        drop(sender);
        let removed = ask(&mut shard, |reply| AdminQuery::RemoveRetained("r/s0/#".into(), reply));
        shard.do_jobs();
        assert!(shard.has_jobs());
        drop(caller);
        assert_eq!(turns(&mut shard, &removed).0.removed, 200);
        assert!(!shard.has_jobs() && answer.recv().is_err(), "no query got an answer");
        assert_eq!(shard.state.counters().admin_queries_canceled.get(), ADMIN_QUERIES_MAX as u64 - 1);
        // There is room for as many queries again.
        assert_eq!(list(&mut shard, "#", None, 1).0.matched, 20_000 - 200);
    }

    #[test]
    fn pages_are_consecutive_and_complete() {
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
    fn removals_are_limited_per_turn_and_per_request() {
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
        let (result, _) = remove(&mut shard, "$SYS/#");
        assert_eq!((result.removed, result.refused), (0, 1), "messages of the broker are not removed");
        assert_eq!(remove(&mut shard, "none").0, RemovalResult::default());
    }

    #[test]
    fn one_message_is_read_and_an_expired_one_is_not() {
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
        shard.state.context.exchange().retain(&old, || old.to_message()).expect("a retained message");
        assert!(matches!(fetch(&mut shard, "old"), FetchedMessage::Nothing));
        assert_eq!(list(&mut shard, "old", None, 1).0.matched, 0);
    }
}
