//! What has to be known before the first life of a node: clients and topics are named by the seed of the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use log::warn;
use tautwire_cluster::names::Seed;
use tokio::runtime;
use tokio::sync::Notify;

use crate::connection;
use crate::counters::Counters;
use crate::error::Error;
use crate::settings::Settings;
use crate::setup::{self, Foundation};

/// Pauses between attempts: the shortest and the longest.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often it is asked meanwhile whether to give up.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until the servers can be reached and are as they have to be, and gives the seed of the cluster, which is made where there is none.
/// `None` once `gives_up` says so; it is asked all the time.
///
/// # Errors
/// Something is not as it has to be, and waiting does not change that.
pub fn found(settings: &Settings, mut gives_up: impl FnMut() -> bool) -> Result<Option<Seed>, Error> {
    let refused = |error: std::io::Error| Error::System { why: error.to_string() };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    runtime.block_on(async {
        let mut pause = PAUSE;
        loop {
            let attempt = prepare(settings);
            tokio::pin!(attempt);
            let outcome = loop {
                tokio::select! {
                    outcome = &mut attempt => break outcome,
                    () = tokio::time::sleep(LOOK) => if gives_up() { return Ok(None) },
                }
            };
            match outcome {
                Ok(foundation) => return Ok(Some(foundation.seed)),
                Err(error) if error.is_passing() => warn!("the cluster cannot be joined yet: {error}"),
                Err(error) => return Err(error),
            }
            let until = Instant::now() + pause;
            while Instant::now() < until {
                tokio::time::sleep(LOOK).await;
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
    let refused = |error: std::io::Error| Error::System { why: error.to_string() };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    runtime.block_on(prepare(settings)).map(|foundation| foundation.seed)
}

async fn prepare(settings: &Settings) -> Result<Foundation, Error> {
    let Settings { access, node_name, times, limits, .. } = settings;
    let (counters, connected) = (Arc::new(Counters::default()), Arc::new(Notify::new()));
    let client = connection::connect(access, node_name, times, limits, &counters, &connected).await?;
    let foundation = setup::prepare(&client, settings).await?;
    // The first life makes a connection of its own.
    let _ = client.drain().await;
    Ok(foundation)
}
