//! `[[role]]`: a name and rules.

use std::ops::Range;

use tautwire_protocol::QoS;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::{Reader, Text};
use crate::compiled::Compiled;
use crate::error::ErrorCode;
use crate::limits::{PLACEHOLDERS_MAX, RULES_MAX};
use crate::pattern::{Level, Pattern};
use crate::placeholder::{Placeholder, PlaceholderId};
use crate::request::ActionSet;
use crate::rule::{EVERY_QOS, Rule};
use crate::tree::{BuildBranch, RuleEnd, TreeBuilder};

const ROLE_KEYS: [&str; 2] = ["name", "rules"];
const RULE_KEYS: [&str; 6] = ["allow", "deny", "topics", "qos", "retain", "shared"];

/// A role in the file, not yet compiled.
pub(super) struct Draft<'v> {
    pub(super) name: Option<Text<'v>>,
    rules: &'v [Spanned<DeValue<'v>>],
}

/// A rule in the file, not yet compiled.
#[derive(Default)]
struct RuleDraft<'v> {
    effect: Option<bool>,
    publishes: bool,
    subscribes: bool,
    topics: Vec<Text<'v>>,
    qos: Option<Vec<QoS>>,
    retain: Option<(bool, Range<usize>)>,
    shared: Option<(bool, Range<usize>)>,
}

impl<'v> Draft<'v> {
    pub(super) fn read(reader: &mut Reader<'_>, table: &'v Spanned<DeValue<'v>>) -> Self {
        let mut draft = Self { name: None, rules: &[] };
        let DeValue::Table(fields) = table.get_ref() else {
            reader.fault(ErrorCode::Value, table.span(), "role: write [[role]] and its keys below");
            return draft;
        };
        for (key, value) in fields {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("name", DeValue::String(name)) if !name.is_empty() => draft.name = Some((name, value.span())),
                ("name", _) => reader.fault(ErrorCode::Value, value.span(), "name must be a non-empty string"),
                ("rules", DeValue::Array(rules)) => draft.rules = rules,
                ("rules", _) => {
                    let message = "rules must be a list, such as [{ allow = \"publish\", topics = \"a/#\" }]";
                    reader.fault(ErrorCode::Value, value.span(), message);
                }
                (other, _) => reader.unknown_key(key.span(), other, &ROLE_KEYS),
            }
        }
        for key in ROLE_KEYS {
            if !fields.contains_key(key) {
                reader.fault(ErrorCode::Missing, table.span(), format!("the role has no {key}: add it"));
            }
        }
        draft
    }

    pub(super) fn add_rules(
        &self,
        reader: &mut Reader<'_>,
        role: u32,
        compiled: &mut Compiled,
        builder: &mut TreeBuilder,
    ) {
        for rule in self.rules {
            let span = rule.span();
            let DeValue::Table(fields) = rule.get_ref() else {
                let message = "a rule must be a table, such as { allow = \"publish\", topics = \"a/#\" }";
                reader.fault(ErrorCode::Value, span, message);
                continue;
            };
            let Some(draft) = RuleDraft::read(reader, &span, fields) else { continue };
            for (filter, filter_span) in &draft.topics {
                if compiled.rules.len() == RULES_MAX {
                    let message = format!("there are more than {RULES_MAX} rules, counting each filter: merge some");
                    reader.fault(ErrorCode::Limit, filter_span.clone(), message);
                    return;
                }
                match Pattern::parse(filter) {
                    Ok(pattern) => {
                        let rule = draft.rule(role, reader.line(filter_span), filter);
                        add(reader, filter_span, &pattern, rule, compiled, builder);
                    }
                    Err(message) => {
                        let message = format!("{}: {message}", filter.escape_debug());
                        reader.fault(ErrorCode::Filter, filter_span.clone(), message);
                    }
                }
            }
        }
    }
}

impl<'v> RuleDraft<'v> {
    /// `None` if there is an error.
    fn read(reader: &mut Reader<'_>, span: &Range<usize>, fields: &'v DeTable<'v>) -> Option<Self> {
        let mut draft = Self::default();
        let mut is_valid = true;
        for (key, value) in fields {
            let name = key.get_ref().as_ref();
            is_valid &= match name {
                "allow" | "deny" => draft.set_effect(reader, name, value),
                "topics" => {
                    draft.topics = reader.texts(name, value);
                    !draft.topics.is_empty()
                }
                "qos" => {
                    draft.qos = qos(reader, value);
                    draft.qos.is_some()
                }
                "retain" => {
                    draft.retain = reader.boolean(name, value).map(|flag| (flag, key.span()));
                    draft.retain.is_some()
                }
                "shared" => {
                    draft.shared = reader.boolean(name, value).map(|flag| (flag, key.span()));
                    draft.shared.is_some()
                }
                other => {
                    reader.unknown_key(key.span(), other, &RULE_KEYS);
                    false
                }
            };
        }
        if !fields.contains_key("allow") && !fields.contains_key("deny") {
            let message = "the rule has neither allow nor deny: add allow = \"publish\", for example";
            reader.fault(ErrorCode::Missing, span.clone(), message);
            is_valid = false;
        }
        if !fields.contains_key("topics") {
            let message = "the rule has no topics: add a topic filter, such as topics = \"a/#\"";
            reader.fault(ErrorCode::Missing, span.clone(), message);
            is_valid = false;
        }
        for (flag, name, matches_request, action) in [
            (&draft.retain, "retain", draft.publishes, "publish"),
            (&draft.shared, "shared", draft.subscribes, "subscribe"),
        ] {
            if let (Some((_, span)), false, true) = (flag, matches_request, is_valid) {
                let message =
                    format!("{name} applies only to {action} rules, and this rule is not for {action}: remove it");
                reader.fault(ErrorCode::Value, span.clone(), message);
                is_valid = false;
            }
        }
        is_valid.then_some(draft)
    }

    fn set_effect(&mut self, reader: &mut Reader<'_>, name: &str, value: &'v Spanned<DeValue<'v>>) -> bool {
        if self.effect.replace(name == "allow").is_some() {
            reader.fault(ErrorCode::Value, value.span(), "the rule has both allow and deny: split it into two rules");
            return false;
        }
        let actions = reader.texts(name, value);
        for (action, span) in &actions {
            match *action {
                "publish" => self.publishes = true,
                "subscribe" => self.subscribes = true,
                other => {
                    let message = format!(
                        "{name} must be \"publish\", \"subscribe\", or both in a list; found {}",
                        other.escape_debug()
                    );
                    reader.fault(ErrorCode::Value, span.clone(), message);
                    return false;
                }
            }
        }
        !actions.is_empty()
    }

    fn rule(&self, role: u32, line: u32, filter: &str) -> Rule {
        let qos = self.qos.as_deref().unwrap_or(&EVERY_QOS);
        let actions = |matches_request: bool, flag: &Option<(bool, Range<usize>)>| {
            if matches_request {
                ActionSet::new(qos, flag.as_ref().map(|(flag, _)| *flag))
            } else {
                ActionSet::default()
            }
        };
        Rule {
            role,
            line,
            allows: self.effect == Some(true),
            publish: actions(self.publishes, &self.retain),
            subscribe: actions(self.subscribes, &self.shared),
            filter: filter.into(),
        }
    }
}

fn add(
    reader: &mut Reader<'_>,
    span: &Range<usize>,
    pattern: &Pattern<'_>,
    rule: Rule,
    compiled: &mut Compiled,
    builder: &mut TreeBuilder,
) {
    let mut branches = Vec::with_capacity(pattern.levels.len());
    for level in &pattern.levels {
        branches.push(match level {
            Level::Text(text) => BuildBranch::Text(text),
            Level::Any => BuildBranch::Any,
            Level::Placeholder(placeholder) => {
                let Some(id) = id_of(&mut compiled.placeholders, placeholder) else {
                    let message =
                        format!("there are more than {PLACEHOLDERS_MAX} different placeholders: use fewer claims");
                    reader.fault(ErrorCode::Limit, span.clone(), message);
                    return;
                };
                if let Some(role) = compiled.roles.last_mut() {
                    role.placeholders.insert(id);
                }
                BuildBranch::Placeholder(id)
            }
        });
    }
    let number = compiled.rules.len() as u32;
    let roots = compiled.roots(rule.role);
    for (root, actions) in [(roots.publish, rule.publish), (roots.subscribe, rule.subscribe)] {
        if !actions.is_empty() {
            builder.add(root, &branches, pattern.and_below, RuleEnd { rule: number, actions, allows: rule.allows });
        }
    }
    compiled.rules.push(rule);
}

fn id_of(known: &mut Vec<Placeholder>, placeholder: &Placeholder) -> Option<PlaceholderId> {
    let number = known.iter().position(|other| other == placeholder).unwrap_or(known.len());
    if number == PLACEHOLDERS_MAX {
        return None;
    }
    if number == known.len() {
        known.push(placeholder.clone());
    }
    u8::try_from(number).ok().map(PlaceholderId::new)
}

fn qos(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>) -> Option<Vec<QoS>> {
    let one = |value: &DeValue<'_>| {
        let number = value.as_integer().filter(|number| number.radix() == 10)?;
        number.as_str().parse().ok().and_then(QoS::from_u8)
    };
    let found = match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| one(item.get_ref())).collect::<Option<Vec<_>>>(),
        value => one(value).map(|qos| vec![qos]),
    };
    let found = found.filter(|found| !found.is_empty());
    if found.is_none() {
        reader.fault(ErrorCode::Value, value.span(), "qos must be 0, 1 or 2, or a list of these");
    }
    found
}
