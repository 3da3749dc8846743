//! Types of the keys for CONNECT: protocol versions and the prefix of assigned client identifiers.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tautwire_engine::ProtocolVersions;
use tautwire_protocol::ProtocolVersion;
use toml::de::DeValue;

use super::value::{Setting, ValueError, quoted, text, texts};

/// Names of the versions.
const VERSIONS: [(&str, ProtocolVersion); 3] =
    [("3.1", ProtocolVersion::V3_1), ("3.1.1", ProtocolVersion::V3_1_1), ("5.0", ProtocolVersion::V5)];

impl Setting for ProtocolVersions {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!("list of {}", VERSIONS.map(|(name, _)| quoted(name)).join(", "))
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let version = |text: &str| {
            let known = VERSIONS.iter().find(|(name, _)| *name == text);
            known.map(|(_, version)| *version).ok_or_else(|| {
                let text = text.escape_debug();
                ValueError::Range(format!("\"{text}\" is not an MQTT version; write a {}", Self::accepts(None)))
            })
        };
        let named = match value {
            // A version is written without quotes on the command line.
            DeValue::Float(fraction) => vec![fraction.as_str()],
            value => texts::<Self>(value)?,
        };
        let versions = named.into_iter().map(version).collect::<Result<Vec<_>, _>>()?;
        if versions.is_empty() {
            return Err(ValueError::Range("the list is empty, so no client could connect; remove the key".to_owned()));
        }
        Ok(versions.into_iter().collect())
    }

    fn to_toml(&self) -> String {
        let named = VERSIONS.iter().filter(|(_, version)| self.contains(*version));
        format!("[{}]", named.map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(", "))
    }
}

/// The prefix of client identifiers that the broker assigns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientIdPrefix(Arc<str>);

impl ClientIdPrefix {
    /// Longest prefix.
    const MAX_BYTES: usize = 64;

    pub(crate) fn get(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl Default for ClientIdPrefix {
    fn default() -> ClientIdPrefix {
        ClientIdPrefix("auto-".into())
    }
}

impl Setting for ClientIdPrefix {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!("text of at most {} bytes without control characters", ClientIdPrefix::MAX_BYTES)
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let prefix = text::<Self>(value)?;
        if prefix.len() <= ClientIdPrefix::MAX_BYTES && !prefix.contains(char::is_control) {
            return Ok(ClientIdPrefix(prefix.into()));
        }
        let shown = prefix.escape_debug();
        Err(ValueError::Range(format!(
            "\"{shown}\" is not a valid client identifier prefix; write {}",
            Self::accepts(range)
        )))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<S: Setting>(written: &str) -> Result<S, ValueError> {
        let text = format!("x = {written}");
        let value = toml::de::DeTable::parse(&text).expect("TOML");
        S::from_toml(value.get_ref().get("x").expect("there").get_ref(), None)
    }

    #[test]
    fn versions_round_trip() {
        let list = "[\"3.1.1\", \"5.0\"]";
        let versions: ProtocolVersions = read(list).expect("two versions");
        assert_eq!(versions.to_toml(), list);
        assert!(versions.contains(ProtocolVersion::V5) && !versions.contains(ProtocolVersion::V3_1));
        assert_eq!(ProtocolVersions::ALL.to_toml(), "[\"3.1\", \"3.1.1\", \"5.0\"]");
        for wrong in ["[]", "[\"5\"]", "\"4\"", "[\"\"]"] {
            assert!(matches!(read::<ProtocolVersions>(wrong), Err(ValueError::Range(_))), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_is_short_text() {
        assert_eq!(read::<ClientIdPrefix>("\"é-\"").expect("text").to_toml(), "\"é-\"");
        let long = format!("\"{}\"", "x".repeat(ClientIdPrefix::MAX_BYTES + 1));
        for wrong in [&long, "\"a\\u0000\"", "\"a\\n\""] {
            assert!(matches!(read::<ClientIdPrefix>(wrong), Err(ValueError::Range(_))), "{wrong}");
        }
    }
}
