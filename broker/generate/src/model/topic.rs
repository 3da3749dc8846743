//! Topics with parameters.

use tautwire_contracts::TopicPattern;

use crate::names;

/// The topics of a contract.
pub(crate) struct Topic {
    /// The topic pattern as written.
    pub(crate) text: String,
    /// The filter to subscribe to.
    pub(crate) filter: String,
    pub(crate) levels: Vec<Level>,
}

pub(crate) enum Level {
    Fixed(String),
    One(Parameter),
    /// All remaining levels.
    Rest(Parameter),
}

pub(crate) struct Parameter {
    /// The name as written; an unnamed level is named after its position.
    pub(crate) name: String,
}

impl Topic {
    pub(super) fn new(pattern: &TopicPattern) -> Topic {
        let levels = pattern.as_str().split('/').enumerate().map(|(at, level)| match level {
            "+" => Level::One(Parameter { name: format!("level{}", at + 1) }),
            "#" => Level::Rest(Parameter { name: "rest".to_owned() }),
            named if named.starts_with('{') => {
                Level::One(Parameter { name: named.trim_matches(['{', '}']).to_owned() })
            }
            fixed => Level::Fixed(fixed.to_owned()),
        });
        let mut levels: Vec<Level> = levels.collect();
        let mut scope = names::Scope::default();
        for level in &mut levels {
            if let Level::One(parameter) | Level::Rest(parameter) = level {
                // Unique in all spellings.
                let mut name = parameter.name.clone();
                while scope.take(names::snake(&name)) != names::snake(&name) {
                    name.push_str("_x");
                }
                parameter.name = name;
            }
        }
        Topic { text: pattern.as_str().to_owned(), filter: pattern.filter().to_owned(), levels }
    }

    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.levels.iter().filter_map(|level| match level {
            Level::One(parameter) | Level::Rest(parameter) => Some(parameter),
            Level::Fixed(_) => None,
        })
    }

    /// Whether the last parameter has all remaining levels.
    pub(crate) fn has_rest(&self) -> bool {
        matches!(self.levels.last(), Some(Level::Rest(_)))
    }
}
