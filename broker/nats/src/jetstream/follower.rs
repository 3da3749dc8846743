//! Follows a stream in parts, for a reader that requests the next part when it has space.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use tokio::time::timeout;

use super::stream_reader::{Entry, Start, StreamReader};
use crate::counters::Counters;

/// How long a reader waits for new messages before it returns an empty part.
const WAIT: Duration = Duration::from_secs(3);

pub(crate) struct Follower {
    client: Client,
    counters: Arc<Counters>,
    stream: String,
    filter: String,
    reading: Option<Reading>,
}

struct Reading {
    following: StreamReader,
    /// The sequence after the last message that was returned.
    next: u64,
    /// A message that did not fit into the last part.
    left: Option<Entry>,
}

impl Follower {
    pub(crate) fn new(client: Client, counters: Arc<Counters>, stream: String, filter: String) -> Follower {
        Follower { client, counters, stream, filter, reading: None }
    }

    /// Returns messages from a sequence on as soon as there are any: up to these limits, but at least one; or none after some seconds.
    /// Continuing where the last part ended costs the servers nothing extra.
    pub(crate) async fn next(&mut self, from: u64, messages_max: usize, max_bytes: usize) -> Vec<Entry> {
        let Reading { following, next, left } = match self.reading.take().filter(|reading| reading.next == from) {
            Some(reading) => self.reading.insert(reading),
            None => {
                let (client, counters) = (self.client.clone(), self.counters.clone());
                let following = StreamReader::new(client, counters, &self.stream, &self.filter, Start::At(from));
                self.reading.insert(Reading { following, next: from, left: None })
            }
        };
        let first = match left.take() {
            Some(entry) => Some(entry),
            None => timeout(WAIT, following.next()).await.ok(),
        };
        let Some(first) = first else { return Vec::new() };
        let mut bytes = first.payload.len();
        let mut entries = vec![first];
        while entries.len() < messages_max
            && let Some(entry) = following.next_ready()
        {
            bytes += entry.payload.len();
            if bytes > max_bytes {
                *left = Some(entry);
                break;
            }
            entries.push(entry);
        }
        *next = entries.last().map_or(from, |entry| entry.sequence + 1);
        entries
    }
}
