//! A broker process for one test, on ports picked by the kernel.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tautwire_protocol::ProtocolVersion;

use super::client::{Client, EXPECT_TIMEOUT};
use super::connecting::ConnectBuilder;
use super::folder::Folder;
use super::wire::Transport;

/// The program under test. `TAUTWIRE_TEST_BINARY` selects another build, for example a release build.
pub(crate) fn program() -> String {
    std::env::var("TAUTWIRE_TEST_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tautwire").to_owned())
}

/// Whether tests use WebSocket where the transport does not matter: `TAUTWIRE_TEST_TRANSPORT=websocket`.
fn prefers_websocket() -> bool {
    std::env::var("TAUTWIRE_TEST_TRANSPORT").is_ok_and(|transport| transport == "websocket")
}

/// Whether brokers persist their state where a test does not care: `TAUTWIRE_TEST_STATE=disk`.
fn prefers_disk() -> bool {
    std::env::var("TAUTWIRE_TEST_STATE").is_ok_and(|state| state == "disk")
}

/// Startup timeout: the broker writes and syncs a log segment, on a disk that other tests and the preceding build keep busy.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running broker, stopped on drop.
pub(crate) struct Broker {
    child: Child,
    address: SocketAddr,
    websocket_address: SocketAddr,
    /// Further listening addresses, as printed.
    others: Vec<String>,
    /// The address of the admin API, if `admin.listen` is set.
    admin_address: Option<SocketAddr>,
    log: Option<JoinHandle<String>>,
    /// The state directory, if the test created one.
    state: Option<Folder>,
}

impl Broker {
    /// Starts a broker with one thread and the default settings.
    pub(crate) fn start() -> Broker {
        Broker::with(1, &[])
    }

    /// Starts a broker with one thread and `KEY=VALUE` settings.
    pub(crate) fn set(settings: &[&str]) -> Broker {
        Broker::with(1, settings)
    }

    /// Starts a broker with `threads` shards and `KEY=VALUE` settings.
    pub(crate) fn with(threads: usize, settings: &[&str]) -> Broker {
        let mut command = Command::new(program());
        let state = prefers_disk().then(|| Folder::new(&[]));
        let path = state.as_ref().map(|state| format!("data.path={}", state.path().join("data").display()));
        let settings: Vec<&str> = path.as_deref().into_iter().chain(settings.iter().copied()).collect();
        command.args(Broker::arguments(threads, &settings));
        let has_admin = settings.iter().any(|setting| setting.starts_with("admin.listen="));
        let mut broker = Broker::spawn(command, has_admin);
        broker.state = state;
        broker
    }

    /// Starts a broker with `KEY=VALUE` settings that also listens on these `[[listener]]` tables, in a file in this folder.
    pub(crate) fn with_listeners(threads: usize, folder: &Folder, tables: &str, settings: &[&str]) -> Broker {
        let mut command = Command::new(program());
        command.args(Broker::file_arguments(threads, folder, tables, settings));
        let has_admin = tables.starts_with("admin.") && tables.contains("admin.listen")
            || settings.iter().any(|setting| setting.starts_with("admin.listen="));
        Broker::spawn_with(command, tables.matches("[[listener]]").count(), has_admin)
    }

    /// The same without tables, with the log written to a file.
    pub(crate) fn logging_to(log: &Path, threads: usize, folder: &Folder, file: &str, settings: &[&str]) -> Broker {
        let mut command = Command::new("sh");
        command.arg("-c").arg("log=$1; shift; exec \"$0\" \"$@\" 2>\"$log\"").arg(program()).arg(log);
        command.args(Broker::file_arguments(threads, folder, file, settings));
        let has_admin = settings.iter().any(|setting| setting.starts_with("admin.listen="));
        Broker::spawn_with(command, 0, has_admin)
    }

    /// The same for a broker that must not start. Returns its output.
    pub(crate) fn refused_with_listeners(folder: &Folder, tables: &str) -> String {
        let arguments = Broker::file_arguments(1, folder, tables, &[]);
        let output = Command::new(program()).args(arguments).output().expect("the broker's program starts");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).expect("the output is text")
    }

    fn file_arguments(threads: usize, folder: &Folder, tables: &str, settings: &[&str]) -> Vec<String> {
        Broker::write_file(threads, folder, tables);
        let file = folder.path().join("tautwire.toml").display().to_string();
        let mut arguments = ["serve", "--memory", "--config", &file].map(str::to_owned).to_vec();
        arguments.extend(settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]));
        arguments
    }

    /// Rewrites the file of [`Broker::with_listeners`].
    pub(crate) fn write_file(threads: usize, folder: &Folder, tables: &str) {
        let listen = "listen = [\"127.0.0.1:0\", \"ws://127.0.0.1:0/mqtt\"]";
        folder.write("tautwire.toml", &format!("{listen}\nthreads = {threads}\n{tables}"));
    }

    /// Starts a broker that must not start. Returns its output.
    pub(crate) fn refused(settings: &[&str]) -> String {
        Broker::failed_start_output(Command::new(program()).args(Broker::arguments(1, settings)))
    }

    /// Starts a broker that may open at most `descriptors` files.
    pub(crate) fn with_descriptors(descriptors: usize, threads: usize, settings: &[&str]) -> Broker {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")).arg(program());
        command.args(Broker::arguments(threads, settings));
        Broker::spawn(command, false)
    }

    /// Starts a broker through another program that executes it: `wrapper` is its command line. `options` are those of `serve`.
    pub(crate) fn with_wrapper(wrapper: &[String], options: &[&str], settings: &[&str]) -> Broker {
        let command = Broker::command_by(wrapper, options, settings);
        Broker::spawn(command, settings.iter().any(|setting| setting.starts_with("admin.listen=")))
    }

    /// The same for a broker that must not start. Returns its output.
    pub(crate) fn refused_by(wrapper: &[String], options: &[&str], settings: &[&str]) -> String {
        Broker::failed_start_output(&mut Broker::command_by(wrapper, options, settings))
    }

    /// Starts a broker through another program that may kill it. Returns whether it was killed before it listened. The process ends in any
    /// case.
    pub(crate) fn is_killed_at_start(wrapper: &[String], settings: &[&str]) -> bool {
        let mut command = Broker::command_by(wrapper, &[], settings);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut first_line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let _ = BufReader::new(stdout).read_line(&mut first_line);
        let _ = child.kill();
        let status = child.wait().expect("it ends");
        assert!(!first_line.is_empty() || status.code().is_none(), "it failed by itself: {status}");
        first_line.is_empty()
    }

    fn command_by(wrapper: &[String], options: &[&str], settings: &[&str]) -> Command {
        let words = wrapper.iter().cloned().chain([program()]);
        let words: Vec<String> = words
            .chain(Broker::arguments(1, settings))
            .chain(options.iter().map(|option| (*option).to_owned()))
            .collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    fn failed_start_output(command: &mut Command) -> String {
        let output = command.output().expect("the broker's program starts");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "it listened before it failed: {output:?}");
        String::from_utf8(output.stderr).expect("the output is text")
    }

    /// Starts a broker whose disk can be [made to fail](Broker::fail_disk).
    pub(crate) fn with_failable_disk(settings: &[&str]) -> Broker {
        let mut command = Command::new("sh");
        // Exceeding the file size limit is an error then, and does not kill the process.
        command.arg("-c").arg("trap '' XFSZ && exec \"$0\" \"$@\"").arg(program());
        command.args(Broker::arguments(1, settings));
        Broker::spawn(command, settings.iter().any(|setting| setting.starts_with("admin.listen=")))
    }

    /// Makes all further writes to files fail.
    pub(crate) fn fail_disk(&self) {
        let pid = self.pid().to_string();
        let status = Command::new("prlimit").args(["--fsize=0:0", "--pid", &pid]).status();
        assert!(status.expect("prlimit of util-linux runs").success());
    }

    fn arguments(threads: usize, settings: &[&str]) -> Vec<String> {
        let threads = threads.to_string();
        let listen = [
            "serve",
            "--memory",
            "--listen",
            "127.0.0.1:0",
            "--listen",
            "ws://127.0.0.1:0/mqtt",
            "--threads",
            &threads,
        ];
        let mut arguments: Vec<String> = listen.map(str::to_owned).to_vec();
        for setting in settings {
            arguments.extend(["--set".to_owned(), (*setting).to_owned()]);
        }
        arguments
    }

    fn spawn(command: Command, has_admin: bool) -> Broker {
        Broker::spawn_with(command, 0, has_admin)
    }

    /// Starts the process, and waits until it has printed this many further addresses besides its own two, and that of its admin API.
    fn spawn_with(mut command: Command, others: usize, has_admin: bool) -> Broker {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the broker's program starts");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let mut stderr = child.stderr.take().expect("stderr is a pipe");
        let (ready, address) = mpsc::channel();
        // Both pipes are drained for the life of the process, so that no log line is lost.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("listening on ") {
                    let _ = ready.send(address.trim().to_owned());
                }
            }
        });
        let log = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let next_line = || address.recv_timeout(START_TIMEOUT).unwrap_or_default();
        let next = |scheme: &str, path: &str| {
            let line = next_line();
            line.strip_prefix(scheme).and_then(|rest| rest.strip_suffix(path)?.parse().ok())
        };
        let (Some(address), Some(websocket_address)) = (next("mqtt://", ""), next("ws://", "/mqtt")) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the broker did not print its addresses; its log:\n{}", log.join().unwrap_or_default());
        };
        let others = (0..others).map(|_| next_line()).collect();
        let admin_address = if has_admin { next("http://", "") } else { None };
        Broker { child, address, websocket_address, others, admin_address, log: Some(log), state: None }
    }

    /// The address of the MQTT listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the WebSocket listener, with the path `/mqtt`.
    pub(crate) fn websocket_address(&self) -> SocketAddr {
        self.websocket_address
    }

    /// The address of a `[[listener]]` table, as printed.
    pub(crate) fn other(&self, index: usize) -> &str {
        &self.others[index]
    }

    /// The IP address and port of a `[[listener]]` table.
    pub(crate) fn other_address(&self, index: usize) -> SocketAddr {
        let address = self.other(index);
        let (_, rest) = address.split_once("://").expect("it has a scheme");
        rest.split('/').next().and_then(|address| address.parse().ok()).expect("it has an IP address and a port")
    }

    /// The address of the admin API.
    pub(crate) fn admin_address(&self) -> SocketAddr {
        self.admin_address.expect("the test has set admin.listen")
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    fn transport(&self) -> Transport {
        if prefers_websocket() { Transport::WebSocket(self.websocket_address) } else { Transport::Tcp(self.address) }
    }

    /// The process id of the broker.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Connects with a clean start, and expects success.
    pub(crate) fn connect(&self, version: ProtocolVersion, client_id: &str) -> Client {
        self.connecting(version, client_id).open()
    }

    /// A builder for a connection.
    pub(crate) fn connecting<'a>(&self, version: ProtocolVersion, client_id: &'a str) -> ConnectBuilder<'a> {
        ConnectBuilder::new(self.transport(), version, client_id)
    }

    /// The same over WebSocket.
    pub(crate) fn websocket_builder<'a>(&self, version: ProtocolVersion, client_id: &'a str) -> ConnectBuilder<'a> {
        ConnectBuilder::new(Transport::WebSocket(self.websocket_address), version, client_id)
    }

    /// Connects over WebSocket with a clean start, and expects success.
    pub(crate) fn connect_websocket(&self, version: ProtocolVersion, client_id: &str) -> Client {
        self.websocket_builder(version, client_id).open()
    }

    /// A connection on which nothing has been sent.
    pub(crate) fn dial(&self, version: ProtocolVersion) -> Client {
        Client::dial(self.transport(), version)
    }

    /// Resident memory of the broker in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the broker is running");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the kernel reports VmRSS");
        let kilobytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
        kilobytes.expect("VmRSS is a number of kilobytes") * 1024
    }

    /// Waits until resident memory is at most `bytes`, polling through the broker itself: each check follows a ping.
    pub(crate) fn resident_comes_down_to(&self, bytes: u64) {
        let mut witness = self.connect(ProtocolVersion::V5, "memory-witness");
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while self.resident_bytes() > bytes {
            assert!(
                Instant::now() < deadline,
                "the broker holds {} bytes, more than {bytes}, {EXPECT_TIMEOUT:?} later",
                self.resident_bytes()
            );
            witness.ping();
            thread::yield_now();
        }
    }

    /// Processor time the broker has used so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        /// Clock ticks of `/proc` per second; Linux has used this number for programs on every machine for decades.
        const TICKS_PER_SECOND: u64 = 100;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("the broker is running");
        // The name in parentheses is the second field; user and system time are the 14th and 15th.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
    }

    /// Stops the broker. Returns its log.
    pub(crate) fn end(mut self) -> String {
        // SIGKILL would lose the lines still to be written.
        self.signal("TERM");
        let _ = self.child.wait();
        self.log.take().and_then(|log| log.join().ok()).unwrap_or_default()
    }

    /// Waits for the process to end by itself. Returns its exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("the process can be polled") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the broker still runs {EXPECT_TIMEOUT:?} later");
            thread::yield_now();
        }
    }

    /// Whether the process still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log.take().and_then(|log| log.join().ok()).unwrap_or_default();
        if thread::panicking() {
            eprintln!("the broker's log:\n{log}");
        }
    }
}

/// Reconnects a client to its session.
pub(crate) fn reconnect(broker: &Broker, version: ProtocolVersion, client_id: &str) -> Client {
    let client = broker.connecting(version, client_id).persistent().open();
    assert!(client.session_present(), "{client_id} has lost its session");
    client
}
