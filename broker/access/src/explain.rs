//! Explanations of access decisions, for people.

use std::fmt;
use std::sync::Arc;

use tautwire_protocol::{QoS, TopicFilter};

use crate::compiled::Compiled;
use crate::decision::{AccessDecision, Denial};
use crate::permissions::Permissions;
use crate::policy::Policy;
use crate::request::{Action, Request, matched};
use crate::rule::{EVERY_QOS, Rule};
use crate::subject::Subject;
use crate::tree::{Coverage, FirstMatch, TreeSearch};

/// Why a request is allowed or denied. [`Display`](fmt::Display) gives the text for people; the fields are for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The decision.
    pub decision: AccessDecision,
    /// The Client Identifier.
    pub client_id: String,
    /// The request, such as `publish to a/b with QoS 1`.
    pub request: String,
    /// The rule that decides; `None` if there is none.
    pub rule: Option<RuleText>,
    /// For a subscription with wildcards, a topic that its filter matches, and that the rule decides. If the subscription is denied, this
    /// topic is denied.
    pub example: Option<String>,
    /// The reason, as a sentence.
    pub reason: String,
    /// The roles of the client, in the order of the file.
    pub roles: Vec<RoleReason>,
    /// Further hints: what would be allowed instead, placeholders without a value.
    pub notes: Vec<String>,
}

/// A rule and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The role of the rule.
    pub role: String,
    /// The rule in the syntax of the file, with only the filter that matches.
    pub text: String,
}

/// A role of a client, and why it has the role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleReason {
    /// The name of the role.
    pub role: String,
    /// Why the client has it.
    pub reason: String,
}

impl Policy {
    /// Explains the decision about a request. For people: it may take long, and allocates.
    #[must_use]
    pub fn explain(self: &Arc<Self>, subject: &Subject<'_>, request: &Request<'_>) -> Explanation {
        let permissions = self.resolve(subject);
        let mut explanation = Explanation {
            decision: permissions.verdict(request),
            client_id: subject.client_id.to_owned(),
            request: words(request),
            rule: None,
            example: None,
            reason: "there is no rule file, so everything is allowed".to_owned(),
            roles: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(rules) = permissions.rules.compiled() {
            explanation.roles = rules.role_reasons(&permissions, subject);
            explanation.decide(rules, &permissions, request);
            explanation.add_notes(rules, &permissions, subject, request);
        }
        explanation
    }
}

impl Permissions {
    fn verdict(&self, request: &Request<'_>) -> AccessDecision {
        match *request {
            Request::Publish { topic, qos, retain } => self.may_publish(topic, qos, retain),
            Request::Subscribe { filter, qos } => self.may_subscribe(filter, qos),
        }
    }
}

impl Explanation {
    /// Finds the rule that decides, and the reason.
    fn decide(&mut self, rules: &Compiled, permissions: &Permissions, request: &Request<'_>) {
        let first = match *request {
            Request::Publish { topic, qos, retain } => permissions.first_for_publish(rules, topic, qos, retain),
            Request::Subscribe { .. } if self.decision == AccessDecision::Denied(Denial::TooComplex) => {
                self.reason = format!(
                    "so many deny rules overlap with the filter that it takes more than {} steps to check whether every topic is \
                     allowed; subscribe to less, or simplify the rules",
                    crate::limits::SUBSCRIBE_STEPS_MAX
                );
                return;
            }
            Request::Subscribe { filter, qos } => self.decide_subscription(rules, permissions, filter, qos),
        };
        self.rule = rules.rule_text(first);
        let what = match &self.example {
            None => String::new(),
            Some(example) if self.decision.is_allowed() => {
                format!("every topic that the filter can match is allowed; for {example}, ")
            }
            Some(example) => format!("the filter also matches {example}, and for that "),
        };
        let why = match (&self.rule, self.roles.is_empty()) {
            (Some(_), _) => "this is the first rule of the client's roles that matches",
            (None, false) => "no rule of the client's roles matches; the default is to deny",
            (None, true) => "the client has no role; the default is to deny",
        };
        self.reason = format!("{what}{why}");
    }

    fn decide_subscription(
        &mut self,
        rules: &Compiled,
        permissions: &Permissions,
        filter: TopicFilter<'_>,
        qos: QoS,
    ) -> FirstMatch {
        let query = permissions.filter_query(rules, filter, qos);
        let topic = match query.resume(&mut TreeSearch::default(), &mut usize::MAX.clone()) {
            Some(Coverage::FirstDenied { topic, .. }) => Some(String::from_utf8_lossy(&topic).into_owned()),
            _ => None,
        };
        let topic = topic.unwrap_or_else(|| example_topic(filter));
        let first = permissions.first_for_receive(rules, &topic, Action::new(qos, filter.share().is_some()));
        self.example = filter.has_wildcard().then_some(topic);
        first
    }

    fn add_notes(&mut self, rules: &Compiled, permissions: &Permissions, subject: &Subject<'_>, request: &Request<'_>) {
        if !self.decision.is_allowed() {
            let instead: Vec<String> = other_actions(request)
                .iter()
                .filter(|other| permissions.verdict(other).is_allowed())
                .map(words)
                .collect();
            if !instead.is_empty() {
                self.notes.push(format!("allowed instead: {}", instead.join("; ")));
            }
        }
        let placeholders = permissions.roles.roles.iter().filter_map(|&role| rules.roles.get(role as usize));
        let used = placeholders
            .map(|role| role.placeholders)
            .fold(Default::default(), crate::placeholder::PlaceholderSet::union);
        for placeholder in used.iter().filter_map(|id| rules.placeholders.get(id.index())) {
            if placeholder.value(subject).is_none() {
                self.notes.push(format!(
                    "{placeholder} has no value for this client that is a valid topic level: allow rules match nothing \
                     there, deny rules match every level"
                ));
            }
        }
        for name in subject.roles.iter().filter(|name| !rules.role_numbers.contains_key(**name)) {
            self.notes
                .push(format!("authentication grants the role {}, which is not in the file", name.escape_debug()));
        }
    }
}

impl Compiled {
    fn rule_text(&self, first: FirstMatch) -> Option<RuleText> {
        self.text_of(self.rules.get(first.rule as usize)?)
    }

    /// The text and position of a rule.
    pub(crate) fn text_of(&self, rule: &Rule) -> Option<RuleText> {
        let role = self.roles.get(rule.role as usize)?;
        Some(RuleText { file: self.file.clone(), line: rule.line, role: role.name.to_string(), text: rule.to_string() })
    }

    fn role_reasons(&self, permissions: &Permissions, subject: &Subject<'_>) -> Vec<RoleReason> {
        let reason = |number: u32, name: &str| {
            if subject.user.is_some_and(|user| self.users.roles_of(user).contains(&number)) {
                return "[users]".to_owned();
            }
            let mut assignments = self.assignments.iter();
            let by = assignments.find(|assignment| assignment.roles.contains(&number) && assignment.is_for(subject));
            match by {
                Some(assignment) => format!("[[assign]] at line {}, {assignment}", assignment.line),
                None => {
                    debug_assert!(subject.roles.contains(&name));
                    "authentication".to_owned()
                }
            }
        };
        let numbers = permissions.roles.roles.iter();
        numbers
            .zip(permissions.role_names())
            .map(|(&number, name)| RoleReason { role: name.to_owned(), reason: reason(number, name) })
            .collect()
    }
}

/// An example of the topics that a filter matches.
fn example_topic(filter: TopicFilter<'_>) -> String {
    let levels: Vec<&str> =
        matched(filter).split('/').map(|level| if matches!(level, "+" | "#") { "any" } else { level }).collect();
    levels.join("/")
}

/// The same request with another QoS, or with retain inverted.
fn other_actions<'a>(request: &Request<'a>) -> Vec<Request<'a>> {
    let mut others = Vec::new();
    for qos in EVERY_QOS {
        match *request {
            Request::Publish { topic, .. } => {
                others.extend([false, true].map(|retain| Request::Publish { topic, qos, retain }));
            }
            Request::Subscribe { filter, .. } => others.push(Request::Subscribe { filter, qos }),
        }
    }
    others.retain(|other| other != request);
    others
}

fn words(request: &Request<'_>) -> String {
    match *request {
        Request::Publish { topic, qos, retain } => {
            let retained = if retain { ", retained" } else { "" };
            format!("publish to {} with QoS {}{retained}", topic.escape_debug(), qos.as_u8())
        }
        Request::Subscribe { filter, qos } => {
            format!("subscribe to {} with QoS {}", filter.as_str().escape_debug(), qos.as_u8())
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.decision.is_allowed() { "allowed" } else { "denied" };
        writeln!(f, "{verdict}: {}, {}", self.client_id.escape_debug(), self.request)?;
        match &self.rule {
            Some(rule) => writeln!(f, "rule:    {rule}")?,
            None => writeln!(f, "rule:    none")?,
        }
        writeln!(f, "why:     {}", self.reason)?;
        let roles: Vec<String> = self.roles.iter().map(|role| format!("{} ({})", role.role, role.reason)).collect();
        writeln!(f, "roles:   {}", if roles.is_empty() { "none".to_owned() } else { roles.join("; ") })?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note:    {note}"))
    }
}

impl fmt::Display for RuleText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}, role {}: {}", self.file, self.line, self.role, self.text)
    }
}
