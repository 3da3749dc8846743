//! Creates missing streams, and checks the settings of existing ones.

use std::collections::BTreeSet;

use async_nats::Client;
use futures_util::future::try_join_all;
use tautwire_json::Value;

use crate::error::Error;
use crate::jetstream::{Failure, ask, code};
use crate::layout::{StreamSpec, required_streams};
use crate::settings::Storage;

/// The servers' leader creates streams one after the other, so the last one may take this many attempts.
const ATTEMPTS: usize = 10;

/// Creates and checks all streams. Returns the names of the servers that hold them.
pub(super) async fn ensure(client: &Client, storage: &Storage) -> Result<BTreeSet<String>, Error> {
    let streams = required_streams(storage);
    let holders = try_join_all(streams.iter().map(|stream| ensure_one(client, stream))).await?;
    Ok(holders.into_iter().flatten().collect())
}

async fn ensure_one(client: &Client, stream: &StreamSpec) -> Result<BTreeSet<String>, Error> {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        match probe(client, stream).await {
            Ok(Some(info)) => return compare(stream, &info),
            Ok(None) => {}
            Err(failure) => {
                last = failure.to_string();
                continue;
            }
        }
        match ask(client, format!("$JS.API.STREAM.CREATE.{}", stream.name), stream.request()).await {
            Ok(info) => return compare(stream, &info),
            // Another node has created the stream; check it in the next attempt.
            Err(Failure::Refused(error)) if error.code == code::STREAM_NAME_IN_USE => last = error.to_string(),
            // The stream may have been created although no answer arrived.
            Err(failure @ Failure::Unanswered(_)) => last = failure.to_string(),
            Err(Failure::Refused(error)) => {
                let is_transient = error.code == code::CLUSTER_NOT_AVAILABLE;
                let why = format!(
                    "cannot create the stream: {error}; make sure that {} servers with JetStream and enough space are running",
                    replicas(stream)
                );
                return Err(Error::Stream { name: stream.name.clone(), why, is_transient });
            }
        }
    }
    Err(Error::Stream { name: stream.name.clone(), why: last, is_transient: true })
}

async fn probe(client: &Client, stream: &StreamSpec) -> Result<Option<Value>, Failure> {
    match ask(client, format!("$JS.API.STREAM.INFO.{}", stream.name), String::new()).await {
        Ok(info) => Ok(Some(info)),
        Err(Failure::Refused(error)) if error.code == code::STREAM_NOT_FOUND => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn compare(stream: &StreamSpec, info: &Value) -> Result<BTreeSet<String>, Error> {
    let differences = stream.differences(info.get("config").unwrap_or(&Value::Null));
    if !differences.is_empty() {
        return Err(Error::Differs { name: stream.name.clone(), differences });
    }
    Ok(holders(info))
}

/// Returns the servers that hold a stream according to its info: the leader and the other replicas.
fn holders(info: &Value) -> BTreeSet<String> {
    let Some(cluster) = info.get("cluster") else { return BTreeSet::new() };
    let others = cluster.list("replicas").iter().map(|replica| replica.text("name"));
    let all = [cluster.text("leader")].into_iter().chain(others);
    all.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn replicas(stream: &StreamSpec) -> String {
    let replicas = stream.required.iter().find(|(name, _)| *name == "num_replicas");
    match replicas {
        Some((_, Value::Number(number))) => number.clone(),
        _ => String::new(),
    }
}
