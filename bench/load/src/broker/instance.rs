//! A running broker: one process, or a cluster.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;

use super::cluster::Cluster;
use super::kind::{BrokerKind, Programs};
use super::launch::{DATA_FOLDER, make_certificate, start_process};
use super::process::RunningProcess;
use super::readiness::await_answer;
use crate::failure::{ErrorContext, Failure, Result};
use crate::net::client_config;
use crate::system::{Placement, pin_process, pin_self, resident_bytes};

/// A running broker; dropping it stops it.
pub(crate) struct Broker {
    pub kind: BrokerKind,
    pub address: SocketAddr,
    /// The address; of a cluster, that of the first broker.
    pub pid: u32,
    pub rss_at_start_bytes: u64,
    /// The processes of a cluster.
    pub cluster: Option<Cluster>,
    /// The TLS client settings, if it listens on TLS.
    pub tls: Option<Arc<ClientConfig>>,
    placement: Placement,
    program: PathBuf,
    // Dropped in this order: the process before the folder it works in.
    process: Mutex<Option<RunningProcess>>,
    folder: Option<Arc<ScratchFolder>>,
}

impl Broker {
    /// Starts a new broker on a free port and waits until it accepts MQTT connections. Afterwards the calling thread runs
    /// on the generator's CPUs.
    pub(crate) fn start(kind: BrokerKind, programs: &Programs, placement: &Placement) -> Result<Self> {
        let folder = Arc::new(ScratchFolder::create(&kind.to_string())?);
        if kind.is_cluster() {
            return Self::start_cluster(folder, kind, programs, placement);
        }
        if kind.speaks_tls() {
            make_certificate(&programs.find(BrokerKind::TautwireTls)?, &folder.path)?;
        }
        Self::start_in(folder, kind, programs.find(kind)?, placement)
    }

    fn start_in(folder: Arc<ScratchFolder>, kind: BrokerKind, program: PathBuf, placement: &Placement) -> Result<Self> {
        pin_self(&placement.broker)?;
        let started = start_process(kind, &program, &folder.path);
        pin_self(&placement.generator)?;
        let (process, address) = started?;
        let broker = Self {
            kind,
            address,
            pid: process.pid(),
            rss_at_start_bytes: resident_bytes(process.pid())?,
            cluster: None,
            tls: kind.speaks_tls().then(|| client_config(false)).transpose()?,
            placement: placement.clone(),
            program,
            process: Mutex::new(Some(process)),
            folder: Some(folder),
        };
        broker.pin_all_threads()?;
        Ok(broker)
    }

    fn start_cluster(
        folder: Arc<ScratchFolder>,
        kind: BrokerKind,
        programs: &Programs,
        placement: &Placement,
    ) -> Result<Self> {
        let cluster = Cluster::start(kind, programs, &folder.path)?;
        let first = cluster.client_nodes().first().ok_or_else(|| Failure::new("a cluster of nothing"))?;
        let (address, pid) = (first.mqtt()?, first.pid()?);
        for door in cluster.client_nodes() {
            await_answer(door.mqtt()?)?;
        }
        let broker = Self {
            kind,
            address,
            pid,
            rss_at_start_bytes: resident_bytes(pid)?,
            cluster: Some(cluster),
            tls: None,
            placement: placement.clone(),
            program: programs.find(kind)?,
            process: Mutex::new(None),
            folder: Some(folder),
        };
        broker.pin_all_threads()?;
        pin_self(&placement.generator)?;
        Ok(broker)
    }

    /// The address for subscriber `number`: in a cluster never that of the publishers, but the others in turn.
    pub(crate) fn address_of_subscriber(&self, number: usize) -> Result<SocketAddr> {
        match self.cluster.as_ref().map(Cluster::client_nodes) {
            None | Some([]) => Ok(self.address),
            Some(client_nodes) => client_nodes[(number + 1) % client_nodes.len()].mqtt(),
        }
    }

    /// All processes with MQTT.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.cluster {
            None => vec![self.pid],
            Some(cluster) => cluster.client_nodes().iter().filter_map(|door| door.pid).collect(),
        }
    }

    /// The nats-servers between Tautwire brokers.
    pub(crate) fn nats_server_pids(&self) -> Vec<u32> {
        self.cluster.iter().flat_map(Cluster::between).filter_map(|server| server.pid).collect()
    }

    pub(crate) fn cluster(&self) -> Result<&Cluster> {
        self.cluster.as_ref().ok_or_else(|| Failure::new(format!("{} is not a cluster", self.kind)))
    }

    /// Kills it. The data in its folder remains.
    pub(crate) fn kill(&self) -> Result<()> {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        match process {
            Some(mut process) => process.kill(),
            None => Err(Failure::new("the broker is not there any more")),
        }
    }

    fn is_killed(&self) -> bool {
        self.folder.is_some() && self.process.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Starts the broker again on the data of a killed one. It has another port.
    pub(crate) fn start_again(&self) -> Result<Self> {
        let folder = self.folder.clone().ok_or_else(|| Failure::new("the broker has no folder"))?;
        Self::start_in(folder, self.kind, self.program.clone(), &self.placement)
    }

    /// The data directory of Tautwire.
    pub(crate) fn data_folder(&self) -> Result<PathBuf> {
        let folder = self.folder.as_ref().ok_or_else(|| Failure::new("the broker has no folder"))?;
        Ok(folder.path.join(DATA_FOLDER))
    }

    /// A file on the same disk as the broker's data.
    pub(crate) fn file_beside(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.as_ref().ok_or_else(|| Failure::new("the broker has no folder"))?;
        Ok(folder.path.join(name))
    }

    /// A broker whose listener is a thread of this process.
    #[cfg(test)]
    pub(crate) fn within(address: SocketAddr) -> Self {
        Self {
            kind: BrokerKind::Mosquitto,
            address,
            pid: std::process::id(),
            rss_at_start_bytes: 0,
            cluster: None,
            tls: None,
            placement: Placement::default(),
            program: PathBuf::new(),
            process: Mutex::new(None),
            folder: None,
        }
    }

    /// Threads inherit the CPUs of the thread that starts them; this detects a broker that sets its own. A killed one has
    /// none.
    pub(crate) fn pin_all_threads(&self) -> Result<()> {
        if self.cluster.is_some() {
            // The caller places a broker that was killed and started again.
            let mut running = self.pids().into_iter().chain(self.nats_server_pids()).filter(|pid| is_running(*pid));
            return running.try_for_each(|pid| pin_process(pid, &self.placement.broker));
        }
        if self.is_killed() {
            return Ok(());
        }
        pin_process(self.pid, &self.placement.broker)
    }
}

/// A killed process that was not waited for still has a process identifier.
fn is_running(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

/// A folder for configuration, log and store of one broker, which is removed when dropped.
struct ScratchFolder {
    path: PathBuf,
}

impl ScratchFolder {
    fn create(name: &str) -> Result<Self> {
        let nanoseconds =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos());
        let path = std::env::temp_dir().join(format!("tautwire-bench-{name}-{}-{nanoseconds}", std::process::id()));
        fs::create_dir(&path).during(|| format!("creating {}", path.display()))?;
        // mosquitto drops root privileges before it opens its files.
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self { path })
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Files that cannot be removed remain in the temporary folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}
