//! QoS 0 messages between nodes: unconfirmed, unordered between publishers, and dropped when there is no space.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use futures_util::StreamExt;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::connection::round_trip;
use crate::handle::{BusMessage, Shared};
use crate::layout::{BUS_PREFIX, bus_subject};

/// The pause between two attempts to confirm a subscription with the server.
const CONFIRM_PAUSE: Duration = Duration::from_millis(200);
/// The most patterns that one request to a server confirms.
const CONFIRMED_MAX: usize = 1024;
/// The most messages taken from the queue at once.
const TAKEN_MAX: usize = 64;

/// An event of the bus for the node's thread.
#[derive(Debug)]
pub(crate) enum BusEvent {
    /// Messages published from now on that match a pattern will arrive, as far as this node's server knows.
    ActivePattern(ActivePattern),
    /// A message that matches a pattern.
    Message { pattern: Arc<str>, subject: String, message: Arc<[u8]> },
}

/// A subscription to a pattern. A new subscription to the same pattern gets another number.
#[derive(Debug)]
pub(crate) struct ActivePattern {
    pub(crate) pattern: String,
    number: u64,
}

/// The subscriptions of this node, and the tasks that send and confirm.
pub(crate) struct Bus {
    client: watch::Sender<Client>,
    shared: Arc<Shared>,
    events: Sender<BusEvent>,
    listening: HashMap<String, (u64, AbortHandle)>,
    /// The number of the last subscription.
    last: u64,
    /// Subscriptions sent to the server by this connection. There are no more than patterns.
    confirmations: UnboundedSender<ActivePattern>,
    /// Whether all messages received by the previous connection were processed.
    is_old_drained: watch::Receiver<bool>,
}

impl Bus {
    pub(crate) fn new(
        client: Client,
        queue: Receiver<BusMessage>,
        shared: &Arc<Shared>,
        events: Sender<BusEvent>,
    ) -> Bus {
        let confirmations = spawn_confirmer(client.clone(), &events);
        let (sender, current) = watch::channel(client);
        tokio::spawn(send(queue, current, shared.clone()));
        Bus {
            confirmations,
            client: sender,
            shared: shared.clone(),
            events,
            listening: HashMap::new(),
            last: 0,
            is_old_drained: watch::channel(true).1,
        }
    }

    pub(crate) fn subscribe(&mut self, pattern: String) {
        if !self.listening.contains_key(&pattern) {
            self.begin(pattern);
        }
    }

    /// Whether a subscription is still active and current.
    pub(crate) fn is_listening(&self, to: &ActivePattern) -> bool {
        self.listening.get(&to.pattern).is_some_and(|(number, _)| *number == to.number)
    }

    pub(crate) fn unsubscribe(&mut self, pattern: &str) {
        // Aborting the task drops its subscription.
        if let Some((_, task)) = self.listening.remove(pattern) {
            task.abort();
        }
    }

    /// Switches to another connection. No message is delivered twice: the old subscriptions end first, and everything received by them is
    /// processed before the new ones begin. Messages in between are lost, which QoS 0 allows.
    pub(crate) fn switch_connection(&mut self, client: Client) {
        self.listening.values().for_each(|(_, task)| task.abort());
        self.confirmations = spawn_confirmer(client.clone(), &self.events);
        let old = self.client.send_replace(client);
        let (is_over, is_old_drained) = watch::channel(false);
        tokio::spawn(async move {
            round_trip(&old).await;
            is_over.send_replace(true);
        });
        self.is_old_drained = is_old_drained;
        let patterns: Vec<_> = self.listening.keys().cloned().collect();
        patterns.into_iter().for_each(|pattern| self.begin(pattern));
    }

    fn begin(&mut self, pattern: String) {
        self.last += 1;
        let listening = ActivePattern { pattern: pattern.clone(), number: self.last };
        let (client, shared, events) = (self.client.borrow().clone(), self.shared.clone(), self.events.clone());
        let confirmations = self.confirmations.clone();
        let mut is_old_drained = self.is_old_drained.clone();
        let task = async move {
            // An error means that the sender is gone, so there is nothing to wait for.
            let _ = is_old_drained.wait_for(|is_over| *is_over).await;
            subscribe(client, listening, confirmations, shared, events).await;
        };
        self.listening.insert(pattern, (self.last, tokio::spawn(task).abort_handle()));
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.listening.values().for_each(|(_, task)| task.abort());
    }
}

/// Starts the task that confirms the subscriptions of one connection, until the sender is dropped.
fn spawn_confirmer(client: Client, events: &Sender<BusEvent>) -> UnboundedSender<ActivePattern> {
    let (confirmations, confirmations_out) = unbounded_channel();
    tokio::spawn(confirm(client, confirmations_out, events.clone()));
    confirmations
}

/// Confirms subscriptions, several with one request if possible.
async fn confirm(client: Client, mut confirmations: UnboundedReceiver<ActivePattern>, events: Sender<BusEvent>) {
    let mut taken = Vec::new();
    while confirmations.recv_many(&mut taken, CONFIRMED_MAX).await > 0 {
        while !round_trip(&client).await {
            if confirmations.is_closed() {
                return;
            }
            tokio::time::sleep(CONFIRM_PAUSE).await;
        }
        for listening in taken.drain(..) {
            if events.send(BusEvent::ActivePattern(listening)).await.is_err() {
                return;
            }
        }
    }
}

async fn send(mut queue: Receiver<BusMessage>, current: watch::Receiver<Client>, shared: Arc<Shared>) {
    let mut taken = Vec::with_capacity(TAKEN_MAX);
    while queue.recv_many(&mut taken, TAKEN_MAX).await > 0 {
        let client = current.borrow().clone();
        for message in taken.drain(..) {
            shared.release_bus_message(&message);
            let is_connected = client.connection_state() == State::Connected;
            // Waits while the socket is full. Then the queue fills up, and messages are dropped.
            if is_connected && client.publish(message.subject, message.message.into()).await.is_ok() {
                shared.counters.bus_sent.add(1);
            } else {
                shared.counters.bus_outbound_dropped.add(1);
            }
        }
    }
}

/// A slow receiver blocks here, and then the NATS client drops messages.
async fn subscribe(
    client: Client,
    listening: ActivePattern,
    confirmations: UnboundedSender<ActivePattern>,
    shared: Arc<Shared>,
    events: Sender<BusEvent>,
) {
    let Ok(mut messages) = client.subscribe(bus_subject(&listening.pattern)).await else { return };
    let by: Arc<str> = listening.pattern.as_str().into();
    // An error means that another connection is in use now.
    let _ = confirmations.send(listening);
    drop(confirmations);
    while let Some(message) = messages.next().await {
        let Some(subject) = message.subject.strip_prefix(BUS_PREFIX) else { continue };
        shared.counters.bus_received.add(1);
        let (pattern, subject) = (by.clone(), subject.to_owned());
        if events.send(BusEvent::Message { pattern, subject, message: Arc::from(&*message.payload) }).await.is_err() {
            return;
        }
    }
}
