use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::broker::BrokerKind;
use crate::failure::{Failure, Result, While};
use crate::mqtt::ProtocolVersion;
use crate::scenario::Scenario;
use crate::system::Placement;

/// One scenario as defined in `bench/scenarios`: its parameters, who is measured, and what must hold.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub name: String,
    /// Counts up when a definition changes so that older results no longer compare.
    pub definition_version: u32,
    pub title: String,
    pub version: ProtocolVersion,
    pub brokers: Vec<BrokerKind>,
    pub placements: Vec<Placement>,
    pub run: Scenario,
    pub thresholds: Vec<Threshold>,
}

/// What a median must hold, at the first placement of the definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Threshold {
    pub metric: String,
    /// Whose median.
    #[serde(default = "ours")]
    pub broker: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The bounds above are multiples of this broker's median of the same metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_that_of: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DefinitionFile {
    definition_version: u32,
    scenario: Vec<WrittenDefinition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDefinition {
    name: String,
    title: String,
    #[serde(default)]
    v5: bool,
    brokers: Vec<String>,
    placements: Vec<String>,
    run: Scenario,
    #[serde(default)]
    threshold: Vec<Threshold>,
}

/// All definitions of a folder, by file name and then as written.
pub(crate) fn load_definitions(folder: &Path) -> Result<Vec<Definition>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).during(|| format!("reading {}", folder.display()))? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut definitions = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        definitions.extend(parse(&text).during(|| path.display().to_string())?);
    }
    let mut names = BTreeSet::new();
    match definitions.iter().find(|definition| !names.insert(definition.name.as_str())) {
        Some(twice) => Err(Failure::new(format!("scenario {:?} is defined twice", twice.name))),
        None => Ok(definitions),
    }
}

fn parse(text: &str) -> Result<Vec<Definition>> {
    let file: DefinitionFile = toml::from_str(text).map_err(|error| Failure::new(error.to_string()))?;
    file.scenario.into_iter().map(|written| written.check(file.definition_version)).collect()
}

impl WrittenDefinition {
    fn check(self, definition_version: u32) -> Result<Definition> {
        let named = |what: &str| Failure::new(format!("scenario {:?}: {what}", self.name));
        if self.placements.is_empty() || self.brokers.is_empty() {
            return Err(named("it needs brokers and placements"));
        }
        for threshold in &self.threshold {
            if threshold.at_most.is_none() == threshold.at_least.is_none() {
                return Err(named("a threshold needs at_most or at_least, one of them"));
            }
            let brokers = threshold.times_that_of.iter().chain([&threshold.broker]);
            if let Some(absent) = brokers.into_iter().find(|broker| !self.brokers.contains(broker)) {
                return Err(named(&format!("a threshold names {absent:?}, which is not measured")));
            }
        }
        Ok(Definition {
            definition_version,
            version: if self.v5 { ProtocolVersion::V5 } else { ProtocolVersion::V3_1_1 },
            brokers: self.brokers.iter().map(|name| name.parse()).collect::<Result<_>>()?,
            placements: self.placements.iter().map(|text| text.parse()).collect::<Result<_>>()?,
            name: self.name,
            title: self.title,
            run: self.run,
            thresholds: self.threshold,
        })
    }
}

fn ours() -> String {
    "tautwire".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: &str = r#"
        definition_version = 3
        [[scenario]]
        name = "flood-x"
        title = "x"
        brokers = ["tautwire", "mosquitto"]
        placements = ["broker=0,generator=0", "free"]
        run = { kind = "flood", qos = 1, window = 50 }
        threshold = [{ metric = "deliveries_per_s", at_least = 1.5, times_that_of = "mosquitto" }]
    "#;

    #[test]
    fn a_definition_is_read_with_its_defaults() {
        let definitions = parse(FLOOD).expect("valid");
        let [definition] = definitions.as_slice() else { panic!("one definition") };
        assert_eq!((definition.definition_version, definition.placements.len()), (3, 2));
        let Scenario::Flood(flood) = &definition.run else { panic!("a flood") };
        assert_eq!((u8::from(flood.qos), flood.window, flood.batch), (1, 50, 64));
        assert_eq!(definition.thresholds[0].broker, "tautwire");
    }

    #[test]
    fn wrong_definitions_are_refused() {
        for (from, to) in [
            ("window = 50", "windows = 50"),
            ("qos = 1", "qos = 3"),
            ("at_least = 1.5", "at_least = 1.5, at_most = 2"),
            ("times_that_of = \"mosquitto\"", "times_that_of = \"nats\""),
            ("[\"tautwire\", \"mosquitto\"]", "[\"tautwire\", \"mosquito\"]"),
            ("\"free\"]", "\"loose\"]"),
        ] {
            assert!(FLOOD.contains(from));
            assert!(parse(&FLOOD.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn the_committed_definitions_are_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let definitions = load_definitions(&folder).expect("valid");
        assert!(definitions.len() >= 15);
    }
}
