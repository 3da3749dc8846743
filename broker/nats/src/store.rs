//! The operations of the store on streams: requests, answers, and their meaning.
//!
//! A key is the subject `$KV.<bucket>.<key>` of the stream `KV_<bucket>`, as in all NATS tools, and its revision is the sequence of its
//! last message. Writes name the expected sequence. Reads go to the leader of the stream. Answers arrive on one subject, and each operation
//! is answered to the node once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use async_nats::connection::State;
use async_nats::{Client, HeaderMap, Message};
use futures_util::FutureExt;
use log::warn;
use tautwire_cluster::names::{Key, LogSubject};
use tautwire_cluster::{Answer, Operation, OperationId, Revision, Sequence};
use tautwire_json::push_string;

use crate::counters::Counters;
use crate::jetstream::{ApiError, StoredMessage, code, parse_stored, parse_written};
use crate::layout;
use crate::log_limiter::LogLimiter;
use crate::settings::Times;

/// The header with the subject whose last sequence is expected.
const EXPECTED_LAST: &str = "Nats-Expected-Last-Subject-Sequence";

pub(crate) struct Store {
    client: Client,
    /// Answers arrive on this subject, followed by a dot and a [`Token`].
    inbox: String,
    operation_ms: u64,
    failure_pause_ms: u64,
    counters: Arc<Counters>,
    in_flight: HashMap<OperationId, InFlight>,
    /// Operations that wait for a connection, in order.
    waiting: VecDeque<OperationId>,
    /// When operations expire, in order, because all have the same timeout.
    deadlines: VecDeque<(u64, OperationId)>,
    /// When failures are reported, in order.
    failures: VecDeque<(u64, OperationId)>,
    log_limiter: LogLimiter,
}

/// An operation, with the number of its current request.
struct InFlight {
    step: u8,
    what: RequestState,
}

enum RequestState {
    Waiting(Operation),
    Getting,
    GettingLast,
    /// Creates a key, which may exist as a deletion marker.
    Creating(Key, Vec<u8>),
    /// The key exists; checks whether it is a deletion marker.
    CheckingMarker(Key, Vec<u8>),
    Putting,
    Appending,
    Failed,
}

/// Identifies a request of an operation. An operation has one, or three if there is a deletion marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token {
    id: OperationId,
    step: u8,
}

impl Store {
    /// Creates a store. The caller subscribes to `inbox` followed by any one token.
    pub(crate) fn new(client: Client, inbox: String, times: &Times, counters: Arc<Counters>) -> Store {
        Store {
            client,
            inbox,
            operation_ms: times.operation_ms,
            failure_pause_ms: times.failure_pause_ms,
            counters,
            in_flight: HashMap::new(),
            waiting: VecDeque::new(),
            deadlines: VecDeque::new(),
            failures: VecDeque::new(),
            log_limiter: LogLimiter::default(),
        }
    }

    /// Switches to another connection. Requests in flight on the previous one can still be answered.
    pub(crate) fn use_connection(&mut self, client: Client) {
        self.client = client;
    }

    /// Whether no operation is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    pub(crate) fn begin(&mut self, now_ms: u64, id: OperationId, operation: Operation) {
        self.deadlines.push_back((now_ms + self.operation_ms, id));
        if self.is_connected() {
            self.send(now_ms, id, operation);
        } else {
            self.counters.operations_delayed.add(1);
            self.in_flight.insert(id, InFlight { step: 0, what: RequestState::Waiting(operation) });
            self.waiting.push_back(id);
        }
    }

    /// Sends the waiting operations if there is a connection again. The NATS client itself gets nothing to buffer while disconnected.
    pub(crate) fn connected(&mut self, now_ms: u64) {
        if !self.is_connected() {
            return;
        }
        for id in std::mem::take(&mut self.waiting) {
            if let Some(InFlight { what: RequestState::Waiting(operation), .. }) = self.in_flight.remove(&id) {
                self.send(now_ms, id, operation);
            }
        }
    }

    fn send(&mut self, now_ms: u64, id: OperationId, operation: Operation) {
        let (what, is_sent) = match operation {
            Operation::Get(key) => (RequestState::Getting, self.read(Token { id, step: 1 }, StreamSubject::Key(key))),
            Operation::Last(subject) => {
                (RequestState::GettingLast, self.read(Token { id, step: 1 }, StreamSubject::Log(subject)))
            }
            Operation::Put { key, expected: None, value } => {
                let is_sent = self.write(Token { id, step: 1 }, StreamSubject::Key(key), 0, value.clone());
                (RequestState::Creating(key, value), is_sent)
            }
            Operation::Put { key, expected: Some(Revision(expected)), value } => {
                (RequestState::Putting, self.write(Token { id, step: 1 }, StreamSubject::Key(key), expected, value))
            }
            Operation::Append { subject, expected, group } => {
                let expected = expected.map_or(0, |Sequence(sequence)| sequence);
                (
                    RequestState::Appending,
                    self.write(Token { id, step: 1 }, StreamSubject::Log(subject), expected, group),
                )
            }
            // Executed by tasks.
            _ => (RequestState::Failed, false),
        };
        self.in_flight.insert(id, InFlight { step: 1, what });
        if !is_sent {
            self.schedule_failure(now_ms, id);
        }
    }

    fn read(&self, token: Token, place: StreamSubject) -> bool {
        let mut body = String::from(r#"{"last_by_subj":"#);
        push_string(&mut body, &place.subject());
        body.push('}');
        self.publish(token, format!("$JS.API.STREAM.MSG.GET.{}", place.stream()), None, body.into_bytes())
    }

    fn write(&self, token: Token, place: StreamSubject, expected: u64, payload: Vec<u8>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_LAST, expected.to_string());
        self.publish(token, place.subject(), Some(headers), payload)
    }

    /// Never waits: if the connection has no space, the operation fails.
    fn publish(&self, token: Token, subject: String, headers: Option<HeaderMap>, payload: Vec<u8>) -> bool {
        let reply = format!("{}.{token}", self.inbox);
        let sent = match headers {
            Some(headers) => {
                let publish = self.client.publish_with_reply_and_headers(subject, reply, headers, payload.into());
                tokio::task::unconstrained(publish).now_or_never()
            }
            None => tokio::task::unconstrained(self.client.publish_with_reply(subject, reply, payload.into()))
                .now_or_never(),
        };
        match sent {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                if self.log_limiter.should_log() {
                    warn!("cannot send an operation to the cluster's store: {error}");
                }
                false
            }
            None => false,
        }
    }

    /// Handles a message on the answer subject. Returns an answer for the node, if it was one.
    pub(crate) fn take(&mut self, now_ms: u64, message: &Message) -> Option<(OperationId, Answer)> {
        let token: Token = message.subject.strip_prefix(&self.inbox)?.strip_prefix('.')?.parse().ok()?;
        let in_flight = self.in_flight.get_mut(&token.id).filter(|in_flight| in_flight.step == token.step)?;
        // The stream has no leader that could answer.
        if message.status.is_some() {
            self.schedule_failure(now_ms, token.id);
            return None;
        }
        match in_flight.what.interpret_reply(&message.payload) {
            Ok(ReplyAction::Answer(answer)) => Some((token.id, self.finish(token.id, answer))),
            Ok(ReplyAction::CheckMarker(key, value)) => {
                let is_sent = self.read(Token { id: token.id, step: 2 }, StreamSubject::Key(key));
                // Without the check, the rejection of the first attempt is the answer.
                if !is_sent {
                    return Some((token.id, self.finish(token.id, Answer::Conflict)));
                }
                self.in_flight.insert(token.id, InFlight { step: 2, what: RequestState::CheckingMarker(key, value) });
                None
            }
            Ok(ReplyAction::ReplaceMarker(key, value, marker)) => {
                let is_sent = self.write(Token { id: token.id, step: 3 }, StreamSubject::Key(key), marker, value);
                self.in_flight.insert(token.id, InFlight { step: 3, what: RequestState::Putting });
                if !is_sent {
                    self.schedule_failure(now_ms, token.id);
                }
                None
            }
            Err(error) => {
                if self.log_limiter.should_log() {
                    warn!("the cluster's store has rejected an operation: {error}");
                }
                self.schedule_failure(now_ms, token.id);
                None
            }
        }
    }

    fn finish(&mut self, id: OperationId, answer: Answer) -> Answer {
        self.in_flight.remove(&id);
        // Most operations are answered soon and in order. Answered ones need no deadline.
        while self.deadlines.front().is_some_and(|(_, id)| !self.in_flight.contains_key(id)) {
            self.deadlines.pop_front();
        }
        match answer {
            Answer::Conflict => self.counters.operation_conflicts.add(1),
            _ => self.counters.operations.add(1),
        }
        answer
    }

    /// Delays a failure, because the node retries as soon as it learns of it.
    fn schedule_failure(&mut self, now_ms: u64, id: OperationId) {
        self.in_flight.insert(id, InFlight { step: 0, what: RequestState::Failed });
        self.failures.push_back((now_ms + self.failure_pause_ms, id));
    }

    /// Returns an operation that has expired or whose failure is due.
    pub(crate) fn next_expired(&mut self, now_ms: u64) -> Option<(OperationId, Answer)> {
        for queue in [&mut self.failures, &mut self.deadlines] {
            while queue.front().is_some_and(|(due_ms, _)| *due_ms <= now_ms) {
                let Some((_, id)) = queue.pop_front() else { break };
                // Both are in the order in which operations were started.
                if self.waiting.front() == Some(&id) {
                    self.waiting.pop_front();
                }
                if self.in_flight.remove(&id).is_some() {
                    self.counters.operation_timeouts.add(1);
                    return Some((id, Answer::Unknown));
                }
            }
        }
        None
    }
}

/// What to do after an answer of the servers.
enum ReplyAction {
    Answer(Answer),
    /// The key exists, possibly as a deletion marker.
    CheckMarker(Key, Vec<u8>),
    /// There is a deletion marker, with this sequence.
    ReplaceMarker(Key, Vec<u8>, u64),
}

impl RequestState {
    fn interpret_reply(&mut self, payload: &[u8]) -> Result<ReplyAction, ApiError> {
        let answer = match self {
            RequestState::Getting => {
                let stored = found(payload)?.filter(|stored| !stored.is_removal);
                Answer::Got(stored.map(|stored| (Revision(stored.sequence), stored.payload)))
            }
            RequestState::GettingLast => {
                Answer::Last(found(payload)?.map(|stored| (Sequence(stored.sequence), stored.payload)))
            }
            RequestState::Putting => {
                written(payload)?.map_or(Answer::Conflict, |sequence| Answer::Put(Revision(sequence)))
            }
            RequestState::Appending => {
                written(payload)?.map_or(Answer::Conflict, |sequence| Answer::Appended(Sequence(sequence)))
            }
            RequestState::Creating(key, value) => match written(payload)? {
                Some(sequence) => Answer::Put(Revision(sequence)),
                None => return Ok(ReplyAction::CheckMarker(*key, std::mem::take(value))),
            },
            RequestState::CheckingMarker(key, value) => match found(payload) {
                Ok(Some(StoredMessage { sequence, is_removal: true, .. })) => {
                    return Ok(ReplyAction::ReplaceMarker(*key, std::mem::take(value), sequence));
                }
                // The key exists, or its marker has just expired. The first attempt was rejected in any case.
                _ => Answer::Conflict,
            },
            // No request was sent, so no token leads here.
            RequestState::Waiting(_) | RequestState::Failed => Answer::Unknown,
        };
        Ok(ReplyAction::Answer(answer))
    }
}

/// Parses the stored message, if there is one.
fn found(payload: &[u8]) -> Result<Option<StoredMessage>, ApiError> {
    match parse_stored(payload) {
        Ok(stored) => Ok(Some(stored)),
        Err(error) if error.code == code::MESSAGE_NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses the sequence of a write, or `None` after a conflict.
fn written(payload: &[u8]) -> Result<Option<u64>, ApiError> {
    match parse_written(payload) {
        Ok(sequence) => Ok(Some(sequence)),
        Err(error) if code::is_conflict(error.code) => Ok(None),
        Err(error) => Err(error),
    }
}

#[derive(Debug, Clone, Copy)]
enum StreamSubject {
    Key(Key),
    Log(LogSubject),
}

impl StreamSubject {
    fn stream(self) -> String {
        match self {
            StreamSubject::Key(key) => layout::bucket_stream(layout::bucket_of(key)),
            StreamSubject::Log(subject) => layout::log_stream(subject.partition),
        }
    }

    fn subject(self) -> String {
        match self {
            // A key is written as bucket, dot, and key in the bucket.
            StreamSubject::Key(key) => format!("$KV.{key}"),
            StreamSubject::Log(subject) => subject.to_string(),
        }
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.id.0, self.step)
    }
}

impl std::str::FromStr for Token {
    type Err = ();

    fn from_str(text: &str) -> Result<Token, ()> {
        let (id, step) = text.split_once('-').ok_or(())?;
        Ok(Token { id: OperationId(id.parse().map_err(|_| ())?), step: step.parse().map_err(|_| ())? })
    }
}

#[cfg(test)]
mod tests;
