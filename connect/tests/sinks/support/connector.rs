//! The program under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::endpoint::Endpoint;
use super::process::Process;
use super::{free_port, wait_for};

pub(crate) const CONTRACTS: &str = r#"
[[contract]]
name = "reading"
topics = "sensors/{device_id}/reading"
format = ["json", "protobuf"]
schema = "reading.proto"
message = "Reading"
on_violation = "observe"
topic_fields = { device_id = "device_id" }
"#;

pub(crate) const SCHEMA: &str = r#"syntax = "proto3";
message Reading { string device_id = 1; uint64 number = 2; double celsius = 3; }
"#;

/// A configuration of one sink, with its contracts.
pub(crate) struct Connector {
    pub(crate) port: u16,
    path: PathBuf,
    process: Process,
}

impl Connector {
    /// `sink` has the keys of the sink but for its name.
    pub(crate) fn new(folder: &Path, broker_url: &str, sink: &str) -> Connector {
        Connector::named("connect", folder, broker_url, sink)
    }

    /// An instance with a client identifier of its own.
    pub(crate) fn named(client_id: &str, folder: &Path, broker_url: &str, sink: &str) -> Connector {
        let port = free_port();
        std::fs::create_dir_all(folder.join("contracts")).unwrap();
        std::fs::write(folder.join("contracts/contracts.toml"), CONTRACTS).unwrap();
        std::fs::write(folder.join("contracts/reading.proto"), SCHEMA).unwrap();
        let path = folder.join(format!("{client_id}.toml"));
        let head = format!(
            "[broker]\nurl = '{broker_url}'\nclient_id = '{client_id}'\n[contracts]\npath = 'contracts'\n[http]\nlisten = '127.0.0.1:{port}'\n\
             [[sink]]\nname = 'readings'\n"
        );
        std::fs::write(&path, head + sink).unwrap();
        let run = path.clone();
        let log = folder.join(format!("{client_id}.log"));
        let process = Process::new(move || {
            let log = std::fs::File::options().create(true).append(true).open(&log).unwrap();
            let mut command = program(&["run"], &run);
            command.stderr(log);
            command
        });
        Connector { port, path, process }
    }

    /// Starts it and waits until broker and target are available.
    pub(crate) async fn start(&mut self) {
        self.process.start();
        self.ready().await;
    }

    pub(crate) async fn ready(&self) {
        wait_for("the connector", || async {
            self.get("/health/ready").await.filter(|answer| answer.starts_with("ready"))
        })
        .await;
    }

    /// Starts it without waiting.
    pub(crate) fn restart(&mut self) {
        self.process.kill();
        self.process.start();
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Handles the messages that are queued.
    pub(crate) fn run_once(&mut self) {
        let output = self.command(&["run", "--once"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Output {
        program(arguments, &self.path).stderr(Stdio::piped()).output().unwrap()
    }

    /// The value of a counter.
    pub(crate) async fn counter(&self, name: &str) -> u64 {
        let text = self.get("/metrics").await.unwrap_or_default();
        let prefix = format!("tautwire_connect_{name}{{sink=\"readings\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok()).unwrap_or(0)
    }

    async fn get(&self, path: &str) -> Option<String> {
        let answer = reqwest::Client::builder().no_proxy().build().unwrap();
        answer.get(format!("http://127.0.0.1:{}{path}", self.port)).send().await.ok()?.text().await.ok()
    }
}

fn program(arguments: &[&str], config: &Path) -> Command {
    let built = env!("CARGO_BIN_EXE_tautwire-connect").into();
    let mut command = Command::new(std::env::var_os("TAUTWIRE_CONNECT").unwrap_or(built));
    let (name, secret) = Endpoint::environment();
    command.env(name, secret).args(arguments).arg("--config").arg(config);
    command
}
