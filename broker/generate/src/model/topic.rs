//! Topics with parameters.

use tautwire_contracts::TopicPattern;

use crate::names;

/// The topics of a contract.
pub(crate) struct Topic {
    /// As it was written.
    pub(crate) text: String,
    /// What is subscribed to.
    pub(crate) filter: String,
    pub(crate) levels: Vec<Level>,
}

pub(crate) enum Level {
    Fixed(String),
    One(Parameter),
    /// All levels that are left.
    Rest(Parameter),
}

pub(crate) struct Parameter {
    /// As it was written; a level without a name is called after its place.
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
                // Unique however they are written.
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

    /// Whether the last parameter is all levels that are left.
    pub(crate) fn has_rest(&self) -> bool {
        matches!(self.levels.last(), Some(Level::Rest(_)))
    }
}
