//! The retained messages, in the stream that all nodes mirror.

use std::sync::Arc;

use async_nats::Client;
use tautwire_cluster::record::{MARK_SUBJECT, RetainedRecord};

use crate::counters::Counters;
use crate::jetstream::{self, Entry, Failure, bounds};
use crate::layout::{RETAINED, RETAINED_SUBJECTS, retained_subject};
use crate::records::WriteResult;

/// The most bytes of one part of the mirror.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The retained message of a topic in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedEntry {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The subject of the topic.
    pub subject: String,
    /// The age by the store's clock, in milliseconds.
    pub age_ms: u64,
    /// The message; `None` if it was removed or has expired.
    pub value: Option<Vec<u8>>,
}

/// A part of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The entries, in order.
    pub kept: Vec<RetainedEntry>,
    /// No more entries up to this sequence follow.
    pub through: u64,
    /// Whether there was nothing more at the time of the read.
    pub is_end: bool,
}

/// Returns the retained message of a topic with its sequence, from the leader.
///
/// # Errors
/// The servers have not answered.
pub async fn last(client: &Client, subject: &str) -> Result<Option<(u64, Vec<u8>)>, Failure> {
    let stored = jetstream::last(client, RETAINED, &retained_subject(subject)).await?;
    Ok(stored.filter(|stored| !stored.is_removal).map(|stored| (stored.sequence, stored.payload)))
}

/// Writes the retained message of a topic if its current one has this sequence; `None` if it has none. The store removes it after `for_s`
/// seconds, if given.
///
/// # Errors
/// The outcome is unknown, or the servers have rejected the write for another reason.
pub async fn retain(
    client: &Client,
    subject: &str,
    expected: Option<u64>,
    value: Vec<u8>,
    for_s: Option<u32>,
) -> Result<WriteResult, Failure> {
    let ttl: Vec<_> = for_s.map(|seconds| ("Nats-TTL", seconds.to_string())).into_iter().collect();
    let subject = retained_subject(subject);
    if let Some(expected) = expected {
        return Ok(jetstream::write(client, subject, expected, &ttl, value).await?.into());
    }
    if let Some(sequence) = jetstream::write(client, subject.clone(), 0, &ttl, value.clone()).await? {
        return Ok(WriteResult::At(sequence));
    }
    // The previous message may have expired and left a marker. The first attempt was rejected, so nothing was written before the second.
    match jetstream::last(client, RETAINED, &subject).await {
        Ok(Some(marker)) if marker.is_removal => {
            Ok(jetstream::write(client, subject, marker.sequence, &ttl, value).await?.into())
        }
        _ => Ok(WriteResult::Conflict),
    }
}

/// Marks the end of the stream and returns its sequence. Everything confirmed before precedes it: a leader that has been replaced has no
/// quorum for a write, although it still answers reads.
///
/// # Errors
/// The servers have not answered, or there is no quorum.
pub async fn end(client: &Client) -> Result<u64, Failure> {
    jetstream::write_over(client, retained_subject(MARK_SUBJECT), RetainedRecord::mark().encode()).await
}

/// Reads the stream from the beginning, and then as it grows.
pub struct Mirror {
    client: Client,
    follower: jetstream::Follower,
    /// By how many milliseconds the store's clock is ahead of this machine's. Measured now and then.
    ahead_ms: Option<i64>,
}

impl Mirror {
    /// Creates a mirror. It reads nothing until it is used.
    pub fn new(client: Client, counters: Arc<Counters>) -> Mirror {
        let (stream, subjects) = (RETAINED.to_owned(), RETAINED_SUBJECTS.to_owned());
        let follower = jetstream::Follower::new(client.clone(), counters, stream, subjects);
        Mirror { client, follower, ahead_ms: None }
    }

    /// Returns up to `max` entries after a sequence. Waits some seconds if there are none.
    ///
    /// # Errors
    /// The servers have not answered.
    pub async fn next(&mut self, after: u64, max: usize) -> Result<Part, Failure> {
        let ahead_ms = match self.ahead_ms {
            Some(ahead_ms) => ahead_ms,
            None => {
                let (last, ahead_ms) = self.measure_clock_offset().await?;
                if last <= after {
                    // The first read does not wait for entries that may never come.
                    return Ok(Part { kept: Vec::new(), through: after, is_end: true });
                }
                ahead_ms
            }
        };
        let entries = self.follower.next(after + 1, max, MAX_BYTES).await;
        if let Some(last) = entries.last() {
            let (through, is_end) = (last.sequence, last.pending == 0);
            let kept = entries.into_iter().map(|entry| kept(entry, ahead_ms)).collect();
            return Ok(Part { kept, through, is_end });
        }
        // The last entries of the stream may have been removed without a trace. Ask the leader: first for the last sequence, then whether
        // entries remain.
        let (last, ahead_ms) = self.measure_clock_offset().await?;
        match jetstream::next(&self.client, RETAINED, RETAINED_SUBJECTS, after + 1).await? {
            None => Ok(Part { kept: Vec::new(), through: after.max(last), is_end: true }),
            Some(stored) => {
                let value = (!stored.is_removal).then_some(stored.payload);
                let age_ms = age_ms(stored.stored_at_ms, ahead_ms);
                let subject = relative(&stored.subject);
                let kept = RetainedEntry { sequence: stored.sequence, subject, age_ms, value };
                Ok(Part { through: kept.sequence, kept: vec![kept], is_end: false })
            }
        }
    }

    /// Returns the last sequence of the stream, and by how much the store's clock is ahead.
    async fn measure_clock_offset(&mut self) -> Result<(u64, i64), Failure> {
        let bounds = bounds(&self.client, RETAINED).await?;
        let ahead_ms = bounds.now_ms.cast_signed().wrapping_sub(crate::now_ms().cast_signed());
        self.ahead_ms = Some(ahead_ms);
        Ok((bounds.last, ahead_ms))
    }
}

fn kept(entry: Entry, ahead_ms: i64) -> RetainedEntry {
    RetainedEntry {
        sequence: entry.sequence,
        subject: relative(&entry.subject),
        age_ms: age_ms(entry.stored_at_ms, ahead_ms),
        value: (!entry.is_removal).then_some(entry.payload),
    }
}

fn age_ms(stored_at_ms: u64, ahead_ms: i64) -> u64 {
    crate::now_ms().saturating_add_signed(ahead_ms).saturating_sub(stored_at_ms)
}

fn relative(subject: &str) -> String {
    subject.strip_prefix(RETAINED_SUBJECTS.trim_end_matches('>')).unwrap_or_default().to_owned()
}
