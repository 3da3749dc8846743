//! One run of a node: a thread with the cluster member, a connection to the servers, and an async runtime that serves no client.

mod link;
mod node_loop;
mod run_config;

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use log::{info, warn};
use ring::rand::{SecureRandom, SystemRandom};
use tautwire_cluster::Member;
use tautwire_cluster::names::Incarnation;
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;

use crate::broker::{Broker, ConnectionStatus, EndReason};
use crate::clock::now_ms;
use crate::command::Command;
use crate::error::Error;
use crate::handle::{BusMessage, Handle};
use crate::settings::Settings;
use crate::start::{PAUSE, PAUSE_MAX, prepare, runtime};
use node_loop::NodeLoop;
use run_config::RunConfig;

/// A running node. Runs until it is stopped or fenced. Dropping it waits for the end.
#[derive(Debug)]
pub struct NodeRun {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Returns a random number that identifies a run. A caller that stores it in the node's data directory can pass it as `former` to the next
/// run.
///
/// # Errors
/// The system has no random numbers.
pub fn random_incarnation() -> Result<Incarnation, Error> {
    let random = SystemRandom::new();
    loop {
        let mut bytes = [0; 8];
        random.fill(&mut bytes).map_err(|_| Error::System { why: "there are no random numbers".to_owned() })?;
        if let Some(number) = std::num::NonZeroU64::new(u64::from_le_bytes(bytes)) {
            return Ok(Incarnation(number));
        }
    }
}

impl NodeRun {
    /// Starts the run `me` on a thread of its own. `former` is the previous run in the same data directory, whose lock the caller holds.
    ///
    /// # Errors
    /// The system cannot provide a thread or a timer. All other errors are reported to the broker.
    pub fn begin(
        settings: Settings,
        me: Incarnation,
        former: Option<Incarnation>,
        broker: Arc<dyn Broker>,
    ) -> Result<NodeRun, Error> {
        let refused = |error: std::io::Error| Error::System { why: error.to_string() };
        let runtime = runtime()?;
        let (handle, commands, bus) = Handle::new(&settings.limits);
        // The first decision may make a shard send a command at once.
        broker.node_started(&handle);
        let shared = handle.shared().clone();
        let work = move || {
            let config = RunConfig { settings, me, former, broker: broker.clone(), shared: shared.clone() };
            let ended = runtime.block_on(config.run_until_end(commands, bus));
            shared.serve_until(0);
            // All tasks and their connections end before the end of the run is reported.
            drop(runtime);
            broker.node_ended(&ended);
        };
        let thread = Builder::new().name("cluster".to_owned()).spawn(work).map_err(refused)?;
        Ok(NodeRun { handle, thread: Some(thread) })
    }

    /// Returns the handle for the shards.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for NodeRun {
    fn drop(&mut self) {
        self.handle.shared().stop.notify_one();
        // The thread itself may drop this value, when the broker learns that the run has ended.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl RunConfig {
    async fn run_until_end(self, commands: Receiver<Command>, bus: Receiver<BusMessage>) -> EndReason {
        let connected = Arc::new(Notify::new());
        let mut pause = PAUSE;
        let (client, cluster_info) = loop {
            let prepared = tokio::select! {
                () = self.shared.stop.notified() => return EndReason::Stopped,
                prepared = prepare(&self.settings, &self.shared.counters, &connected) => prepared,
            };
            match prepared {
                Ok(prepared) => break prepared,
                Err(error) if error.is_transient() => {
                    warn!("cannot join the cluster yet: {error}");
                    self.broker.connection_status(&ConnectionStatus::Waiting(error));
                }
                Err(error) => return EndReason::Refused(error),
            }
            tokio::select! {
                () = self.shared.stop.notified() => return EndReason::Stopped,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        };
        self.shared.take_at_once(client.max_payload());
        let Settings { mut member, node_name, .. } = self.settings.clone();
        // A group that exceeds the message size limit would block its partition.
        member.group_max_bytes = member.group_max_bytes.min(self.shared.message_max_bytes());
        let member = Member::new(now_ms(), self.me, &node_name, self.former, cluster_info.seed, member);
        info!("joined the cluster as node {}", self.me);
        self.broker.connection_status(&ConnectionStatus::Ready);
        match NodeLoop::begin(self, client, connected, cluster_info, member, bus).await {
            Ok(turns) => turns.run(commands).await,
            Err(error) => EndReason::Refused(error),
        }
    }
}
