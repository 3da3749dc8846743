//! Sources of verification keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{JwtError, KeySet};
use crate::http_client::{is_safe_url, shown_url};
use crate::limits::JWKS_BYTES_MAX;
use crate::{HttpClient, HttpRequest, Now};

/// Fixed or fetched keys.
#[derive(Debug, Clone)]
pub enum Keys {
    /// From a file. They change only with the configuration.
    Fixed(Arc<KeySet>),
    /// From a URL.
    Url(Arc<Jwks>),
}

/// A JWKS at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwksSettings {
    /// `https://…`, or `http://` on this machine.
    pub url: Box<str>,
    /// The age at which keys are refreshed.
    pub refresh_s: u64,
    /// The maximum age of keys while the URL is unreachable.
    pub keep_s: u64,
    /// The timeout of a fetch.
    pub timeout_ms: u64,
}

/// The minimum time between two fetches, also if a token names an unknown key: clients must not be able to trigger fetches.
const RETRY_MS: u64 = 10_000;

/// The keys of a URL. They outlive chains, and threads share them.
#[derive(Debug)]
pub struct Jwks {
    settings: JwksSettings,
    state: Mutex<State>,
    /// Held during a fetch.
    fetching: Mutex<()>,
    fetches: AtomicU64,
    failures: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    fetched_at_ms: u64,
    last_attempt_ms: Option<u64>,
    why: Option<String>,
}

/// Counters and state of a JWKS since startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JwksState {
    /// The number of successful fetches.
    pub fetches: u64,
    /// The number of failed fetches.
    pub failures: u64,
    /// The age of the keys; `None` if there are none.
    pub age_ms: Option<u64>,
}

impl Jwks {
    /// A key source that has not fetched yet.
    ///
    /// # Errors
    /// The URL is not safe: anybody who can change its response can sign tokens.
    pub fn new(settings: JwksSettings) -> Result<Jwks, JwtError> {
        if !is_safe_url(&settings.url) {
            let why = "the URL of keys must begin with https://, or with http:// for this machine, and must not contain user and password";
            return Err(JwtError(why.to_owned()));
        }
        let (state, fetching) = (Mutex::default(), Mutex::default());
        Ok(Jwks { settings, state, fetching, fetches: AtomicU64::new(0), failures: AtomicU64::new(0) })
    }

    /// The current state.
    #[must_use]
    pub fn state(&self, now: Now) -> JwksState {
        let state = self.locked();
        let age_ms = state.keys.as_ref().map(|_| now.steady_ms.saturating_sub(state.fetched_at_ms));
        JwksState {
            fetches: self.fetches.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            age_ms,
        }
    }

    /// The keys, fetched if they are old, or if `is_key_missing` and a fetch is allowed. During a fetch, other threads use the existing
    /// keys, and wait if there are none.
    pub(super) fn keys(
        &self,
        http_client: &dyn HttpClient,
        now: Now,
        is_key_missing: bool,
    ) -> Result<Arc<KeySet>, String> {
        // The fetching thread needs the state, so the lock must not be held while waiting.
        let has_keys = self.locked().keys.is_some();
        let turn = match has_keys {
            true if !self.is_due(now, is_key_missing) => None,
            true => self.fetching.try_lock().ok(),
            false => Some(self.fetching.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        // Another thread may have fetched them meanwhile.
        if turn.is_some() && self.is_due(now, is_key_missing) {
            self.fetch(http_client, now);
        }
        drop(turn);
        let state = self.locked();
        let age_ms = now.steady_ms.saturating_sub(state.fetched_at_ms);
        match &state.keys {
            Some(keys) if age_ms < self.settings.keep_s.saturating_mul(1_000) => Ok(keys.clone()),
            _ => Err(state.why.clone().unwrap_or_else(|| "not fetched yet".to_owned())),
        }
    }

    fn is_due(&self, now: Now, is_key_missing: bool) -> bool {
        let state = self.locked();
        let since = |at_ms: u64| now.steady_ms.saturating_sub(at_ms);
        let is_old = since(state.fetched_at_ms) >= self.settings.refresh_s.saturating_mul(1_000);
        let may_try = state.last_attempt_ms.is_none_or(|at_ms| since(at_ms) >= RETRY_MS);
        may_try && (state.keys.is_none() || is_old || is_key_missing)
    }

    fn fetch(&self, http_client: &dyn HttpClient, now: Now) {
        self.locked().last_attempt_ms = Some(now.steady_ms);
        let request = HttpRequest {
            url: &self.settings.url,
            fields: &[],
            body: None,
            timeout_ms: self.settings.timeout_ms,
            response_bytes_max: JWKS_BYTES_MAX,
        };
        let fetched = match http_client.request(&request) {
            Err(failure) => Err(failure.to_string()),
            Ok(response) if response.status != 200 => Err(format!("the response has status {}", response.status)),
            Ok(response) => String::from_utf8(response.body)
                .map_err(|_| "the response is not UTF-8".to_owned())
                .and_then(|text| KeySet::of_public_jwks(&text).map_err(|JwtError(why)| why)),
        };
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let mut state = self.locked();
        match fetched {
            Ok(keys) => {
                (state.keys, state.fetched_at_ms, state.why) = (Some(Arc::new(keys)), now.steady_ms, None);
            }
            Err(why) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                state.why = Some(format!("no keys from {}: {why}", shown_url(&self.settings.url)));
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
