//! A service of the operator's that knows who clients are, asked by HTTP.

mod breaker;
mod cache;
mod document;
mod settings;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ring::hmac;

use crate::chain::BackendResponse;
use crate::http_client::{is_safe_url, shown_url};
use crate::limits::{HOOK_ANSWER_BYTES_MAX, HOOK_CACHED_ANSWER_BYTES_MAX, HOOK_CACHED_PASSWORD_BYTES_MAX};
use crate::{AuthAttempt, Certificate, HttpClient, HttpRequest, Now, Refusal, RefusalCode};
use breaker::Breaker;
use cache::{Cache, CacheKey};
use document::HookDecision;
pub use settings::{HookError, HookSettings, Unreachable};

/// The hook, with what it has answered and whether it can be reached. It outlives chains, and threads share it.
pub struct Hook {
    settings: HookSettings,
    /// Of the names of what is kept: nobody can read passwords out of them.
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

/// What has happened since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HookCounters {
    /// Requests.
    pub asked: u64,
    /// Requests without an answer that can be used.
    pub failed: u64,
    /// Clients that were refused because too many requests were on their way.
    pub busy: u64,
    /// Clients that got the stated answer, because the hook could not be asked or did not answer.
    pub unreachable: u64,
    /// Clients for which the hook need not be asked.
    pub answered_from_cache: u64,
    /// Whether the hook is not asked for a while, after too many failures.
    pub is_open: bool,
}

impl Hook {
    /// A hook that has not been asked yet. `key` is random.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(settings: HookSettings, key: &[u8; 32]) -> Result<Hook, HookError> {
        settings.check()?;
        if !is_safe_url(&settings.url) {
            let why =
                "passwords are sent by https://, or by http:// on this machine, to a URL without user and password";
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

    /// What the hook has said of the same attempt before, if that still holds.
    pub(crate) fn cached(&self, attempt: &AuthAttempt, now: Now) -> Option<BackendResponse> {
        let key = self.name(attempt)?;
        let verdict = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(&key, now)?;
        self.answered_from_cache.fetch_add(1, Ordering::Relaxed);
        Some(answer(verdict, now))
    }

    /// Asks the hook. Takes long.
    pub(crate) fn ask(&self, attempt: &AuthAttempt, http_client: &dyn HttpClient, now: Now) -> BackendResponse {
        let Some(_place) = RequestPermit::take(&self.in_flight, self.settings.concurrency) else {
            self.busy.fetch_add(1, Ordering::Relaxed);
            let log = format!("{} requests to the hook are on their way", self.settings.concurrency);
            return BackendResponse::No(Refusal::new(RefusalCode::HookBusy, log));
        };
        if !self.breaker().allows_request(&self.settings, now) {
            return self.configured_response("it is not asked for a while, after too many failures");
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
        let told = match http_client.request(&request) {
            Err(failure) => Err((Fault::Service, failure.to_string())),
            Ok(answer) if answer.status != 200 => {
                Err((Fault::of_status(answer.status), format!("its answer has status {}", answer.status)))
            }
            Ok(answer) => match document::answer(&answer.body, attempt.user_name.as_deref()) {
                Ok((verdict, cache_s)) => Ok(((verdict.without_password(attempt), cache_s), answer.body.len())),
                Err(why) => Err((Fault::Service, format!("its answer is not understood: {why}"))),
            },
        };
        match told {
            Ok(((verdict, cache_s), bytes)) => {
                self.breaker().record_success();
                if bytes <= HOOK_CACHED_ANSWER_BYTES_MAX {
                    self.store_response(attempt, &verdict, cache_s, now);
                }
                answer(verdict, now)
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

    /// What has happened.
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

    /// What is said of clients that the hook cannot be asked about.
    fn configured_response(&self, why: &str) -> BackendResponse {
        self.unreachable.fetch_add(1, Ordering::Relaxed);
        let refusal = Refusal::new(RefusalCode::HookUnreachable, format!("the hook gives no answer: {why}"));
        match self.settings.when_unreachable {
            Unreachable::Refuse => BackendResponse::No(refusal),
            Unreachable::TryNext => BackendResponse::UnknownBecause(refusal),
        }
    }

    fn store_response(&self, attempt: &AuthAttempt, verdict: &HookDecision, cache_s: Option<u64>, now: Now) {
        let own_s = match verdict {
            HookDecision::Allow(_) => self.settings.positive_s,
            HookDecision::Deny(_) | HookDecision::Ignore => self.settings.negative_s,
        };
        let mut for_s = cache_s.map_or(own_s, |cache_s| cache_s.min(own_s));
        if let HookDecision::Allow(principal) = verdict
            && let Some(until_s) = principal.expires_at_unix_s
        {
            for_s = for_s.min(until_s.saturating_sub(now.unix_s));
        }
        if for_s > 0
            && let Some(key) = self.name(attempt)
        {
            self.cache.lock().unwrap_or_else(PoisonError::into_inner).put(key, verdict.clone(), for_s, now);
        }
    }

    /// What stands for an attempt: the same for all that the hook would be asked the same about.
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
            // With its length, or two fields could be taken for two others.
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

/// Why there is no verdict.
enum Fault {
    /// The next question would probably fail, too.
    Service,
    /// The service does not take this question. A client chooses much of what is in one, and must not keep the broker from asking about others.
    Request,
}

impl Fault {
    /// Of an answer with a status that is not 200.
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

fn answer(verdict: HookDecision, now: Now) -> BackendResponse {
    match verdict {
        HookDecision::Allow(principal) if principal.expires_at_unix_s.is_some_and(|until_s| until_s <= now.unix_s) => {
            BackendResponse::No(Refusal::new(
                RefusalCode::HookDenied,
                "the hook's answer has expired already (expires_at)",
            ))
        }
        HookDecision::Allow(principal) => BackendResponse::Yes { principal, data: None },
        HookDecision::Deny(why) => {
            let why = why.map_or_else(String::new, |why| format!(": {}", crate::chain::shown(&why)));
            BackendResponse::No(Refusal::new(RefusalCode::HookDenied, format!("the hook says no{why}")))
        }
        HookDecision::Ignore => BackendResponse::Unknown(None),
    }
}

/// One of the requests that may be on their way.
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

/// Fields of requests are secrets.
impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").field("url", &shown_url(&self.settings.url)).finish_non_exhaustive()
    }
}
