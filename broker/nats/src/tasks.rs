//! Operations that take several requests, or wait: each is a task whose answer goes to the node's thread. Operations with a single request
//! use [`Store`](crate::store::Store).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use log::warn;
use tautwire_cluster::names::{ClientKey, GroupKey, Key, LogSubject, Partition};
use tautwire_cluster::{Answer, Operation, OperationId, RetainedEntry, Revision, Scanned, ScannedGroup, Sequence};
use tokio::sync::Mutex;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::counters::Counters;
use crate::jetstream::{self, Failure};
use crate::layout::log_stream;
use crate::log::{self as partition_log, Follower};
use crate::log_limiter::LogLimiter;
use crate::records::{self, WriteResult};
use crate::retained::{self, Mirror};
use crate::settings::Times;

/// How much longer, in milliseconds, operations may take that wait for new data.
const WAITING_MS: u64 = 3500;

/// The result of an operation.
pub(crate) type TaskResult = (OperationId, Answer);

/// The running tasks. Dropping it aborts them.
pub(crate) struct Tasks {
    connection: Arc<ConnectionTasks>,
    answers: Sender<TaskResult>,
    counters: Arc<Counters>,
    operation: Duration,
    pause: Duration,
    running: JoinSet<()>,
    /// Writes, and reads needed for decisions. Operations that wait for new data are not included.
    in_flight: HashSet<OperationId>,
    log_limiter: LogLimiter,
}

/// One connection, with its permanent readers.
struct ConnectionTasks {
    client: Client,
    followers: Vec<Mutex<Follower>>,
    mirror: Mutex<Mirror>,
}

impl ConnectionTasks {
    fn new(client: Client, counters: &Arc<Counters>) -> ConnectionTasks {
        let follower = |partition| Mutex::new(Follower::new(client.clone(), counters.clone(), partition));
        let followers = Partition::all().map(follower).collect();
        let mirror = Mutex::new(Mirror::new(client.clone(), counters.clone()));
        ConnectionTasks { client, followers, mirror }
    }
}

impl Tasks {
    pub(crate) fn new(client: Client, answers: Sender<TaskResult>, times: &Times, counters: Arc<Counters>) -> Tasks {
        Tasks {
            connection: Arc::new(ConnectionTasks::new(client, &counters)),
            answers,
            counters,
            operation: Duration::from_millis(times.operation_ms),
            pause: Duration::from_millis(times.failure_pause_ms),
            running: JoinSet::new(),
            in_flight: HashSet::new(),
            log_limiter: LogLimiter::default(),
        }
    }

    /// Switches to another connection. Operations in flight on the previous one can still be answered.
    pub(crate) fn use_connection(&mut self, client: Client) {
        self.connection = Arc::new(ConnectionTasks::new(client, &self.counters));
    }

    /// Whether no operation is in flight whose result may be needed.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether an operation is executed by a task.
    pub(crate) fn takes(operation: &Operation) -> bool {
        let is_one_request = matches!(
            operation,
            Operation::Get(_) | Operation::Put { .. } | Operation::Last(_) | Operation::Append { .. }
        );
        !is_one_request
    }

    pub(crate) fn begin(&mut self, id: OperationId, operation: Operation) {
        while self.running.try_join_next().is_some() {}
        let waits = matches!(operation, Operation::Follow { .. } | Operation::Mirror { .. });
        if !waits {
            self.in_flight.insert(id);
        }
        let more = Duration::from_millis(if waits { WAITING_MS } else { 0 });
        let (connection, answers, operation_time, pause) =
            (self.connection.clone(), self.answers.clone(), self.operation, self.pause);
        let should_log = self.log_limiter.should_log();
        self.running.spawn(async move {
            let execution = async {
                // Wait for the connection instead of queueing: an operation that is too old is never sent.
                while connection.client.connection_state() != State::Connected {
                    sleep(pause).await;
                }
                connection.execute(operation, operation_time).await
            };
            let answer = match timeout(operation_time + more, execution).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(failure)) => {
                    if should_log {
                        warn!("an operation of the cluster's store failed: {failure}");
                    }
                    sleep(pause).await;
                    Answer::Unknown
                }
                Err(_) => Answer::Unknown,
            };
            // If the receiver is gone, the node has stopped.
            let _ = answers.send((id, answer)).await;
        });
    }

    /// Handles a result and returns it for the node.
    pub(crate) fn take(&mut self, (id, answer): TaskResult) -> TaskResult {
        self.in_flight.remove(&id);
        match answer {
            Answer::Conflict => self.counters.operation_conflicts.add(1),
            Answer::Unknown => self.counters.operation_timeouts.add(1),
            _ => self.counters.operations.add(1),
        }
        (id, answer)
    }
}

impl ConnectionTasks {
    async fn execute(&self, operation: Operation, wait: Duration) -> Result<Answer, Failure> {
        let client = &self.client;
        Ok(match operation {
            Operation::End(partition) => Answer::End(Sequence(partition_log::end(client, partition).await?)),
            Operation::Read { partition, from, max_bytes } => {
                groups(partition_log::read(client, partition, from.0, max_bytes, wait).await?)
            }
            Operation::Follow { partition, from, max_bytes } => {
                let mut follower = self.followers[partition.index()].lock().await;
                groups(follower.next(from.0, max_bytes).await)
            }
            Operation::PutFor { key, expected, value, for_s } => {
                match records::put_for(client, key, expected, value, for_s).await? {
                    WriteResult::At(revision) => Answer::Put(Revision(revision)),
                    WriteResult::Conflict => Answer::Conflict,
                }
            }
            Operation::Remove { key, expected } => match records::remove(client, key, expected).await? {
                WriteResult::At(_) => Answer::Removed,
                WriteResult::Conflict => Answer::Conflict,
            },
            Operation::Scan { after, max } => {
                let page = records::scan(client, after, max, wait).await?;
                let records = page.records.into_iter().filter_map(scanned).collect();
                Answer::Scanned { records, through: page.through, is_end: page.is_end }
            }
            Operation::ScanGroups { after, max } => {
                // The rest of the time is for the last answer.
                let page = records::scan_groups(client, after, max, wait / 2).await?;
                let records = page.records.into_iter().filter_map(scanned_group).collect();
                Answer::ScannedGroups { records, through: page.through, is_end: page.is_end }
            }
            Operation::ConfigHolds(expected) => match records::holds(client, Key::Config, expected).await? {
                true => Answer::Holds,
                false => Answer::Conflict,
            },
            Operation::Nodes => Answer::Nodes(records::nodes(client).await?),
            Operation::Next { subject: LogSubject { partition, writer }, from } => {
                let subject = LogSubject { partition, writer }.to_string();
                let found = jetstream::next(client, &log_stream(partition), &subject, from.0).await?;
                Answer::Last(found.map(|stored| (Sequence(stored.sequence), stored.payload)))
            }
            Operation::LastRetained(subject) => {
                let found = retained::last(client, &subject).await?;
                Answer::Last(found.map(|(sequence, value)| (Sequence(sequence), value)))
            }
            Operation::Retain { subject, expected, value, for_s } => {
                let expected = expected.map(|Sequence(sequence)| sequence);
                match retained::retain(client, &subject, expected, value, for_s).await? {
                    WriteResult::At(sequence) => Answer::Appended(Sequence(sequence)),
                    WriteResult::Conflict => Answer::Conflict,
                }
            }
            Operation::Mirror { after, max } => {
                let part = self.mirror.lock().await.next(after.0, max).await?;
                // Entries expire by themselves, and cleared topics have a record.
                let kept = part.kept.into_iter().filter_map(|kept| {
                    Some(RetainedEntry { sequence: Sequence(kept.sequence), age_ms: kept.age_ms, value: kept.value? })
                });
                Answer::Mirrored { kept: kept.collect(), through: Sequence(part.through), is_end: part.is_end }
            }
            Operation::EndOfRetained => Answer::EndOfRetained(Sequence(retained::end(client).await?)),
            Operation::Get(_) | Operation::Put { .. } | Operation::Last(_) | Operation::Append { .. } => {
                Answer::Unknown
            }
        })
    }
}

fn groups(read: partition_log::Groups) -> Answer {
    let groups = read.groups.into_iter().map(|(sequence, group)| (Sequence(sequence), group)).collect();
    Answer::Groups { first: Sequence(read.first), groups }
}

/// Decodes a session record; `None` for a key that no broker writes.
fn scanned(record: records::Record) -> Option<Scanned> {
    let client = ClientKey::of_text(&record.name)?;
    Some(Scanned { client, revision: record.revision, age_ms: record.age_ms, value: record.value })
}

/// Decodes a group record; `None` for a key that no broker writes.
fn scanned_group(record: records::Record) -> Option<ScannedGroup> {
    let group = GroupKey::of_text(&record.name)?;
    Some(ScannedGroup { group, revision: record.revision, age_ms: record.age_ms, value: record.value })
}
