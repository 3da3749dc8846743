//! Operations on keys besides [`Operation`](tautwire_cluster::Operation): a time to live, removal, and reading many.

use std::time::{Duration, Instant};

use async_nats::Client;
use tautwire_cluster::Revision;
use tautwire_cluster::names::{Incarnation, Key};

use crate::jetstream::{self, Failure, bounds, read_all_there_is};
use crate::layout::{
    GROUP, MARKER_S, NODE, SESSION, SYNC_KEY, SYNC_KEY_TTL_S, bucket_of, bucket_stream, bucket_subjects, node_of,
};

/// The most bytes of one read of many keys.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The result of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteResult {
    /// The write was done, with this sequence.
    At(u64),
    /// The write was not done because of an earlier or concurrent write.
    Conflict,
}

impl From<Option<u64>> for WriteResult {
    fn from(sequence: Option<u64>) -> WriteResult {
        sequence.map_or(WriteResult::Conflict, WriteResult::At)
    }
}

/// A key in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The name of the key in its bucket.
    pub name: String,
    /// Its revision.
    pub revision: Revision,
    /// The age by the store's clock, in milliseconds.
    pub age_ms: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// Writes a key that has this revision. The store removes it after `for_s` seconds by its own clock, unless it is written again.
///
/// # Errors
/// The outcome is unknown, or the servers have rejected the write for another reason than the revision.
pub async fn put_for(
    client: &Client,
    key: Key,
    expected: Revision,
    value: Vec<u8>,
    for_s: u32,
) -> Result<WriteResult, Failure> {
    let ttl = [("Nats-TTL", for_s.to_string())];
    Ok(jetstream::write(client, subject(key), expected.0, &ttl, value).await?.into())
}

/// Removes a key that has this revision. A deletion marker stays for an hour.
///
/// # Errors
/// As for [`put_for`].
pub async fn remove(client: &Client, key: Key, expected: Revision) -> Result<WriteResult, Failure> {
    let headers = [("KV-Operation", "DEL".to_owned()), ("Nats-TTL", MARKER_S.to_string())];
    Ok(jetstream::write(client, subject(key), expected.0, &headers, Vec::new()).await?.into())
}

/// Whether a key has this revision, or does not exist. Confirmed by a write of another key that depends on the key's subject: a leader that
/// has been replaced cannot do that. The written key expires after a minute.
///
/// # Errors
/// The servers have not answered, or do not know.
pub async fn holds(client: &Client, key: Key, expected: Option<Revision>) -> Result<bool, Failure> {
    let bucket = bucket_of(key);
    let expected = match expected {
        Some(Revision(revision)) => revision,
        None => match jetstream::last(client, &bucket_stream(bucket), &subject(key)).await? {
            Some(marker) if marker.is_removal => marker.sequence,
            Some(_) => return Ok(false),
            None => 0,
        },
    };
    let headers =
        [("Nats-Expected-Last-Subject-Sequence-Subject", subject(key)), ("Nats-TTL", SYNC_KEY_TTL_S.to_string())];
    let mark = format!("$KV.{bucket}.{SYNC_KEY}");
    Ok(jetstream::write(client, mark, expected, &headers, Vec::new()).await?.is_some())
}

/// A part of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The keys, in the order of their revisions, without removed ones.
    pub records: Vec<Record>,
    /// The end of the page. May be a deletion marker, which is not in `records`.
    pub through: Revision,
    /// Whether there was nothing more, according to the leader.
    pub is_end: bool,
}

/// Returns the session records after a revision, in the order of their revisions.
///
/// # Errors
/// The servers have not answered.
pub async fn scan(client: &Client, after: Revision, max: usize, wait: Duration) -> Result<Page, Failure> {
    let (stream, subjects) = (bucket_stream(SESSION), bucket_subjects(SESSION));
    let (entries, is_end) =
        read_all_there_is(client, &stream, &subjects, after.0 + 1, max, MAX_BYTES.max(2 * client.max_payload()), wait)
            .await?;
    let now_ms = bounds(client, &stream).await?.now_ms;
    let through = entries.last().map_or(after, |entry| Revision(entry.sequence));
    let prefix = subjects.trim_end_matches('>');
    let records = entries.into_iter().filter(|entry| !entry.is_removal).map(|entry| Record {
        name: entry.subject.strip_prefix(prefix).unwrap_or_default().to_owned(),
        revision: Revision(entry.sequence),
        age_ms: now_ms.saturating_sub(entry.stored_at_ms),
        value: entry.payload,
    });
    Ok(Page { records: records.collect(), through, is_end })
}

/// Returns the group records after a revision, in the order of their revisions. All come from the leader, one after the other, for at most
/// `time`; the caller continues with the next page.
///
/// # Errors
/// The servers have not answered.
pub async fn scan_groups(client: &Client, after: Revision, max: usize, time: Duration) -> Result<Page, Failure> {
    let (stream, subjects) = (bucket_stream(GROUP), bucket_subjects(GROUP));
    let (until, now_ms) = (Instant::now() + time, bounds(client, &stream).await?.now_ms);
    let mut page = Page { records: Vec::new(), through: after, is_end: false };
    let (mut bytes, prefix) = (0, subjects.trim_end_matches('>'));
    while page.records.len() < max && bytes < MAX_BYTES && Instant::now() < until {
        let Some(stored) = jetstream::next(client, &stream, &subjects, page.through.0 + 1).await? else {
            page.is_end = true;
            break;
        };
        page.through = Revision(stored.sequence);
        if !stored.is_removal {
            bytes += stored.payload.len();
            page.records.push(Record {
                name: stored.subject.strip_prefix(prefix).unwrap_or_default().to_owned(),
                revision: page.through,
                age_ms: now_ms.saturating_sub(stored.stored_at_ms),
                value: stored.payload,
            });
        }
    }
    Ok(page)
}

/// Returns the records of all nodes, from the leader.
///
/// # Errors
/// The servers have not answered.
pub async fn nodes(client: &Client) -> Result<Vec<(Incarnation, Revision, Vec<u8>)>, Failure> {
    let (stream, subjects) = (bucket_stream(NODE), bucket_subjects(NODE));
    let (mut records, mut from) = (Vec::new(), 1);
    while let Some(stored) = jetstream::next(client, &stream, &subjects, from).await? {
        from = stored.sequence + 1;
        if let Some(node) = node_of(&stored.subject).filter(|_| !stored.is_removal) {
            records.push((node, Revision(stored.sequence), stored.payload));
        }
    }
    Ok(records)
}

fn subject(key: Key) -> String {
    format!("$KV.{key}")
}
