use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::threshold::{Threshold, read_thresholds};
use crate::broker::BrokerKind;
use crate::failure::{ErrorContext, Failure, Result};
use crate::mqtt::ProtocolVersion;
use crate::scenario::Scenario;
use crate::system::Placement;

/// A scenario as defined in `bench/scenarios`: its parameters, the brokers, and the thresholds.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub name: String,
    /// Incremented when a definition changes so that older results are not comparable.
    pub definition_version: u32,
    pub title: String,
    pub version: ProtocolVersion,
    pub brokers: Vec<BrokerKind>,
    pub placements: Vec<Placement>,
    /// Whether it runs when no scenario is named.
    pub in_suite: bool,
    pub run: Scenario,
    pub curve: Option<Curve>,
    /// The parameters of a quick run, which takes at most a minute.
    pub quick: Shape,
    pub published: Vec<Published>,
    pub thresholds: Vec<Threshold>,
}

/// A scenario that runs once for each value of one of its parameters, to show how the cost grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Curve {
    pub parameter: String,
    /// 0 means the maximum of the machine, if the scenario knows it.
    pub steps: Vec<i64>,
    /// By broker: the last step that takes reasonable time. Later ones are left out, and the result says so.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub up_to: BTreeMap<String, i64>,
}

impl Curve {
    /// Whether `broker` skips this step.
    pub(super) fn is_beyond(&self, broker: &str, step: &str) -> bool {
        self.up_to.get(broker).is_some_and(|last| step.parse().map_or(true, |step: i64| step > *last))
    }
}

/// The scenario to run, or one for each step of a curve.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub parameters: Scenario,
    pub curve: Option<Curve>,
    /// By step; without a name if there is no curve.
    pub scenarios: Vec<(Option<String>, Scenario)>,
}

/// A figure that others have published under the name of this scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    pub by: String,
    pub machine: String,
    pub figures: String,
    /// What their source code measures.
    pub what_it_measures: String,
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
    #[serde(default = "yes")]
    in_suite: bool,
    run: toml::Table,
    curve: Option<Curve>,
    /// Parameters that replace those of `run` in a quick run.
    #[serde(default)]
    quick: toml::Table,
    /// Steps of a quick run.
    quick_steps: Option<Vec<i64>>,
    #[serde(default)]
    published: Vec<Published>,
}

/// Returns all definitions of `FOLDER/scenarios` with the thresholds of `FOLDER/thresholds`, by file name and position.
pub(crate) fn load_definitions(folder: &Path) -> Result<Vec<Definition>> {
    let scenarios = folder.join("scenarios");
    let mut paths = Vec::new();
    for entry in fs::read_dir(&scenarios).during(|| format!("reading {}", scenarios.display()))? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort_by_key(|path| numbered(&path.file_stem().unwrap_or_default().to_string_lossy()));
    let mut definitions = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        let mut of_file = parse(&text).during(|| path.display().to_string())?;
        let beside = folder.join("thresholds").join(path.file_name().unwrap_or_default());
        add_thresholds(&beside, &mut of_file).during(|| beside.display().to_string())?;
        definitions.extend(of_file);
    }
    let mut names = BTreeSet::new();
    match definitions.iter().find(|definition| !names.insert(definition.name.as_str())) {
        Some(twice) => Err(Failure::new(format!("scenario {:?} is defined twice", twice.name))),
        None => Ok(definitions),
    }
}

/// Adds the thresholds from the file of the same name, if there is one, to each definition.
fn add_thresholds(path: &Path, definitions: &mut [Definition]) -> Result<()> {
    for threshold in read_thresholds(path)? {
        let definition = definitions
            .iter_mut()
            .find(|definition| definition.name == threshold.scenario)
            .ok_or_else(|| Failure::new(format!("there is no scenario {:?} in the file beside", threshold.scenario)))?;
        threshold.check(&definition.brokers)?;
        definition.thresholds.push(threshold);
    }
    Ok(())
}

pub(super) fn parse(text: &str) -> Result<Vec<Definition>> {
    let file: DefinitionFile = toml::from_str(text).map_err(|error| Failure::new(error.to_string()))?;
    file.scenario.into_iter().map(|written| written.check(file.definition_version)).collect()
}

impl Definition {
    pub(crate) fn shape(&self, quick: bool) -> Result<Shape> {
        if quick { Ok(self.quick.clone()) } else { Shape::of(&self.run_table()?, self.curve.clone()) }
    }

    fn run_table(&self) -> Result<toml::Table> {
        toml::Table::try_from(&self.run).during(|| format!("parameters of {}", self.name))
    }
}

impl Shape {
    pub(super) fn steps(&self) -> impl Iterator<Item = &String> {
        self.scenarios.iter().filter_map(|(step, _)| step.as_ref())
    }

    /// Whether the definition skips this step for this broker.
    pub(super) fn is_skipped(&self, kind: BrokerKind, step: &str) -> bool {
        self.curve.as_ref().is_some_and(|curve| curve.is_beyond(&kind.to_string(), step))
    }

    fn of(run: &toml::Table, curve: Option<Curve>) -> Result<Self> {
        let parameters = scenario_of(run.clone())?;
        let scenarios = match &curve {
            None => vec![(None, parameters.clone())],
            Some(curve) => curve
                .steps
                .iter()
                .map(|&step| {
                    let mut run = run.clone();
                    run.insert(curve.parameter.clone(), step.into());
                    let label = if step == 0 { "most".to_owned() } else { step.to_string() };
                    Ok((Some(label), scenario_of(run)?))
                })
                .collect::<Result<_>>()?,
        };
        Ok(Self { parameters, curve, scenarios })
    }
}

fn scenario_of(run: toml::Table) -> Result<Scenario> {
    run.try_into().map_err(|error: toml::de::Error| Failure::new(error.message()))
}

impl WrittenDefinition {
    fn check(self, definition_version: u32) -> Result<Definition> {
        let named = |what: String| Failure::new(format!("scenario {:?}: {what}", self.name));
        if self.placements.is_empty() || self.brokers.is_empty() {
            return Err(named("it needs brokers and placements".to_owned()));
        }
        if self.quick_steps.is_some() && self.curve.is_none() {
            return Err(named("quick_steps without a curve".to_owned()));
        }
        let full = Shape::of(&self.run, self.curve.clone()).map_err(|error| named(error.to_string()))?;
        let mut quick = self.run.clone();
        quick.extend(self.quick.clone());
        let quick_curve = self
            .curve
            .clone()
            .map(|curve| Curve { steps: self.quick_steps.clone().unwrap_or_else(|| curve.steps.clone()), ..curve });
        let quick = Shape::of(&quick, quick_curve).map_err(|error| named(format!("quick: {error}")))?;
        Ok(Definition {
            definition_version,
            version: if self.v5 { ProtocolVersion::V5 } else { ProtocolVersion::V3_1_1 },
            brokers: self.brokers.iter().map(|name| name.parse()).collect::<Result<_>>()?,
            placements: self.placements.iter().map(|text| text.parse()).collect::<Result<_>>()?,
            name: self.name,
            title: self.title,
            in_suite: self.in_suite,
            run: full.parameters,
            curve: self.curve,
            quick,
            published: self.published,
            thresholds: Vec::new(),
        })
    }
}

/// Sorts `b10-…` after `b9-…`, `d1-…` after all of them, and names without a number last.
fn numbered(name: &str) -> (char, u32, String) {
    let mut characters = name.chars();
    let letter = characters.next().unwrap_or(char::MAX);
    let number = characters.as_str().split('-').next().and_then(|digits| digits.parse().ok());
    number.map_or((char::MAX, 0, name.to_owned()), |number| (letter, number, name.to_owned()))
}

fn yes() -> bool {
    true
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
        quick = { duration_ms = 7 }
        curve = { parameter = "payload_bytes", steps = [16, 64, 1024], up_to = { nats = 64 } }
        quick_steps = [16]
    "#;

    #[test]
    fn a_definition_is_read_with_its_defaults() {
        let definitions = parse(FLOOD).expect("valid");
        let [definition] = definitions.as_slice() else { panic!("one definition") };
        assert_eq!((definition.definition_version, definition.placements.len()), (3, 2));
        let Scenario::Flood(flood) = &definition.run else { panic!("a flood") };
        assert_eq!((u8::from(flood.qos), flood.window, flood.batch), (1, 50, 64));
        assert!(definition.in_suite);
    }

    #[test]
    fn a_curve_has_a_scenario_for_each_step_and_a_quick_run_has_fewer() {
        let definition = parse(FLOOD).expect("valid").remove(0);
        let full = definition.shape(false).expect("valid");
        let curve = full.curve.as_ref().expect("a curve");
        assert!(curve.is_beyond("nats", "1024") && curve.is_beyond("nats", "most") && !curve.is_beyond("nats", "64"));
        assert!(!curve.is_beyond("mosquitto", "most"));
        let labels: Vec<_> = full.scenarios.iter().map(|(label, _)| label.as_deref()).collect();
        assert_eq!(labels, [Some("16"), Some("64"), Some("1024")]);
        let Scenario::Flood(last) = &full.scenarios[2].1 else { panic!("a flood") };
        assert_eq!((last.payload_bytes, last.duration_ms, last.window), (1024, 2000, 50));
        let quick = definition.shape(true).expect("valid");
        let [(_, Scenario::Flood(only))] = quick.scenarios.as_slice() else { panic!("one flood") };
        assert_eq!((only.payload_bytes, only.duration_ms, only.window), (16, 7, 50));
    }

    #[test]
    fn invalid_definitions_are_refused() {
        for (from, to) in [
            ("window = 50", "windows = 50"),
            ("qos = 1", "qos = 3"),
            ("duration_ms = 7", "duration_s = 7"),
            ("\"payload_bytes\"", "\"payload_size\""),
            ("[\"tautwire\", \"mosquitto\"]", "[\"tautwire\", \"mosquito\"]"),
            ("\"free\"]", "\"loose\"]"),
        ] {
            assert!(FLOOD.contains(from));
            assert!(parse(&FLOOD.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn the_tenth_benchmark_comes_after_the_ninth() {
        let mut names = vec!["b10-x", "rtt-x", "d1-x", "b9-x", "b1-x"];
        names.sort_by_key(|name| numbered(name));
        assert_eq!(names, ["b1-x", "b9-x", "b10-x", "d1-x", "rtt-x"]);
    }

    #[test]
    fn committed_definitions_are_valid_and_no_name_is_a_prefix_of_another() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let definitions = load_definitions(&folder).expect("valid");
        assert!(definitions.len() >= 30);
        for benchmark in ["b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9", "b10", "d1", "d2", "d3", "d4", "rtt"] {
            let mut of_benchmark = definitions.iter().filter(|d| d.name.starts_with(&format!("{benchmark}-")));
            assert!(of_benchmark.next().is_some(), "{benchmark}");
        }
        assert!(definitions.iter().any(|definition| !definition.thresholds.is_empty()));
    }
}
