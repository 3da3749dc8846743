//! QoS 0 between nodes: without confirmation, without order between publishers, and dropped where there is no room.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use futures_util::StreamExt;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::connection::round_trip;
use crate::handle::{BusMessage, Shared};
use crate::layout::{BUS_PREFIX, bus_subject};

/// Between two attempts to learn whether a server knows of a subscription.
const CONFIRM_PAUSE: Duration = Duration::from_millis(200);
/// Messages taken from the queue at once.
const TAKEN_MAX: usize = 64;

/// What comes from the bus to the node's thread.
#[derive(Debug)]
pub(crate) enum Heard {
    /// What is published from now on below a pattern arrives.
    Listening(String),
    /// A message, by a pattern.
    Message { pattern: Arc<str>, subject: String, message: Arc<[u8]> },
}

/// What this node listens to, and the task that sends.
pub(crate) struct Bus {
    client: watch::Sender<Client>,
    shared: Arc<Shared>,
    heard: Sender<Heard>,
    listening: HashMap<String, AbortHandle>,
    /// Whether all that was sent by the connection before has been passed on.
    old_is_over: watch::Receiver<bool>,
}

impl Bus {
    pub(crate) fn new(client: Client, queue: Receiver<BusMessage>, shared: &Arc<Shared>, heard: Sender<Heard>) -> Bus {
        let (sender, current) = watch::channel(client);
        tokio::spawn(send(queue, current, shared.clone()));
        Bus {
            client: sender,
            shared: shared.clone(),
            heard,
            listening: HashMap::new(),
            old_is_over: watch::channel(true).1,
        }
    }

    pub(crate) fn listen(&mut self, pattern: String) {
        if !self.listening.contains_key(&pattern) {
            let task = self.spawn(pattern.clone());
            self.listening.insert(pattern, task);
        }
    }

    pub(crate) fn unlisten(&mut self, pattern: &str) {
        // With the task goes its subscription.
        if let Some(task) = self.listening.remove(pattern) {
            task.abort();
        }
    }

    /// Uses another connection from now on. No message comes twice: what is listened to by the old one ends first, and all that was sent by it
    /// has been passed on before anything is listened to by the new one. What comes in between is lost, as at QoS 0 it may be.
    pub(crate) fn change_over(&mut self, client: Client) {
        self.listening.values().for_each(AbortHandle::abort);
        let old = self.client.send_replace(client);
        let (is_over, old_is_over) = watch::channel(false);
        tokio::spawn(async move {
            round_trip(&old).await;
            is_over.send_replace(true);
        });
        self.old_is_over = old_is_over;
        let patterns: Vec<_> = self.listening.keys().cloned().collect();
        for pattern in patterns {
            let task = self.spawn(pattern.clone());
            self.listening.insert(pattern, task);
        }
    }

    fn spawn(&self, pattern: String) -> AbortHandle {
        let (client, shared, heard) = (self.client.borrow().clone(), self.shared.clone(), self.heard.clone());
        let mut old_is_over = self.old_is_over.clone();
        let task = async move {
            // It ends with an error where the one who would say so is gone, which is as good.
            let _ = old_is_over.wait_for(|is_over| *is_over).await;
            listen(client, pattern, shared, heard).await;
        };
        tokio::spawn(task).abort_handle()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.listening.values().for_each(AbortHandle::abort);
    }
}

async fn send(mut queue: Receiver<BusMessage>, current: watch::Receiver<Client>, shared: Arc<Shared>) {
    let mut taken = Vec::with_capacity(TAKEN_MAX);
    while queue.recv_many(&mut taken, TAKEN_MAX).await > 0 {
        let client = current.borrow().clone();
        for message in taken.drain(..) {
            shared.took_bus_message(&message);
            let is_connected = client.connection_state() == State::Connected;
            // It waits while the socket is full. Then the queue fills up, and drops.
            if is_connected && client.publish(message.subject, message.message.into()).await.is_ok() {
                shared.counters.bus_sent.add(1);
            } else {
                shared.counters.bus_dropped_out.add(1);
            }
        }
    }
}

/// Whoever is too slow for what it hears waits here, and then the client of NATS drops.
async fn listen(client: Client, pattern: String, shared: Arc<Shared>, heard: Sender<Heard>) {
    let Ok(mut messages) = client.subscribe(bus_subject(&pattern)).await else { return };
    while !round_trip(&client).await {
        tokio::time::sleep(CONFIRM_PAUSE).await;
    }
    let by: Arc<str> = pattern.as_str().into();
    if heard.send(Heard::Listening(pattern)).await.is_err() {
        return;
    }
    while let Some(message) = messages.next().await {
        let Some(subject) = message.subject.strip_prefix(BUS_PREFIX) else { continue };
        shared.counters.bus_received.add(1);
        let (pattern, subject) = (by.clone(), subject.to_owned());
        if heard.send(Heard::Message { pattern, subject, message: Arc::from(&*message.payload) }).await.is_err() {
            return;
        }
    }
}
