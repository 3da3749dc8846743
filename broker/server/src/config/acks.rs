//! Acknowledgement levels: the default, and exceptions by topic and listener.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tautwire_protocol::TopicFilter;
use tautwire_session::AckLevel;
use toml::de::DeValue;

use super::Config;
use super::cluster::ClusterSync;
use super::error::{ConfigError, ErrorCode, ErrorLocation};
use super::value::{Choice, Setting, ValueError, quoted, texts};

/// Smallest number of replicas of which one can be lost.
const REPLICAS_LEAST: u16 = 3;

/// The default level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommonAck {
    /// The highest level that the broker offers, on its own or in a cluster.
    Auto,
    Level(AckLevel),
}

/// Levels by topic filter, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AckTopics(pub(crate) Vec<(Box<str>, AckLevel)>);

/// Levels by listener address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AckListeners(pub(crate) Vec<(SocketAddr, AckLevel)>);

impl Choice for CommonAck {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("memory", Self::Level(AckLevel::Memory)),
        ("os", Self::Level(AckLevel::Os)),
        ("disk", Self::Level(AckLevel::Disk)),
        ("quorum", Self::Level(AckLevel::Quorum)),
    ];
}

impl Setting for AckTopics {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"FILTER = LEVEL\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let filter =
            |text: &str| TopicFilter::new(text).ok().filter(|filter| filter.share().is_none()).map(|_| text.into());
        texts::<Self>(value)?
            .into_iter()
            .map(|text| rule(text, "a topic filter", filter))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn to_toml(&self) -> String {
        list(&self.0)
    }
}

impl Setting for AckListeners {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"ADDRESS:PORT = LEVEL\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let address = |text: &str| text.parse().ok();
        texts::<Self>(value)?
            .into_iter()
            .map(|text| rule(text, "an address", address))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn to_toml(&self) -> String {
        list(&self.0)
    }
}

impl Config {
    /// The default acknowledgement level.
    pub(crate) fn ack(&self) -> AckLevel {
        match self.data.ack {
            CommonAck::Level(level) => level,
            CommonAck::Auto if self.cluster.has_servers() => AckLevel::Quorum,
            CommonAck::Auto => AckLevel::Disk,
        }
    }

    /// Reports a quorum in the configuration of a broker that is not in a cluster.
    pub(super) fn check_acks(&self, errors: &mut Vec<ConfigError>) {
        if self.cluster.has_servers() {
            return;
        }
        let mut refuse = |key, whose: String| {
            let message = format!(
                "{whose}\"quorum\" requires a cluster: set cluster.servers to its NATS servers, or write \"disk\", the highest level of a \
                 single broker"
            );
            errors.push(ConfigError { code: ErrorCode::Missing, location: ErrorLocation::Key { key }, message });
        };
        let data = &self.data;
        if data.ack == CommonAck::Level(AckLevel::Quorum) {
            refuse("data.ack", String::new());
        }
        if data.ack_topics.0.iter().any(|(_, level)| *level == AckLevel::Quorum) {
            refuse("data.ack_topics", String::new());
        }
        if data.ack_listeners.0.iter().any(|(_, level)| *level == AckLevel::Quorum) {
            refuse("data.ack_listeners", String::new());
        }
        for (_, name) in self.tables().filter(|(table, _)| table.ack == Some(AckLevel::Quorum)) {
            refuse("listener", format!("ack of {name}: "));
        }
    }

    /// Warns if a quorum of the configured NATS servers does not guarantee durability.
    pub(crate) fn warn_of_weak_quorum(&self, warnings: &mut Vec<String>) {
        let cluster = &self.cluster;
        if !cluster.has_servers() {
            return;
        }
        if cluster.sync == ClusterSync::Relaxed {
            warnings.push(
                "cluster.sync is \"relaxed\": the NATS servers may confirm before they have synced to disk, so a power failure may lose messages \
                 that were acknowledged at \"quorum\"; set sync_interval: always on the servers, and cluster.monitoring_addresses here"
                    .to_owned(),
            );
        }
        if cluster.replicas < REPLICAS_LEAST {
            warnings.push(format!(
                "cluster.replicas is {}: messages acknowledged at \"quorum\" may not survive the loss of one NATS server; set at least {REPLICAS_LEAST}",
                cluster.replicas
            ));
        }
    }
}

/// Parses `key = level`; `read` parses the key, and `noun` names it in the error message.
fn rule<T>(text: &str, noun: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<(T, AckLevel), ValueError> {
    let rule = text.rsplit_once('=').and_then(|(first, level)| {
        let level = AckLevel::CHOICES.iter().find(|(name, _)| *name == level.trim())?.1;
        Some((read(first.trim())?, level))
    });
    rule.ok_or_else(|| {
        let levels: Vec<_> = AckLevel::CHOICES.iter().map(|(name, _)| *name).collect();
        ValueError::Range(format!(
            "\"{}\" is not {noun}, \"=\" and one of {}; write it like \"{} = memory\"",
            text.escape_debug(),
            levels.join(", "),
            if noun == "an address" { "127.0.0.1:1884" } else { "telemetry/#" }
        ))
    })
}

fn list<T: ToString>(rules: &[(T, AckLevel)]) -> String {
    let rules = rules
        .iter()
        .map(|(key, level)| quoted(&format!("{} = {}", key.to_string(), level.to_toml().trim_matches('"'))));
    format!("[{}]", rules.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Override;
    use crate::config::listen::Address;
    use crate::config::listener::ListenerConfig;

    #[test]
    fn a_rule_round_trips() {
        let value = toml::de::DeTable::parse("x = [\"a/+ = memory\", \"b=c = os\"]").expect("TOML");
        let rules = AckTopics::from_toml(value.get_ref().get("x").expect("there").get_ref(), None).expect("two rules");
        assert_eq!(rules.0, [("a/+".into(), AckLevel::Memory), ("b=c".into(), AckLevel::Os)]);
        assert_eq!(rules.to_toml(), "[\"a/+ = memory\", \"b=c = os\"]");
        for wrong in ["a", "a = often", "a/#/b = os", "$share/g/a = os"] {
            assert!(
                rule(wrong, "a topic filter", |text| TopicFilter::new(text)
                    .ok()
                    .filter(|f| f.share().is_none())
                    .map(|_| ()))
                .is_err(),
                "{wrong}"
            );
        }
    }

    fn load(settings: &[&str]) -> Result<Config, Vec<String>> {
        let overrides: Vec<_> =
            settings.iter().map(|text| Override::from_argument(text).expect("a key and a value")).collect();
        Config::load(None, &overrides).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_default_is_the_strongest_level() {
        let ack = |settings: &[&str]| load(settings).expect("good").ack();
        assert_eq!(ack(&[]), AckLevel::Disk);
        assert_eq!(ack(&["cluster.servers="]), AckLevel::Disk);
        assert_eq!(ack(&["cluster.servers=nats://a"]), AckLevel::Quorum);
        assert_eq!(ack(&["cluster.servers=nats://a", "data.ack=memory"]), AckLevel::Memory);
        let listeners = load(&["cluster.servers=nats://a", "listen=127.0.0.1:1"]).expect("good").listeners();
        assert_eq!(listeners[0].ack, AckLevel::Quorum);
    }

    #[test]
    fn a_single_broker_refuses_a_quorum_with_advice() {
        for (setting, place) in [
            ("data.ack=quorum", "data.ack"),
            ("data.ack_topics=a/# = quorum", "data.ack_topics"),
            ("data.ack_listeners=127.0.0.1:1883 = quorum", "data.ack_listeners"),
        ] {
            let errors = load(&[setting]).expect_err("no cluster");
            let [error] = &errors[..] else { panic!("{errors:?}") };
            assert!(error.starts_with(&format!("{place}: \"quorum\" requires a cluster")), "{error}");
            assert!(error.contains("cluster.servers") && error.ends_with("[config_missing]"), "{error}");
            assert!(load(&[setting, "cluster.servers=nats://a"]).is_ok());
        }
        let address = Address::from_toml(&DeValue::String("127.0.0.1:1".into()), None).expect("an address");
        let table = ListenerConfig { address: Some(address), ack: Some(AckLevel::Quorum), ..ListenerConfig::default() };
        let config = Config { listener: vec![table], ..Config::default() };
        let mut errors = Vec::new();
        config.check_acks(&mut errors);
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert!(error.to_string().starts_with("listener: ack of mqtt://127.0.0.1:1: \"quorum\" requires"), "{error}");
    }

    #[test]
    fn a_weak_quorum_is_reported_where_it_is_configured() {
        let warnings = |settings: &[&str]| {
            let (config, mut warnings) = (load(settings).expect("good"), Vec::new());
            config.warn_of_weak_quorum(&mut warnings);
            warnings
        };
        assert_eq!(warnings(&["cluster.sync=relaxed", "cluster.replicas=1"]), [""; 0], "no cluster");
        let servers = "cluster.servers=nats://a";
        assert_eq!(warnings(&[servers, "cluster.replicas=5"]), [""; 0]);
        assert!(warnings(&[servers, "cluster.sync=relaxed"])[0].starts_with("cluster.sync is \"relaxed\""));
        assert!(warnings(&[servers, "cluster.replicas=2"])[0].starts_with("cluster.replicas is 2"));
    }
}
