//! An HTTP endpoint that stores the batches that it accepts.

use std::io::{Read as _, Seek as _, SeekFrom};
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
    /// The bytes of the file that have been read.
    read_bytes: u64,
    pub(crate) messages: Vec<Value>,
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
        let mut endpoint = Endpoint { port, file, process, read_bytes: 0, messages: Vec::new() };
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

    /// Reads the batches that are new. A line that a killed server has not completed was not accepted.
    pub(crate) fn read(&mut self) {
        let Ok(mut file) = std::fs::File::open(&self.file) else { return };
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.read_bytes)).unwrap();
        file.read_to_string(&mut text).unwrap();
        let complete = text.rfind('\n').map_or(0, |at| at + 1);
        self.read_bytes += complete as u64;
        for line in text[..complete].lines() {
            let batch: Option<Value> = serde_json::from_str(line).ok();
            self.messages
                .extend(batch.iter().flat_map(|batch| batch["messages"].as_array().cloned().unwrap_or_default()));
        }
    }
}
