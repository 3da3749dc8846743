//! Starts a process and waits until it accepts clients.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::process::RunningProcess;
use crate::failure::{Failure, Result};
use crate::mqtt;
use crate::net::{Stream, client_config};

const START_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) fn start_announcing(mut command: Command, folder: &Path) -> Result<(RunningProcess, SocketAddr)> {
    let mut process = RunningProcess::of(command.stdout(Stdio::piped()).spawn()?);
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
    let mut process = RunningProcess::of(command.spawn()?);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if answers_connect(address, tls.as_ref())? {
            return Ok((process, address));
        }
        if let Some(status) = process.ended()? {
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
