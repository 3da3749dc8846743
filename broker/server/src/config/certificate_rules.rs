//! The list `auth.certificate_rules`, which maps certificates to users.

use std::ops::RangeInclusive;

use tautwire_identity::{CertificateRule, CertificateRules, Pattern, Template};
use toml::de::{DeTable, DeValue};

use super::value::{Setting, ValueError, quoted};

/// Maximum number of rules. Each client with a certificate is matched against them in order.
const RULES_MAX: usize = 256;
/// Keys of a rule that are not conditions.
const USER: &str = "user";
const CLIENT_ID: &str = "client_id";
const ROLES: &str = "roles";

/// Rules for certificates; empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CertificateRuleList(Vec<Rule>);

/// A rule and its TOML text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    written: String,
    means: CertificateRule,
}

impl CertificateRuleList {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn rules(&self) -> CertificateRules {
        CertificateRules { rules: self.0.iter().map(|rule| rule.means.clone()).collect() }
    }
}

impl Setting for CertificateRuleList {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of tables `{ FIELD = \"PATTERN\", …, user = \"TEMPLATE\", client_id = \"TEMPLATE\", roles = [\"ROLE\"] }`"
            .to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let wrong_type = || ValueError::Type(format!("expected a {}", Self::accepts(None)));
        let list = value.as_array().ok_or_else(wrong_type)?;
        if list.len() > RULES_MAX {
            return Err(ValueError::Range(format!("there are {} rules; the maximum is {RULES_MAX}", list.len())));
        }
        let mut rules = Vec::new();
        for (at, item) in list.iter().enumerate() {
            let table = item.get_ref().as_table().ok_or_else(wrong_type)?;
            let rule = rule(table).map_err(|why| ValueError::Range(format!("rule {}: {why}", at + 1)))?;
            rules.push(rule);
        }
        Ok(CertificateRuleList(rules))
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.0.iter().map(|rule| rule.written.as_str()).collect::<Vec<_>>().join(", "))
    }
}

fn rule(table: &DeTable<'_>) -> Result<Rule, String> {
    let mut means = CertificateRule::default();
    let mut written = Vec::new();
    // In file order: the star of a template refers to the first pattern with one.
    let mut keys: Vec<_> = table.iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in keys {
        let key: &str = key.get_ref();
        if key == ROLES {
            let roles = names(value.get_ref()).ok_or("roles must be a name or a list of names")?;
            written.push(format!("roles = [{}]", roles.iter().map(|role| quoted(role)).collect::<Vec<_>>().join(", ")));
            means.roles = roles.into_iter().map(Box::from).collect();
            continue;
        }
        let text = value.get_ref().as_str().ok_or_else(|| format!("{} must be a string", key.escape_debug()))?;
        let template = || Template::new(text).map_err(|error| format!("{key}: {error}"));
        match key {
            USER => means.user = Some(template()?),
            CLIENT_ID => means.client_id = Some(template()?),
            field => means.when.push(Pattern::new(field, text).map_err(|error| error.to_string())?),
        }
        written.push(format!("{key} = {}", quoted(text)));
    }
    if means.user.is_none() {
        return Err("the rule has no user; add one, such as user = \"{cn}\"".to_owned());
    }
    Ok(Rule { written: format!("{{ {} }}", written.join(", ")), means })
}

/// Reads a list of names; a single name needs no brackets.
fn names<'a>(value: &'a DeValue<'_>) -> Option<Vec<&'a str>> {
    match value.as_str() {
        Some(one) => Some(vec![one]),
        None => value.as_array()?.iter().map(|item| item.get_ref().as_str()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CertificateRuleList, ValueError> {
        let value = DeValue::parse(text).expect("it is TOML");
        CertificateRuleList::from_toml(value.get_ref(), None)
    }

    #[test]
    fn a_list_round_trips() {
        let text = "[{ issuer = \"Works CA\", uri = \"urn:dev:*\", user = \"{*}\", client_id = \"{cn}-{serial}\", roles = [\"device\"] }, \
                    { user = \"{san}\" }]";
        let list = read(text).expect("valid");
        assert_eq!((list.to_toml().as_str(), list.rules().rules.len()), (text, 2));
        let again = read(
            "[{ issuer = 'Works CA', uri = 'urn:dev:*', user = '{*}', client_id = '{cn}-{serial}', roles = 'device' }]",
        );
        assert_eq!(again.expect("valid").rules().rules[0], list.rules().rules[0]);
        assert!(read("[]").expect("an empty list").is_empty());
    }

    #[test]
    fn an_invalid_rule_is_reported_with_its_number() {
        for (text, expected) in [
            ("[{ user = \"{cn}\" }, { cn = \"a\" }]", "rule 2: the rule has no user"),
            ("[{ user = \"{name}\" }]", "rule 1: user: unknown certificate field name; known fields are cn, o,"),
            ("[{ user = \"{cn\" }]", "a brace is not closed"),
            ("[{ subject = \"a\", user = \"x\" }]", "rule 1: unknown certificate field subject"),
            ("[{ cn = \"a*b*\", user = \"x\" }]", "only one *"),
            ("[{ cn = 1, user = \"x\" }]", "rule 1: cn must be a string"),
            ("[{ user = \"x\", roles = 1 }]", "roles must be a name or a list of names"),
            ("[\"cn\"]", "expected a list of tables"),
            ("\"cn\"", "expected a list of tables"),
        ] {
            let (ValueError::Type(message) | ValueError::Range(message)) = read(text).expect_err(text);
            assert!(message.contains(expected), "{message}");
        }
        let many = vec!["{ user = \"x\" }"; RULES_MAX + 1].join(",");
        assert!(read(&format!("[{many}]")).is_err());
    }
}
