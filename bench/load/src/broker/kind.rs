use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use crate::failure::{Failure, Result};
use crate::mqtt::ProtocolVersion;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BrokerKind {
    /// Our broker with this many reactor threads.
    Tautwire {
        threads: usize,
    },
    Mosquitto,
    Nats,
    /// The relay of this generator: no MQTT, the floor.
    Relay,
}

impl BrokerKind {
    /// Why this scenario cannot be had from this broker; `None` when it can.
    pub(crate) fn lacks(self, version: ProtocolVersion) -> Option<&'static str> {
        (self == Self::Nats && version.is_v5()).then_some("nats-server speaks MQTT 3.1.1 only")
    }

    pub(crate) fn is_relay(self) -> bool {
        self == Self::Relay
    }

    /// Whether this is the broker the thresholds are for.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Tautwire { .. })
    }
}

impl FromStr for BrokerKind {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(threads) = text.strip_prefix("tautwire-").and_then(|rest| rest.strip_suffix("t")) {
            return match threads.parse() {
                Ok(threads) if threads > 0 => Ok(Self::Tautwire { threads }),
                _ => Err(Failure::new(format!("broker {text:?}: write tautwire-Nt for N threads"))),
            };
        }
        match text {
            "tautwire" => Ok(Self::Tautwire { threads: 1 }),
            "mosquitto" => Ok(Self::Mosquitto),
            "nats" => Ok(Self::Nats),
            "relay" => Ok(Self::Relay),
            _ => Err(Failure::new(format!(
                "broker {text:?} is not known: tautwire, tautwire-Nt (N threads), mosquitto, nats, relay"
            ))),
        }
    }
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tautwire { threads: 1 } => f.write_str("tautwire"),
            Self::Tautwire { threads } => write!(f, "tautwire-{threads}t"),
            Self::Mosquitto => f.write_str("mosquitto"),
            Self::Nats => f.write_str("nats"),
            Self::Relay => f.write_str("relay"),
        }
    }
}

/// Where the programs are: `bin/tautwire` and `bench/peers/bin` in the current folder or one above, then the usual
/// places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Programs {
    pub tautwire: Option<PathBuf>,
}

impl Programs {
    pub(crate) fn find(&self, kind: BrokerKind) -> Result<PathBuf> {
        match kind {
            BrokerKind::Tautwire { .. } => {
                self.tautwire.clone().or_else(|| in_tree("bin/tautwire")).ok_or_else(|| {
                    Failure::new("bin/tautwire is not there: run `make build`, or name it with --tautwire")
                })
            }
            BrokerKind::Mosquitto => in_path("mosquitto")
                .ok_or_else(|| Failure::new("mosquitto is not installed: run bench/peers/install.sh")),
            BrokerKind::Nats => in_tree("bench/peers/bin/nats-server")
                .or_else(|| in_path("nats-server"))
                .ok_or_else(|| Failure::new("nats-server is not installed: run bench/peers/install.sh")),
            BrokerKind::Relay => Ok(env::current_exe()?),
        }
    }

    /// What the program calls its version, in one line.
    pub(crate) fn version(&self, kind: BrokerKind) -> Result<String> {
        if kind.is_relay() {
            return Ok(format!("tautwire-bench {}", env!("CARGO_PKG_VERSION")));
        }
        let argument = if kind == BrokerKind::Mosquitto { "-h" } else { "--version" };
        let output = Command::new(self.find(kind)?).arg(argument).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }
}

/// The root of the repository when the current folder is in it.
pub(crate) fn repository_root() -> Option<PathBuf> {
    let current = env::current_dir().ok()?;
    current.ancestors().find(|folder| folder.join("bench/scenarios").is_dir()).map(Path::to_owned)
}

fn in_tree(path: &str) -> Option<PathBuf> {
    repository_root().map(|root| root.join(path)).filter(|path| path.is_file())
}

fn in_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    // Distributions put mosquitto where only the administrator's PATH looks.
    env::split_paths(&folders)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_written() {
        for name in ["tautwire", "tautwire-2t", "mosquitto", "nats", "relay"] {
            assert_eq!(name.parse::<BrokerKind>().expect("known").to_string(), name);
        }
        for name in ["tautwire-0t", "tautwire-xt", "other", ""] {
            assert!(name.parse::<BrokerKind>().is_err(), "{name}");
        }
    }
}
