use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use crate::failure::{Failure, Result};
use crate::mqtt::ProtocolVersion;
use crate::system::cores;

/// A broker that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BrokerKind {
    /// Tautwire with this many reactor threads.
    Tautwire {
        threads: usize,
    },
    /// Tautwire, one thread, with contracts for the payloads.
    TautwireContracts,
    /// Tautwire, one thread, over TLS.
    TautwireTls,
    /// Tautwire, one thread, with its state on disk.
    TautwireDurable,
    /// The same, but acknowledgements do not wait for the disk.
    TautwireAckMemory,
    /// A cluster of this many Tautwire brokers, one thread each, with three nats-servers between them.
    TautwireCluster {
        nodes: usize,
    },
    Mosquitto,
    MosquittoTls,
    /// With persistence, which it writes every half an hour and when it exits.
    MosquittoPersistent,
    Nats,
    NatsTls,
    /// With a sync for each message before it is acknowledged.
    NatsDurable,
    /// A cluster of three, with a sync for each message before it is acknowledged.
    NatsCluster,
    Mochi,
    Aedes,
    Rumqttd,
    Rmqtt,
    /// HiveMQ Community Edition.
    HiveMq,
    /// The relay of this generator: no MQTT, the floor.
    Relay,
    /// The same over TLS.
    RelayTls,
}

/// The default number of Tautwire brokers in a cluster.
const CLUSTER_NODES: usize = 3;

/// The names of the kinds without a number of threads or nodes.
const NAMES: [(BrokerKind, &str); 20] = [
    (BrokerKind::Tautwire { threads: 1 }, "tautwire"),
    (BrokerKind::TautwireContracts, "tautwire-contracts"),
    (BrokerKind::TautwireTls, "tautwire-tls"),
    (BrokerKind::TautwireDurable, "tautwire-durable"),
    (BrokerKind::TautwireAckMemory, "tautwire-ack-memory"),
    (BrokerKind::TautwireCluster { nodes: CLUSTER_NODES }, "tautwire-cluster"),
    (BrokerKind::Mosquitto, "mosquitto"),
    (BrokerKind::MosquittoTls, "mosquitto-tls"),
    (BrokerKind::MosquittoPersistent, "mosquitto-persistent"),
    (BrokerKind::Nats, "nats"),
    (BrokerKind::NatsTls, "nats-tls"),
    (BrokerKind::NatsDurable, "nats-durable"),
    (BrokerKind::NatsCluster, "nats-cluster"),
    (BrokerKind::Mochi, "mochi"),
    (BrokerKind::Aedes, "aedes"),
    (BrokerKind::Rumqttd, "rumqttd"),
    (BrokerKind::Rmqtt, "rmqtt"),
    (BrokerKind::HiveMq, "hivemq"),
    (BrokerKind::Relay, "relay"),
    (BrokerKind::RelayTls, "relay-tls"),
];

impl BrokerKind {
    /// The reason why this broker does not support the scenario, or `None`.
    pub(crate) fn missing_feature(self, version: ProtocolVersion) -> Option<&'static str> {
        match self {
            Self::Nats | Self::NatsTls | Self::NatsDurable | Self::NatsCluster if version.is_v5() => {
                Some("nats-server speaks MQTT 3.1.1 only")
            }
            Self::Aedes if version.is_v5() => Some("Aedes speaks MQTT 3.1.1 only"),
            Self::Rumqttd if version.is_v5() => Some("rumqttd is set up for MQTT 3.1.1 only"),
            _ => None,
        }
    }

    pub(crate) fn is_relay(self) -> bool {
        matches!(self, Self::Relay | Self::RelayTls)
    }

    /// Whether its listener uses TLS.
    pub(crate) fn speaks_tls(self) -> bool {
        matches!(self, Self::TautwireTls | Self::MosquittoTls | Self::NatsTls | Self::RelayTls)
    }

    /// Whether the thresholds apply to this broker.
    pub(crate) fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Tautwire { .. }
                | Self::TautwireContracts
                | Self::TautwireTls
                | Self::TautwireDurable
                | Self::TautwireAckMemory
                | Self::TautwireCluster { .. }
        )
    }

    /// Whether it is a cluster with several processes for clients.
    pub(crate) fn is_cluster(self) -> bool {
        matches!(self, Self::TautwireCluster { .. } | Self::NatsCluster)
    }

    /// The number of cores that it can keep busy on this machine while the generator has one.
    pub(crate) fn cores_it_can_use(self) -> usize {
        let left = (cores() - 1).max(1);
        match self {
            Self::Tautwire { threads } => threads.min(left),
            Self::TautwireContracts | Self::TautwireTls | Self::TautwireDurable | Self::TautwireAckMemory => 1,
            Self::Mosquitto
            | Self::MosquittoTls
            | Self::MosquittoPersistent
            | Self::Aedes
            | Self::Relay
            | Self::RelayTls => 1,
            Self::Nats
            | Self::NatsTls
            | Self::NatsDurable
            | Self::NatsCluster
            | Self::TautwireCluster { .. }
            | Self::Mochi
            | Self::Rumqttd
            | Self::Rmqtt
            | Self::HiveMq => left,
        }
    }
}

impl FromStr for BrokerKind {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if let Some((kind, _)) = NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(*kind);
        }
        if let Some(nodes) = text.strip_prefix("tautwire-cluster-") {
            return match nodes.parse() {
                Ok(nodes) if nodes > 0 && nodes != CLUSTER_NODES => Ok(Self::TautwireCluster { nodes }),
                _ => Err(Failure::new(format!(
                    "{text:?} is not a cluster: a number of nodes that is not {CLUSTER_NODES}"
                ))),
            };
        }
        let threads = text.strip_prefix("tautwire-").and_then(|rest| rest.strip_suffix("t"));
        match threads.and_then(|threads| threads.parse().ok()) {
            Some(threads) if threads > 0 => Ok(Self::Tautwire { threads }),
            _ => {
                let known: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
                Err(Failure::new(format!(
                    "broker {text:?} is not known: {}, tautwire-Nt for N threads, or tautwire-cluster-N for N nodes",
                    known.join(", ")
                )))
            }
        }
    }
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (NAMES.iter().find(|(kind, _)| kind == self), self) {
            (Some((_, name)), _) => f.write_str(name),
            (None, Self::Tautwire { threads }) => write!(f, "tautwire-{threads}t"),
            (None, Self::TautwireCluster { nodes }) => write!(f, "tautwire-cluster-{nodes}"),
            (None, other) => write!(f, "{other:?}"),
        }
    }
}

/// The paths of the programs: `bin/tautwire` and `bench/peers/bin` in the current folder or a parent, then the usual
/// places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Programs {
    pub tautwire: Option<PathBuf>,
}

impl Programs {
    /// The program, or the file that its interpreter runs.
    pub(crate) fn find(&self, kind: BrokerKind) -> Result<PathBuf> {
        let from_peers = |file: &str| in_tree(&format!("bench/peers/bin/{file}"));
        let found = match kind {
            BrokerKind::Tautwire { .. }
            | BrokerKind::TautwireContracts
            | BrokerKind::TautwireTls
            | BrokerKind::TautwireDurable
            | BrokerKind::TautwireAckMemory
            | BrokerKind::TautwireCluster { .. } => {
                return self.tautwire.clone().or_else(|| in_tree("bin/tautwire")).ok_or_else(|| {
                    Failure::new("bin/tautwire is not there: run `make build`, or name it with --tautwire")
                });
            }
            BrokerKind::Relay | BrokerKind::RelayTls => return Ok(env::current_exe()?),
            BrokerKind::Mosquitto | BrokerKind::MosquittoTls | BrokerKind::MosquittoPersistent => in_path("mosquitto"),
            BrokerKind::Nats | BrokerKind::NatsTls | BrokerKind::NatsDurable | BrokerKind::NatsCluster => {
                let named = env::var_os("TAUTWIRE_NATS_SERVER").map(PathBuf::from);
                named.or_else(|| from_peers("nats-server")).or_else(|| in_path("nats-server"))
            }
            BrokerKind::Mochi => from_peers("mochi"),
            BrokerKind::Aedes => from_peers("aedes/broker.mjs").filter(|_| in_path("node").is_some()),
            BrokerKind::Rumqttd => from_peers("rumqttd"),
            BrokerKind::Rmqtt => from_peers("rmqtt"),
            BrokerKind::HiveMq => from_peers("hivemq/HiveMq.class").filter(|_| in_path("java").is_some()),
        };
        found
            .ok_or_else(|| Failure::new(format!("{kind} is not installed: run bench/peers/install.sh, which says why")))
    }

    /// The version of the program, in one line; an error if this broker cannot be measured.
    pub(crate) fn version(&self, kind: BrokerKind) -> Result<String> {
        let program = self.find(kind)?;
        let argument = match kind {
            BrokerKind::Relay | BrokerKind::RelayTls => {
                return Ok(format!("tautwire-bench {}", env!("CARGO_PKG_VERSION")));
            }
            BrokerKind::Mochi | BrokerKind::Aedes | BrokerKind::HiveMq => {
                // For programs without a version option, the installer has written a file with it.
                let note = in_tree(&format!("bench/peers/bin/{kind}.version"));
                let note = note.ok_or_else(|| Failure::new(format!("bench/peers/bin/{kind}.version is not there")))?;
                return Ok(fs::read_to_string(note)?.trim().to_owned());
            }
            BrokerKind::TautwireContracts if !has_section(&program, "[contracts]")? => {
                return Err(Failure::new("contracts are not available in this broker"));
            }
            BrokerKind::TautwireDurable | BrokerKind::TautwireAckMemory if !has_section(&program, "[data]")? => {
                return Err(Failure::new("this broker keeps nothing on disk"));
            }
            BrokerKind::TautwireCluster { .. } => {
                return Ok(format!(
                    "{}, {}",
                    self.version(BrokerKind::Tautwire { threads: 1 })?,
                    self.version(BrokerKind::NatsCluster)?
                ));
            }
            BrokerKind::Mosquitto | BrokerKind::MosquittoTls | BrokerKind::MosquittoPersistent => "-h",
            _ => "--version",
        };
        first_line(Command::new(program).arg(argument))
    }
}

/// Whether the configuration of Tautwire has this section.
fn has_section(program: &Path, section: &str) -> Result<bool> {
    let output = Command::new(program).args(["config", "show"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == section))
}

/// The versions of the tools that build and run the generator.
pub(crate) fn versions_of_tools() -> BTreeMap<String, String> {
    let mut versions = BTreeMap::from([("tautwire-bench".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    for (name, argument) in [("rustc", "-V"), ("go", "version"), ("node", "--version"), ("java", "--version")] {
        if let Ok(version) = first_line(Command::new(name).arg(argument)) {
            versions.insert(name.to_owned(), version);
        }
    }
    versions
}

fn first_line(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The root of the repository, if the current folder is in it.
pub(crate) fn repository_root() -> Option<PathBuf> {
    let current = env::current_dir().ok()?;
    current.ancestors().find(|folder| folder.join("bench/scenarios").is_dir()).map(Path::to_owned)
}

fn in_tree(path: &str) -> Option<PathBuf> {
    repository_root().map(|root| root.join(path)).filter(|path| path.is_file())
}

pub(super) fn in_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    // Distributions install mosquitto in a folder that is only in the administrator's PATH.
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
        for name in
            NAMES.iter().map(|(_, name)| *name).chain(["tautwire-2t", "tautwire-cluster-1", "tautwire-cluster-5"])
        {
            assert_eq!(name.parse::<BrokerKind>().expect("known").to_string(), name);
        }
        for name in [
            "tautwire-0t",
            "tautwire-xt",
            "tautwire-cluster-0",
            "tautwire-cluster-3",
            "tautwire-cluster-x",
            "other",
            "",
        ] {
            assert!(name.parse::<BrokerKind>().is_err(), "{name}");
        }
    }
}
