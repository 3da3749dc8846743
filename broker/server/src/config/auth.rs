//! Types of the authentication keys.

use std::ops::RangeInclusive;

use tautwire_identity::{Algorithm, FailureKey, FailureRule, PasswordCost, UnreachablePolicy};
use toml::de::DeValue;

use super::value::{Choice, Setting, ValueError, quoted, text, texts};

/// Whether clients without credentials are accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AnonymousClients {
    /// Only on local listeners, and only if nothing else identifies clients.
    #[default]
    Auto,
    Allowed,
    Refused,
}

/// How a verified certificate identifies its holder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CertificateNames {
    /// Its common name is the user.
    #[default]
    User,
    /// Its common name is the user and the client identifier.
    UserAndClientId,
    /// Not at all: the client must authenticate in another way.
    None,
}

impl Setting for AnonymousClients {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "true, false or \"auto\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        match value {
            DeValue::Boolean(true) => Ok(AnonymousClients::Allowed),
            DeValue::Boolean(false) => Ok(AnonymousClients::Refused),
            DeValue::String(text) if text == "auto" => Ok(AnonymousClients::Auto),
            _ => Err(ValueError::Type(format!("expected {}", Self::accepts(None)))),
        }
    }

    fn to_toml(&self) -> String {
        match self {
            AnonymousClients::Auto => "\"auto\"",
            AnonymousClients::Allowed => "true",
            AnonymousClients::Refused => "false",
        }
        .to_owned()
    }
}

/// Text of any kind; empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

/// The cost of new password hashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PasswordCostText(pub(crate) PasswordCost);

impl Setting for PasswordCostText {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "\"low\", \"default\", \"high\" or \"m=KIB,t=ITERATIONS,p=LANES\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let text = text::<Self>(value)?;
        let cost = PasswordCost::parse(text);
        cost.map(Self).map_err(|why| ValueError::Range(format!("\"{}\": {why}", text.escape_debug())))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0.to_string())
    }
}

/// A list of strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Texts(pub(crate) Vec<String>);

/// Signature algorithms of tokens; empty for the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Algorithms(pub(crate) Vec<Algorithm>);

/// Bans for repeated failures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailureRules(pub(crate) Vec<FailureRule>);

impl Setting for Text {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "text, \"\" for none".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        text::<Self>(value).map(|text| Text(text.to_owned()))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0)
    }
}

impl Setting for Texts {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "text or list of texts".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let all = texts::<Self>(value)?.into_iter().filter(|text| !text.is_empty());
        Ok(Texts(all.map(str::to_owned).collect()))
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.0.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
    }
}

impl Setting for Algorithms {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!("list of {}", Algorithm::ALL.map(|algorithm| quoted(algorithm.name())).join(", "))
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let named = |name: &str| {
            let wrong = || {
                ValueError::Range(format!(
                    "\"{}\" is not a known algorithm; write a {}",
                    name.escape_debug(),
                    Self::accepts(range)
                ))
            };
            Algorithm::named(name).ok_or_else(wrong)
        };
        texts::<Self>(value)?.into_iter().filter(|name| !name.is_empty()).map(named).collect::<Result<_, _>>().map(Self)
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.0.iter().map(|algorithm| quoted(algorithm.name())).collect::<Vec<_>>().join(", "))
    }
}

/// The names of what failures are counted by.
const COUNTED_BY: [(&str, FailureKey); 3] =
    [("address", FailureKey::Address), ("client_id", FailureKey::ClientId), ("user", FailureKey::User)];

impl Setting for FailureRules {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"COUNT failures by address, user or client_id in SECONDS ban SECONDS\", such as \"10 by address in 60 ban 600\""
            .to_owned()
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let rule = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "failures").collect();
            let [count, "by", by, "in", within, "ban", ban] = words[..] else { return None };
            let (_, by) = COUNTED_BY.into_iter().find(|(name, _)| *name == by)?;
            let (count, within_s, ban_s) = (count.parse().ok()?, within.parse().ok()?, ban.parse().ok()?);
            let is_allowed = (1..=tautwire_identity::limits::FAILURES_COUNTED_MAX).contains(&count) && within_s > 0;
            is_allowed.then_some(FailureRule { by, count, within_s, ban_s })
        };
        let wrong = |text: &str| {
            ValueError::Range(format!(
                "\"{}\" is not a ban rule; write a {}",
                text.escape_debug(),
                Self::accepts(range)
            ))
        };
        let texts = texts::<Self>(value)?.into_iter().filter(|text| !text.is_empty());
        texts.map(|text| rule(text).ok_or_else(|| wrong(text))).collect::<Result<_, _>>().map(Self)
    }

    fn to_toml(&self) -> String {
        let rule = |rule: &FailureRule| {
            let by = COUNTED_BY.iter().find(|(_, by)| *by == rule.by).map_or("", |(name, _)| name);
            quoted(&format!("{} by {by} in {} ban {}", rule.count, rule.within_s, rule.ban_s))
        };
        format!("[{}]", self.0.iter().map(rule).collect::<Vec<_>>().join(", "))
    }
}

impl Choice for UnreachablePolicy {
    const CHOICES: &'static [(&'static str, UnreachablePolicy)] =
        &[("deny", UnreachablePolicy::Refuse), ("ignore", UnreachablePolicy::TryNext)];
}

impl Choice for CertificateNames {
    const CHOICES: &'static [(&'static str, CertificateNames)] = &[
        ("user", CertificateNames::User),
        ("user_and_client_id", CertificateNames::UserAndClientId),
        ("none", CertificateNames::None),
    ];
}
