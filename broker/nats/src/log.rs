//! Reading the log of a partition.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use tautwire_cluster::names::Partition;

use crate::counters::Counters;
use crate::jetstream::{self, Failure, bounds, read_range};
use crate::layout::{log_stream, log_subjects};

/// Groups that one read asks a server for.
const GROUPS_MAX: usize = 256;

/// A part of the log, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// Where the log goes on from the sequence that was asked for. What is before it, is gone.
    pub first: u64,
    /// Sequences and groups.
    pub groups: Vec<(u64, Vec<u8>)>,
}

/// The sequence that the next group of a partition is going to have, as the leader knows it.
///
/// # Errors
/// The leader has not answered.
pub async fn end(client: &Client, partition: Partition) -> Result<u64, Failure> {
    Ok(bounds(client, &log_stream(partition)).await?.last + 1)
}

/// Groups of a partition from a sequence on, until they have `max_bytes`, but one at least; none where there is none yet.
///
/// They come from any server that has the partition, and it may be behind. Where it skips something, the leader is asked whether that is gone.
///
/// # Errors
/// The servers have not answered.
pub async fn read(
    client: &Client,
    partition: Partition,
    from: u64,
    max_bytes: usize,
    wait: Duration,
) -> Result<Groups, Failure> {
    let (stream, subjects) = (log_stream(partition), log_subjects(partition));
    // A server gives nothing at all if the first message is larger than what was asked for.
    let asked_bytes = max_bytes.max(2 * client.max_payload());
    let mut entries = read_range(client, &stream, &subjects, from, GROUPS_MAX, asked_bytes, wait).await?;
    let without_gap = entries.iter().zip(from..).take_while(|(entry, sequence)| entry.sequence == *sequence).count();
    entries.truncate(without_gap);
    if entries.is_empty() {
        return read_from_leader(client, partition, from).await;
    }
    let mut bytes = 0;
    let fitting = entries.into_iter().take_while(|entry| {
        let is_taken = bytes == 0 || bytes + entry.payload.len() <= max_bytes;
        bytes += entry.payload.len();
        is_taken
    });
    Ok(Groups { first: from, groups: fitting.map(|entry| (entry.sequence, entry.payload)).collect() })
}

/// One group, or where the log begins if there is none from there on.
async fn read_from_leader(client: &Client, partition: Partition, from: u64) -> Result<Groups, Failure> {
    let stream = log_stream(partition);
    match jetstream::next(client, &stream, &log_subjects(partition), from).await? {
        Some(stored) => Ok(Groups { first: stored.sequence, groups: vec![(stored.sequence, stored.payload)] }),
        None => {
            let first = bounds(client, &stream).await?.first;
            Ok(Groups { first: first.max(from), groups: Vec::new() })
        }
    }
}

/// What a node reads of a partition as it comes.
pub struct Follower(jetstream::Follower);

impl Follower {
    /// Nothing is read before somebody asks.
    pub fn new(client: Client, counters: Arc<Counters>, partition: Partition) -> Follower {
        let (stream, subjects) = (log_stream(partition), log_subjects(partition));
        Follower(jetstream::Follower::new(client, counters, stream, subjects))
    }

    /// Groups from a sequence on: what there is, as soon as there is something, until they have `max_bytes`, but one at least; or none after
    /// some seconds. Who asks for what follows the last answer costs the servers nothing more. What is missing in between is not known to be
    /// gone: [`read`] knows.
    pub async fn next(&mut self, from: u64, max_bytes: usize) -> Groups {
        let entries = self.0.next(from, GROUPS_MAX, max_bytes).await;
        Groups {
            first: entries.first().map_or(from, |entry| entry.sequence),
            groups: entries.into_iter().map(|entry| (entry.sequence, entry.payload)).collect(),
        }
    }
}
