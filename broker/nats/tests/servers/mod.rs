//! Real nats-servers on free ports, in a temporary directory. They can be killed, paused and restarted. Dropping the value ends all of
//! them.

mod routes;

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use routes::SlowRoutes;

/// The variable that names the program; `make test-cluster` sets it.
const PROGRAM: &str = "TAUTWIRE_NATS_SERVER";
/// Longer than servers take to find each other on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Returns the program, if there is one.
pub(crate) fn program() -> Option<PathBuf> {
    let program = std::env::var_os(PROGRAM).map(PathBuf::from);
    if program.is_none() {
        eprintln!("not tested: {PROGRAM} names no nats-server; make test-cluster installs one");
    }
    program
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The settings of the servers besides addresses and directories.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) syncs_always: bool,
    /// Whether messages between servers can be delayed.
    pub(crate) has_slow_routes: bool,
    /// More lines of the configuration: users, TLS.
    pub(crate) more: String,
}

impl Default for Config {
    fn default() -> Config {
        Config { syncs_always: true, has_slow_routes: false, more: String::new() }
    }
}

/// Servers that form one cluster.
pub(crate) struct Servers {
    program: PathBuf,
    folder: PathBuf,
    servers: Vec<Server>,
    /// The routes between the servers, if messages can be delayed.
    routes: Option<SlowRoutes>,
}

struct Server {
    ports: Ports,
    child: Option<Child>,
}

#[derive(Clone, Copy)]
struct Ports {
    clients: u16,
    monitoring: u16,
    routes: u16,
}

impl Servers {
    pub(crate) fn start(program: &Path, count: usize, config: &Config) -> Servers {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let name = format!("nats-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        let ports = pick_ports(count);
        let servers = ports.iter().map(|ports| Server { ports: *ports, child: None }).collect();
        let routes = config.has_slow_routes.then(|| SlowRoutes::to(ports.iter().map(|ports| ports.routes)));
        let mut all = Servers { program: program.to_owned(), folder, servers, routes };
        for at in 0..count {
            fs::create_dir_all(all.server_folder(at)).expect("a directory");
            fs::write(all.config_file(at), all.config(at, config)).expect("a file");
            all.spawn(at);
        }
        all.wait_until_well();
        all
    }

    fn server_folder(&self, at: usize) -> PathBuf {
        self.folder.join(at.to_string())
    }

    fn config_file(&self, at: usize) -> PathBuf {
        self.server_folder(at).join("server.conf")
    }

    fn config(&self, at: usize, config: &Config) -> String {
        let Ports { clients, monitoring, routes } = self.servers[at].ports;
        let folder = self.server_folder(at);
        let sync = if config.syncs_always { "always" } else { "2m" };
        let mut text = format!(
            "server_name: server-{at}\nlisten: 127.0.0.1:{clients}\nhttp: 127.0.0.1:{monitoring}\n\
             jetstream {{ store_dir: \"{}\", sync_interval: {sync}, max_memory_store: 64MB, max_file_store: 8GB }}\n{}\n",
            folder.display(),
            config.more
        );
        if self.servers.len() > 1 {
            let port = |at: usize| self.routes.as_ref().map_or(self.servers[at].ports.routes, |routes| routes.port(at));
            let address = |at| format!("127.0.0.1:{}", port(at));
            let others: Vec<_> = (0..self.servers.len()).map(|other| format!("nats://{}", address(other))).collect();
            let _ = writeln!(
                text,
                "cluster {{ name: test, listen: 127.0.0.1:{routes}, advertise: \"{}\", routes: [{}] }}",
                address(at),
                others.join(", ")
            );
        }
        text
    }

    fn spawn(&mut self, at: usize) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.server_folder(at).join("log"));
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(self.config_file(at))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a file"))
            .spawn()
            .expect("nats-server starts");
        self.servers[at].child = Some(child);
    }

    /// Waits until all servers report that they are healthy, with all their streams.
    pub(crate) fn wait_until_well(&mut self) {
        for at in 0..self.servers.len() {
            let monitoring = self.servers[at].ports.monitoring;
            wait_until("a server is well", || {
                // Another process may have used the port for a moment.
                if self.servers[at].child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_)))) {
                    self.spawn(at);
                }
                get(monitoring, "/healthz").is_some_and(|answer| answer.contains("\"ok\""))
            });
        }
        if self.servers.len() > 1 {
            wait_until("the servers have a leader", || self.meta_leader().is_some());
        }
    }

    /// The addresses of all, for clients.
    pub(crate) fn addresses(&self) -> String {
        (0..self.servers.len()).map(|at| self.address(at)).collect::<Vec<_>>().join(",")
    }

    /// Returns the address of a server.
    pub(crate) fn address(&self, at: usize) -> String {
        format!("nats://127.0.0.1:{}", self.servers[at].ports.clients)
    }

    /// Delays all messages between servers from now on.
    pub(crate) fn delay_routes(&self, delay_ms: u64) {
        self.routes.as_ref().expect("routes can be delayed").delay(delay_ms);
    }

    /// The monitoring addresses of all.
    pub(crate) fn monitoring(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.ports.monitoring)).collect()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills a server.
    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.servers[at].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts a server that was killed, with its data on disk.
    pub(crate) fn restart(&mut self, at: usize) {
        self.spawn(at);
    }

    /// Pauses a server; no one is notified.
    pub(crate) fn pause(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    /// Resumes a server.
    pub(crate) fn resume(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }

    fn signal(&self, at: usize, signal: Signal) {
        let pid = self.servers[at].child.as_ref().map(Pid::from_child);
        kill_process(pid.expect("it runs"), signal).expect("a signal");
    }

    /// Returns the leader of a stream, if there is one, as any server sees it.
    pub(crate) fn leader(&self, stream: &str) -> Option<usize> {
        (0..self.servers.len()).find_map(|at| self.leader_by(at, stream))
    }

    /// Returns the leader of a stream, as one of the servers sees it.
    pub(crate) fn leader_by(&self, at: usize, stream: &str) -> Option<usize> {
        leader_of(&get(self.servers[at].ports.monitoring, "/jsz?streams=true")?, stream)
    }

    fn meta_leader(&self) -> Option<usize> {
        let answer = get(self.servers[0].ports.monitoring, "/jsz")?;
        named(answer.split("\"meta_cluster\"").nth(1)?, "leader")
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.servers {
            if let Some(mut child) = server.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if std::env::var_os("TAUTWIRE_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Ports that are free now, all different.
fn pick_ports(servers: usize) -> Vec<Ports> {
    let listeners: Vec<_> = (0..3 * servers).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let ports: Vec<_> = listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect();
    ports.chunks(3).map(|ports| Ports { clients: ports[0], monitoring: ports[1], routes: ports[2] }).collect()
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// The servers report the fields in this order: name of the stream, its content, its cluster with the leader.
fn leader_of(jsz: &str, stream: &str) -> Option<usize> {
    named(jsz.split(&format!("\"name\": \"{stream}\"")).nth(1)?, "leader")
}

fn named(text: &str, field: &str) -> Option<usize> {
    let value = text.split(&format!("\"{field}\": \"server-")).nth(1)?;
    value.split('"').next()?.parse().ok()
}
