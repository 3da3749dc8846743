//! The scenarios: the load of a broker, and the figures that are measured.

mod bystanders;
mod churn;
mod client_group;
mod cluster;
mod context;
mod delivery;
mod disturbances;
mod explosion;
mod flood;
mod handshakes;
mod herd;
mod idle;
mod open_load;
mod parameters;
mod recovery;
mod retained;
mod retained_on_disk;
mod rtt;
mod session;
mod session_mill;
mod snapshots;
mod steady;
mod store_client;
mod sync_latency;
mod wildcards;

use serde::{Deserialize, Serialize};

use crate::broker::BrokerKind;
use crate::failure::Result;
use crate::measure::Measurement;
use crate::mqtt::ProtocolVersion;
use crate::system::Machine;
use context::RESERVED_DESCRIPTORS;
use parameters::QosLevel;

pub(crate) use churn::Churn;
pub(crate) use cluster::{Acknowledged, DeadNode, Kills, Mirror, Nodes, Takeover};
pub(crate) use context::Context;
pub(crate) use delivery::Delivery;
pub(crate) use disturbances::{FanOut, ReconnectStorm, SlowConsumer};
pub(crate) use explosion::Explosion;
pub(crate) use flood::Flood;
pub(crate) use handshakes::Handshakes;
pub(crate) use herd::Herd;
pub(crate) use idle::Idle;
pub(crate) use recovery::Recovery;
pub(crate) use retained::Retained;
pub(crate) use retained_on_disk::RetainedOnDisk;
pub(crate) use rtt::Rtt;
pub(crate) use snapshots::Snapshots;
pub(crate) use steady::Steady;
pub(crate) use sync_latency::SyncLatency;
pub(crate) use wildcards::Wildcards;

/// A scenario and its parameters, as written in `bench/scenarios/*.toml` or on the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Scenario {
    Rtt(Rtt),
    Flood(Flood),
    Idle(Idle),
    Churn(Churn),
    Wildcards(Wildcards),
    Steady(Steady),
    Delivery(Delivery),
    Herd(Herd),
    Explosion(Explosion),
    Retained(Retained),
    SlowConsumer(SlowConsumer),
    ReconnectStorm(ReconnectStorm),
    FanOut(FanOut),
    SyncLatency(SyncLatency),
    Recovery(Recovery),
    RetainedOnDisk(RetainedOnDisk),
    Snapshots(Snapshots),
    Handshakes(Handshakes),
    Acknowledged(Acknowledged),
    Takeover(Takeover),
    Mirror(Mirror),
    DeadNode(DeadNode),
    Kills(Kills),
    Nodes(Nodes),
}

/// The names of single runs.
pub(crate) const KINDS: [&str; 24] = [
    "rtt",
    "flood",
    "idle",
    "churn",
    "wildcards",
    "steady",
    "delivery",
    "herd",
    "explosion",
    "retained",
    "slow-consumer",
    "reconnect-storm",
    "fan-out",
    "sync-latency",
    "recovery",
    "retained-on-disk",
    "snapshots",
    "handshakes",
    "acknowledged",
    "takeover",
    "mirror",
    "dead-node",
    "kills",
    "nodes",
];

impl Scenario {
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        match self {
            Self::Rtt(rtt) => rtt.run(context),
            Self::Flood(flood) => flood.run(context),
            Self::Idle(idle) => idle.run(context),
            Self::Churn(churn) => churn.run(context),
            Self::Wildcards(wildcards) => wildcards.run(context),
            Self::Steady(steady) => steady.run(context),
            Self::Delivery(delivery) => delivery.run(context),
            Self::Herd(herd) => herd.run(context),
            Self::Explosion(explosion) => explosion.run(context),
            Self::Retained(retained) => retained.run(context),
            Self::SlowConsumer(slow) => slow.run(context),
            Self::ReconnectStorm(storm) => storm.run(context),
            Self::FanOut(fan_out) => fan_out.run(context),
            Self::SyncLatency(sync) => sync.run(context),
            Self::Recovery(recovery) => recovery.run(context),
            Self::RetainedOnDisk(retained) => retained.run(context),
            Self::Snapshots(snapshots) => snapshots.run(context),
            Self::Handshakes(handshakes) => handshakes.run(context),
            Self::Acknowledged(acknowledged) => acknowledged.run(context),
            Self::Takeover(takeover) => takeover.run(context),
            Self::Mirror(mirror) => mirror.run(context),
            Self::DeadNode(dead) => dead.run(context),
            Self::Kills(kills) => kills.run(context),
            Self::Nodes(nodes) => nodes.run(context),
        }
    }

    /// The reason why this broker does not support the scenario, or `None`.
    pub(crate) fn missing_feature(&self, kind: BrokerKind, version: ProtocolVersion) -> Option<&'static str> {
        let possible_without_mqtt = match self {
            Self::Rtt(rtt) => rtt.qos == QosLevel::default(),
            Self::Flood(flood) => flood.qos == QosLevel::default() && flood.pairs == 0,
            _ => false,
        };
        if kind.is_relay() && !possible_without_mqtt {
            return Some("the relay does not support MQTT: only QoS 0 round trips and floods of one group");
        }
        if matches!(self, Self::Handshakes(_)) && !kind.speaks_tls() {
            return Some("it does not listen on TLS");
        }
        let needs_a_disk = matches!(self, Self::Recovery(_) | Self::RetainedOnDisk(_));
        if needs_a_disk && kind != BrokerKind::TautwireDurable {
            return Some(
                "only tautwire-durable is killed and started again: others lose their data, or its directory is unknown",
            );
        }
        if matches!(self, Self::Snapshots(_)) && kind != BrokerKind::TautwireDurable {
            return Some("only the snapshot files of tautwire-durable are known");
        }
        let needs_nodes = matches!(self, Self::Mirror(_) | Self::DeadNode(_));
        if needs_nodes && !matches!(kind, BrokerKind::TautwireCluster { .. }) {
            return Some("only a Tautwire cluster has nodes that join, or take over the sessions of a dead node");
        }
        if matches!(self, Self::Kills(_)) && !kind.is_cluster() {
            return Some("a single broker has no other node to connect to after a kill");
        }
        kind.missing_feature(version)
    }

    /// The reason why this machine cannot run the scenario, or `None`.
    pub(crate) fn unsupported_reason(&self, machine: &Machine) -> Option<String> {
        let connections = match self {
            Self::Idle(idle) => idle.connections,
            Self::Steady(steady) => steady.connections(),
            Self::Herd(herd) => herd.connections(),
            Self::Explosion(explosion) => explosion.connections(),
            Self::ReconnectStorm(storm) => storm.connections(),
            Self::FanOut(fan_out) => fan_out.connections(),
            Self::DeadNode(dead) => dead.sessions,
            _ => 0,
        };
        let possible = machine.open_files_limit.saturating_sub(RESERVED_DESCRIPTORS);
        (connections > possible)
            .then(|| format!("{connections} connections of one process: the limit of open files allows {possible}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_that_reads_back() {
        for kind in KINDS {
            let table = toml::Table::from_iter([("kind".to_owned(), kind.into())]);
            let scenario: Scenario = table.try_into().unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(toml::Table::try_from(&scenario).expect("a table")["kind"].as_str(), Some(kind));
        }
    }

    #[test]
    fn only_a_broker_with_a_known_directory_is_killed_and_restarted() {
        let scenarios = [Scenario::Recovery(Recovery::default()), Scenario::RetainedOnDisk(RetainedOnDisk::default())];
        for scenario in scenarios {
            assert_eq!(scenario.missing_feature(BrokerKind::TautwireDurable, ProtocolVersion::V3_1_1), None);
            for kind in [BrokerKind::Tautwire { threads: 1 }, BrokerKind::NatsDurable, BrokerKind::MosquittoPersistent]
            {
                assert!(scenario.missing_feature(kind, ProtocolVersion::V3_1_1).is_some(), "{kind}");
            }
        }
    }

    #[test]
    fn snapshots_are_located_if_their_naming_is_known() {
        let scenario = Scenario::Snapshots(Snapshots::default());
        assert_eq!(scenario.missing_feature(BrokerKind::TautwireDurable, ProtocolVersion::V3_1_1), None);
        assert!(scenario.missing_feature(BrokerKind::NatsDurable, ProtocolVersion::V3_1_1).is_some());
    }

    #[test]
    fn more_connections_than_open_files_are_impossible() {
        let idle = |connections| Scenario::Idle(Idle { connections, ..Idle::default() });
        let machine = Machine::describe(20_000);
        assert_eq!(idle(19_900).unsupported_reason(&machine), None);
        assert!(idle(100_000).unsupported_reason(&machine).is_some_and(|reason| reason.contains("19900")));
        assert_eq!(idle(0).unsupported_reason(&machine), None);
    }
}
