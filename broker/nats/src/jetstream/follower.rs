//! What comes to a stream, in parts: for who asks for the next one when there is room for it.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use tokio::time::timeout;

use super::stream_reader::{Entry, Start, StreamReader};
use crate::counters::Counters;

/// How long a reader waits for something that is not there yet, before it says so.
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
    /// The sequence behind the last message that was given.
    next: u64,
    /// A message that was too much for the last answer.
    left: Option<Entry>,
}

impl Follower {
    pub(crate) fn new(client: Client, counters: Arc<Counters>, stream: String, filter: String) -> Follower {
        Follower { client, counters, stream, filter, reading: None }
    }

    /// Messages from a sequence on: what there is, as soon as there is something, up to so many messages and bytes, but one at least; or none
    /// after some seconds. Who asks for what follows the last answer costs the servers nothing more.
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
