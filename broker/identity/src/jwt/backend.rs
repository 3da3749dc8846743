//! Authentication with tokens.

use std::sync::Arc;

use tautwire_json::Value;

use super::claims::{at_path, flat, texts, time};
use super::source::Keys;
use super::token::Token;
use super::{Algorithm, JwtError};
use crate::decision::BackendDecision;
use crate::limits::{CLIENT_ID_BYTES_MAX, LEEWAY_S_MAX, ROLES_MAX, USER_NAME_BYTES_MAX};
use crate::text::checked_name;
use crate::{HttpClient, Now, Principal, Refusal, RefusalCode};

/// Which tokens are accepted, and which user they name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// The accepted signature algorithms.
    pub algorithms: Vec<Algorithm>,
    /// The accepted issuers (`iss`). Tokens of others are left to other backends. Empty: any issuer that has a key.
    pub issuers: Vec<Box<str>>,
    /// The accepted audiences (`aud`), one of which must match. Empty: only tokens without an audience (RFC 7519, section 4.1.3).
    pub audiences: Vec<Box<str>>,
    /// The tolerated clock skew, at most [`LEEWAY_S_MAX`].
    pub leeway_s: u64,
    /// The claim that is the user. A dot descends into an object.
    pub user_claim: Box<str>,
    /// The claim that is the Client Identifier, whatever the client requests; `None` leaves it to the client.
    pub client_id_claim: Option<Box<str>>,
    /// The claim that names roles.
    pub roles_claim: Option<Box<str>>,
    /// Whether a token must have an expiry time.
    pub needs_expiry: bool,
}

impl Default for JwtSettings {
    /// Asymmetric algorithms only, and the user in `sub`.
    fn default() -> JwtSettings {
        JwtSettings {
            algorithms: Algorithm::ALL.into_iter().filter(|algorithm| !algorithm.is_symmetric()).collect(),
            issuers: Vec::new(),
            audiences: Vec::new(),
            leeway_s: 30,
            user_claim: "sub".into(),
            client_id_claim: None,
            roles_claim: None,
            needs_expiry: true,
        }
    }
}

/// Authentication with tokens: settings and keys.
#[derive(Debug)]
pub struct Jwt {
    settings: JwtSettings,
    keys: Keys,
}

impl Jwt {
    /// Creates a backend.
    ///
    /// # Errors
    /// The settings allow no token, or exceed a limit.
    pub fn new(settings: JwtSettings, keys: Keys) -> Result<Jwt, JwtError> {
        if settings.algorithms.is_empty() {
            return Err(JwtError("no algorithm is allowed, so no token is accepted".to_owned()));
        }
        if settings.leeway_s > LEEWAY_S_MAX {
            return Err(JwtError(format!("the leeway must be at most {LEEWAY_S_MAX} s")));
        }
        Ok(Jwt { settings, keys })
    }

    /// Whether verification may wait for a network.
    pub(crate) fn can_fetch(&self) -> bool {
        matches!(self.keys, Keys::Url(_))
    }

    /// Verifies a token. Takes long: a signature is verified, and keys may have to be fetched.
    pub(crate) fn verify_token(&self, token: &[u8], http_client: &dyn HttpClient, now: Now) -> BackendDecision {
        let token = match Token::parse(token) {
            Ok(token) => token,
            Err(why) => return wrong(RefusalCode::Token, &why),
        };
        let issuer = token.claims.get("iss").and_then(Value::as_text);
        if !self.settings.issuers.is_empty() && !self.settings.issuers.iter().any(|known| Some(&**known) == issuer) {
            let why = format!("its issuer {} is unknown", shown(issuer));
            return BackendDecision::UnknownBecause(Refusal::new(RefusalCode::Token, not_accepted(&why)));
        }
        if !self.settings.algorithms.contains(&token.algorithm) {
            return wrong(RefusalCode::Token, &format!("{} is not allowed", token.algorithm.name()));
        }
        if let Err(refusal) = self.check_signature(&token, http_client, now) {
            return refusal.into();
        }
        match self.principal(&token.claims, now) {
            Ok(principal) => principal.into(),
            Err((code, why)) => wrong(code, &why),
        }
    }

    fn check_signature(&self, token: &Token<'_>, http_client: &dyn HttpClient, now: Now) -> Result<(), Refusal> {
        let mut is_key_missing = false;
        loop {
            let keys = match &self.keys {
                Keys::Fixed(keys) => Arc::clone(keys),
                Keys::Url(jwks) => jwks.keys(http_client, now, is_key_missing).map_err(|why| {
                    Refusal::new(RefusalCode::TokenKeys, format!("there are no keys for tokens: {why}"))
                })?,
            };
            let kid = token.kid.as_deref();
            match keys.verify(token.algorithm, kid, token.signed, &token.signature) {
                Some(true) => return Ok(()),
                // If keys have no names, a new key cannot be distinguished from a wrong signature.
                Some(false) if !is_key_missing && self.can_fetch() && !keys.has(kid) => is_key_missing = true,
                Some(false) => return Err(Refusal::new(RefusalCode::Token, not_accepted("its signature is wrong"))),
                // The issuer may have rotated its keys.
                None if !is_key_missing && self.can_fetch() => is_key_missing = true,
                None => {
                    let why = format!("no key {} for {}", shown(kid), token.algorithm.name());
                    let code = if self.can_fetch() { RefusalCode::TokenKey } else { RefusalCode::Token };
                    return Err(Refusal::new(code, not_accepted(&why)));
                }
            }
        }
    }

    /// The principal of verified claims.
    fn principal(&self, claims: &Value, now: Now) -> Result<Principal, (RefusalCode, String)> {
        let settings = &self.settings;
        let no = |why: String| (RefusalCode::Token, why);
        let expires = time(claims, "exp").map_err(no)?;
        let until_s = expires.map(|expires_s| expires_s.saturating_add(settings.leeway_s));
        if until_s.is_some_and(|until_s| until_s <= now.unix_s) {
            return Err((RefusalCode::TokenExpired, "it has expired".to_owned()));
        }
        if until_s.is_none() && settings.needs_expiry {
            return Err(no("it has no expiry time (exp)".to_owned()));
        }
        for name in ["nbf", "iat"] {
            let begins = time(claims, name).map_err(no)?;
            if begins.is_some_and(|begins_s| begins_s > now.unix_s.saturating_add(settings.leeway_s)) {
                return Err(no(format!("it is not valid yet ({name})")));
            }
        }
        let audiences = claims.get("aud").map(texts);
        let is_for_us = match &audiences {
            None => settings.audiences.is_empty(),
            Some(audiences) => audiences.iter().any(|one| settings.audiences.iter().any(|known| **known == **one)),
        };
        if !is_for_us {
            let first = audiences.as_ref().and_then(|audiences| audiences.first()).copied();
            return Err(no(format!("its audience is {}, not this broker (aud)", shown(first))));
        }
        let name = |claim: &str, bytes_max: usize| {
            let name = at_path(claims, claim).and_then(Value::as_text);
            name.and_then(|name| checked_name(name, bytes_max))
                .ok_or_else(|| no(format!("{claim} is not a valid name")))
        };
        let roles = settings.roles_claim.as_deref().and_then(|claim| at_path(claims, claim)).map(texts);
        Ok(Principal {
            user: Some(name(&settings.user_claim, USER_NAME_BYTES_MAX)?),
            client_id: settings.client_id_claim.as_deref().map(|claim| name(claim, CLIENT_ID_BYTES_MAX)).transpose()?,
            claims: flat(claims),
            roles: roles.unwrap_or_default().into_iter().take(ROLES_MAX).map(Into::into).collect(),
            expires_at_unix_s: until_s,
            backend: "jwt",
        })
    }
}

fn wrong(code: RefusalCode, why: &str) -> BackendDecision {
    Refusal::new(code, not_accepted(why)).into()
}

fn not_accepted(why: &str) -> String {
    format!("the token is not accepted: {why}")
}

/// An unverified part of a token, or a name in one, for the log.
fn shown(text: Option<&str>) -> String {
    text.map_or_else(|| "(none)".to_owned(), crate::text::shown)
}
