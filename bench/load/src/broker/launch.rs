//! How each broker is started: its arguments and its configuration, with the settings that differ from the default.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::BrokerKind;
use super::kind::in_path;
use super::process::{RunningProcess, dying_with_us, free_port, start_announcing, start_probed};
use crate::failure::{Failure, Result};
use crate::scenario::write_contracts;

/// More than the largest payload of any scenario.
const NATS_MAX_PAYLOAD_BYTES: u32 = 8 * 1024 * 1024;

/// Starts `program` in `folder` and waits until it accepts connections.
pub(super) fn start_process(kind: BrokerKind, program: &Path, folder: &Path) -> Result<(RunningProcess, SocketAddr)> {
    let log = File::create(folder.join("log"))?;
    let mut command = dying_with_us(&interpreter_of(kind, program)?)?;
    command.stdin(Stdio::null()).stderr(log.try_clone()?).current_dir(folder);
    match kind {
        BrokerKind::Tautwire { .. } | BrokerKind::TautwireContracts | BrokerKind::Relay => {
            command.args(our_arguments(kind, folder)?);
            start_announcing(command, folder)
        }
        BrokerKind::Mochi => start_announcing(command, folder),
        BrokerKind::Aedes => {
            command.arg(program);
            start_announcing(command, folder)
        }
        BrokerKind::Mosquitto => {
            let port = free_port()?;
            fs::write(folder.join("mosquitto.conf"), mosquitto_configuration(port))?;
            command.args(["-c", "mosquitto.conf"]).stdout(log);
            start_probed(command, folder, port)
        }
        BrokerKind::Nats => {
            let (port, client_port) = (free_port()?, free_port()?);
            fs::write(folder.join("nats.conf"), nats_configuration(port, client_port))?;
            command.args(["-c", "nats.conf"]).stdout(log);
            start_probed(command, folder, port)
        }
        BrokerKind::Rumqttd | BrokerKind::Rmqtt => {
            let port = free_port()?;
            command.arg(port.to_string()).stdout(log);
            start_probed(command, folder, port)
        }
        BrokerKind::HiveMq => {
            let port = free_port()?;
            let classes = program.parent().unwrap_or(program);
            let class_path = format!("{}:{}/lib/*", classes.display(), classes.display());
            command.args(["-cp", &class_path, "HiveMq", &port.to_string()]).stdout(log);
            start_probed(command, folder, port)
        }
    }
}

/// What is run: the program itself, or what runs it.
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
        BrokerKind::TautwireContracts => 1,
        _ => return Ok(vec!["relay".to_owned()]),
    };
    let mut arguments: Vec<String> =
        ["serve", "--listen", "127.0.0.1:0", "--threads", &threads.to_string()].map(str::to_owned).to_vec();
    if kind == BrokerKind::TautwireContracts {
        write_contracts(&folder.join("contracts"))?;
        arguments.extend(["--set".to_owned(), format!("contracts.path={}", folder.join("contracts").display())]);
    }
    Ok(arguments)
}

fn mosquitto_configuration(port: u16) -> String {
    // A change of user would undo `dying_with_us`; without root's rights the line has no effect.
    // With the default of 20 in flight, 2.0.11 stops delivering at QoS 2 when more wait in its queue. Nagle's
    // algorithm would let it wait for others where all others send at once.
    format!(
        "listener {port} 127.0.0.1\nuser root\nallow_anonymous true\npersistence false\nlog_type error\n\
         set_tcp_nodelay true\nmax_inflight_messages 0\nmax_queued_messages 10000\n"
    )
}

fn nats_configuration(port: u16, client_port: u16) -> String {
    format!(
        "server_name: bench\nlisten: \"127.0.0.1:{client_port}\"\nmax_payload: {NATS_MAX_PAYLOAD_BYTES}\n\
         jetstream {{ store_dir: \"store\" }}\nmqtt {{ listen: \"127.0.0.1:{port}\" }}\n"
    )
}
