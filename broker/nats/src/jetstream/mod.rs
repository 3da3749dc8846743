//! The JetStream API, as JSON requests over NATS: <https://docs.nats.io/reference/reference-protocols/nats_api_reference>.
//!
//! The broker implements the API itself, and uses `async-nats` only as transport. The outcome of a write depends on the exact error code; a
//! read that decides something must go to the leader; a reader that has failed must be noticed. What a library does in addition, such as
//! retrying, would interfere.

mod follower;
mod leader;
mod range;
mod reply;
mod stream_reader;
mod time;

use async_nats::Client;
use tautwire_json::Value;

pub(crate) use follower::Follower;
pub(crate) use leader::{bounds, last, next, write, write_over};
pub(crate) use range::{read_all_there_is, read_range};
pub use reply::ApiError;
pub(crate) use reply::{StoredMessage, number, parse_api, parse_stored, parse_written};
pub use stream_reader::{Entry, Start, StreamReader};

pub(crate) const INFO: &str = "$JS.API.INFO";

/// The error codes of the servers that matter here.
pub(crate) mod code {
    pub(crate) const CLUSTER_NOT_AVAILABLE: u64 = 10_008;
    pub(crate) const MESSAGE_NOT_FOUND: u64 = 10_037;
    pub(crate) const NOT_ENABLED: u64 = 10_076;
    pub(crate) const NOT_ENABLED_FOR_ACCOUNT: u64 = 10_039;
    pub(crate) const STREAM_NAME_IN_USE: u64 = 10_058;
    pub(crate) const STREAM_NOT_FOUND: u64 = 10_059;
    /// The expected last message of the subject is not the last one.
    pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10_071;
    /// Like `WRONG_LAST_SEQUENCE`, or another write of the subject is in progress.
    pub(crate) const WRONG_LAST_SEQUENCE_CONSTANT: u64 = 10_164;

    /// Whether a write was rejected only because of its expectation.
    pub(crate) fn is_conflict(code: u64) -> bool {
        matches!(code, WRONG_LAST_SEQUENCE | WRONG_LAST_SEQUENCE_CONSTANT)
    }
}

/// Why a request has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The servers have rejected the request. A write was not done.
    Refused(ApiError),
    /// There was no usable answer. A write may have been done, may still be done, or may never be done.
    Unanswered(String),
}

impl std::error::Error for Failure {}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(error) => error.fmt(f),
            Failure::Unanswered(why) => f.write_str(why),
        }?;
        f.write_str(" [cluster_store]")
    }
}

/// Sends a request and waits for the answer, at most for the timeout of the connection. For rare requests; operations of the store use
/// [`Store`](crate::store::Store).
pub(crate) async fn ask(client: &Client, subject: String, body: String) -> Result<Value, Failure> {
    let message = client.request(subject, body.into()).await.map_err(|error| Failure::Unanswered(error.to_string()))?;
    parse_api(&message.payload).map_err(Failure::Refused)
}
