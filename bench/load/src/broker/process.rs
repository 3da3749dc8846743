use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustls::ClientConfig;

use super::launch::{DATA_FOLDER, make_certificate, start_process};
use super::{BrokerKind, Cluster, Programs};
use crate::failure::{ErrorContext, Failure, Result};
use crate::mqtt;
use crate::net::{Stream, client_config};
use crate::system::{Placement, pin_process, pin_self, resident_bytes};

const START_TIMEOUT: Duration = Duration::from_secs(15);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

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

/// A child process of this program, such as the echo of the raw ping-pong.
pub(crate) struct Helper {
    pub address: SocketAddr,
    _process: RunningProcess,
}

impl Helper {
    pub(crate) fn start(command: &str, placement: &Placement) -> Result<Self> {
        pin_self(&placement.broker)?;
        let spawned =
            command_killed_with_parent(&std::env::current_exe()?)?.arg(command).stdout(Stdio::piped()).spawn();
        pin_self(&placement.generator)?;
        let mut process = RunningProcess(spawned?);
        let address = process.read_ready_line()?;
        Ok(Self { address, _process: process })
    }
}

/// A command for `program` that ends when this process ends, in any way. It starts as this program, which requests
/// that from the kernel and then executes the other.
pub(crate) fn command_killed_with_parent(program: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("become").arg(program);
    Ok(command)
}

/// The second half of [`command_killed_with_parent`]: returns only if `program` cannot be started.
pub(crate) fn become_program(program: &OsStr, arguments: &[OsString]) -> Failure {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return error.into();
    }
    let error = Command::new(program).args(arguments).exec();
    Failure::new(format!("{}: {error}", program.display()))
}

pub(super) fn start_announcing(mut command: Command, folder: &Path) -> Result<(RunningProcess, SocketAddr)> {
    let mut process = RunningProcess(command.stdout(Stdio::piped()).spawn()?);
    let address = process.read_ready_line().map_err(|error| with_log(&error, folder))?;
    Ok((process, address))
}

/// Starts a broker without a ready message: connects until a CONNECT is acknowledged.
pub(super) fn start_probed(
    mut command: Command,
    folder: &Path,
    port: u16,
    is_tls: bool,
) -> Result<(RunningProcess, SocketAddr)> {
    let tls = is_tls.then(|| client_config(false)).transpose()?;
    let mut process = RunningProcess(command.spawn()?);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if answers_connect(address, tls.as_ref())? {
            return Ok((process, address));
        }
        if let Some(status) = process.0.try_wait()? {
            return Err(with_log(&Failure::new(format!("the broker ended at start: {status}")), folder));
        }
        if Instant::now() > deadline {
            return Err(with_log(&Failure::new("the broker did not answer a CONNECT in time"), folder));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A cluster of nats-servers refuses clients until its streams have leaders.
pub(super) fn await_answer(address: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    while !answers_connect(address, None)? {
        if Instant::now() > deadline {
            return Err(Failure::new(format!("{address} did not answer a CONNECT in time")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A killed process that was not waited for still has a process identifier.
fn is_running(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

fn answers_connect(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> Result<bool> {
    let Ok(stream) = TcpStream::connect(address) else {
        return Ok(false);
    };
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut stream = Stream::new(stream, tls)?;
    let mut answer = [0; 4];
    let version = mqtt::ProtocolVersion::V3_1_1;
    let is_sent = stream
        .write_all(&mqtt::connect(version, "bench-probe", mqtt::KEEP_ALIVE_S)?)
        .and_then(|()| stream.read_exact(&mut answer));
    if is_sent.is_err() || answer != [0x20, 2, 0, 0] {
        return Ok(false);
    }
    // A broker that closes the connection first is ready, too.
    let _ = stream.write_all(&mqtt::disconnect(version)?);
    Ok(true)
}

pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn with_log(error: &Failure, folder: &Path) -> Failure {
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines[lines.len().saturating_sub(5)..].join(" | ");
    Failure::new(if tail.is_empty() { error.to_string() } else { format!("{error}; its log ends: {tail}") })
}

/// A child process, which is killed when dropped.
pub(crate) struct RunningProcess(Child);

impl RunningProcess {
    pub(super) fn of(child: Child) -> Self {
        Self(child)
    }

    /// Takes its standard output, once.
    pub(super) fn output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for `listening on SCHEME://ADDRESS:PORT` on the standard output.
    fn read_ready_line(&mut self) -> Result<SocketAddr> {
        let output = self.0.stdout.as_mut().ok_or_else(|| Failure::new("the standard output is not connected"))?;
        let mut lines = BufReader::with_capacity(1, output);
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 {
                return Err(Failure::new("the process ended before it listened"));
            }
            if let Some(rest) = line.trim().strip_prefix("listening on ") {
                let address = rest.split_once("://").map_or(rest, |(_, address)| address);
                return address.parse().during(|| format!("the address in {line:?}"));
            }
        }
    }
}

impl RunningProcess {
    fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // After a wait, the process identifier may belong to another process.
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let is_sent = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        let deadline = Instant::now() + STOP_TIMEOUT;
        while is_sent && Instant::now() < deadline {
            if matches!(self.0.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // It did not exit; an error here means that it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
