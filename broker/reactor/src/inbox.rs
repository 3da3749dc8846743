//! The inbox of a shard: any thread posts commands, and the shard takes some in each turn.

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

use crate::accepted_connection::AcceptedConnection;
use crate::listener::PlannedListener;
use crate::waker::Waker;

/// The capacity of commands of a shard: at least the number of concurrent requests of the admin API.
const COMMANDS_MAX: usize = 16;
/// The most commands that a shard takes in one turn.
const COMMANDS_PER_TURN_MAX: usize = 8;
/// The most authentication decisions that a shard takes in one turn.
const AUTH_DECISIONS_PER_TURN_MAX: usize = 256;
/// The most cluster events that a shard takes in one turn. Each message and each changed retained topic counts.
const EVENTS_PER_TURN_MAX: usize = 1024;
/// With this many pending cluster events, messages of QoS 0 are dropped.
const QOS0_EVENTS_MAX: usize = 8192;
/// With this many bytes of pending QoS 0 messages, further ones are dropped.
const QOS0_EVENTS_MAX_BYTES: usize = 16 << 20;

/// A command to a shard.
#[derive(Debug)]
pub(crate) enum Command {
    /// Publishes a message, and reports whether there were subscribers once it is persisted as required.
    Publish(Message, ReplySender<Result<bool, PublishFailure>>),
    /// Reports when the log has persisted the message as required.
    WaitDurable(PublishConfirm, ReplySender<Result<bool, PublishFailure>>),
    /// Executes a query of an operator.
    AdminQuery(AdminQuery),
    /// Disconnects the client of a session, and ends the session too if requested. Reports whether there was something to end.
    Disconnect(Box<str>, bool, ReplySender<bool>),
    /// Adds the connection of a client inside of this process.
    Connect(Box<AcceptedConnection>),
    /// Replaces the listeners, applies a new configuration in the same step, and returns the previous one.
    ApplyConfig(Vec<PlannedListener>, ConfigStep, ReplySender<Arc<ConfigSnapshot>>),
}

/// Applies a new configuration and returns the previous one.
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

/// Sends the answer to a waiting caller. Dropping it reports that there will be none.
#[derive(Debug)]
pub(crate) struct ReplySender<T>(SyncSender<T>);

impl<T> ReplySender<T> {
    pub(crate) fn send(self, answer: T) {
        // If the caller has given up, the receiver is gone.
        let _ = self.0.try_send(answer);
    }
}

/// Why a command was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// Too many commands are pending, or this one was pending for too long. It is not executed.
    Busy,
    /// The shard has ended, or ended before it took the command.
    ShardGone,
    /// The deadline has passed, but the shard has taken the command.
    Timeout,
}

/// Why a message was not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishError {
    /// The broker would reject the message of a client with this reason code and reason string.
    Refused(ReasonCode, Cow<'static, str>),
    /// A thread is overloaded, or too many callers publish. Nothing was published; the caller may retry.
    Busy,
    /// The broker is stopping or has stopped. Nothing was published.
    Stopping,
    /// The deadline has passed. The message may have been published.
    Timeout,
    /// The message was published but not persisted: a crash may lose it.
    NotDurable,
    /// The cluster has rejected the message.
    RejectedByCluster,
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PublishError::Refused(_, why) => why,
            PublishError::Busy => "the broker is overloaded; nothing was published, try again",
            PublishError::Stopping => "the broker is stopping; nothing was published",
            PublishError::Timeout => "the broker did not answer in time; the message may have been published",
            PublishError::NotDurable => "the message was published but not persisted: a crash may lose it",
            PublishError::RejectedByCluster => {
                "the cluster has rejected the message: it was not stored in time, or it exceeds the message size limit of the NATS servers; \
                 nothing was published, try again"
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

/// A pending cluster event.
#[derive(Debug)]
struct QueuedEvent {
    event: ClusterEvent,
    /// Its cost in a turn.
    changes: usize,
}

/// The inbox of one shard, as seen by senders.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    /// There is something in the queue, or was before it was withdrawn.
    has_pending: AtomicBool,
    /// Rejected commands since the shard last counted them.
    refused: AtomicU64,
    waker: Arc<Waker>,
}

#[derive(Debug, Default)]
struct Queue {
    commands: VecDeque<(u64, Command)>,
    next_number: u64,
    /// Authentication decisions. Each belongs to a waiting client, so there are no more than connections.
    auth_decisions: VecDeque<(ConnectionId, AuthDecision)>,
    /// Cluster events. Their number is limited, because they answer requests of the shard or use credit that it has granted by
    /// `ClusterRequest::Received`.
    events: VecDeque<QueuedEvent>,
    /// The bytes of QoS 0 messages among the events.
    qos0_bytes: usize,
    is_closed: bool,
}

impl Inbox {
    /// Creates an inbox whose shard is woken by `waker`, and the shard's end of it.
    pub(crate) fn new(waker: Arc<Waker>) -> (Arc<Inbox>, Commands) {
        let inbox = Arc::new(Inbox {
            queue: Mutex::default(),
            has_pending: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            waker,
        });
        (inbox.clone(), Commands(inbox))
    }

    /// Posts a command that sends its answer itself, or none.
    ///
    /// # Errors
    /// The command is not executed.
    pub(crate) fn send(&self, command: Command) -> Result<(), CommandError> {
        self.post(command).map(|_| ())
    }

    /// Posts a command and waits for its answer, at most `timeout`.
    ///
    /// # Errors
    /// The command is not executed, except perhaps after [`CommandError::Timeout`].
    pub(crate) fn request<T>(
        &self,
        command: impl FnOnce(ReplySender<T>) -> Command,
        timeout: Duration,
    ) -> Result<T, CommandError> {
        let (sender, answer) = sync_channel(1);
        let number = self.post(command(ReplySender(sender)))?;
        match answer.recv_timeout(timeout) {
            Ok(answer) => Ok(answer),
            // The shard has ended, and dropped its commands.
            Err(RecvTimeoutError::Disconnected) => Err(CommandError::ShardGone),
            Err(RecvTimeoutError::Timeout) if self.withdraw(number) => Err(CommandError::Busy),
            // The shard is executing the command, or has just answered.
            Err(RecvTimeoutError::Timeout) => answer.try_recv().map_err(|_| CommandError::Timeout),
        }
    }

    /// Posts a command regardless of the capacity, and waits for its answer without a limit. Use it for one command at a time.
    ///
    /// # Errors
    /// The shard has ended.
    pub(crate) fn request_unbounded<T>(
        &self,
        command: impl FnOnce(ReplySender<T>) -> Command,
    ) -> Result<T, CommandError> {
        let (sender, answer) = sync_channel(1);
        self.post_within(command(ReplySender(sender)), COMMANDS_MAX + 1)?;
        answer.recv().map_err(|_| CommandError::ShardGone)
    }

    fn post(&self, command: Command) -> Result<u64, CommandError> {
        self.post_within(command, COMMANDS_MAX)
    }

    fn post_within(&self, command: Command, max: usize) -> Result<u64, CommandError> {
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
            queue.commands.push_back((number, command));
            self.has_pending.store(true, Ordering::SeqCst);
            number
        };
        self.waker.wake();
        Ok(number)
    }

    /// Sends the decision for a client. Has no effect once the shard has ended.
    pub(crate) fn send_auth_decision(&self, id: ConnectionId, decision: AuthDecision) {
        {
            let mut queue = self.queue();
            if queue.is_closed {
                return;
            }
            queue.auth_decisions.push_back((id, decision));
            self.has_pending.store(true, Ordering::SeqCst);
        }
        self.waker.wake();
    }

    /// Sends a cluster event.
    pub(crate) fn send_cluster_event(&self, event: ClusterEvent) {
        self.send_event_below(event, usize::MAX, usize::MAX);
    }

    /// Sends a cluster event that may be lost. Returns whether there was space for it.
    pub(crate) fn try_send_cluster_event(&self, event: ClusterEvent) -> bool {
        self.send_event_below(event, QOS0_EVENTS_MAX, QOS0_EVENTS_MAX_BYTES)
    }

    fn send_event_below(&self, event: ClusterEvent, events_max: usize, qos0_max_bytes: usize) -> bool {
        // Computed before the lock is taken, so that the shard does not wait.
        let changes = event_cost(&event);
        {
            let mut queue = self.queue();
            if queue.is_closed || queue.events.len() >= events_max || queue.qos0_bytes >= qos0_max_bytes {
                return false;
            }
            queue.qos0_bytes += qos0_bytes(&event);
            queue.events.push_back(QueuedEvent { event, changes });
            self.has_pending.store(true, Ordering::SeqCst);
        }
        self.waker.wake();
        true
    }

    /// Wakes the shard for a turn.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Withdraws a command. Returns false if the shard has taken it.
    fn withdraw(&self, number: u64) -> bool {
        let mut queue = self.queue();
        let before = queue.commands.len();
        queue.commands.retain(|(posted, _)| *posted != number);
        queue.commands.len() < before
    }

    fn update_has_commands(&self, queue: &Queue) {
        let any = !queue.commands.is_empty() || !queue.auth_decisions.is_empty() || !queue.events.is_empty();
        self.has_pending.store(any, Ordering::SeqCst);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shard's end of its inbox. Dropping it fails all pending requests and closes the inbox.
#[derive(Debug)]
pub(crate) struct Commands(Arc<Inbox>);

impl Commands {
    /// Whether there may be something to take. Everything posted before the waker was checked is seen.
    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        // Ordered with `Waker::before_sleep` and `Waker::wake`, like the shard channels.
        self.0.has_pending.load(Ordering::SeqCst)
    }

    /// Takes the commands of one turn, the oldest first.
    pub(crate) fn take(&self) -> Vec<Command> {
        let mut queue = self.0.queue();
        let count = queue.commands.len().min(COMMANDS_PER_TURN_MAX);
        let taken = queue.commands.drain(..count).map(|(_, command)| command).collect();
        self.0.update_has_commands(&queue);
        taken
    }

    /// Takes the authentication decisions of one turn, the oldest first.
    pub(crate) fn take_auth_decisions(&self) -> Vec<(ConnectionId, AuthDecision)> {
        let mut queue = self.0.queue();
        let count = queue.auth_decisions.len().min(AUTH_DECISIONS_PER_TURN_MAX);
        let taken = queue.auth_decisions.drain(..count).collect();
        self.0.update_has_commands(&queue);
        taken
    }

    /// Takes the cluster events of one turn, the oldest first.
    pub(crate) fn take_events(&self) -> Vec<ClusterEvent> {
        let mut queue = self.0.queue();
        let mut left = EVENTS_PER_TURN_MAX;
        let fits = |event: &&QueuedEvent| {
            let is_room = left > 0;
            left = left.saturating_sub(event.changes);
            is_room
        };
        let count = queue.events.iter().take_while(fits).count();
        let taken: Vec<_> = queue.events.drain(..count).map(|event| event.event).collect();
        queue.qos0_bytes -= taken.iter().map(qos0_bytes).sum::<usize>();
        self.0.update_has_commands(&queue);
        taken
    }

    /// Returns the inbox of this end.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.0
    }

    /// Returns the number of commands rejected since the last call.
    pub(crate) fn take_refused(&self) -> u64 {
        self.0.refused.swap(0, Ordering::Relaxed)
    }
}

/// Returns the cost of a cluster event in a turn.
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
        // Dropping a command drops the only sender of its answer.
        queue.commands.clear();
        queue.auth_decisions.clear();
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

    /// Posts a command whose answer is ignored.
    fn send(inbox: &Inbox) -> Result<(), CommandError> {
        inbox.post(Command::Publish(message(), ReplySender(sync_channel(1).0))).map(|_| ())
    }

    #[test]
    fn a_full_inbox_refuses_and_counts_messages() {
        let poll = Poll::new().expect("a poll");
        let (inbox, commands) = inbox(&poll);
        for _ in 0..COMMANDS_MAX {
            assert_eq!(send(&inbox), Ok(()));
        }
        assert_eq!(send(&inbox), Err(CommandError::Busy));
        assert_eq!(publish(&inbox, PATIENCE), Err(CommandError::Busy));
        assert_eq!((commands.take_refused(), commands.take_refused()), (2, 0));
        assert_eq!(commands.take().len(), COMMANDS_PER_TURN_MAX, "a turn takes a limited number");
        assert!(commands.has_commands(), "the rest is left for the next turn");
        let mut taken = COMMANDS_PER_TURN_MAX;
        while commands.has_commands() {
            taken += commands.take().len();
        }
        assert_eq!(taken, COMMANDS_MAX);
        assert!(send(&inbox).is_ok() && commands.has_commands());
    }

    #[test]
    fn auth_decisions_have_reserved_slots() {
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
            let auth_decisions = commands.take_auth_decisions();
            assert!(auth_decisions.len() <= AUTH_DECISIONS_PER_TURN_MAX);
        }
        assert!(commands.take_auth_decisions().is_empty());
        drop(commands);
        inbox.send_auth_decision(ConnectionId { index: 0, generation: 0 }, refused());
    }

    #[test]
    fn unaccepted_commands_are_withdrawn_after_a_timeout() {
        let poll = Poll::new().expect("a poll");
        let (inbox, commands) = inbox(&poll);
        assert_eq!(publish(&inbox, Duration::from_millis(1)), Err(CommandError::Busy));
        assert!(commands.take().is_empty());
    }

    #[test]
    fn accepted_commands_without_a_response_may_have_been_executed() {
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

    /// Whenever the shard ends, no caller waits for it.
    #[test]
    fn a_stopped_shard_is_not_awaited() {
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
                    for command in commands.take() {
                        if let Command::Publish(_, answer) = command {
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
    fn a_turn_handles_retained_changes_like_other_events() {
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
