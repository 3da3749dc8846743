//! One rule with one filter.

use std::fmt;

use tautwire_protocol::QoS;

use crate::request::ActionSet;

/// A rule with one of its filters. Its index among all of them is its rank: the first that matches decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Index of its role.
    pub(crate) role: u32,
    /// The line where it begins in the file, from 1.
    pub(crate) line: u32,
    pub(crate) allows: bool,
    /// The publish actions that it applies to.
    pub(crate) publish: ActionSet,
    /// The subscribe actions that it applies to.
    pub(crate) subscribe: ActionSet,
    /// As it was written.
    pub(crate) filter: Box<str>,
}

/// The rank of no rule: after all rules.
pub(crate) const NO_RULE: u32 = u32::MAX;

impl Rule {
    /// Whether both have the same meaning, regardless of position.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        let said = |rule: &Self| (rule.allows, rule.publish, rule.subscribe);
        said(self) == said(other) && self.filter == other.filter
    }
}

/// The rule in the syntax of the file.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = if self.allows { "allow" } else { "deny" };
        let actions = match (self.publish.is_empty(), self.subscribe.is_empty()) {
            (false, true) => "\"publish\"",
            (true, _) => "\"subscribe\"",
            (false, false) => "[\"publish\", \"subscribe\"]",
        };
        write!(f, "{{ {effect} = {actions}, topics = {}", TomlString(&self.filter))?;
        let actions = if self.publish.is_empty() { self.subscribe } else { self.publish };
        let qos = actions.qos();
        if qos.len() < 3 {
            let qos: Vec<String> = qos.iter().map(|&qos| (qos as u8).to_string()).collect();
            write!(f, ", qos = [{}]", qos.join(", "))?;
        }
        for (name, actions) in [("retain", self.publish), ("shared", self.subscribe)] {
            if let (false, Some(flag)) = (actions.is_empty(), actions.flag()) {
                write!(f, ", {name} = {flag}")?;
            }
        }
        f.write_str(" }")
    }
}

/// The QoS levels of a rule without `qos`.
pub(crate) const EVERY_QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

/// Formats a string as a basic string of TOML.
pub(crate) struct TomlString<'t>(pub(crate) &'t str);

impl fmt::Display for TomlString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                char if char.is_control() => write!(f, "\\U{:08X}", u32::from(char))?,
                char => write!(f, "{char}")?,
            }
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_displayed_in_file_syntax() {
        let rule = |allows, publish, subscribe, filter: &str| {
            Rule { role: 0, line: 1, allows, publish, subscribe, filter: filter.into() }.to_string()
        };
        let (none, every) = (ActionSet::default(), ActionSet::new(&EVERY_QOS, None));
        assert_eq!(rule(true, every, none, "a/#"), r##"{ allow = "publish", topics = "a/#" }"##);
        assert_eq!(
            rule(false, every, ActionSet::new(&EVERY_QOS, Some(true)), "\"\\\u{7}"),
            r#"{ deny = ["publish", "subscribe"], topics = "\"\\\U00000007", shared = true }"#
        );
        assert_eq!(
            rule(true, ActionSet::new(&EVERY_QOS[..2], Some(false)), none, "a"),
            r#"{ allow = "publish", topics = "a", qos = [0, 1], retain = false }"#
        );
        assert_eq!(
            rule(true, none, ActionSet::new(&EVERY_QOS[..1], None), "a"),
            r#"{ allow = "subscribe", topics = "a", qos = [0] }"#
        );
    }
}
