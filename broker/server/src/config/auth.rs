//! What the keys of authentication take.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::listener::Listener;
use super::value::{Choice, Problem, Setting};

/// Whether clients that do not say who they are are let in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AnonymousClients {
    /// By listeners of this machine alone, and only where nothing else says who clients are.
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

impl Choice for CertificateNames {
    const CHOICES: &'static [(&'static str, CertificateNames)] = &[
        ("user", CertificateNames::User),
        ("user_and_client_id", CertificateNames::UserAndClientId),
        ("nobody", CertificateNames::Nobody),
    ];
}

impl Listener {
    /// Whether a certificate of a client says who it is.
    pub(crate) fn knows_certificates(&self) -> bool {
        self.address.by_tls
            && self.tls.client_certificates != tautwire_tls::ClientCertificates::None
            && self.auth.certificate != CertificateNames::Nobody
    }

    /// Whether anything but [`AnonymousClients`] lets clients in.
    pub(crate) fn knows_clients(&self) -> bool {
        self.knows_certificates() || self.auth.password_file.get().is_some()
    }

    /// Whether clients that do not say who they are are let in.
    pub(crate) fn lets_in_anonymous(&self) -> bool {
        match self.auth.anonymous {
            AnonymousClients::Auto => !self.knows_clients() && self.address.is_local(),
            AnonymousClients::Allowed => true,
            AnonymousClients::Refused => false,
        }
    }
}
