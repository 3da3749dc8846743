//! Reads the log of a partition.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use tautwire_cluster::names::Partition;

use crate::counters::Counters;
use crate::jetstream::{self, Failure, bounds, read_range};
use crate::layout::{log_stream, log_subjects};

/// The most groups that one read requests from a server.
const GROUPS_MAX: usize = 256;

/// A part of the log, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// The first available sequence from the requested one on. Everything before it was removed.
    pub first: u64,
    /// Sequences and groups.
    pub groups: Vec<(u64, Vec<u8>)>,
}

/// Returns the sequence of the next group of a partition, according to the leader.
///
/// # Errors
/// The leader has not answered.
pub async fn end(client: &Client, partition: Partition) -> Result<u64, Failure> {
    Ok(bounds(client, &log_stream(partition)).await?.last + 1)
}

/// Returns groups of a partition from a sequence on, up to `max_bytes` but at least one; none if there are none yet.
///
/// They come from any server that has the partition, which may lag behind. If that server skips a sequence, the leader is asked whether it
/// was removed.
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
    // A server returns nothing if the first message is larger than the requested size.
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

/// Returns one group, or the beginning of the log if there is none from that sequence on.
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

/// Follows a partition as it grows.
pub struct Follower(jetstream::Follower);

impl Follower {
    /// Creates a follower. It reads nothing until it is used.
    pub fn new(client: Client, counters: Arc<Counters>, partition: Partition) -> Follower {
        let (stream, subjects) = (log_stream(partition), log_subjects(partition));
        Follower(jetstream::Follower::new(client, counters, stream, subjects))
    }

    /// Returns groups from a sequence on as soon as there are any: up to `max_bytes`, but at least one; or none after some seconds.
    /// Continuing where the last call ended costs the servers nothing extra. A gap does not mean that groups were removed: use [`read`] to
    /// find out.
    pub async fn next(&mut self, from: u64, max_bytes: usize) -> Groups {
        let entries = self.0.next(from, GROUPS_MAX, max_bytes).await;
        Groups {
            first: entries.first().map_or(from, |entry| entry.sequence),
            groups: entries.into_iter().map(|entry| (entry.sequence, entry.payload)).collect(),
        }
    }
}
