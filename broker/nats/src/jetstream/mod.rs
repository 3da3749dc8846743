//! The interface of JetStream, as requests with JSON over NATS: <https://docs.nats.io/reference/reference-protocols/nats_api_reference>.
//!
//! The broker speaks it itself, and lets `async-nats` carry it. What becomes of a write depends on the exact code of a refusal; a read that
//! decides must go to the leader; a reading that has died must be noticed. What a library does beyond that, such as trying again, would be
//! in the way.

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

/// What the servers refuse, as far as it makes a difference here.
pub(crate) mod code {
    pub(crate) const CLUSTER_NOT_AVAILABLE: u64 = 10_008;
    pub(crate) const MESSAGE_NOT_FOUND: u64 = 10_037;
    pub(crate) const NOT_ENABLED: u64 = 10_076;
    pub(crate) const NOT_ENABLED_FOR_ACCOUNT: u64 = 10_039;
    pub(crate) const STREAM_NAME_IN_USE: u64 = 10_058;
    pub(crate) const STREAM_NOT_FOUND: u64 = 10_059;
    /// What was expected to be the last message of the subject is not.
    pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10_071;
    /// The same, or another write of the subject is under way.
    pub(crate) const WRONG_LAST_SEQUENCE_CONSTANT: u64 = 10_164;

    /// A write was refused because of what it expects, and nothing else.
    pub(crate) fn is_conflict(code: u64) -> bool {
        matches!(code, WRONG_LAST_SEQUENCE | WRONG_LAST_SEQUENCE_CONSTANT)
    }
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The servers have refused it. A write has not been done.
    Refused(ApiError),
    /// Nobody has answered, or not so that it can be understood. A write has been done, or will be, or never will.
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

/// Asks and waits for the answer, at most as long as the connection is set to. For what is asked rarely: operations of the store go by
/// [`Store`](crate::store::Store).
pub(crate) async fn ask(client: &Client, subject: String, body: String) -> Result<Value, Failure> {
    let message = client.request(subject, body.into()).await.map_err(|error| Failure::Unanswered(error.to_string()))?;
    parse_api(&message.payload).map_err(Failure::Refused)
}
