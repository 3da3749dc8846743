//! Determines the cluster's seed before the first run of a node, because clients and topics are hashed with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::Client;
use log::warn;
use tautwire_cluster::names::Seed;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::connection;
use crate::counters::Counters;
use crate::error::Error;
use crate::settings::Settings;
use crate::setup::{self, ClusterInfo};

/// The pauses between attempts: the shortest and the longest.
pub(crate) const PAUSE: Duration = Duration::from_millis(200);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often the caller is asked whether to give up.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until the servers can be reached and meet the requirements, and returns the seed of the cluster, which is created if missing.
/// Returns `None` once `gives_up` returns true; it is called frequently.
///
/// # Errors
/// A requirement is not met, and waiting does not help.
pub fn found(settings: &Settings, mut gives_up: impl FnMut() -> bool) -> Result<Option<Seed>, Error> {
    runtime()?.block_on(async {
        let mut pause = PAUSE;
        loop {
            let attempt = probe(settings);
            tokio::pin!(attempt);
            let outcome = loop {
                tokio::select! {
                    outcome = &mut attempt => break outcome,
                    () = tokio::time::sleep(POLL_INTERVAL) => if gives_up() { return Ok(None) },
                }
            };
            match outcome {
                Ok(seed) => return Ok(Some(seed)),
                Err(error) if error.is_transient() => warn!("cannot join the cluster yet: {error}"),
                Err(error) => return Err(error),
            }
            let until = Instant::now() + pause;
            while Instant::now() < until {
                tokio::time::sleep(POLL_INTERVAL).await;
                if gives_up() {
                    return Ok(None);
                }
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    })
}

/// Like [`found`], with a single attempt.
///
/// # Errors
/// Why the cluster cannot be joined now.
pub fn check(settings: &Settings) -> Result<Seed, Error> {
    runtime()?.block_on(probe(settings))
}

/// Creates an async runtime that serves no client of the broker.
pub(crate) fn runtime() -> Result<Runtime, Error> {
    let refused = |error: std::io::Error| Error::System { why: error.to_string() };
    Builder::new_current_thread().enable_all().build().map_err(refused)
}

/// Connects to servers that meet the requirements.
pub(crate) async fn prepare(
    settings: &Settings,
    counters: &Arc<Counters>,
    connected: &Arc<Notify>,
) -> Result<(Client, ClusterInfo), Error> {
    let Settings { access, node_name, times, limits, .. } = settings;
    let client = connection::connect(access, node_name, times, limits, counters, connected).await?;
    let cluster_info = setup::prepare(&client, settings).await?;
    Ok((client, cluster_info))
}

/// Determines the seed for the first run. Uses a connection of its own.
async fn probe(settings: &Settings) -> Result<Seed, Error> {
    let (client, cluster_info) = prepare(settings, &Arc::default(), &Arc::default()).await?;
    let _ = client.drain().await;
    Ok(cluster_info.seed)
}
