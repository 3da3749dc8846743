//! The scenarios: what is done to a broker, and what is measured of it.

mod churn;
mod flood;
mod idle;
mod rtt;
mod session;
mod session_mill;
mod wildcards;

use serde::{Deserialize, Serialize};

use crate::broker::{Broker, BrokerKind};
use crate::failure::Result;
use crate::measure::Measurement;
use crate::mqtt::{ProtocolVersion, QoS};
use crate::system::Placement;

pub(crate) use churn::Churn;
pub(crate) use flood::Flood;
pub(crate) use idle::Idle;
pub(crate) use rtt::Rtt;
pub(crate) use wildcards::Wildcards;

/// A scenario and its parameters, as written in `bench/scenarios/*.toml` or on the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Scenario {
    Rtt(Rtt),
    Flood(Flood),
    Idle(Idle),
    Churn(Churn),
    Wildcards(Wildcards),
}

/// What every scenario needs to know of the run.
pub(crate) struct Context<'a> {
    pub broker: &'a Broker,
    pub version: ProtocolVersion,
    pub placement: &'a Placement,
    /// Stamped into every payload, so that strays of another run show.
    pub run: u32,
}

impl Scenario {
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Measurement> {
        match self {
            Self::Rtt(rtt) => rtt.run(context),
            Self::Flood(flood) => flood.run(context),
            Self::Idle(idle) => idle.run(context),
            Self::Churn(churn) => churn.run(context),
            Self::Wildcards(wildcards) => wildcards.run(context),
        }
    }

    /// Why the scenario cannot be had from this broker; `None` when it can.
    pub(crate) fn lacks(&self, kind: BrokerKind, version: ProtocolVersion) -> Option<&'static str> {
        let possible_without_mqtt = match self {
            Self::Rtt(rtt) => rtt.qos == QosLevel::default(),
            Self::Flood(flood) => flood.qos == QosLevel::default() && flood.pairs == 0,
            _ => false,
        };
        if kind.is_relay() && !possible_without_mqtt {
            return Some("the relay knows no MQTT: only QoS 0 round trips and floods of one group");
        }
        kind.lacks(version)
    }

    /// The same scenario in about a second of measured time.
    pub(crate) fn quick(mut self) -> Self {
        match &mut self {
            Self::Rtt(rtt) => (rtt.duration_ms, rtt.slices) = (1000, 4),
            Self::Flood(flood) => flood.duration_ms = 1000,
            Self::Idle(_) => {}
            Self::Churn(churn) => churn.duration_ms = 1000,
            Self::Wildcards(wildcards) => wildcards.duration_ms = 1000,
        }
        self
    }
}

/// A QoS as scenario files write it: 0, 1 or 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub(crate) struct QosLevel(pub QoS);

impl Default for QosLevel {
    fn default() -> Self {
        Self(QoS::AtMostOnce)
    }
}

impl TryFrom<u8> for QosLevel {
    type Error = String;

    fn try_from(level: u8) -> std::result::Result<Self, String> {
        QoS::from_u8(level).map(Self).ok_or_else(|| format!("QoS {level} does not exist: 0, 1 or 2"))
    }
}

impl From<QosLevel> for u8 {
    fn from(level: QosLevel) -> u8 {
        level.0.as_u8()
    }
}
