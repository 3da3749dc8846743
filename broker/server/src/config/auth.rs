//! What the keys of authentication take.

use std::ops::RangeInclusive;

use tautwire_identity::{Algorithm, FailureKey, FailureRule, PasswordCost, Unreachable};
use toml::de::DeValue;

use super::listener::Listener;
use super::settings::AuthConfig;
use super::value::{Choice, Problem, Setting, quoted, text, texts};

/// Whether clients that do not say who they are are let in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AnonymousClients {
    /// By listeners for this machine alone, and only where nothing else says who clients are.
    #[default]
    Auto,
    Allowed,
    Refused,
}

/// What a certificate that TLS has verified says of its holder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CertificateNames {
    /// Its name (CN) is the user.
    #[default]
    User,
    /// Its name is the user and the Client Identifier.
    UserAndClientId,
    /// Nothing: the holder has to say who it is in another way.
    Nobody,
}

impl Setting for AnonymousClients {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        "true, false or \"auto\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, Problem> {
        match value {
            DeValue::Boolean(true) => Ok(AnonymousClients::Allowed),
            DeValue::Boolean(false) => Ok(AnonymousClients::Refused),
            DeValue::String(text) if text == "auto" => Ok(AnonymousClients::Auto),
            _ => Err(Problem::Type(format!("expected {}", Self::takes(None)))),
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

/// What a new hash of a password costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PasswordCostText(pub(crate) PasswordCost);

impl Setting for PasswordCostText {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        "\"low\", \"default\", \"high\" or \"m=KIB,t=ITERATIONS,p=LANES\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, Problem> {
        let text = text::<Self>(value)?;
        let cost = PasswordCost::parse(text);
        cost.map(Self).map_err(|why| Problem::Range(format!("\"{}\": {why}", text.escape_debug())))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0.to_string())
    }
}

/// Several texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Texts(pub(crate) Vec<String>);

/// How tokens may be signed; empty for the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Algorithms(pub(crate) Vec<Algorithm>);

/// Who is banned for failing too often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailureRules(pub(crate) Vec<FailureRule>);

impl Setting for Text {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        "text, \"\" for none".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, Problem> {
        text::<Self>(value).map(|text| Text(text.to_owned()))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0)
    }
}

impl Setting for Texts {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        "text or list of texts".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, Problem> {
        let all = texts::<Self>(value)?.into_iter().filter(|text| !text.is_empty());
        Ok(Texts(all.map(str::to_owned).collect()))
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.0.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
    }
}

impl Setting for Algorithms {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        format!("list of {}", Algorithm::ALL.map(|algorithm| quoted(algorithm.name())).join(", "))
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, Problem> {
        let named = |name: &str| {
            let wrong =
                || Problem::Range(format!("\"{}\" is not one; write a {}", name.escape_debug(), Self::takes(range)));
            Algorithm::named(name).ok_or_else(wrong)
        };
        texts::<Self>(value)?.into_iter().filter(|name| !name.is_empty()).map(named).collect::<Result<_, _>>().map(Self)
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.0.iter().map(|algorithm| quoted(algorithm.name())).collect::<Vec<_>>().join(", "))
    }
}

/// What failures are counted by, as it is written.
const COUNTED_BY: [(&str, FailureKey); 3] =
    [("address", FailureKey::Address), ("client_id", FailureKey::ClientId), ("user", FailureKey::User)];

impl Setting for FailureRules {
    fn takes(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"COUNT failures by address, user or client_id in SECONDS ban SECONDS\", such as \"10 by address in 60 ban 600\""
            .to_owned()
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, Problem> {
        let rule = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "failures").collect();
            let [count, "by", by, "in", within, "ban", ban] = words[..] else { return None };
            let (_, by) = COUNTED_BY.into_iter().find(|(name, _)| *name == by)?;
            let (count, within_s, ban_s) = (count.parse().ok()?, within.parse().ok()?, ban.parse().ok()?);
            let is_allowed = (1..=tautwire_identity::limits::FAILURES_COUNTED_MAX).contains(&count) && within_s > 0;
            is_allowed.then_some(FailureRule { by, count, within_s, ban_s })
        };
        let wrong = |text: &str| {
            Problem::Range(format!("\"{}\" is no rule; write a {}", text.escape_debug(), Self::takes(range)))
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

impl Choice for Unreachable {
    const CHOICES: &'static [(&'static str, Unreachable)] =
        &[("refuse", Unreachable::Refuse), ("ask_next", Unreachable::TryNext)];
}

impl Choice for CertificateNames {
    const CHOICES: &'static [(&'static str, CertificateNames)] = &[
        ("user", CertificateNames::User),
        ("user_and_client_id", CertificateNames::UserAndClientId),
        ("nobody", CertificateNames::Nobody),
    ];
}

impl Listener {
    /// Whether TLS asks clients for certificates, whatever these say.
    pub(crate) fn wants_certificates(&self) -> bool {
        self.address.by_tls && self.tls.client_certificates != tautwire_tls::ClientCertificates::None
    }

    /// Whether a certificate of a client says who it is.
    pub(crate) fn knows_certificates(&self) -> bool {
        self.wants_certificates() && self.auth.names_holders()
    }

    /// Whether a certificate may come, from the client or from a proxy that has verified one.
    pub(crate) fn takes_certificates(&self) -> bool {
        self.knows_certificates() || (self.proxies.is_some() && self.auth.names_holders())
    }

    /// Whether anything but [`AnonymousClients`] lets clients in.
    pub(crate) fn knows_clients(&self) -> bool {
        self.knows_certificates() || self.knows_names()
    }

    /// Whether there is any way in. Proxies may name the holders of certificates, and nobody else is to come where `auth.anonymous` says so.
    pub(crate) fn lets_in_anybody(&self) -> bool {
        let is_for_holders = self.takes_certificates() && self.auth.anonymous == AnonymousClients::Refused;
        self.knows_clients() || self.lets_in_anonymous() || is_for_holders
    }

    /// Whether clients can only show who they are by a user of the password file.
    pub(crate) fn takes_passwords_only(&self) -> bool {
        let has_others = self.shares_users || self.auth.takes_tokens() || !self.auth.hook_url.0.is_empty();
        !has_others && !self.takes_certificates() && !self.lets_in_anonymous()
    }

    /// Whether nobody comes by it but from this machine. Who comes by a proxy may be anybody.
    pub(crate) fn is_for_this_machine(&self) -> bool {
        self.address.is_local() && self.proxies.is_none()
    }

    /// Whether it accepts clients with the password of a user.
    pub(crate) fn takes_passwords(&self) -> bool {
        self.shares_users || self.auth.password_file.get().is_some()
    }

    /// Whether clients can show who they are by CONNECT.
    fn knows_names(&self) -> bool {
        self.takes_passwords() || self.auth.takes_tokens() || !self.auth.hook_url.0.is_empty()
    }

    /// Whether a client that has come without saying who it is may stay. Rules for certificates are for new handshakes.
    pub(crate) fn keeps_anonymous(&self) -> bool {
        match self.auth.anonymous {
            AnonymousClients::Auto => self.is_for_this_machine() && !self.knows_names(),
            AnonymousClients::Allowed => true,
            AnonymousClients::Refused => false,
        }
    }

    /// Whether clients that do not say who they are are let in.
    pub(crate) fn lets_in_anonymous(&self) -> bool {
        match self.auth.anonymous {
            // Where certificates are optional, those who have none may come.
            AnonymousClients::Auto => {
                let needs_none = self.tls.client_certificates != tautwire_tls::ClientCertificates::Required;
                self.is_for_this_machine() && !self.knows_names() && (needs_none || !self.knows_certificates())
            }
            AnonymousClients::Allowed => true,
            AnonymousClients::Refused => false,
        }
    }
}

impl AuthConfig {
    /// Whether certificates say anything of their holders.
    fn names_holders(&self) -> bool {
        self.certificate != CertificateNames::Nobody || !self.certificate_rules.is_empty()
    }

    /// Whether there are keys by which tokens can be checked.
    pub(crate) fn takes_tokens(&self) -> bool {
        self.jwt_keys.get().is_some() || !self.jwt_url.0.is_empty() || self.jwt_secret_file.get().is_some()
    }
}
