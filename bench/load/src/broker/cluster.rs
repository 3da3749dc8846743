//! Clusters started by `tools/cluster`: Tautwire brokers with nats-servers between them, or nats-servers with their built-in
//! MQTT.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::kind::{in_path, repository_root};
use super::process::{RunningProcess, command_killed_with_parent};
use super::readiness::await_answer;
use super::{BrokerKind, Programs};
use crate::failure::{ErrorContext, Failure, Result};

/// The tool that starts the cluster.
const TOOL: &str = "tools/cluster";
/// The timeout for the start: NATS elects leaders, which is slow on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// The stream of the bucket with the sessions of Tautwire brokers.
const SESSIONS: &str = "KV_tw_session";
/// Settings like those of a single broker, without an audit log.
const SETTINGS: [&str; 2] = ["threads=1", "log.level=error"];

/// The output of `tools/cluster --describe`.
pub(crate) struct Cluster {
    // Dropped first, because it ends the other processes.
    _tool: RunningProcess,
    pub servers: Vec<Member>,
    pub brokers: Vec<Member>,
    /// Brokers that have not been started yet.
    pub spare: Vec<Member>,
}

/// A process of a cluster, and its command.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Member {
    pub name: String,
    pub pid: Option<u32>,
    /// The address for MQTT clients.
    pub mqtt: Option<SocketAddr>,
    folder: PathBuf,
    command: Vec<String>,
    /// For a nats-server: the address for NATS clients.
    #[serde(default)]
    pub address: String,
    /// For a nats-server: the address of its monitoring.
    #[serde(default)]
    pub monitor: String,
    #[serde(default)]
    pub admin: String,
    #[serde(default)]
    pub token: String,
}

#[derive(Deserialize)]
struct Description {
    servers: Vec<Member>,
    brokers: Vec<Member>,
    spare: Vec<Member>,
}

impl Cluster {
    /// The number of nats-servers: enough that a quorum remains if one fails.
    pub(super) const SERVERS: usize = 3;
    /// The number of brokers that can be started later.
    const SPARE: usize = 2;

    pub(super) fn start(kind: BrokerKind, programs: &Programs, folder: &Path) -> Result<Self> {
        let tool = repository_root().ok_or_else(|| Failure::new("not inside the repository: no tools/cluster here"))?;
        let python = env::var_os("PYTHON").map(PathBuf::from).filter(|path| path.is_file());
        let python = python.or_else(|| in_path("python3")).ok_or_else(|| Failure::new("python3 is not installed"))?;
        let (brokers, spare) = match kind {
            BrokerKind::TautwireCluster { nodes } => (nodes, Self::SPARE),
            _ => (0, 0),
        };
        let mut command = command_killed_with_parent(&python)?;
        command.arg("-B").arg(tool.join(TOOL)).arg("--describe");
        command.arg("--folder").arg(folder.join("cluster")).args(["--servers", &Self::SERVERS.to_string()]);
        command.args(["--brokers", &brokers.to_string(), "--spare", &spare.to_string()]);
        if brokers == 0 {
            command.arg("--mqtt");
        }
        SETTINGS.iter().for_each(|setting| _ = command.args(["--set", setting]));
        command.env("TAUTWIRE_NATS_SERVER", programs.find(BrokerKind::NatsCluster)?);
        command.env("TAUTWIRE", programs.find(BrokerKind::Tautwire { threads: 1 })?);
        let log = File::create(folder.join("log"))?;
        let mut tool = RunningProcess::of(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?);
        let output = tool.output().ok_or_else(|| Failure::new("the standard output is not connected"))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let described: Description = serde_json::from_str(&line).during(|| "the cluster did not start".to_owned())?;
        let Description { servers, brokers, spare } = described;
        Ok(Self { _tool: tool, servers, brokers, spare })
    }

    /// The processes that clients connect to.
    pub(crate) fn client_nodes(&self) -> &[Member] {
        if self.brokers.is_empty() { &self.servers } else { &self.brokers }
    }

    /// The nats-servers between Tautwire brokers.
    pub(crate) fn between(&self) -> &[Member] {
        if self.brokers.is_empty() { &[] } else { &self.servers }
    }

    /// The JetStream streams and their consumers, as counted by the leader of each stream.
    pub(crate) fn assets(&self) -> Result<Assets> {
        let mut assets = Assets::default();
        for server in &self.servers {
            let stats = server.jetstream()?;
            for stream in stats.streams().filter(|stream| stream.is_led_by(&server.name)) {
                assets.streams += 1;
                assets.consumers += stream.state.consumer_count;
                if stream.name == SESSIONS {
                    assets.session_writes = stream.state.last_seq;
                }
            }
        }
        Ok(assets)
    }

    /// Returns the server that leads a stream.
    pub(crate) fn leader_of(&self, stream: &str) -> Result<&Member> {
        for server in self.servers.iter().filter(|server| server.pid.is_some()) {
            let stats = server.jetstream()?;
            if stats.streams().any(|one| one.name == stream && one.is_led_by(&server.name)) {
                return Ok(server);
            }
        }
        Err(Failure::new(format!("nobody leads {stream}")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The folder is removed with it, so the order of the exit does not matter. An error means that a process is gone already.
        for member in self.brokers.iter().chain(&self.servers) {
            let _ = member.kill();
        }
    }
}

/// The JetStream state of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Assets {
    pub streams: u64,
    pub consumers: u64,
    /// The number of writes to sessions of Tautwire brokers since the start of the cluster.
    pub session_writes: u64,
}

impl Member {
    pub(crate) fn mqtt(&self) -> Result<SocketAddr> {
        self.mqtt.ok_or_else(|| Failure::new(format!("{} does not speak MQTT", self.name)))
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.pid.ok_or_else(|| Failure::new(format!("{} does not run", self.name)))
    }

    /// Kills it.
    pub(crate) fn kill(&self) -> Result<()> {
        let pid = i32::try_from(self.pid()?).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new(format!("{} has no process number", self.name)))?;
        kill_process(pid, Signal::KILL).during(|| format!("killing {}", self.name))
    }

    /// Starts it like `tools/cluster`. It ends when the returned process is dropped.
    pub(crate) fn start(&mut self) -> Result<RunningProcess> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| Failure::new(format!("{} has no command", self.name)))?;
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        let mut command = command_killed_with_parent(Path::new(program))?;
        command.args(arguments).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = RunningProcess::of(command.spawn()?);
        self.pid = Some(process.pid());
        Ok(process)
    }

    /// For a nats-server: waits until its data is current.
    pub(crate) fn await_health(&self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !get(&self.monitor, "/healthz", "").is_ok_and(|answer| answer.contains("\"ok\"")) {
            if Instant::now() > deadline {
                return Err(Failure::new(format!("{} does not become well", self.name)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Waits until it accepts clients.
    pub(crate) fn await_clients(&self) -> Result<()> {
        await_answer(self.mqtt()?)
    }

    /// For a broker: the time since the last heartbeat of each node, and whether it serves.
    pub(crate) fn cluster_status(&self) -> Result<ClusterStatus> {
        let answer = get(&self.admin, "/v1/cluster", &self.token)?;
        serde_json::from_str(&answer).during(|| format!("reading the cluster status of {}", self.name))
    }

    /// For a broker: the value of a metric.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let answer = get(&self.admin, "/metrics", &self.token)?;
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.and_then(|value| value.trim().parse().ok());
        value.ok_or_else(|| Failure::new(format!("{} has no metric {name}", self.name)))
    }

    fn jetstream(&self) -> Result<JetStream> {
        let answer = get(&self.monitor, "/jsz?streams=true", "")?;
        serde_json::from_str(&answer).during(|| format!("reading the JetStream status of {}", self.name))
    }
}

#[derive(Deserialize)]
pub(crate) struct ClusterStatus {
    pub nodes: Vec<NodeStatus>,
}

#[derive(Deserialize)]
pub(crate) struct NodeStatus {
    pub name: String,
    pub state: String,
    pub age_ms: u64,
}

#[derive(Deserialize)]
struct JetStream {
    #[serde(default)]
    account_details: Vec<Account>,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    stream_detail: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    name: String,
    #[serde(default)]
    cluster: Replicas,
    state: StreamState,
}

#[derive(Default, Deserialize)]
struct Replicas {
    #[serde(default)]
    leader: String,
}

#[derive(Deserialize)]
struct StreamState {
    consumer_count: u64,
    last_seq: u64,
}

impl JetStream {
    fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.account_details.iter().flat_map(|account| &account.stream_detail)
    }
}

impl Stream {
    fn is_led_by(&self, server: &str) -> bool {
        self.cluster.leader == server
    }
}

/// Returns the body of the response. HTTP/1.0, so that it ends with the connection.
fn get(host: &str, path: &str, token: &str) -> Result<String> {
    let context = || format!("asking {host}{path}");
    let mut stream = TcpStream::connect(host).during(context)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let login = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n{login}\r\n");
    stream.write_all(request.as_bytes()).during(context)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).during(context)?;
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| Failure::new(format!("{}: no answer", context())))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status == "200" { Ok(body.to_owned()) } else { Err(Failure::new(format!("{}: {status}", context()))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTION: &str = r#"{
        "servers": [{"name": "nats-1", "pid": 7, "mqtt": null, "folder": "/x", "command": ["nats-server"], "address": "nats://a", "monitor": "a:1"}],
        "brokers": [{"name": "broker-1", "pid": 8, "mqtt": "127.0.0.1:1", "folder": "/y", "command": ["tautwire", "serve"], "admin": "b:1", "token": "t"}],
        "spare": [{"name": "broker-2", "pid": null, "mqtt": "127.0.0.1:2", "folder": "/z", "command": ["tautwire"], "admin": "", "token": "t"}]
    }"#;

    const TOLD: &str = r#"{"streams": 2, "account_details": [{"name": "$G", "stream_detail": [
        {"name": "TW_LOG_00", "cluster": {"leader": "nats-1"}, "state": {"messages": 3, "last_seq": 9, "consumer_count": 2}},
        {"name": "TW_LOG_01", "cluster": {"leader": "nats-2"}, "state": {"messages": 0, "last_seq": 0, "consumer_count": 4}}]}]}"#;

    #[test]
    fn a_description_lists_running_and_startable_nodes() {
        let Description { servers, brokers, spare } = serde_json::from_str(DESCRIPTION).expect("valid");
        assert_eq!((servers[0].pid, servers[0].address.as_str(), servers[0].mqtt), (Some(7), "nats://a", None));
        assert!(servers[0].mqtt().is_err());
        assert_eq!(brokers[0].mqtt().expect("an address").port(), 1);
        assert!(spare[0].pid().is_err() && spare[0].kill().is_err());
    }

    #[test]
    fn a_stream_counts_at_its_leader() {
        let stats: JetStream = serde_json::from_str(TOLD).expect("valid");
        let led: Vec<&str> =
            stats.streams().filter(|stream| stream.is_led_by("nats-1")).map(|stream| stream.name.as_str()).collect();
        assert_eq!(led, ["TW_LOG_00"]);
        assert_eq!(stats.streams().map(|stream| stream.state.consumer_count).sum::<u64>(), 6);
    }

    #[test]
    fn an_http_response_is_its_body_and_a_refusal_is_an_error() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let serving = std::thread::spawn(move || {
            for status in ["200 OK", "401 Unauthorized"] {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut asked = [0; 1024];
                let read = stream.read(&mut asked).expect("a request");
                assert!(asked[..read].starts_with(b"GET /x HTTP/1.0\r\n"));
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
                stream.write_all(answer.as_bytes()).expect("written");
            }
        });
        assert_eq!(get(&host, "/x", "secret").expect("answered"), "ok");
        assert!(get(&host, "/x", "").is_err());
        serving.join().expect("served");
    }
}
