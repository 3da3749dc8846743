//! One life of a node: a thread with the machine that decides, a connection to the servers, and a runtime for both that meets no client.

mod link;
mod node_loop;

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
use crate::handle::{BusMessage, Handle, Shared};
use crate::settings::Settings;
use crate::start::{PAUSE, PAUSE_MAX, prepare, runtime};
use node_loop::NodeLoop;

/// A life that goes on until it is told to end, or is fenced. Dropping it waits for the end.
#[derive(Debug)]
pub struct Life {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// A number for a life, drawn at random. Whoever keeps it in the node's data directory can name it as the former one of the next life.
///
/// # Errors
/// The system has no random numbers.
pub fn draw_incarnation() -> Result<Incarnation, Error> {
    let random = SystemRandom::new();
    loop {
        let mut bytes = [0; 8];
        random.fill(&mut bytes).map_err(|_| Error::System { why: "there are no random numbers".to_owned() })?;
        if let Some(number) = std::num::NonZeroU64::new(u64::from_le_bytes(bytes)) {
            return Ok(Incarnation(number));
        }
    }
}

impl Life {
    /// Begins the life `me` on a thread of its own. `former` is the life before in the same data directory, whose lock the caller holds.
    ///
    /// # Errors
    /// The system gives no thread or no timer. Everything else is told to the broker.
    pub fn begin(
        settings: Settings,
        me: Incarnation,
        former: Option<Incarnation>,
        broker: Arc<dyn Broker>,
    ) -> Result<Life, Error> {
        let refused = |error: std::io::Error| Error::System { why: error.to_string() };
        let runtime = runtime()?;
        let (handle, commands, bus) = Handle::new(&settings.limits);
        // What is decided first may make a shard ask something at once.
        broker.life_started(&handle);
        let shared = handle.shared().clone();
        let work = move || {
            let beginning = LifeConfig { settings, me, former, broker: broker.clone(), shared: shared.clone() };
            let ended = runtime.block_on(beginning.live(commands, bus));
            shared.serve_until(0);
            // Tasks end, and with them connections, before anybody hears that the life is over.
            drop(runtime);
            broker.life_ended(&ended);
        };
        let thread = Builder::new().name("cluster".to_owned()).spawn(work).map_err(refused)?;
        Ok(Life { handle, thread: Some(thread) })
    }

    /// The way to it, for each shard.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.handle.shared().stop.notify_one();
        // The thread itself may be the one that lets go of it, when the broker hears that the life has ended.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// What a life begins with.
struct LifeConfig {
    settings: Settings,
    me: Incarnation,
    former: Option<Incarnation>,
    broker: Arc<dyn Broker>,
    shared: Arc<Shared>,
}

impl LifeConfig {
    async fn live(self, commands: Receiver<Command>, bus: Receiver<BusMessage>) -> EndReason {
        let connected = Arc::new(Notify::new());
        let mut pause = PAUSE;
        let (client, foundation) = loop {
            let prepared = tokio::select! {
                () = self.shared.stop.notified() => return EndReason::Stopped,
                prepared = prepare(&self.settings, &self.shared.counters, &connected) => prepared,
            };
            match prepared {
                Ok(prepared) => break prepared,
                Err(error) if error.is_passing() => {
                    warn!("this node cannot take part in the cluster yet: {error}");
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
        // A group that does not fit would stop its partition.
        member.group_max_bytes = member.group_max_bytes.min(self.shared.message_max_bytes());
        let member = Member::new(now_ms(), self.me, &node_name, self.former, foundation.seed, member);
        info!("this node is {} in the cluster", self.me);
        self.broker.connection_status(&ConnectionStatus::Ready);
        match NodeLoop::begin(self, client, connected, foundation, member, bus).await {
            Ok(turns) => turns.run(commands).await,
            Err(error) => EndReason::Refused(error),
        }
    }
}
