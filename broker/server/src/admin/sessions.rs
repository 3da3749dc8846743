//! Those who have logged in, by a cookie.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::credentials::{Credentials, CurrentGrant, Principal};
use super::token::{Token, generate_token};

/// How many may be logged in, and for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionLimits {
    pub(crate) sessions: usize,
    /// After so long without a request a session ends.
    pub(crate) idle: Duration,
    /// After so long it ends in any case.
    pub(crate) longest: Duration,
}

/// The sessions that there are, by the digests of their cookies.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Session>>);

#[derive(Debug, Clone)]
struct Session {
    principal: Principal,
    /// What requests carry that change something. No other page can know it.
    csrf: String,
    started_at: Instant,
    last_used: Instant,
}

/// A session as a request finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActiveSession {
    pub(super) principal: Principal,
    pub(super) current_grant: CurrentGrant,
    pub(super) csrf: String,
    /// Of the cookie.
    pub(super) digest: String,
    /// When it ends if nothing is asked any more.
    pub(super) ends_in: Duration,
}

/// A session that has begun.
pub(super) struct NewSession {
    /// What the cookie has.
    pub(super) cookie: String,
    pub(super) found: ActiveSession,
    /// Another one had to end for it.
    pub(super) evicted: bool,
}

impl Sessions {
    /// Begins one. Where there are as many as may be, the one that has asked for nothing the longest ends.
    ///
    /// # Errors
    /// The system gives no random bytes.
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

    /// The session of a cookie, which has just asked for something. It ends where its holder is not known any more.
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
        let lives = session.ends_in(limits, now).is_some();
        let Some(current_grant) = credentials.current_grant(&session.principal).filter(|_| lives) else {
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

    /// Whether there is still a session with this digest of its cookie.
    pub(super) fn has(&self, digest: &str) -> bool {
        self.locked().contains_key(digest)
    }

    /// Ends the session of a cookie.
    pub(super) fn end(&self, cookie: &str) {
        self.locked().remove(&digest(cookie));
    }

    /// How many there are.
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

/// By digest, the time that looking takes tells nothing of cookies.
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

    fn somebody() -> (Credentials, Principal, CurrentGrant) {
        let grant = Grant { role: Role::Operate, payloads: false };
        let token = NamedToken { name: "a".into(), grant, expires_unix_s: None, token: Token::of_text("token-of-a") };
        let credentials = Credentials::of_tokens(vec![token], LIMITS);
        let (principal, current_grant) = credentials.principal_of_token(b"token-of-a").expect("it is known");
        (credentials, principal, current_grant)
    }

    #[test]
    fn a_session_ends_when_nothing_is_asked_and_in_any_case_after_the_longest_time() {
        let (credentials, principal, current_grant) = somebody();
        let (sessions, start) = (Sessions::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let begin = || sessions.begin(principal.clone(), current_grant, LIMITS, start).expect("it begins").cookie;
        let find = |cookie: &str, seconds| sessions.find(cookie, &credentials, LIMITS, at(seconds));
        let cookie = begin();
        assert_eq!(find(&cookie, 9).expect("it lives").ends_in, LIMITS.idle);
        assert_eq!(find(&cookie, 18).expect("it lives").ends_in, Duration::from_secs(7));
        assert_eq!(find(&cookie, 25), None);
        let cookie = begin();
        assert_eq!(find(&cookie, 10), None, "nothing was asked");
        assert_eq!(find(&cookie, 1), None, "and it does not come back");
        assert_eq!(find("", 0), None);
    }

    #[test]
    fn the_one_that_has_rested_longest_makes_room() {
        let (credentials, principal, current_grant) = somebody();
        let (sessions, start) = (Sessions::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let begin = |seconds| sessions.begin(principal.clone(), current_grant, LIMITS, at(seconds)).expect("it begins");
        let lives = |cookie: &str, seconds| sessions.find(cookie, &credentials, LIMITS, at(seconds)).is_some();
        let (first, second) = (begin(0), begin(1));
        assert!(!second.evicted && lives(&first.cookie, 2));
        let third = begin(3);
        assert!(third.evicted);
        assert!(lives(&first.cookie, 4) && lives(&third.cookie, 4) && !lives(&second.cookie, 4));
        assert_eq!(sessions.count(LIMITS, at(4)), 2);
        sessions.end(&first.cookie);
        assert!(!lives(&first.cookie, 4));
        assert_ne!(first.found.csrf, third.found.csrf);
    }

    #[test]
    fn a_session_ends_with_what_it_was_opened_by() {
        let (_, principal, current_grant) = somebody();
        let (sessions, now) = (Sessions::default(), Instant::now());
        let begun = sessions.begin(principal, current_grant, LIMITS, now).expect("it begins");
        let others = Credentials::of_tokens(Vec::new(), LIMITS);
        assert_eq!(sessions.find(&begun.cookie, &others, LIMITS, now), None);
    }
}
