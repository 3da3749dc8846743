//! Reads a stream from a position on, in order and without gaps, until dropped.
//!
//! The servers keep a consumer for it: without acknowledgements, in the memory of one server. It requests as much as the reader has space
//! for. After a gap or a long silence, it creates a new consumer that continues after the last message.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message, StatusCode, Subscriber};
use futures_util::{FutureExt, StreamExt};
use log::debug;
use tautwire_json::push_string;
use tokio::time::{Instant, timeout_at};

use super::reply::is_removal;
use super::{Failure, ask};
use crate::counters::Counters;

/// The number of messages that one request of a reader asks for.
const BATCH: u64 = 256;
/// The size of one request in bytes. Larger if servers accept messages of more than half of it, because one has to fit.
const BATCH_MAX_BYTES: usize = 2 * 1024 * 1024;
/// The interval of the server's heartbeats while it has no messages.
const HEARTBEAT: Duration = Duration::from_millis(1500);
/// The reader restarts after this time without a message or heartbeat.
const SILENCE: Duration = Duration::from_millis(4000);
/// The lifetime of one request.
const EXPIRES: Duration = Duration::from_secs(30);
/// The servers remove a consumer after this time without requests.
const INACTIVE: Duration = Duration::from_secs(60);
/// The pauses between attempts to restart: the shortest and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Where a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the message with this sequence, or the first one after it.
    At(u64),
    /// At the last message of each subject. After a gap, these are read again.
    LastPerSubject,
}

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// Its payload; empty for a removed key.
    pub payload: Vec<u8>,
    /// It marks a removed key.
    pub is_removal: bool,
    /// The time when it was stored, by its server's clock: milliseconds since 1970.
    pub stored_at_ms: u64,
    /// The number of existing messages after it. 0 means that the reader has caught up.
    pub pending: u64,
}

/// A reader that continues until it is dropped.
pub struct StreamReader {
    client: Client,
    counters: Arc<Counters>,
    stream: String,
    filter: String,
    start: Start,
    consumer: Option<Consumer>,
    pause: Duration,
}

struct Consumer {
    name: String,
    inbox: String,
    messages: Subscriber,
    /// The number of the last message, in this consumer's count.
    last: u64,
    /// The number of requested messages that may still arrive.
    requested: u64,
    /// The last time that it was heard from. A caller may stop and restart waiting, so silence is measured across calls.
    last_activity: Instant,
}

/// Why a consumer is unusable.
enum ConsumerError {
    Failed(Failure),
    Silent,
    Gap,
    Gone(String),
}

impl StreamReader {
    /// Creates a reader of the messages of `stream` that match `filter`. Sends nothing before [`next`](Self::next).
    pub fn new(client: Client, counters: Arc<Counters>, stream: &str, filter: &str, start: Start) -> StreamReader {
        let (stream, filter) = (stream.to_owned(), filter.to_owned());
        StreamReader { client, counters, stream, filter, start, consumer: None, pause: PAUSE }
    }

    /// Waits for the next message, across failures of servers and connections. Cancelling loses no message, but may leave a consumer on the
    /// servers until it expires.
    pub async fn next(&mut self) -> Entry {
        loop {
            match self.try_next().await {
                Ok(entry) => return self.record_read(entry),
                Err(broken) => self.restart(&broken).await,
            }
        }
    }

    /// Returns the next message if it has already arrived. Leaves all errors to [`next`](Self::next).
    pub fn next_ready(&mut self) -> Option<Entry> {
        let consumer = self.consumer.as_mut().filter(|consumer| consumer.requested >= BATCH / 2)?;
        loop {
            let message = consumer.messages.next().now_or_never().flatten()?;
            match consumer.take(message) {
                Ok(Some(entry)) => return Some(self.record_read(entry)),
                Ok(None) => {}
                Err(broken) => {
                    debug!("restarting the reader of {}: {}", self.stream, broken.why());
                    self.counters.consumers_restarted.add(1);
                    self.consumer = None;
                    return None;
                }
            }
        }
    }

    fn record_read(&mut self, entry: Entry) -> Entry {
        self.pause = PAUSE;
        if let Start::At(next) = &mut self.start {
            *next = entry.sequence + 1;
        }
        entry
    }

    async fn restart(&mut self, broken: &ConsumerError) {
        self.counters.consumers_restarted.add(1);
        debug!("restarting the reader of {}: {}", self.stream, broken.why());
        if let Some(consumer) = self.consumer.take() {
            let subject = format!("$JS.API.CONSUMER.DELETE.{}.{}", self.stream, consumer.name);
            // If this does not arrive, the servers remove the consumer when it expires.
            let _ = tokio::task::unconstrained(self.client.publish(subject, Vec::new().into())).await;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    async fn try_next(&mut self) -> Result<Entry, ConsumerError> {
        if self.consumer.is_none() {
            self.consumer = Some(self.create().await.map_err(ConsumerError::Failed)?);
        }
        let Some(consumer) = &mut self.consumer else { return Err(ConsumerError::Silent) };
        loop {
            if consumer.requested < BATCH / 2 {
                consumer.request_messages(&self.client, &self.stream).await?;
            }
            let message = match timeout_at(consumer.last_activity + SILENCE, consumer.messages.next()).await {
                Err(_) => return Err(ConsumerError::Silent),
                Ok(None) => return Err(ConsumerError::Gone("the subscription was closed".into())),
                Ok(Some(message)) => message,
            };
            if let Some(entry) = consumer.take(message)? {
                return Ok(entry);
            }
        }
    }

    async fn create(&self) -> Result<Consumer, Failure> {
        let inbox = self.client.new_inbox();
        let name = inbox.rsplit('.').next().unwrap_or_default().to_owned();
        // Subscribe first, so that no message is missed.
        let messages =
            self.client.subscribe(inbox.clone()).await.map_err(|error| Failure::Unanswered(error.to_string()))?;
        let subject = format!("$JS.API.CONSUMER.CREATE.{}.{name}", self.stream);
        ask(&self.client, subject, self.request(&name)).await?;
        Ok(Consumer { name, inbox, messages, last: 0, requested: 0, last_activity: Instant::now() })
    }

    fn request(&self, name: &str) -> String {
        let mut filter = String::new();
        push_string(&mut filter, &self.filter);
        let start = match self.start {
            Start::At(sequence) => {
                format!(r#""deliver_policy":"by_start_sequence","opt_start_seq":{}"#, sequence.max(1))
            }
            Start::LastPerSubject => r#""deliver_policy":"last_per_subject""#.to_owned(),
        };
        let stream = &self.stream;
        let inactive_ns = INACTIVE.as_nanos();
        format!(
            r#"{{"stream_name":"{stream}","action":"create","config":{{"name":"{name}",{start},"filter_subject":{filter},"ack_policy":"none","replay_policy":"instant","max_deliver":1,"num_replicas":1,"mem_storage":true,"inactive_threshold":{inactive_ns}}}}}"#
        )
    }
}

impl Consumer {
    async fn request_messages(&mut self, client: &Client, stream: &str) -> Result<(), ConsumerError> {
        let (expires_ns, heartbeat_ns) = (EXPIRES.as_nanos(), HEARTBEAT.as_nanos());
        let max_bytes = BATCH_MAX_BYTES.max(2 * client.max_payload());
        let body = format!(
            r#"{{"batch":{BATCH},"max_bytes":{max_bytes},"expires":{expires_ns},"idle_heartbeat":{heartbeat_ns}}}"#
        );
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{}", self.name);
        self.requested += BATCH;
        let sent = client.publish_with_reply(subject, self.inbox.clone(), body.into()).await;
        sent.map_err(|error| ConsumerError::Gone(error.to_string()))
    }

    /// Handles a message of the consumer: a message of the stream, or a status.
    fn take(&mut self, message: Message) -> Result<Option<Entry>, ConsumerError> {
        self.last_activity = Instant::now();
        if let Some(status) = message.status {
            return self.take_status(status, &message).map(|()| None);
        }
        let place = message
            .reply
            .as_deref()
            .and_then(place)
            .ok_or_else(|| ConsumerError::Gone("a message has no sequence".into()))?;
        if place.delivered != self.last + 1 {
            return Err(ConsumerError::Gap);
        }
        self.last = place.delivered;
        self.requested = self.requested.saturating_sub(1);
        Ok(Some(Entry {
            sequence: place.sequence,
            subject: message.subject.into_string(),
            is_removal: message.headers.as_ref().is_some_and(marks_removal),
            payload: message.payload.into(),
            stored_at_ms: place.time_ns / 1_000_000,
            pending: place.pending,
        }))
    }

    fn take_status(&mut self, status: StatusCode, message: &Message) -> Result<(), ConsumerError> {
        let said = message.description.as_deref().unwrap_or_default();
        match status.as_u16() {
            100 => Ok(()),
            // A request has ended: by its time, its number of messages or its bytes.
            404 | 408 => self.end_request(message),
            409 if said.starts_with("Batch Completed") || said.contains("MaxBytes") => self.end_request(message),
            status => Err(ConsumerError::Gone(format!("{status} {said}"))),
        }
    }

    fn end_request(&mut self, message: &Message) -> Result<(), ConsumerError> {
        let pending = message.headers.as_ref().and_then(|headers| headers.get("Nats-Pending-Messages"));
        // If the number is missing, assume that nothing more arrives.
        let left = pending.and_then(|text| text.as_str().parse().ok()).unwrap_or(self.requested);
        self.requested = self.requested.saturating_sub(left);
        Ok(())
    }
}

impl ConsumerError {
    fn why(&self) -> String {
        match self {
            ConsumerError::Failed(failure) => failure.to_string(),
            ConsumerError::Silent => "no heartbeat".to_owned(),
            ConsumerError::Gap => "a message is missing".to_owned(),
            ConsumerError::Gone(why) => why.clone(),
        }
    }
}

pub(super) fn marks_removal(headers: &HeaderMap) -> bool {
    headers.iter().any(|(name, values)| values.iter().any(|value| is_removal(name.as_ref(), value.as_str())))
}

/// The content of a message's acknowledgement subject.
#[derive(Debug, PartialEq, Eq)]
struct AckSubject {
    sequence: u64,
    delivered: u64,
    time_ns: u64,
    pending: u64,
}

/// Parses `$JS.ACK.<stream>.<consumer>.<attempts>.<sequence>.<delivered>.<time>.<pending>`; newer servers insert a domain and an account,
/// and append a token.
fn place(reply: &str) -> Option<AckSubject> {
    let tokens: Vec<_> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let at = match tokens.len() {
        7 => 3,
        9.. => 5,
        _ => return None,
    };
    let number = |at: usize| tokens.get(at)?.parse().ok();
    Some(AckSubject {
        sequence: number(at)?,
        delivered: number(at + 1)?,
        time_ns: number(at + 2)?,
        pending: number(at + 3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_parsed_in_both_forms() {
        let wanted = Some(AckSubject { sequence: 20, delivered: 3, time_ns: 1_700_000_000, pending: 4 });
        assert_eq!(place("$JS.ACK.S.C.1.20.3.1700000000.4"), wanted);
        assert_eq!(place("$JS.ACK._.hash.S.C.1.20.3.1700000000.4"), wanted);
        assert_eq!(place("$JS.ACK.hub.hash.S.C.1.20.3.1700000000.4.token"), wanted);
        for reply in ["", "$JS.ACK.S.C.1.20.3.1", "$JS.ACK.S.C.1.x.3.1.4", "_INBOX.a.b.c.d.e.f.g.h.i"] {
            assert_eq!(place(reply), None, "{reply}");
        }
    }
}
