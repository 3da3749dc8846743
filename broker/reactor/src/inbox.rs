//! The way into a shard from outside the broker's threads: any thread posts an order, and the shard takes some in each turn.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tautwire_engine::{
    AdminQuery, AuthDecision, ClusterEvent, ConfigSnapshot, ConnectionId, PublishConfirm, PublishFailure, messages_of,
};
use tautwire_message::Message;
use tautwire_protocol::ReasonCode;

use crate::listener::PlannedListener;
use crate::waker::Waker;

/// Orders that wait for one shard: no fewer than the admin API has requests.
const COMMANDS_MAX: usize = 16;
/// Orders that a shard takes in one turn.
const COMMANDS_PER_TURN_MAX: usize = 8;
/// Verdicts that a shard takes in one turn.
const AUTH_DECISIONS_PER_TURN_MAX: usize = 256;
/// What a shard hears from the cluster in one turn; each message counts, and each topic that retains something else.
const EVENTS_PER_TURN_MAX: usize = 1024;
/// Where so many things wait that the cluster has told, messages of QoS 0 find no room.
const QOS0_EVENTS_MAX: usize = 8192;
/// And where such messages have so many bytes.
const QOS0_EVENTS_MAX_BYTES: usize = 16 << 20;

/// What a shard is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Publish a message, and say whether anybody wanted it once what must last is in the log.
    Publish(Message, ReplySender<Result<bool, PublishFailure>>),
    /// Say so when the log has what was promised.
    WaitDurable(PublishConfirm, ReplySender<Result<bool, PublishFailure>>),
    /// Look for what an operator wants to know.
    AdminQuery(AdminQuery),
    /// Disconnect the client of a session, and end the session too if that is said; say whether there was something to end.
    Disconnect(Box<str>, bool, ReplySender<bool>),
    /// Listen at these, have something else hold in the same step, and say what has held before.
    ApplyConfig(Vec<PlannedListener>, ConfigStep, ReplySender<Arc<ConfigSnapshot>>),
}

/// Has something else hold; gives what has held so far.
pub(crate) struct ConfigStep(Box<dyn FnOnce() -> Arc<ConfigSnapshot> + Send>);

impl ConfigStep {
    pub(crate) fn new(make: impl FnOnce() -> Arc<ConfigSnapshot> + Send + 'static) -> ConfigStep {
        ConfigStep(Box::new(make))
    }

    pub(crate) fn make(self) -> Arc<ConfigSnapshot> {
        (self.0)()
    }
}

impl fmt::Debug for ConfigStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Step")
    }
}

/// Where somebody waits for an answer. Dropping it tells them that there will be none.
#[derive(Debug)]
pub(crate) struct ReplySender<T>(SyncSender<T>);

impl<T> ReplySender<T> {
    pub(crate) fn send(self, answer: T) {
        // Whoever has given up does not listen any more.
        let _ = self.0.try_send(answer);
    }
}

/// Why an order was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// As many orders wait as may, or this one waited too long. It is not carried out.
    Busy,
    /// The shard is gone, or went before it took the order.
    ShardGone,
    /// No answer came in time, but the shard has taken the order.
    Timeout,
}

/// Why a message was not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishError {
    /// A client that publishes it would be refused with this code and this reason string.
    Refused(ReasonCode, Cow<'static, str>),
    /// A thread is behind, or too many publish at once. Nothing was published; it may be tried again.
    Busy,
    /// The broker stops or has stopped. Nothing was published.
    Stopping,
    /// No answer came in time. The message may have been published.
    Timeout,
    /// It was published, but the log does not have it: a crash may lose it.
    NotDurable,
    /// The cluster has not taken it, and never will.
    RejectedByCluster,
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PublishError::Refused(_, why) => why,
            PublishError::Busy => "the threads of the broker are behind; nothing was published, try again",
            PublishError::Stopping => "the broker stops; nothing was published",
            PublishError::Timeout => "the broker did not answer in time; the message may have been published",
            PublishError::NotDurable => "the message was published, but the log does not have it: a crash may lose it",
            PublishError::RejectedByCluster => {
                "the cluster has not taken the message: it could not in time, or the message is larger than the NATS servers take; nothing \
                 was published, try again"
            }
        })
    }
}

impl std::error::Error for PublishError {}

impl From<PublishFailure> for PublishError {
    fn from(error: PublishFailure) -> PublishError {
        match error {
            PublishFailure::Busy => PublishError::Busy,
            PublishFailure::NotDurable => PublishError::NotDurable,
            PublishFailure::NotStored => PublishError::RejectedByCluster,
            PublishFailure::Refused(reason, why) => PublishError::Refused(reason, why),
        }
    }
}

impl From<CommandError> for PublishError {
    fn from(error: CommandError) -> PublishError {
        match error {
            CommandError::Busy => PublishError::Busy,
            CommandError::ShardGone => PublishError::Stopping,
            CommandError::Timeout => PublishError::Timeout,
        }
    }
}

/// What the cluster has told.
#[derive(Debug)]
struct QueuedEvent {
    event: ClusterEvent,
    /// How much of a turn it takes.
    changes: usize,
}

/// The inbox of one shard, as those see it who post.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    /// There is something in the queue, or was before it was withdrawn.
    has_orders: AtomicBool,
    /// Orders that found no room since the shard last counted them.
    refused: AtomicU64,
    waker: Arc<Waker>,
}

#[derive(Debug, Default)]
struct Queue {
    commands: VecDeque<(u64, Command)>,
    next_number: u64,
    /// On clients that wait for them, so there are no more than connections.
    verdicts: VecDeque<(ConnectionId, AuthDecision)>,
    /// Answers to what the shard has asked, and what it has room for: the thread of the cluster waits for `ClusterRequest::Took`.
    events: VecDeque<QueuedEvent>,
    /// Of messages of QoS 0 among them.
    qos0_bytes: usize,
    is_closed: bool,
}

impl Inbox {
    /// An inbox whose shard is woken by `waker`, and the shard's end of it.
    pub(crate) fn new(waker: Arc<Waker>) -> (Arc<Inbox>, Commands) {
        let inbox = Arc::new(Inbox {
            queue: Mutex::default(),
            has_orders: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            waker,
        });
        (inbox.clone(), Commands(inbox))
    }

    /// Posts an order that brings its answer by itself, or none.
    ///
    /// # Errors
    /// It is not carried out.
    pub(crate) fn send(&self, order: Command) -> Result<(), CommandError> {
        self.post(order).map(|_| ())
    }

    /// Posts an order and waits for its answer, at most `timeout`.
    ///
    /// # Errors
    /// It is not carried out, but perhaps after [`CommandError::Timeout`].
    pub(crate) fn request<T>(
        &self,
        order: impl FnOnce(ReplySender<T>) -> Command,
        timeout: Duration,
    ) -> Result<T, CommandError> {
        let (sender, answer) = sync_channel(1);
        let number = self.post(order(ReplySender(sender)))?;
        match answer.recv_timeout(timeout) {
            Ok(answer) => Ok(answer),
            // The shard is gone, and what lay here with it.
            Err(RecvTimeoutError::Disconnected) => Err(CommandError::ShardGone),
            Err(RecvTimeoutError::Timeout) if self.withdraw(number) => Err(CommandError::Busy),
            // The shard has it in hand, or has just answered.
            Err(RecvTimeoutError::Timeout) => answer.try_recv().map_err(|_| CommandError::Timeout),
        }
    }

    /// Posts an order for which there is always room, and waits for its answer however long that takes. For one at a time.
    ///
    /// # Errors
    /// The shard is gone.
    pub(crate) fn request_unbounded<T>(
        &self,
        order: impl FnOnce(ReplySender<T>) -> Command,
    ) -> Result<T, CommandError> {
        let (sender, answer) = sync_channel(1);
        self.post_within(order(ReplySender(sender)), COMMANDS_MAX + 1)?;
        answer.recv().map_err(|_| CommandError::ShardGone)
    }

    fn post(&self, order: Command) -> Result<u64, CommandError> {
        self.post_within(order, COMMANDS_MAX)
    }

    fn post_within(&self, order: Command, max: usize) -> Result<u64, CommandError> {
        let number = {
            let mut queue = self.queue();
            if queue.is_closed {
                return Err(CommandError::ShardGone);
            }
            if queue.commands.len() >= max {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(CommandError::Busy);
            }
            let number = queue.next_number;
            queue.next_number += 1;
            queue.commands.push_back((number, order));
            self.has_orders.store(true, Ordering::SeqCst);
            number
        };
        self.waker.wake();
        Ok(number)
    }

    /// Gives the verdict on a client. It is for nobody once the shard is gone.
    pub(crate) fn send_auth_decision(&self, id: ConnectionId, verdict: AuthDecision) {
        {
            let mut queue = self.queue();
            if queue.is_closed {
                return;
            }
            queue.verdicts.push_back((id, verdict));
            self.has_orders.store(true, Ordering::SeqCst);
        }
        self.waker.wake();
    }

    /// The cluster has something to tell.
    pub(crate) fn send_cluster_event(&self, event: ClusterEvent) {
        self.send_event_below(event, usize::MAX, usize::MAX);
    }

    /// The cluster has something to tell that may be lost; says whether there was room for it.
    pub(crate) fn try_send_cluster_event(&self, event: ClusterEvent) -> bool {
        self.send_event_below(event, QOS0_EVENTS_MAX, QOS0_EVENTS_MAX_BYTES)
    }

    fn send_event_below(&self, event: ClusterEvent, events_max: usize, qos0_max_bytes: usize) -> bool {
        // Before the shard has to wait for it.
        let changes = event_cost(&event);
        {
            let mut queue = self.queue();
            if queue.is_closed || queue.events.len() >= events_max || queue.qos0_bytes >= qos0_max_bytes {
                return false;
            }
            queue.qos0_bytes += qos0_bytes(&event);
            queue.events.push_back(QueuedEvent { event, changes });
            self.has_orders.store(true, Ordering::SeqCst);
        }
        self.waker.wake();
        true
    }

    /// Has the shard make a turn.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Takes an order back; false where the shard has it.
    fn withdraw(&self, number: u64) -> bool {
        let mut queue = self.queue();
        let before = queue.commands.len();
        queue.commands.retain(|(posted, _)| *posted != number);
        queue.commands.len() < before
    }

    fn update_has_commands(&self, queue: &Queue) {
        let any = !queue.commands.is_empty() || !queue.verdicts.is_empty() || !queue.events.is_empty();
        self.has_orders.store(any, Ordering::SeqCst);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shard's end of its inbox. When it is dropped, all who wait are told, and nobody can post any more.
#[derive(Debug)]
pub(crate) struct Commands(Arc<Inbox>);

impl Commands {
    /// Whether there may be something to take. What was posted before the bell was looked at is seen.
    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        // In one order with `Waker::before_sleep` and `Waker::wake`, as what comes by the ways is.
        self.0.has_orders.load(Ordering::SeqCst)
    }

    /// Takes the orders of one turn, the oldest first.
    pub(crate) fn take(&self) -> Vec<Command> {
        let mut queue = self.0.queue();
        let count = queue.commands.len().min(COMMANDS_PER_TURN_MAX);
        let taken = queue.commands.drain(..count).map(|(_, order)| order).collect();
        self.0.update_has_commands(&queue);
        taken
    }

    /// Takes the verdicts of one turn, the oldest first.
    pub(crate) fn take_verdicts(&self) -> Vec<(ConnectionId, AuthDecision)> {
        let mut queue = self.0.queue();
        let count = queue.verdicts.len().min(AUTH_DECISIONS_PER_TURN_MAX);
        let taken = queue.verdicts.drain(..count).collect();
        self.0.update_has_commands(&queue);
        taken
    }

    /// Takes what the cluster has told for one turn, the oldest first.
    pub(crate) fn take_events(&self) -> Vec<ClusterEvent> {
        let mut queue = self.0.queue();
        let mut left = EVENTS_PER_TURN_MAX;
        let fits = |told: &&QueuedEvent| {
            let is_room = left > 0;
            left = left.saturating_sub(told.changes);
            is_room
        };
        let count = queue.events.iter().take_while(fits).count();
        let taken: Vec<_> = queue.events.drain(..count).map(|told| told.event).collect();
        queue.qos0_bytes -= taken.iter().map(qos0_bytes).sum::<usize>();
        self.0.update_has_commands(&queue);
        taken
    }

    /// The inbox that these come from.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.0
    }

    /// How many orders have found no room since this was last asked.
    pub(crate) fn take_refused(&self) -> u64 {
        self.0.refused.swap(0, Ordering::Relaxed)
    }
}

/// How much of a turn something takes that the cluster has told.
fn event_cost(event: &ClusterEvent) -> usize {
    match event {
        ClusterEvent::Retained(changes) => changes.len(),
        ClusterEvent::BusMessages(messages) => messages_of(messages).count(),
        ClusterEvent::Began { .. } | ClusterEvent::Decided(_) | ClusterEvent::TooLarge(_) => 1,
    }
}

fn qos0_bytes(event: &ClusterEvent) -> usize {
    if let ClusterEvent::BusMessages(messages) = event { messages.len() } else { 0 }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.is_closed = true;
        // With each goes the only sender of its channel.
        queue.commands.clear();
        queue.verdicts.clear();
        queue.events.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use mio::{Poll, Token};
    use tautwire_cluster::record::{Place, Retain, RetainedRecord};
    use tautwire_cluster::{RETAINED_BATCH_MAX, RetainedChange, Sequence};
    use tautwire_engine::Publication;
    use tautwire_protocol::{ConnectReason, QoS, TopicName};

    /// Longer than anything here may take.
    const PATIENCE: Duration = Duration::from_secs(90);

    fn message() -> Message {
        let topic = TopicName::new("t").expect("a valid topic");
        Publication { topic, content_type: None, payload: b"x", qos: QoS::AtLeastOnce, retain: false }.to_message()
    }

    fn inbox(poll: &Poll) -> (Arc<Inbox>, Commands) {
        Inbox::new(Arc::new(Waker::new(mio::Waker::new(poll.registry(), Token(0)).expect("a waker"))))
    }

    fn publish(inbox: &Inbox, timeout: Duration) -> Result<bool, CommandError> {
        inbox
            .request(|answer| Command::Publish(message(), answer), timeout)
            .map(|outcome| outcome.expect("it is published"))
    }

    /// Nobody waits for its answer.
    fn send(inbox: &Inbox) -> Result<(), CommandError> {
        inbox.post(Command::Publish(message(), ReplySender(sync_channel(1).0))).map(|_| ())
    }

    #[test]
    fn a_full_inbox_takes_nothing_more_and_counts_it() {
        let poll = Poll::new().expect("a poll");
        let (inbox, commands) = inbox(&poll);
        for _ in 0..COMMANDS_MAX {
            assert_eq!(send(&inbox), Ok(()));
        }
        assert_eq!(send(&inbox), Err(CommandError::Busy));
        assert_eq!(publish(&inbox, PATIENCE), Err(CommandError::Busy));
        assert_eq!((commands.take_refused(), commands.take_refused()), (2, 0));
        assert_eq!(commands.take().len(), COMMANDS_PER_TURN_MAX, "a turn takes some");
        assert!(commands.has_commands(), "the rest waits for the next turn");
        let mut taken = COMMANDS_PER_TURN_MAX;
        while commands.has_commands() {
            taken += commands.take().len();
        }
        assert_eq!(taken, COMMANDS_MAX);
        assert!(send(&inbox).is_ok() && commands.has_commands());
    }

    #[test]
    fn verdicts_have_room_whatever_orders_wait() {
        let poll = Poll::new().expect("a poll");
        let (inbox, commands) = inbox(&poll);
        for _ in 0..COMMANDS_MAX {
            assert_eq!(send(&inbox), Ok(()));
        }
        let refused = || AuthDecision::Refused { reason: ConnectReason::NotAuthorized, why: "no".into(), detail: None };
        for index in 0..300 {
            inbox.send_auth_decision(ConnectionId { index, generation: 0 }, refused());
        }
        while commands.has_commands() {
            commands.take();
            let verdicts = commands.take_verdicts();
            assert!(verdicts.len() <= AUTH_DECISIONS_PER_TURN_MAX);
        }
        assert!(commands.take_verdicts().is_empty());
        drop(commands);
        inbox.send_auth_decision(ConnectionId { index: 0, generation: 0 }, refused());
    }

    #[test]
    fn what_is_not_taken_in_time_is_withdrawn() {
        let poll = Poll::new().expect("a poll");
        let (inbox, commands) = inbox(&poll);
        assert_eq!(publish(&inbox, Duration::from_millis(1)), Err(CommandError::Busy));
        assert!(commands.take().is_empty());
    }

    #[test]
    fn what_is_taken_and_not_answered_in_time_may_have_been_done() {
        let poll = Poll::new().expect("a poll");
        let (inbox, commands) = inbox(&poll);
        thread::scope(|scope| {
            let asking = scope.spawn(|| publish(&inbox, Duration::from_millis(50)));
            let mut taken = Vec::new();
            while taken.is_empty() && !asking.is_finished() {
                taken = commands.take();
                thread::yield_now();
            }
            let outcome = asking.join().expect("it ends");
            assert_eq!(outcome, Err(if taken.is_empty() { CommandError::Busy } else { CommandError::Timeout }));
        });
    }

    /// Wherever the shard is when it goes, nobody waits for it.
    #[test]
    fn nobody_waits_for_a_shard_that_is_gone() {
        for taken in 0..50 {
            let poll = Poll::new().expect("a poll");
            let (inbox, commands) = inbox(&poll);
            thread::scope(|scope| {
                let publishers: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut published = 0;
                            loop {
                                match publish(&inbox, PATIENCE) {
                                    Ok(_) => published += 1,
                                    Err(error) => return (published, error),
                                }
                            }
                        })
                    })
                    .collect();
                let mut answered = 0;
                while answered < taken {
                    for order in commands.take() {
                        if let Command::Publish(_, answer) = order {
                            answer.send(Ok(true));
                            answered += 1;
                        }
                    }
                    thread::yield_now();
                }
                drop(commands);
                let mut published = 0;
                for publisher in publishers {
                    let (count, error) = publisher.join().expect("a publisher ends");
                    assert_eq!(error, CommandError::ShardGone);
                    published += count;
                }
                assert_eq!(published, answered);
            });
        }
    }

    #[test]
    fn a_turn_takes_no_more_changes_of_retained_messages_than_other_events() {
        let poll = Poll::new().expect("a poll");
        let (inbox, commands) = inbox(&poll);
        let record =
            RetainedRecord { place: Place::START, retain: Retain::Clear, topic: "t".into(), message: Vec::new() };
        let change = RetainedChange { record, sequence: Sequence(1), expires_at_ms: None };
        let batch: Arc<[RetainedChange]> = vec![change; RETAINED_BATCH_MAX].into();
        let batches = EVENTS_PER_TURN_MAX / RETAINED_BATCH_MAX;
        for _ in 0..batches + 2 {
            inbox.send_cluster_event(ClusterEvent::Retained(batch.clone()));
        }
        assert_eq!([(); 3].map(|()| commands.take_events().len()), [batches, 2, 0]);
    }
}
