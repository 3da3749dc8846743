//! Checks the requirements before a node joins: server versions, streams, writing to disk, and the cluster's seed.

mod seed;
mod streams;
mod syncing;

use async_nats::Client;
use log::info;
use tautwire_cluster::names::Seed;

use crate::error::Error;
use crate::jetstream::{self, Failure, code};
use crate::settings::{Settings, Times};

/// The oldest server with all required features: a time to live per message, and deletion markers.
const OLDEST: (i64, i64, i64) = (2, 11, 0);

/// The cluster data that a node knows after setup.
#[derive(Debug, Clone, Copy)]
pub struct ClusterInfo {
    /// The seed with which topics and clients are hashed.
    pub seed: Seed,
}

/// Creates missing streams and checks all requirements.
///
/// # Errors
/// A requirement is not met.
pub async fn prepare(client: &Client, settings: &Settings) -> Result<ClusterInfo, Error> {
    check_server(client).await?;
    let streams = streams::ensure(client, &settings.storage).await?;
    syncing::check(&settings.storage.syncing, &streams, &settings.times).await?;
    let seed = seed::obtain(client).await?;
    Ok(ClusterInfo { seed })
}

/// Checks whether these servers belong to the cluster with this seed.
pub(crate) async fn check_seed(client: &Client, seed: Seed) -> Result<(), Error> {
    if seed::read(client).await? == Some(seed) { Ok(()) } else { Err(Error::OtherCluster) }
}

async fn check_server(client: &Client) -> Result<(), Error> {
    let server = client.server_info();
    let refuse = |why: String| Err(Error::Server { why });
    if !client.is_server_compatible(OLDEST.0, OLDEST.1, OLDEST.2) {
        let (major, minor, patch) = OLDEST;
        return refuse(format!(
            "NATS server {} has version {}; a cluster requires version {major}.{minor}.{patch} or later; upgrade the server",
            server.server_name, server.version
        ));
    }
    match jetstream::ask(client, jetstream::INFO.to_owned(), String::new()).await {
        Ok(_) => {}
        Err(Failure::Refused(error)) if matches!(error.code, code::NOT_ENABLED | code::NOT_ENABLED_FOR_ACCOUNT) => {
            return refuse(format!("{error}; enable JetStream on the NATS servers and for this node's account"));
        }
        Err(failure) => return Err(Error::Connection { why: format!("JetStream does not answer: {failure}") }),
    }
    info!("NATS server {} has version {}", server.server_name, server.version);
    Ok(())
}

/// Returns the timeout for reading a server's monitoring address: that of a connection.
fn monitoring_wait(times: &Times) -> std::time::Duration {
    std::time::Duration::from_millis(times.connect_ms)
}
