//! Reads a range of a stream from any server that has it: `$JS.API.DIRECT.GET`.

use std::time::Duration;

use async_nats::{Client, HeaderMap, Message};
use futures_util::StreamExt;
use tautwire_json::push_string;
use tokio::time::timeout;

use super::stream_reader::{Entry, marks_removal};
use super::time::parse_time;
use super::{ApiError, Failure};

/// Reads messages of `stream` that match `filter`, from the sequence `from` on, up to both limits. `wait` is the timeout for each of them.
/// The server may lag behind: fewer messages than requested, or none, do not mean that the stream ends there.
///
/// # Errors
/// No server has answered completely.
pub(crate) async fn read_range(
    client: &Client,
    stream: &str,
    filter: &str,
    from: u64,
    messages_max: usize,
    max_bytes: usize,
    wait: Duration,
) -> Result<Vec<Entry>, Failure> {
    let mut next_by = String::new();
    push_string(&mut next_by, filter);
    let body =
        format!(r#"{{"seq":{},"next_by_subj":{next_by},"batch":{messages_max},"max_bytes":{max_bytes}}}"#, from.max(1));
    let inbox = client.new_inbox();
    let failed = |why: &dyn std::fmt::Display| Failure::Unanswered(why.to_string());
    let mut messages = client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
    let subject = format!("$JS.API.DIRECT.GET.{stream}");
    client.publish_with_reply(subject, inbox, body.into()).await.map_err(|error| failed(&error))?;
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let message = timeout(wait, messages.next()).await.map_err(|_| failed(&"no answer in time"))?;
        let Some(message) = message else { return Err(failed(&"the connection was closed")) };
        match message.status.map(|status| status.as_u16()) {
            None => {
                let entry = entry(message).ok_or_else(|| failed(&"a message without a sequence"))?;
                if entries.last().is_some_and(|before| entry.sequence <= before.sequence) {
                    return Err(failed(&"a message is out of order"));
                }
                entries.push(entry);
            }
            Some(204 | 404) => return Ok(entries),
            Some(status) => {
                let description = message.description.as_deref().unwrap_or("no description");
                return Err(Failure::Refused(ApiError { code: 0, description: format!("{status} {description}") }));
            }
        }
    }
}

fn entry(message: Message) -> Option<Entry> {
    let headers = message.headers.as_ref()?;
    Some(Entry {
        sequence: header(headers, "Nats-Sequence")?,
        subject: headers.get("Nats-Subject")?.as_str().to_owned(),
        is_removal: marks_removal(headers),
        stored_at_ms: parse_time(headers.get("Nats-Time-Stamp")?.as_str())?,
        pending: header(headers, "Nats-Num-Pending").unwrap_or(0),
        payload: message.payload.into(),
    })
}

fn header(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.as_str().parse().ok()
}

/// Like [`read_range`], but also asks the leader whether more messages exist. Returns true if there are none.
pub(crate) async fn read_all_there_is(
    client: &Client,
    stream: &str,
    filter: &str,
    from: u64,
    messages_max: usize,
    max_bytes: usize,
    wait: Duration,
) -> Result<(Vec<Entry>, bool), Failure> {
    let mut entries = read_range(client, stream, filter, from, messages_max, max_bytes, wait).await?;
    if entries.len() >= messages_max {
        return Ok((entries, false));
    }
    // A replica that has a message has all before it. Messages that it lacks come after that one.
    let behind = entries.last().map_or(from, |entry| entry.sequence + 1);
    match super::next(client, stream, filter, behind).await? {
        None => Ok((entries, true)),
        Some(stored) => {
            entries.push(Entry {
                sequence: stored.sequence,
                subject: stored.subject,
                is_removal: stored.is_removal,
                stored_at_ms: stored.stored_at_ms,
                pending: 0,
                payload: stored.payload,
            });
            Ok((entries, false))
        }
    }
}
