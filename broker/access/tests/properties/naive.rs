//! The semantics of rules, as simply as possible.

use tautwire_access::Subject;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RuleModel {
    pub(crate) allows: bool,
    pub(crate) publishes: bool,
    pub(crate) subscribes: bool,
    pub(crate) filter: String,
    pub(crate) qos: Vec<u8>,
    pub(crate) retain: Option<bool>,
    pub(crate) shared: Option<bool>,
}

/// The rules of each role.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) roles: Vec<Vec<RuleModel>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Asker {
    pub(crate) client_id: String,
    pub(crate) user: Option<String>,
    pub(crate) claim: Option<String>,
    /// The roles that it has.
    pub(crate) roles: Vec<bool>,
}

impl Model {
    /// Each rule on a line of its own.
    pub(crate) fn to_toml(&self) -> String {
        let mut toml = String::new();
        for (number, rules) in self.roles.iter().enumerate() {
            toml += &format!("[[role]]\nname = \"{number}\"\nrules = [\n");
            for rule in rules {
                toml += &format!("{},\n", rule.to_toml());
            }
            toml += "]\n";
        }
        toml
    }

    pub(crate) fn line_of(&self, (rule, _): (usize, &RuleModel)) -> u32 {
        let mut before = 0;
        for (role, rules) in self.roles.iter().enumerate() {
            if rule < before + rules.len() {
                return (rule + 4 * role + 4) as u32;
            }
            before += rules.len();
        }
        0
    }

    pub(crate) fn first_for_publish(
        &self,
        asker: &Asker,
        topic: &str,
        qos: u8,
        retain: bool,
    ) -> Option<(usize, &RuleModel)> {
        self.first(asker, topic, |rule| {
            rule.publishes && rule.qos.contains(&qos) && rule.retain.is_none_or(|wanted| wanted == retain)
        })
    }

    pub(crate) fn first_for_receive(
        &self,
        asker: &Asker,
        topic: &str,
        qos: u8,
        shared: bool,
    ) -> Option<(usize, &RuleModel)> {
        self.first(asker, topic, |rule| {
            rule.subscribes && rule.qos.contains(&qos) && rule.shared.is_none_or(|wanted| wanted == shared)
        })
    }

    fn first(
        &self,
        asker: &Asker,
        topic: &str,
        matches_request: impl Fn(&RuleModel) -> bool,
    ) -> Option<(usize, &RuleModel)> {
        let all = self.roles.iter().enumerate().flat_map(|(role, rules)| rules.iter().map(move |rule| (role, rule)));
        all.enumerate()
            .filter(|(_, (role, rule))| asker.has_role(*role) && matches_request(rule) && rule.matches(asker, topic))
            .map(|(number, (_, rule))| (number, rule))
            .next()
    }
}

impl RuleModel {
    fn to_toml(&self) -> String {
        let effect = if self.allows { "allow" } else { "deny" };
        let mut actions = Vec::new();
        actions.extend(self.publishes.then_some("publish"));
        actions.extend(self.subscribes.then_some("subscribe"));
        let mut toml = format!("{{ {effect} = {actions:?}, topics = \"{}\", qos = {:?}", self.filter, self.qos);
        for (name, flag) in [("retain", self.retain), ("shared", self.shared)] {
            if let Some(flag) = flag {
                toml += &format!(", {name} = {flag}");
            }
        }
        toml + " }"
    }

    fn matches(&self, asker: &Asker, topic: &str) -> bool {
        let filter: Vec<&str> = self.filter.split('/').collect();
        let topic: Vec<&str> = topic.split('/').collect();
        for (place, &level) in filter.iter().enumerate() {
            if level == "#" {
                return !(place == 0 && topic[0].starts_with('$'));
            }
            let Some(&found) = topic.get(place) else { return false };
            let is_dollar = place == 0 && found.starts_with('$');
            let value = match level {
                "{client_id}" => asker.usable(Some(&asker.client_id)),
                "{user}" => asker.usable(asker.user.as_deref()),
                "{claim.t}" => asker.usable(asker.claim.as_deref()),
                "+" if is_dollar => return false,
                "+" => continue,
                text if text == found => continue,
                _ => return false,
            };
            match value {
                Some(value) if value == found && !(self.allows && is_dollar) => {}
                None if !self.allows => {}
                _ => return false,
            }
        }
        filter.len() == topic.len()
    }
}

impl Asker {
    pub(crate) fn has_role(&self, role: usize) -> bool {
        self.roles.get(role) == Some(&true)
    }

    pub(crate) fn with_subject<T>(&self, ask: impl FnOnce(&Subject<'_>) -> T) -> T {
        let names = ["0", "1", "2"];
        let roles: Vec<&str> =
            names.into_iter().enumerate().filter(|(role, _)| self.has_role(*role)).map(|(_, name)| name).collect();
        let claims: Vec<(&str, &str)> = self.claim.iter().map(|value| ("t", &**value)).collect();
        ask(&Subject {
            client_id: &self.client_id,
            user: self.user.as_deref(),
            listener: "tls",
            claims: &claims,
            roles: &roles,
        })
    }

    fn usable<'v>(&self, value: Option<&'v str>) -> Option<&'v str> {
        value.filter(|value| !value.is_empty() && !value.contains(['/', '+', '#']))
    }
}

/// Whether a filter matches a topic.
pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    tautwire_protocol::topic_matches(filter, topic)
}
