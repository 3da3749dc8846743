//! Checks of the bridges that concern several keys.

use tautwire_bridge::{Direction, Rules};
use tautwire_protocol::ProtocolVersion;

use super::Config;
use super::bridge_config::BridgeStart;
use super::error::{ConfigError, ErrorCode, ErrorLocation};

/// Maximum number of bridges: each has a thread.
const BRIDGES_MAX: usize = 64;

impl Config {
    /// Adds errors that concern several keys of the bridges.
    pub(super) fn check_bridges(&self, errors: &mut Vec<ConfigError>) {
        let mut wrong = |code, message: String| {
            errors.push(ConfigError { code, location: ErrorLocation::Key { key: "bridge" }, message });
        };
        if self.bridge.len() > BRIDGES_MAX {
            wrong(
                ErrorCode::OutOfRange,
                format!("there are {} bridges; the maximum is {BRIDGES_MAX}", self.bridge.len()),
            );
        }
        for (at, bridge) in self.bridge.iter().enumerate() {
            let Some(name) = &bridge.name else {
                wrong(ErrorCode::Missing, "a bridge has no `name`".to_owned());
                continue;
            };
            let name = name.as_str();
            if self.bridge[..at].iter().any(|other| other.name == bridge.name) {
                wrong(ErrorCode::OutOfRange, format!("two bridges have the name \"{name}\"; give each its own `name`"));
            }
            if bridge.addresses.get().is_empty() {
                wrong(ErrorCode::Missing, format!("bridge {name} needs `addresses`"));
            }
            if bridge.rules.get().is_empty() {
                wrong(ErrorCode::Missing, format!("bridge {name} needs `rules`: it would forward nothing"));
            }
            if let Err(error) = Rules::new(bridge.rules.get().to_vec()) {
                wrong(ErrorCode::OutOfRange, format!("bridge {name}: {error}"));
            }
            if bridge.retry_max_s < bridge.retry_min_s {
                wrong(ErrorCode::OutOfRange, format!("bridge {name}: retry_max_s is less than retry_min_s"));
            }
            let has_schedule = !bridge.schedule.is_empty();
            match bridge.start {
                BridgeStart::Scheduled if !has_schedule => {
                    wrong(
                        ErrorCode::Missing,
                        format!("bridge {name} needs `schedule`, because start is \"scheduled\""),
                    );
                }
                BridgeStart::Automatic | BridgeStart::Lazy if has_schedule => {
                    wrong(ErrorCode::OutOfRange, format!("bridge {name} has a schedule, so set start = \"scheduled\""));
                }
                _ => {}
            }
            if bridge.tls.certificate.get().is_some() != bridge.tls.key.get().is_some() {
                wrong(
                    ErrorCode::Missing,
                    format!("bridge {name} needs both tls.certificate and tls.key, or none of them"),
                );
            }
            let is_returned = bridge.protocol.0 != ProtocolVersion::V5 && !bridge.bridge_bit;
            if let Some(rule) = bridge.rules.get().iter().find(|rule| is_returned && rule.direction == Direction::Both)
            {
                wrong(
                    ErrorCode::OutOfRange,
                    format!(
                        "bridge {name}: with MQTT 3.1.1 and without the bridge bit, the other broker returns each message of the rule \
                         \"{}\" with direction \"both\"; write two rules, \"in\" and \"out\", with different topics",
                        rule.filter
                    ),
                );
            }
            if bridge.password_file.get().is_some()
                && bridge.user_name.is_none()
                && bridge.protocol.0 != ProtocolVersion::V5
            {
                wrong(
                    ErrorCode::Missing,
                    format!("bridge {name} needs `user_name`: MQTT 3.1.1 has no password without it"),
                );
            }
        }
    }
}
