//! Starts each broker: its arguments and its configuration, with the settings that differ from the defaults.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::BrokerKind;
use super::kind::in_path;
use super::process::{RunningProcess, command_killed_with_parent};
use super::readiness::{free_port, start_announcing, start_probed};
use crate::failure::{ErrorContext, Failure, Result};
use crate::mqtt::{READING_PROTO, contracts_manifest};

/// More than the largest payload of any scenario.
const NATS_MAX_PAYLOAD_BYTES: u32 = 8 * 1024 * 1024;

/// The data directory of Tautwire, in the folder that it runs in.
pub(super) const DATA_FOLDER: &str = "data";

/// The certificate folder of a broker with TLS, in the folder that it runs in.
const TLS_FOLDER: &str = "tls";
const CERTIFICATE: &str = "tls/server.pem";
const KEY: &str = "tls/server.key";

/// The limits for a million retained or queued messages of 1 KB, which the defaults do not allow.
const LARGE_LIMITS: [&str; 5] = [
    "limits.retained_messages=2000000",
    "limits.retained_bytes=4294967296",
    "limits.memory_bytes=4294967296",
    "limits.memory_bytes_per_client=4294967296",
    "log.level=error",
];

/// Starts `program` in `folder` and waits until it accepts connections.
pub(super) fn start_process(kind: BrokerKind, program: &Path, folder: &Path) -> Result<(RunningProcess, SocketAddr)> {
    let log = File::create(folder.join("log"))?;
    let run = interpreter_of(kind, program)?;
    drop_from_page_cache(&run);
    let mut command = command_killed_with_parent(&run)?;
    command.stdin(Stdio::null()).stderr(log.try_clone()?).current_dir(folder);
    match kind {
        BrokerKind::Tautwire { .. }
        | BrokerKind::TautwireContracts
        | BrokerKind::TautwireTls
        | BrokerKind::TautwireDurable
        | BrokerKind::TautwireAckMemory
        | BrokerKind::Relay
        | BrokerKind::RelayTls => {
            command.args(our_arguments(kind, folder)?);
            start_announcing(command, folder)
        }
        BrokerKind::Mochi => start_announcing(command, folder),
        BrokerKind::Aedes => {
            command.arg(program);
            start_announcing(command, folder)
        }
        BrokerKind::Mosquitto | BrokerKind::MosquittoTls | BrokerKind::MosquittoPersistent => {
            let port = free_port()?;
            fs::write(folder.join("mosquitto.conf"), mosquitto_configuration(port, kind))?;
            command.args(["-c", "mosquitto.conf"]).stdout(log);
            start_probed(command, folder, port, kind.speaks_tls())
        }
        BrokerKind::Nats | BrokerKind::NatsTls | BrokerKind::NatsDurable => {
            let (port, client_port) = (free_port()?, free_port()?);
            fs::write(folder.join("nats.conf"), nats_configuration(port, client_port, kind))?;
            command.args(["-c", "nats.conf"]).stdout(log);
            start_probed(command, folder, port, kind.speaks_tls())
        }
        BrokerKind::TautwireCluster { .. } | BrokerKind::NatsCluster => {
            Err(Failure::new(format!("{kind} is not one process")))
        }
        BrokerKind::Rumqttd | BrokerKind::Rmqtt => {
            let port = free_port()?;
            command.arg(port.to_string()).stdout(log);
            start_probed(command, folder, port, false)
        }
        BrokerKind::HiveMq => {
            let port = free_port()?;
            let classes = program.parent().unwrap_or(program);
            let class_path = format!("{}:{}/lib/*", classes.display(), classes.display());
            command.args(["-cp", &class_path, "HiveMq", &port.to_string()]).stdout(log);
            start_probed(command, folder, port, false)
        }
    }
}

/// Creates a CA and an ECDSA P-256 certificate.
pub(super) fn make_certificate(tautwire: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(tautwire);
    let made = command.args(["cert", "--dir", TLS_FOLDER]).current_dir(folder).stdout(Stdio::null()).status()?;
    if made.success() { Ok(()) } else { Err(Failure::new(format!("tautwire cert: {made}"))) }
}

/// Drops the program from the page cache. A recently written file is cached in large pages, which count for a process beyond what it
/// has touched: 0.8 MB for a broker that was just built. If other processes run it, it stays.
fn drop_from_page_cache(program: &Path) {
    if let Ok(file) = File::open(program) {
        // Only what is on disk can be dropped.
        let _ = file.sync_all();
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

/// Returns the program to run: itself, or its interpreter.
fn interpreter_of(kind: BrokerKind, program: &Path) -> Result<PathBuf> {
    let name = match kind {
        BrokerKind::Aedes => "node",
        BrokerKind::HiveMq => "java",
        _ => return Ok(program.to_owned()),
    };
    in_path(name).ok_or_else(|| Failure::new(format!("{name} is not installed")))
}

fn our_arguments(kind: BrokerKind, folder: &Path) -> Result<Vec<String>> {
    let threads = match kind {
        BrokerKind::Tautwire { threads } => threads,
        BrokerKind::TautwireContracts
        | BrokerKind::TautwireTls
        | BrokerKind::TautwireDurable
        | BrokerKind::TautwireAckMemory => 1,
        BrokerKind::RelayTls => return Ok(["relay-tls", CERTIFICATE, KEY].map(str::to_owned).to_vec()),
        _ => return Ok(vec!["relay".to_owned()]),
    };
    let listen = if kind.speaks_tls() { "mqtts://127.0.0.1:0" } else { "127.0.0.1:0" };
    let mut arguments: Vec<String> =
        ["serve", "--memory", "--listen", listen, "--threads", &threads.to_string()].map(str::to_owned).to_vec();
    if kind == BrokerKind::TautwireTls {
        for setting in [format!("tls.certificate={CERTIFICATE}"), format!("tls.key={KEY}")] {
            arguments.extend(["--set".to_owned(), setting]);
        }
    }
    if kind == BrokerKind::TautwireContracts {
        write_contracts(&folder.join("contracts"))?;
        arguments.extend(["--set".to_owned(), format!("contracts.path={}", folder.join("contracts").display())]);
    }
    if matches!(kind, BrokerKind::TautwireDurable | BrokerKind::TautwireAckMemory) {
        let path = format!("data.path={}", folder.join(DATA_FOLDER).display());
        for setting in std::iter::once(path.as_str()).chain(LARGE_LIMITS) {
            arguments.extend(["--set".to_owned(), setting.to_owned()]);
        }
    }
    if kind == BrokerKind::TautwireAckMemory {
        arguments.extend(["--set", "data.ack=memory"].map(str::to_owned));
    }
    Ok(arguments)
}

/// Writes the contracts of the typed payloads to a folder for the broker.
fn write_contracts(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).during(|| format!("creating {}", folder.display()))?;
    fs::write(folder.join("contracts.toml"), contracts_manifest())?;
    fs::write(folder.join("reading.proto"), READING_PROTO)?;
    Ok(())
}

fn mosquitto_configuration(port: u16, kind: BrokerKind) -> String {
    let is_persistent = kind == BrokerKind::MosquittoPersistent;
    let tls = if kind.speaks_tls() { format!("certfile {CERTIFICATE}\nkeyfile {KEY}\n") } else { String::new() };
    // A change of user would undo `command_killed_with_parent`; without root privileges the line has no effect.
    // With the default of 20 in flight, 2.0.11 stops delivering at QoS 2 if more are queued. Nagle's
    // algorithm would delay its packets, while all others send at once.
    // Its persistence has no setting that makes an acknowledgement wait for the disk.
    format!(
        "listener {port} 127.0.0.1\n{tls}user root\nallow_anonymous true\npersistence {is_persistent}\nlog_type error\n\
         set_tcp_nodelay true\nmax_inflight_messages 0\nmax_queued_messages 10000\n"
    )
}

fn nats_configuration(port: u16, client_port: u16, kind: BrokerKind) -> String {
    let sync = if kind == BrokerKind::NatsDurable { "sync_interval: always" } else { "" };
    let tls = if kind.speaks_tls() {
        format!("tls {{ cert_file: \"{CERTIFICATE}\", key_file: \"{KEY}\" }}")
    } else {
        String::new()
    };
    format!(
        "server_name: bench\nlisten: \"127.0.0.1:{client_port}\"\nmax_payload: {NATS_MAX_PAYLOAD_BYTES}\n\
         jetstream {{ store_dir: \"store\"\n{sync} }}\nmqtt {{ listen: \"127.0.0.1:{port}\"\n{tls} }}\n"
    )
}
