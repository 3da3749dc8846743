//! Reads a stream from its leader, and writes to it.

use async_nats::{Client, HeaderMap};
use tautwire_json::push_string;

use super::time::parse_time;
use super::{Failure, StoredMessage, ask, code, number, parse_stored, parse_written};

/// The first and the last sequence of a stream, and the time of its leader's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Milliseconds since 1970.
    pub(crate) now_ms: u64,
}

pub(crate) async fn bounds(client: &Client, stream: &str) -> Result<Bounds, Failure> {
    let info = ask(client, format!("$JS.API.STREAM.INFO.{stream}"), String::new()).await?;
    let state = info.get("state");
    let bound = |name: &str| state.and_then(|state| number(state, name));
    let bounds = bound("first_seq").zip(bound("last_seq")).zip(parse_time(info.text("ts")));
    let missing = || Failure::Unanswered("the state of a stream has no sequences".to_owned());
    bounds.map(|((first, last), now_ms)| Bounds { first, last, now_ms }).ok_or_else(missing)
}

/// Returns the last message of a subject.
pub(crate) async fn last(client: &Client, stream: &str, subject: &str) -> Result<Option<StoredMessage>, Failure> {
    let mut body = String::from(r#"{"last_by_subj":"#);
    push_string(&mut body, subject);
    body.push('}');
    get(client, stream, body).await
}

/// Returns the first message from a sequence on whose subject matches.
pub(crate) async fn next(
    client: &Client,
    stream: &str,
    filter: &str,
    from: u64,
) -> Result<Option<StoredMessage>, Failure> {
    let mut body = format!(r#"{{"seq":{},"next_by_subj":"#, from.max(1));
    push_string(&mut body, filter);
    body.push('}');
    get(client, stream, body).await
}

async fn get(client: &Client, stream: &str, body: String) -> Result<Option<StoredMessage>, Failure> {
    let answer = client.request(format!("$JS.API.STREAM.MSG.GET.{stream}"), body.into()).await;
    let answer = answer.map_err(|error| Failure::Unanswered(error.to_string()))?;
    match parse_stored(&answer.payload) {
        Ok(stored) => Ok(Some(stored)),
        Err(error) if error.code == code::MESSAGE_NOT_FOUND => Ok(None),
        Err(error) => Err(Failure::Refused(error)),
    }
}

/// Writes a message if the last one of its subject has this sequence, 0 for none. Returns its sequence, or `None` after a conflicting
/// earlier or concurrent write.
pub(crate) async fn write(
    client: &Client,
    subject: String,
    expected: u64,
    more: &[(&'static str, String)],
    payload: Vec<u8>,
) -> Result<Option<u64>, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
    more.iter().for_each(|(name, value)| headers.insert(*name, value.as_str()));
    match write_with(client, subject, headers, payload).await {
        Ok(sequence) => Ok(Some(sequence)),
        Err(Failure::Refused(error)) if code::is_conflict(error.code) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Writes a message unconditionally. Returns its sequence.
pub(crate) async fn write_over(client: &Client, subject: String, payload: Vec<u8>) -> Result<u64, Failure> {
    write_with(client, subject, HeaderMap::new(), payload).await
}

async fn write_with(client: &Client, subject: String, headers: HeaderMap, payload: Vec<u8>) -> Result<u64, Failure> {
    let answer = client.request_with_headers(subject, headers, payload.into()).await;
    let answer = answer.map_err(|error| Failure::Unanswered(error.to_string()))?;
    parse_written(&answer.payload).map_err(Failure::Refused)
}
