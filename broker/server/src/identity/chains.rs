//! The authentication chain of each listener, built from the configuration and its files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tautwire_access::Identity;
use tautwire_identity::{
    Algorithm, Anonymous, AuthBackend, Bans, CertificateRule, CertificateRules, Chain, Hook, HookSettings, Jwks,
    JwksSettings, Jwt, JwtSettings, KeySet, Keys, PasswordFile, Secret, Settings, Template, VerifiedPasswords,
    limits::JWKS_BYTES_MAX,
};

use super::users::password_file;
use crate::config::Config;
use crate::config::auth::CertificateNames;
use crate::config::listener::Listener;
use crate::config::settings::AuthConfig;
use crate::files;
use crate::shared::Parts;

/// Largest accepted file with a secret.
const SECRET_FILE_MAX_BYTES: usize = 16 << 10;
/// Interval after which keys of a URL are fetched again.
const JWKS_REFRESH_S: u64 = 600;
/// How long fetched keys remain valid while the URL is unreachable.
const JWKS_KEEP_S: u64 = 86_400;
/// Timeout for fetching keys.
const JWKS_TIMEOUT_MS: u64 = 5_000;

/// State that survives a reload: bans, and cached responses of hooks and key URLs.
#[derive(Debug)]
pub(crate) struct SharedAuthState {
    key: [u8; 32],
    bans: Arc<Bans>,
    verified: Arc<VerifiedPasswords>,
    hook: Option<(HookSettings, Arc<Hook>)>,
    jwks: Option<(JwksSettings, Arc<Jwks>)>,
}

/// The authentication chains of all listeners.
#[derive(Debug)]
pub(crate) struct AuthChains {
    by_listener: HashMap<Arc<str>, ListenerAuth>,
    /// Whether any listener requires authentication.
    requires_auth: bool,
}

#[derive(Debug)]
struct ListenerAuth {
    chain: Arc<Chain>,
    passwords: Option<Arc<PasswordFile>>,
    accepts_tokens: bool,
    uses_hook: bool,
    allows_connected_anonymous: bool,
}

impl SharedAuthState {
    /// Creates an empty state.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub(crate) fn new(auth: &AuthConfig) -> Result<SharedAuthState, String> {
        let (mut key, mut key_of_verified) = ([0; 32], [0; 32]);
        super::random(&mut key)?;
        super::random(&mut key_of_verified)?;
        let verified = Arc::new(VerifiedPasswords::new(&key_of_verified, auth.password_cache_entries));
        Ok(SharedAuthState {
            key,
            bans: Arc::new(Bans::new(auth.ban_rules.0.clone())),
            verified,
            hook: None,
            jwks: None,
        })
    }

    pub(crate) fn verified(&self) -> &Arc<VerifiedPasswords> {
        &self.verified
    }

    pub(crate) fn bans(&self) -> &Arc<Bans> {
        &self.bans
    }

    /// A chain with only the users of this file, for logins outside of listeners.
    pub(crate) fn chain_of(&self, file: Arc<PasswordFile>) -> Arc<Chain> {
        let (bans, verified) = (self.bans.clone(), self.verified.clone());
        let settings = Settings { allows_plain_passwords: true, key: self.key, bans, verified };
        Arc::new(Chain::new(vec![AuthBackend::PasswordFile(file)], settings).expect("one link is below the limit"))
    }

    /// The hook with these settings, recreated if they have changed.
    fn hook(&mut self, settings: &HookSettings) -> Result<Arc<Hook>, String> {
        match &self.hook {
            Some((known, hook)) if known == settings => Ok(hook.clone()),
            _ => {
                let hook = Hook::new(settings.clone(), &self.key).map(Arc::new);
                let hook = hook.map_err(|error| format!("auth.hook_url: {error}"))?;
                self.hook = Some((settings.clone(), hook.clone()));
                Ok(hook)
            }
        }
    }

    /// The keys of a URL, recreated if the settings have changed.
    fn jwks(&mut self, settings: &JwksSettings) -> Result<Arc<Jwks>, String> {
        match &self.jwks {
            Some((known, jwks)) if known == settings => Ok(jwks.clone()),
            _ => {
                let jwks = Jwks::new(settings.clone()).map(Arc::new);
                let jwks = jwks.map_err(|error| format!("auth.jwks_url: {error}"))?;
                self.jwks = Some((settings.clone(), jwks.clone()));
                Ok(jwks)
            }
        }
    }
}

impl AuthChains {
    /// Builds the chains of the listeners. Shared users apply to all listeners without their own file.
    ///
    /// # Errors
    /// All errors, one per line. `shared_state` is unchanged then, except for a new hook or URL.
    pub(crate) fn read(
        config: &Config,
        shared: &Parts,
        shared_state: &mut SharedAuthState,
    ) -> Result<AuthChains, Vec<String>> {
        let (listeners, auth) = (&config.listeners_that_share(shared.users.is_some()), &config.auth);
        let mut errors = Vec::new();
        let shared_users = shared.users().unwrap_or_else(|wrong| {
            errors.extend(wrong);
            None
        });
        let tokens = auth.accepts_tokens().then(|| jwt(auth, shared_state)).transpose().unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        let hook =
            hook_settings(auth).and_then(|settings| settings.map(|settings| shared_state.hook(&settings)).transpose());
        let hook = hook.unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        let (bans, verified) = (shared_state.bans.clone(), shared_state.verified.clone());
        let common = ChainBuilder { tokens: tokens.map(Arc::new), hook, key: shared_state.key, bans, verified };
        let mut files: HashMap<PathBuf, Result<Arc<PasswordFile>, Vec<String>>> = HashMap::new();
        let mut by_listener = HashMap::new();
        for listener in listeners {
            let own_file = listener.auth.password_file.get();
            let read = |path: &Path| {
                let setting = listener.auth.password_file.setting("auth.password_file");
                let named = || format!("{setting} of listener {}", listener.name);
                password_file(path, named)
            };
            let own_users = own_file.map(|path| files.entry(path.to_owned()).or_insert_with(|| read(path)).clone());
            let passwords = own_users.or_else(|| shared_users.clone().filter(|_| listener.uses_shared_users).map(Ok));
            if let Ok(passwords) = passwords.transpose() {
                let chain = common.chain(listener, passwords.clone());
                let listener_auth = ListenerAuth {
                    chain,
                    passwords,
                    accepts_tokens: common.tokens.is_some(),
                    uses_hook: common.hook.is_some(),
                    allows_connected_anonymous: listener.allows_connected_anonymous(),
                };
                by_listener.insert(listener.name.as_str().into(), listener_auth);
            }
        }
        errors.extend(files.into_values().filter_map(Result::err).flatten());
        let requires_auth = listeners.iter().any(|listener| {
            let shows_certificates = listener.accepts_certificates() || listener.requests_certificates();
            shows_certificates || listener.authenticates_clients() || !listener.allows_anonymous()
        });
        if errors.is_empty() { Ok(AuthChains { by_listener, requires_auth }) } else { Err(errors) }
    }

    /// Whether any client has to be authenticated; otherwise all are anonymous.
    pub(crate) fn requires_auth(&self) -> bool {
        self.requires_auth
    }

    /// The chain of a listener.
    pub(crate) fn of(&self, listener: &str) -> Option<Arc<Chain>> {
        self.by_listener.get(listener).map(|auth| auth.chain.clone())
    }

    /// Whether a client accepted earlier on a listener would still be known.
    pub(crate) fn recognizes(&self, identity: Option<&Identity>, listener: &str) -> bool {
        let Some(auth) = self.by_listener.get(listener) else { return true };
        // The client was accepted without authentication.
        let Some(identity) = identity else { return auth.allows_connected_anonymous };
        match (identity.by, &identity.user, &auth.passwords) {
            ("password_file", Some(user), passwords) => {
                passwords.as_ref().is_some_and(|passwords| passwords.user(user).is_some())
            }
            ("anonymous", ..) => auth.allows_connected_anonymous,
            ("jwt", ..) => auth.accepts_tokens,
            ("hook", ..) => auth.uses_hook,
            // A certificate is valid for as long as its connection.
            _ => true,
        }
    }
}

/// The parts that the chains of all listeners share.
struct ChainBuilder {
    tokens: Option<Arc<Jwt>>,
    hook: Option<Arc<Hook>>,
    key: [u8; 32],
    bans: Arc<Bans>,
    verified: Arc<VerifiedPasswords>,
}

impl ChainBuilder {
    /// Fast backends come first, remote ones last; anonymous access comes after all backends that may know the client.
    fn chain(&self, listener: &Listener, passwords: Option<Arc<PasswordFile>>) -> Arc<Chain> {
        let mut links = Vec::new();
        if listener.accepts_certificates() {
            links.push(AuthBackend::Certificate(Arc::new(certificate_rules(&listener.auth))));
        }
        links.extend(self.tokens.clone().map(AuthBackend::Jwt));
        links.extend(passwords.map(AuthBackend::PasswordFile));
        links.extend(self.hook.clone().map(AuthBackend::Hook));
        let is_open = !listener.authenticates_clients();
        if listener.allows_anonymous() {
            // Without any backend it does not matter which credentials clients send.
            links.push(AuthBackend::Anonymous(if is_open {
                Anonymous::Everybody
            } else {
                Anonymous::WithoutCredentials
            }));
        }
        let allows_plain_passwords = listener.auth.plaintext_passwords || is_open;
        let (bans, verified) = (self.bans.clone(), self.verified.clone());
        let settings = Settings { allows_plain_passwords, key: self.key, bans, verified };
        Arc::new(Chain::new(links, settings).expect("five links are below the limit"))
    }
}

fn certificate_rules(auth: &AuthConfig) -> CertificateRules {
    if !auth.certificate_rules.is_empty() {
        return auth.certificate_rules.rules();
    }
    let name = || Template::new("{cn}").expect("a template");
    let client_id = (auth.certificate_identity == CertificateNames::UserAndClientId).then(name);
    CertificateRules { rules: vec![CertificateRule { user: Some(name()), client_id, ..CertificateRule::default() }] }
}

fn hook_settings(auth: &AuthConfig) -> Result<Option<HookSettings>, String> {
    if auth.hook_url.0.is_empty() {
        return Ok(None);
    }
    let authorization =
        auth.hook_authorization_file.get().map(|path| read_text(path, SECRET_FILE_MAX_BYTES)).transpose()?;
    let field = authorization.map(|text| ("authorization".into(), Secret::new(text.trim_end_matches(['\r', '\n']))));
    Ok(Some(HookSettings {
        fields: field.into_iter().collect(),
        timeout_ms: auth.hook_timeout_ms,
        concurrency: auth.hook_concurrency,
        positive_s: auth.hook_allow_cache_s,
        negative_s: auth.hook_deny_cache_s,
        failures: auth.hook_failure_threshold,
        open_s: auth.hook_retry_s,
        when_unreachable: auth.hook_unreachable,
        ..HookSettings::new(&auth.hook_url.0)
    }))
}

fn jwt(auth: &AuthConfig, shared_state: &mut SharedAuthState) -> Result<Jwt, String> {
    let keys = match (auth.jwt_key_file.get(), &*auth.jwks_url.0, auth.jwt_secret_file.get()) {
        (Some(path), "", None) => {
            let keys = KeySet::of_file(&read_text(path, JWKS_BYTES_MAX)?);
            Keys::Fixed(Arc::new(keys.map_err(|error| format!("auth.jwt_key_file: {}: {error}", path.display()))?))
        }
        (None, "", Some(path)) => {
            let text = read_text(path, SECRET_FILE_MAX_BYTES)?;
            let keys = KeySet::of_secret(Secret::new(text.trim_end_matches(['\r', '\n'])));
            Keys::Fixed(Arc::new(keys.map_err(|error| format!("auth.jwt_secret_file: {}: {error}", path.display()))?))
        }
        (None, url, None) => Keys::Url(shared_state.jwks(&JwksSettings {
            url: url.into(),
            refresh_s: JWKS_REFRESH_S,
            keep_s: JWKS_KEEP_S,
            timeout_ms: JWKS_TIMEOUT_MS,
        })?),
        _ => {
            return Err(
                "auth.jwt_key_file, auth.jwks_url and auth.jwt_secret_file exclude each other; keep one".to_owned()
            );
        }
    };
    let default = JwtSettings::default();
    let texts = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
    let some = |text: &str| (!text.is_empty()).then(|| text.into());
    let algorithms = match auth.jwt_algorithms.0.is_empty() {
        false => auth.jwt_algorithms.0.clone(),
        true if auth.jwt_secret_file.get().is_none() => default.algorithms,
        true => Algorithm::ALL.into_iter().filter(|algorithm| algorithm.is_symmetric()).collect(),
    };
    let settings = JwtSettings {
        algorithms,
        issuers: texts(&auth.jwt_issuers.0),
        audiences: texts(&auth.jwt_audiences.0),
        leeway_s: auth.jwt_leeway_s,
        user_claim: some(&auth.jwt_user_claim.0).unwrap_or(default.user_claim),
        client_id_claim: some(&auth.jwt_client_id_claim.0),
        roles_claim: some(&auth.jwt_roles_claim.0),
        needs_expiry: true,
    };
    Jwt::new(settings, keys).map_err(|error| format!("auth.jwt_key_file: {error}"))
}

fn read_text(path: &Path, bytes_max: usize) -> Result<String, String> {
    files::text(path, bytes_max).map_err(|why| format!("{} {why}", path.display()))
}
