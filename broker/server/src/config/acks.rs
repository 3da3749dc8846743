//! Acknowledgement levels: the default, and checks of a quorum.

use tautwire_session::AckLevel;

use super::Config;
use super::ack_levels::CommonAck;
use super::cluster::ClusterSync;
use super::error::{ConfigError, ErrorCode, ErrorLocation};

/// Smallest number of replicas of which one can be lost.
const REPLICAS_LEAST: u16 = 3;

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

#[cfg(test)]
mod tests {
    use toml::de::DeValue;

    use super::*;
    use crate::config::Override;
    use crate::config::listen::Address;
    use crate::config::listener_config::ListenerConfig;
    use crate::config::value::Setting as _;

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
