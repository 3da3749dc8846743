//! A separate broker process for each sample.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub struct Broker {
    child: Child,
    port: u16,
}

impl Broker {
    pub fn start(program: &Path) -> Result<Broker, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}; `make build` builds it", program.display());
        let mut child = Command::new(program)
            .args(["serve", "--memory", "--listen", "127.0.0.1:0", "--threads", "1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| wrong(&error))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let broker = Broker { child, port: port.unwrap_or(0) };
        if broker.port == 0 { Err(wrong(&"it did not say where it listens")) } else { Ok(broker) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
