//! An HTTP endpoint that stores the batches that it accepts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tokio::net::TcpStream;

use super::process::Process;
use super::{free_port, wait_for};

/// The environment variable with the secret.
pub(crate) const SECRET_VARIABLE: &str = "CONNECT_TEST_SECRET";
const SECRET: &str = "a secret";

pub(crate) struct Endpoint {
    port: u16,
    file: PathBuf,
    process: Process,
}

impl Endpoint {
    pub(crate) async fn start(folder: &Path) -> Endpoint {
        let (port, file) = (free_port(), folder.join("batches"));
        let stored = file.clone();
        let process = Process::new(move || {
            let mut command = Command::new("python3");
            command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sinks/support/endpoint.py"));
            command.arg(port.to_string()).arg(&stored).arg(SECRET).stderr(Stdio::null());
            command
        });
        let mut endpoint = Endpoint { port, file, process };
        endpoint.restart().await;
        endpoint
    }

    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        self.process.start();
        wait_for("the endpoint", || async { TcpStream::connect(("127.0.0.1", self.port)).await.ok() }).await;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/messages", self.port)
    }

    /// The environment of the connector.
    pub(crate) fn environment() -> (&'static str, &'static str) {
        (SECRET_VARIABLE, SECRET)
    }

    /// The messages that were accepted. A line that a killed server has not completed was not accepted.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let batches = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        batches.flat_map(|batch| batch["messages"].as_array().cloned().unwrap_or_default()).collect()
    }
}
