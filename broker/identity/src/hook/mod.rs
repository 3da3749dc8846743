//! An HTTP service of the operator that authenticates clients.

mod breaker;
mod cache;
mod document;
mod settings;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ring::hmac;

use crate::decision::BackendDecision;
use crate::http_client::{is_safe_url, shown_url};
use crate::limits::{HOOK_ANSWER_BYTES_MAX, HOOK_CACHED_ANSWER_BYTES_MAX, HOOK_CACHED_PASSWORD_BYTES_MAX};
use crate::{AuthAttempt, Certificate, HttpClient, HttpRequest, Now, Refusal, RefusalCode};
use breaker::Breaker;
use cache::{Cache, CacheKey};
use document::HookDecision;
pub use settings::{HookError, HookSettings, UnreachablePolicy};

/// A hook with its cache and its circuit breaker. It outlives chains, and threads share it.
pub struct Hook {
    settings: HookSettings,
    /// Key for hashing cache keys, so that passwords cannot be recovered from them.
    key: hmac::Key,
    cache: Mutex<Cache>,
    breaker: Mutex<Breaker>,
    in_flight: AtomicUsize,
    asked: AtomicU64,
    failed: AtomicU64,
    busy: AtomicU64,
    unreachable: AtomicU64,
    answered_from_cache: AtomicU64,
}

/// Counters since startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HookCounters {
    /// Requests.
    pub asked: u64,
    /// Requests without a valid response.
    pub failed: u64,
    /// Clients that were refused because too many requests were in flight.
    pub busy: u64,
    /// Clients that got the configured response because the hook was unreachable.
    pub unreachable: u64,
    /// Clients whose decision was cached.
    pub answered_from_cache: u64,
    /// Whether the circuit breaker is open after too many failures.
    pub is_open: bool,
}

impl Hook {
    /// A new hook. `key` is random.
    ///
    /// # Errors
    /// The settings are not valid.
    pub fn new(settings: HookSettings, key: &[u8; 32]) -> Result<Hook, HookError> {
        settings.check()?;
        if !is_safe_url(&settings.url) {
            let why = "the URL must begin with https://, or with http:// for this machine, and must not contain user and password";
            return Err(HookError(why.to_owned()));
        }
        Ok(Hook {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            cache: Mutex::new(Cache::new(settings.cache_entries)),
            breaker: Mutex::default(),
            settings,
            in_flight: AtomicUsize::new(0),
            asked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            unreachable: AtomicU64::new(0),
            answered_from_cache: AtomicU64::new(0),
        })
    }

    /// The cached decision for the same attempt, if it has not expired.
    pub(crate) fn cached(&self, attempt: &AuthAttempt, now: Now) -> Option<BackendDecision> {
        let key = self.name(attempt)?;
        let decision = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(&key, now)?;
        self.answered_from_cache.fetch_add(1, Ordering::Relaxed);
        Some(response(decision, now))
    }

    /// Sends a request to the hook. Takes long.
    pub(crate) fn ask(&self, attempt: &AuthAttempt, http_client: &dyn HttpClient, now: Now) -> BackendDecision {
        let Some(_place) = RequestPermit::take(&self.in_flight, self.settings.concurrency) else {
            self.busy.fetch_add(1, Ordering::Relaxed);
            let log = format!("{} requests to the hook are in flight", self.settings.concurrency);
            return BackendDecision::No(Refusal::new(RefusalCode::HookBusy, log));
        };
        if !self.breaker().allows_request(&self.settings, now) {
            return self.configured_response("the circuit breaker is open after too many failures");
        }
        let body = document::request(attempt);
        let request = HttpRequest {
            url: &self.settings.url,
            fields: &self.settings.fields,
            body: Some(&body),
            timeout_ms: self.settings.timeout_ms,
            response_bytes_max: HOOK_ANSWER_BYTES_MAX,
        };
        self.asked.fetch_add(1, Ordering::Relaxed);
        let result = match http_client.request(&request) {
            Err(failure) => Err((Fault::Service, failure.to_string())),
            Ok(response) if response.status != 200 => {
                Err((Fault::of_status(response.status), format!("its response has status {}", response.status)))
            }
            Ok(response) => match document::response(&response.body, attempt.user_name.as_deref()) {
                Ok((decision, cache_s)) => Ok(((decision.without_password(attempt), cache_s), response.body.len())),
                Err(why) => Err((Fault::Service, format!("its response is not valid: {why}"))),
            },
        };
        match result {
            Ok(((decision, cache_s), bytes)) => {
                self.breaker().record_success();
                if bytes <= HOOK_CACHED_ANSWER_BYTES_MAX {
                    self.store_response(attempt, &decision, cache_s, now);
                }
                response(decision, now)
            }
            Err((fault, why)) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                match fault {
                    Fault::Service => self.breaker().record_failure(&self.settings, now),
                    Fault::Request => self.breaker().record_success(),
                }
                self.configured_response(&why)
            }
        }
    }

    /// The counters since startup.
    #[must_use]
    pub fn counters(&self, now: Now) -> HookCounters {
        HookCounters {
            asked: self.asked.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            busy: self.busy.load(Ordering::Relaxed),
            unreachable: self.unreachable.load(Ordering::Relaxed),
            answered_from_cache: self.answered_from_cache.load(Ordering::Relaxed),
            is_open: self.breaker().is_open(now),
        }
    }

    /// The configured response for clients while the hook is unreachable.
    fn configured_response(&self, why: &str) -> BackendDecision {
        self.unreachable.fetch_add(1, Ordering::Relaxed);
        let refusal = Refusal::new(RefusalCode::HookUnreachable, format!("no response from the hook: {why}"));
        match self.settings.when_unreachable {
            UnreachablePolicy::Refuse => BackendDecision::No(refusal),
            UnreachablePolicy::TryNext => BackendDecision::UnknownBecause(refusal),
        }
    }

    fn store_response(&self, attempt: &AuthAttempt, decision: &HookDecision, cache_s: Option<u64>, now: Now) {
        let own_s = match decision {
            HookDecision::Allow(_) => self.settings.positive_s,
            HookDecision::Deny(_) | HookDecision::Ignore => self.settings.negative_s,
        };
        let mut for_s = cache_s.map_or(own_s, |cache_s| cache_s.min(own_s));
        if let HookDecision::Allow(principal) = decision
            && let Some(until_s) = principal.expires_at_unix_s
        {
            for_s = for_s.min(until_s.saturating_sub(now.unix_s));
        }
        if for_s > 0
            && let Some(key) = self.name(attempt)
        {
            self.cache.lock().unwrap_or_else(PoisonError::into_inner).put(key, decision.clone(), for_s, now);
        }
    }

    /// The cache key of an attempt: equal for attempts with the same request.
    fn name(&self, attempt: &AuthAttempt) -> Option<CacheKey> {
        let password = attempt.password.as_ref().map(|password| password.expose());
        if password.is_some_and(|password| password.len() > HOOK_CACHED_PASSWORD_BYTES_MAX) {
            return None;
        }
        let mut context = hmac::Context::with_key(&self.key);
        let address = attempt.origin.address.map(|address| address.to_canonical().to_string());
        let peer_uid = attempt.origin.peer_uid.map(u32::to_le_bytes);
        for field in [
            Some(attempt.client_id.as_bytes()),
            attempt.user_name.as_ref().map(|name| name.as_bytes()),
            password,
            Some(attempt.origin.listener.as_bytes()),
            address.as_ref().map(|address| address.as_bytes()),
            peer_uid.as_ref().map(|uid| &uid[..]),
            attempt.origin.certificate.as_ref().map(Certificate::as_bytes),
            Some(&[u8::from(attempt.is_v5), u8::from(attempt.origin.is_encrypted)]),
        ] {
            // Prefixed with its length, so that two fields cannot be confused with two others.
            let length = field.map_or(u64::MAX, |field| field.len() as u64);
            context.update(&length.to_le_bytes());
            context.update(field.unwrap_or_default());
        }
        context.sign().as_ref().try_into().ok()
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there is no decision.
enum Fault {
    /// A fault of the service: the next request would probably fail too.
    Service,
    /// The service rejects this request. A client chooses much of its content, and must not be able to block requests about others.
    Request,
}

impl Fault {
    /// Classifies a response status that is not 200.
    fn of_status(status: u16) -> Fault {
        const REQUEST_TIMEOUT: u16 = 408;
        const TOO_MANY_REQUESTS: u16 = 429;
        match status {
            REQUEST_TIMEOUT | TOO_MANY_REQUESTS => Fault::Service,
            400..=499 => Fault::Request,
            _ => Fault::Service,
        }
    }
}

fn response(decision: HookDecision, now: Now) -> BackendDecision {
    match decision {
        HookDecision::Allow(principal) if principal.expires_at_unix_s.is_some_and(|until_s| until_s <= now.unix_s) => {
            BackendDecision::No(Refusal::new(
                RefusalCode::HookDenied,
                "the hook's response has already expired (expires_at)",
            ))
        }
        HookDecision::Allow(principal) => principal.into(),
        HookDecision::Deny(why) => {
            let why = why.map_or_else(String::new, |why| format!(": {}", crate::text::shown(&why)));
            BackendDecision::No(Refusal::new(RefusalCode::HookDenied, format!("denied by the hook{why}")))
        }
        HookDecision::Ignore => BackendDecision::Unknown,
    }
}

/// A permit for one of the requests that may be in flight.
struct RequestPermit<'h>(&'h AtomicUsize);

impl RequestPermit<'_> {
    fn take(in_flight: &AtomicUsize, max: usize) -> Option<RequestPermit<'_>> {
        let place = RequestPermit(in_flight);
        (in_flight.fetch_add(1, Ordering::AcqRel) < max).then_some(place)
    }
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Omits the fields of requests, which are secrets.
impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").field("url", &shown_url(&self.settings.url)).finish_non_exhaustive()
    }
}
