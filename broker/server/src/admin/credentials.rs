//! Credentials for the API: the token of `admin.token_file`, named tokens, and users of the password file with a role.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tautwire_identity::{Account, PasswordFile};

use super::roles::{Grant, Role};
use super::token::Token;
use super::tokens_file::{self, NamedToken};
use crate::config::Config;
use crate::identity::password_file;
use crate::shared::Parts;
use crate::time::since_epoch;

/// The name of the token of `admin.token_file`. No named token can clash with it.
const ONLY_TOKEN: &str = "admin.token_file";

/// Everybody who may use the API.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    token: Option<Token>,
    tokens: Vec<NamedToken>,
    /// Set if users have roles.
    passwords: Option<Arc<PasswordFile>>,
    users: Vec<(Box<str>, Grant)>,
    limits: SessionLimits,
}

/// Limits on the number and the duration of sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionLimits {
    pub(crate) sessions: usize,
    /// A session ends after this long without a request.
    pub(crate) idle: Duration,
    /// A session ends after this long in any case.
    pub(crate) longest: Duration,
}

/// An authenticated identity, and its kind of credential.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Principal {
    /// The token of `admin.token_file`.
    OnlyToken(Token),
    Token(Box<str>, Token),
    /// A user with its account in the password file: after a password change it is another principal.
    User(Box<str>, Account),
}

impl Principal {
    /// What it is called.
    pub(super) fn name(&self) -> &str {
        match self {
            Principal::OnlyToken(_) => ONLY_TOKEN,
            Principal::Token(name, _) | Principal::User(name, _) => name,
        }
    }

    /// The identity as the audit log shows it.
    pub(super) fn by(&self) -> String {
        let kind = if matches!(self, Principal::User(..)) { "user" } else { "token" };
        format!("{kind} {}", self.name())
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.by())
    }
}

/// What a principal may do at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CurrentGrant {
    pub(super) grant: Grant,
    /// When the grant expires, if it does.
    pub(super) expires_unix_s: Option<u64>,
}

impl Credentials {
    /// Reads the files that a configuration names. Shared users replace those of the password file.
    ///
    /// # Errors
    /// All errors in the files, one per line. Messages never contain secrets.
    pub(crate) fn read(config: &Config, shared: &Parts) -> Result<Credentials, Vec<String>> {
        let admin = &config.admin;
        if admin.listen.0.is_none() {
            return Ok(Credentials::default());
        }
        let token = admin.token_file.get().map(Token::read).transpose().map_err(|error| vec![error]);
        let tokens = admin.tokens_file.get().map_or_else(|| Ok(Vec::new()), tokens_file::read);
        let passwords = match shared.users {
            _ if admin.roles.0.is_empty() => Ok(None),
            Some(_) => shared.users(),
            None => {
                let file = &config.auth.password_file;
                file.get().map(|path| password_file(path, || file.setting("auth.password_file"))).transpose()
            }
        };
        match (token, tokens, passwords) {
            (Ok(token), Ok(tokens), Ok(passwords)) => {
                let limits = SessionLimits {
                    sessions: admin.sessions,
                    idle: Duration::from_secs(admin.session_idle_timeout_s.into()),
                    longest: Duration::from_secs(admin.session_max_age_s.into()),
                };
                Ok(Credentials { token, tokens, passwords, users: admin.roles.0.clone(), limits })
            }
            (token, tokens, passwords) => {
                Err([token.err(), tokens.err(), passwords.err()].into_iter().flatten().flatten().collect())
            }
        }
    }

    /// Credentials with these tokens, for tests.
    #[cfg(test)]
    pub(super) fn of_tokens(tokens: Vec<NamedToken>, limits: SessionLimits) -> Credentials {
        Credentials { tokens, limits, ..Credentials::default() }
    }

    /// The limits on login sessions.
    pub(super) fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// Finds the principal of a token. Compares with all tokens, so that the time reveals nothing.
    pub(super) fn principal_of_token(&self, given: &[u8]) -> Option<(Principal, CurrentGrant)> {
        let mut found = self.token.as_ref().filter(|token| token.is(given)).cloned().map(Principal::OnlyToken);
        for named in &self.tokens {
            if named.token.is(given) {
                found = Some(Principal::Token(named.name.clone(), named.token.clone()));
            }
        }
        let principal = found?;
        self.current_grant(&principal).map(|current_grant| (principal, current_grant))
    }

    /// What a principal may do now: `None` if it no longer exists or has expired.
    pub(super) fn current_grant(&self, principal: &Principal) -> Option<CurrentGrant> {
        match principal {
            Principal::OnlyToken(token) => {
                let grant = Grant { role: Role::Administer, payloads: true };
                (self.token.as_ref() == Some(token)).then_some(CurrentGrant { grant, expires_unix_s: None })
            }
            Principal::Token(name, token) => {
                let named = self.tokens.iter().find(|known| known.name == *name && known.token == *token)?;
                let now_unix_s = since_epoch().as_secs();
                let is_over = named.expires_unix_s.is_some_and(|expires_unix_s| expires_unix_s <= now_unix_s);
                (!is_over).then_some(CurrentGrant { grant: named.grant, expires_unix_s: named.expires_unix_s })
            }
            Principal::User(name, account) => {
                let is_known = self.passwords.as_ref().is_some_and(|file| file.user(name) == Some(account));
                let grant = self.users.iter().find(|(known, _)| known == name).filter(|_| is_known)?.1;
                Some(CurrentGrant { grant, expires_unix_s: None })
            }
        }
    }

    /// The file with the users that may have a role; `None` if no user has one.
    pub(super) fn passwords(&self) -> Option<&Arc<PasswordFile>> {
        self.passwords.as_ref()
    }

    /// The principal of a user whose password has been verified.
    pub(super) fn user(&self, name: &str) -> Option<(Principal, CurrentGrant)> {
        let account = self.passwords.as_ref()?.user(name)?.clone();
        let principal = Principal::User(name.into(), account);
        self.current_grant(&principal).map(|current_grant| (principal, current_grant))
    }
}

/// The credentials in effect.
#[derive(Debug)]
pub(crate) struct CurrentCredentials(RwLock<Arc<Credentials>>);

impl CurrentCredentials {
    pub(crate) fn new(credentials: Credentials) -> CurrentCredentials {
        CurrentCredentials(RwLock::new(Arc::new(credentials)))
    }

    /// Replaces the credentials.
    pub(crate) fn set(&self, credentials: Credentials) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(credentials);
    }

    pub(super) fn get(&self) -> Arc<Credentials> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, role: Role, expires_unix_s: Option<u64>) -> NamedToken {
        let grant = Grant { role, payloads: false };
        NamedToken { name: name.into(), grant, expires_unix_s, token: Token::of_text(&format!("token-of-{name}")) }
    }

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_removed() {
        let before = Credentials {
            token: Some(Token::of_text("the only token")),
            tokens: vec![
                named("a", Role::Read, None),
                named("b", Role::Operate, Some(1)),
                named("c", Role::Operate, Some(u64::MAX)),
            ],
            ..Credentials::default()
        };
        let role = |given: &str| {
            before.principal_of_token(given.as_bytes()).map(|(_, current_grant)| current_grant.grant.role)
        };
        assert_eq!(role("the only token"), Some(Role::Administer));
        assert_eq!(role("token-of-a"), Some(Role::Read));
        assert_eq!(role("token-of-b"), None, "it has expired");
        assert_eq!(role("token-of-c"), Some(Role::Operate));
        assert_eq!(role("token-of-d"), None);
        let (principal, _) = before.principal_of_token(b"token-of-a").expect("it is known");
        let mut other = named("a", Role::Administer, None);
        let after = |token: NamedToken| Credentials { tokens: vec![token], ..Credentials::default() };
        assert_eq!(
            after(other.clone()).current_grant(&principal).map(|current_grant| current_grant.grant.role),
            Some(Role::Administer)
        );
        other.token = Token::of_text("another token of the same name");
        assert_eq!(after(other).current_grant(&principal), None);
        let (only, _) = before.principal_of_token(b"the only token").expect("it is known");
        assert_eq!(Credentials::default().current_grant(&only), None);
    }
}
