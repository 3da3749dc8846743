//! Types of the authentication keys.

use std::ops::RangeInclusive;

use tautwire_identity::{Algorithm, FailureKey, FailureRule, PasswordCost, Unreachable};
use toml::de::DeValue;

use super::listener::Listener;
use super::settings::AuthConfig;
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

impl Choice for Unreachable {
    const CHOICES: &'static [(&'static str, Unreachable)] =
        &[("deny", Unreachable::Refuse), ("ignore", Unreachable::TryNext)];
}

impl Choice for CertificateNames {
    const CHOICES: &'static [(&'static str, CertificateNames)] = &[
        ("user", CertificateNames::User),
        ("user_and_client_id", CertificateNames::UserAndClientId),
        ("none", CertificateNames::None),
    ];
}

impl Listener {
    /// Whether TLS requests client certificates, whether or not they identify clients.
    pub(crate) fn requests_certificates(&self) -> bool {
        self.address.is_tls && self.tls.client_certificates != tautwire_tls::ClientCertificates::None
    }

    /// Whether client certificates identify clients.
    pub(crate) fn identifies_by_certificate(&self) -> bool {
        self.requests_certificates() && self.auth.identifies_by_certificate_name()
    }

    /// Whether a certificate can identify a client, directly or through a proxy that has verified it.
    pub(crate) fn accepts_certificates(&self) -> bool {
        self.identifies_by_certificate() || (self.proxies.is_some() && self.auth.identifies_by_certificate_name())
    }

    /// Whether clients can authenticate by any method.
    pub(crate) fn authenticates_clients(&self) -> bool {
        self.identifies_by_certificate() || self.identifies_at_connect()
    }

    /// Whether any client can connect. Proxies may pass on certificates; with `auth.anonymous = false` those count as the only method.
    pub(crate) fn accepts_any_client(&self) -> bool {
        let is_certificate_only = self.accepts_certificates() && self.auth.anonymous == AnonymousClients::Refused;
        self.authenticates_clients() || self.allows_anonymous() || is_certificate_only
    }

    /// Whether clients can authenticate only as a user of the password file.
    pub(crate) fn accepts_only_passwords(&self) -> bool {
        let has_others = self.uses_shared_users || self.auth.accepts_tokens() || !self.auth.hook_url.0.is_empty();
        !has_others && !self.accepts_certificates() && !self.allows_anonymous()
    }

    /// Whether only this machine can connect to it. Clients behind a proxy may come from anywhere.
    pub(crate) fn is_local_only(&self) -> bool {
        self.address.is_local() && self.proxies.is_none()
    }

    /// Whether it accepts passwords of users.
    pub(crate) fn accepts_passwords(&self) -> bool {
        self.uses_shared_users || self.auth.password_file.get().is_some()
    }

    /// Whether clients can authenticate by the credentials of CONNECT.
    fn identifies_at_connect(&self) -> bool {
        self.accepts_passwords() || self.auth.accepts_tokens() || !self.auth.hook_url.0.is_empty()
    }

    /// Whether a client that connected without credentials may stay connected. Rules for certificates apply to new handshakes only.
    pub(crate) fn allows_connected_anonymous(&self) -> bool {
        match self.auth.anonymous {
            AnonymousClients::Auto => self.is_local_only() && !self.identifies_at_connect(),
            AnonymousClients::Allowed => true,
            AnonymousClients::Refused => false,
        }
    }

    /// Whether clients without credentials are accepted.
    pub(crate) fn allows_anonymous(&self) -> bool {
        match self.auth.anonymous {
            // If certificates are optional, clients without one may connect.
            AnonymousClients::Auto => {
                let is_certificate_optional =
                    self.tls.client_certificates != tautwire_tls::ClientCertificates::Required;
                self.is_local_only()
                    && !self.identifies_at_connect()
                    && (is_certificate_optional || !self.identifies_by_certificate())
            }
            AnonymousClients::Allowed => true,
            AnonymousClients::Refused => false,
        }
    }
}

impl AuthConfig {
    /// Whether the names in certificates identify clients.
    fn identifies_by_certificate_name(&self) -> bool {
        self.certificate_identity != CertificateNames::None || !self.certificate_rules.is_empty()
    }

    /// Whether keys for tokens are configured.
    pub(crate) fn accepts_tokens(&self) -> bool {
        self.jwt_key_file.get().is_some() || !self.jwks_url.0.is_empty() || self.jwt_secret_file.get().is_some()
    }
}
