//! The command line.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use crate::config::Config;
use crate::runtime::{self, Mode};
use crate::text::counted;
use crate::{logger, tls};

const HELP: &str = "\
Connectors between MQTT topics and PostgreSQL, Kafka, NATS JetStream and webhooks.

Usage: tautwire-connect COMMAND [--config FILE]

Commands:
  check           check the configuration, the contracts and the targets; change nothing
  run             run all connectors until SIGTERM or SIGINT
  run --once      handle the messages that are queued, then exit
  status          print the status of a running process

Options:
  --config FILE   the configuration (default: connect.toml)
  --offline       with check: do not connect to the targets
  --version       print the version
  --help          print this help
";

/// The longest wait for the answer of a running process.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

enum Command {
    Check { offline: bool },
    Run(Mode),
    Status,
}

/// Executes the command line of the process.
///
/// # Errors
/// A message for the user, which ends with a stable code.
pub(crate) fn execute() -> Result<(), String> {
    let Some((command, path)) = parse(lexopt::Parser::from_env())? else { return Ok(()) };
    let config = Config::read(&path).map_err(|errors| {
        let mut text = format!("{} has {}", path.display(), counted(errors.len(), "error"));
        for error in &errors {
            let _ = write!(text, "\n  {error}");
        }
        text
    })?;
    tls::install_provider();
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let threads = threads.map_err(|error| format!("the runtime cannot start: {error} [runtime]"))?;
    let outcome = threads.block_on(async {
        match command {
            Command::Check { offline } => runtime::check(&config, offline).await.map(|report| print!("{report}")),
            Command::Run(mode) => {
                logger::install(config.log.level(), config.log.format);
                runtime::run(config, mode).await
            }
            Command::Status => status(&config).await,
        }
    });
    threads.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// The command and the path of the configuration; `None` if everything has been printed.
fn parse(mut arguments: lexopt::Parser) -> Result<Option<(Command, PathBuf)>, String> {
    let (mut name, mut path, mut once, mut offline) = (None, PathBuf::from("connect.toml"), false, false);
    while let Some(argument) = arguments.next().map_err(usage)? {
        match argument {
            Long("config") => path = arguments.value().map_err(usage)?.into(),
            Long("once") => once = true,
            Long("offline") => offline = true,
            Long("version") => {
                println!("tautwire-connect {}", env!("CARGO_PKG_VERSION"));
                return Ok(None);
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(None);
            }
            Value(value) if name.is_none() => name = Some(value.string().map_err(usage)?),
            other => return Err(usage(other.unexpected())),
        }
    }
    let command = match (name.as_deref(), once, offline) {
        (Some("check"), false, offline) => Command::Check { offline },
        (Some("run"), once, false) => Command::Run(if once { Mode::Once } else { Mode::UntilStopped }),
        (Some("status"), false, false) => Command::Status,
        (Some("check" | "run" | "status"), ..) => return Err(usage("--once is for run, and --offline for check")),
        (Some(other), ..) => return Err(usage(format!("there is no command {other}"))),
        (None, ..) => return Err(usage("a command is missing")),
    };
    Ok(Some((command, path)))
}

fn usage(error: impl std::fmt::Display) -> String {
    format!("{error}; see tautwire-connect --help [usage]")
}

async fn status(config: &Config) -> Result<(), String> {
    let listen =
        config.http.listen.ok_or("the configuration has no http.listen; set it to see the status [config_missing]")?;
    let url = format!("http://{listen}/status");
    let unreachable = |error: reqwest::Error| {
        format!("{url} does not answer: {error}; check that tautwire-connect run is running [unreachable]")
    };
    let client = reqwest::Client::builder().timeout(STATUS_TIMEOUT).no_proxy().build().map_err(unreachable)?;
    let answer = client.get(&url).send().await.map_err(unreachable)?;
    println!("{}", answer.text().await.map_err(unreachable)?);
    Ok(())
}
