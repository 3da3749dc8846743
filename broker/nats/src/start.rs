//! What has to be known before the first life of a node: clients and topics are named by the seed of the cluster.

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

/// Pauses between attempts: the shortest and the longest.
pub(crate) const PAUSE: Duration = Duration::from_millis(200);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often it is asked meanwhile whether to give up.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until the servers can be reached and are as they have to be, and gives the seed of the cluster, which is made where there is none.
/// `None` once `gives_up` says so; it is asked all the time.
///
/// # Errors
/// Something is not as it has to be, and waiting does not change that.
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
                Err(error) if error.is_passing() => warn!("the cluster cannot be joined yet: {error}"),
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

/// The same, once and at once.
///
/// # Errors
/// Why the cluster cannot be joined now.
pub fn check(settings: &Settings) -> Result<Seed, Error> {
    runtime()?.block_on(probe(settings))
}

/// A runtime that meets no client of the broker.
pub(crate) fn runtime() -> Result<Runtime, Error> {
    let refused = |error: std::io::Error| Error::System { why: error.to_string() };
    Builder::new_current_thread().enable_all().build().map_err(refused)
}

/// A connection to servers that are as they have to be.
pub(crate) async fn prepare(
    settings: &Settings,
    counters: &Arc<Counters>,
    connected: &Arc<Notify>,
) -> Result<(Client, ClusterInfo), Error> {
    let Settings { access, node_name, times, limits, .. } = settings;
    let client = connection::connect(access, node_name, times, limits, counters, connected).await?;
    let foundation = setup::prepare(&client, settings).await?;
    Ok((client, foundation))
}

/// What the first life begins with. It makes a connection of its own.
async fn probe(settings: &Settings) -> Result<Seed, Error> {
    let (client, foundation) = prepare(settings, &Arc::default(), &Arc::default()).await?;
    let _ = client.drain().await;
    Ok(foundation.seed)
}
