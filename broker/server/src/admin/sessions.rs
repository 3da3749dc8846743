//! Login sessions, identified by cookies.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::credentials::{Credentials, CurrentGrant, Principal, SessionLimits};
use super::token::{Token, generate_token};

/// The name of the session cookie.
pub(super) const COOKIE: &str = "tautwire_session";

/// The open sessions by the digests of their cookies.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Session>>);

#[derive(Debug, Clone)]
struct Session {
    principal: Principal,
    /// The CSRF token that requests with side effects must carry. No other page can know it.
    csrf: String,
    started_at: Instant,
    last_used: Instant,
}

/// A session with the current grant of its principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActiveSession {
    pub(super) principal: Principal,
    pub(super) current_grant: CurrentGrant,
    pub(super) csrf: String,
    /// The digest of the cookie.
    pub(super) digest: String,
    /// Time until the session ends without further requests.
    pub(super) ends_in: Duration,
}

/// A session just created.
pub(super) struct NewSession {
    /// The value of the cookie.
    pub(super) cookie: String,
    pub(super) found: ActiveSession,
    /// Whether another session was ended to make room.
    pub(super) evicted: bool,
}

impl Sessions {
    /// Starts a session. If the limit is reached, the session idle the longest is ended.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub(super) fn begin(
        &self,
        principal: Principal,
        current_grant: CurrentGrant,
        limits: SessionLimits,
        now: Instant,
    ) -> Result<NewSession, String> {
        let (cookie, csrf) = (generate_token()?, generate_token()?);
        let mut sessions = self.locked();
        sessions.retain(|_, session| session.ends_in(limits, now).is_some());
        let mut evicted = false;
        while sessions.len() >= limits.sessions {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.last_used).map(|(digest, _)| digest.clone());
            evicted |= oldest.and_then(|digest| sessions.remove(&digest)).is_some();
        }
        let session = Session { principal: principal.clone(), csrf: csrf.clone(), started_at: now, last_used: now };
        let ends_in = session.ends_in(limits, now).unwrap_or_default();
        let digest = digest(&cookie);
        sessions.insert(digest.clone(), session);
        Ok(NewSession { cookie, found: ActiveSession { principal, current_grant, csrf, digest, ends_in }, evicted })
    }

    /// Finds the session of a cookie and marks it as used. Ends it if its principal is no longer known.
    pub(super) fn find(
        &self,
        cookie: &str,
        credentials: &Credentials,
        limits: SessionLimits,
        now: Instant,
    ) -> Option<ActiveSession> {
        let digest = digest(cookie);
        let mut sessions = self.locked();
        let session = sessions.get_mut(&digest)?;
        let is_valid = session.ends_in(limits, now).is_some();
        let Some(current_grant) = credentials.current_grant(&session.principal).filter(|_| is_valid) else {
            sessions.remove(&digest);
            return None;
        };
        session.last_used = now;
        let ends_in = session.ends_in(limits, now).unwrap_or_default();
        Some(ActiveSession {
            principal: session.principal.clone(),
            current_grant,
            csrf: session.csrf.clone(),
            digest,
            ends_in,
        })
    }

    /// Whether a session with this cookie digest still exists.
    pub(super) fn contains(&self, digest: &str) -> bool {
        self.locked().contains_key(digest)
    }

    /// Ends the session of a cookie.
    pub(super) fn end(&self, cookie: &str) {
        self.locked().remove(&digest(cookie));
    }

    /// The number of open sessions.
    pub(super) fn count(&self, limits: SessionLimits, now: Instant) -> usize {
        self.locked().values().filter(|session| session.ends_in(limits, now).is_some()).count()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn ends_in(&self, limits: SessionLimits, now: Instant) -> Option<Duration> {
        let idle = limits.idle.checked_sub(now.saturating_duration_since(self.last_used));
        let longest = limits.longest.checked_sub(now.saturating_duration_since(self.started_at));
        idle.min(longest).filter(|left| !left.is_zero())
    }
}

/// Hashing the cookie keeps the time of the lookup independent of the cookies.
fn digest(cookie: &str) -> String {
    Token::of_text(cookie).to_digest()
}

#[cfg(test)]
mod tests {
    use super::super::roles::{Grant, Role};
    use super::super::tokens_file::NamedToken;
    use super::*;

    const LIMITS: SessionLimits =
        SessionLimits { sessions: 2, idle: Duration::from_secs(10), longest: Duration::from_secs(25) };

    fn credentials() -> (Credentials, Principal, CurrentGrant) {
        let grant = Grant { role: Role::Operate, payloads: false };
        let token = NamedToken { name: "a".into(), grant, expires_unix_s: None, token: Token::of_text("token-of-a") };
        let credentials = Credentials::of_tokens(vec![token], LIMITS);
        let (principal, current_grant) = credentials.principal_of_token(b"token-of-a").expect("it is known");
        (credentials, principal, current_grant)
    }

    #[test]
    fn a_session_ends_after_inactivity_or_its_maximum_lifetime() {
        let (credentials, principal, current_grant) = credentials();
        let (sessions, start) = (Sessions::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let begin = || sessions.begin(principal.clone(), current_grant, LIMITS, start).expect("it begins").cookie;
        let find = |cookie: &str, seconds| sessions.find(cookie, &credentials, LIMITS, at(seconds));
        let cookie = begin();
        assert_eq!(find(&cookie, 9).expect("it is valid").ends_in, LIMITS.idle);
        assert_eq!(find(&cookie, 18).expect("it is valid").ends_in, Duration::from_secs(7));
        assert_eq!(find(&cookie, 25), None);
        let cookie = begin();
        assert_eq!(find(&cookie, 10), None, "no request before the idle limit");
        assert_eq!(find(&cookie, 1), None, "it stays removed");
        assert_eq!(find("", 0), None);
    }

    #[test]
    fn the_longest_idle_session_is_evicted() {
        let (credentials, principal, current_grant) = credentials();
        let (sessions, start) = (Sessions::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let begin = |seconds| sessions.begin(principal.clone(), current_grant, LIMITS, at(seconds)).expect("it begins");
        let is_valid = |cookie: &str, seconds| sessions.find(cookie, &credentials, LIMITS, at(seconds)).is_some();
        let (first, second) = (begin(0), begin(1));
        assert!(!second.evicted && is_valid(&first.cookie, 2));
        let third = begin(3);
        assert!(third.evicted);
        assert!(is_valid(&first.cookie, 4) && is_valid(&third.cookie, 4) && !is_valid(&second.cookie, 4));
        assert_eq!(sessions.count(LIMITS, at(4)), 2);
        sessions.end(&first.cookie);
        assert!(!is_valid(&first.cookie, 4));
        assert_ne!(first.found.csrf, third.found.csrf);
    }

    #[test]
    fn a_session_ends_with_its_credentials() {
        let (_, principal, current_grant) = credentials();
        let (sessions, now) = (Sessions::default(), Instant::now());
        let started = sessions.begin(principal, current_grant, LIMITS, now).expect("it begins");
        let others = Credentials::of_tokens(Vec::new(), LIMITS);
        assert_eq!(sessions.find(&started.cookie, &others, LIMITS, now), None);
    }
}
