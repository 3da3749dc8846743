//! Logging in and out, for browsers: a token or a password becomes a session with a cookie.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tautwire_identity::Secret;

use super::Admin;
use super::caller::{Caller, is_loopback};
use super::credentials::{CurrentGrant, Principal};
use super::response::{JSON, Response, Status};
use super::routes::RequestContext;
use super::sessions::ActiveSession;
use crate::fields::Fields;
use crate::json::{self, Value};
use crate::log::audit;
use crate::time::since_epoch;

/// The cookie of a session.
pub(super) const COOKIE: &str = "tautwire_session";
/// Longest body of a login, whose sender is not known yet.
pub(super) const BODY_BYTES_MAX: usize = 16 << 10;
/// Longest user name and longest password that are looked at.
const LOGIN_BYTES_MAX: usize = 4 << 10;

/// `POST /session`.
pub(super) fn log_in(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let (head, admin, now) = (call.head, call.admin, Instant::now());
    is_loopback(head)?;
    let media_type = head.content_type.as_deref().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case(JSON) {
        // A form of another page cannot send this type without asking.
        let message = "send the body with Content-Type: application/json";
        return Err(Response::error(Status::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    let address = call.peer.ip();
    let asked = LoginCredentials::read(call.body()?)?;
    let named = asked.name(address);
    let told = |by: &str, done: &str| {
        let address = &*call.peer.to_string();
        log::error!(target: audit::TARGET, event = "admin_login", by = by, address = address, done = done; "");
    };
    let checked = admin.check(&asked, &named, address).inspect_err(|refusal| {
        let slowed = refusal.status() == Status::TOO_MANY_REQUESTS;
        let counter = if slowed { &admin.counters.logins_slowed } else { &admin.counters.logins_refused };
        counter.fetch_add(1, Ordering::Relaxed);
        told(&named, if slowed { "slowed" } else { "no" });
    });
    let (principal, current_grant) = checked?;
    let limits = admin.credentials.get().limits();
    let begun = admin.sessions.begin(principal, current_grant, limits, now);
    let begun = begun.map_err(|why| Response::error(Status::INTERNAL, "no_random_bytes", &why))?;
    admin.counters.logins.fetch_add(1, Ordering::Relaxed);
    admin.counters.sessions_displaced.fetch_add(u64::from(begun.evicted), Ordering::Relaxed);
    told(&begun.found.principal.by(), "yes");
    // Whoever logs in anew has no use for the session of before.
    head.cookies.iter().for_each(|before| admin.sessions.end(before));
    let secure = if head.came_by_https { "; Secure" } else { "" };
    let lasts_s = limits.longest.as_secs();
    let cookie = format!("{COOKIE}={}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}", begun.cookie);
    Ok(to_fields(&begun.found).with("Set-Cookie", &cookie))
}

/// `GET /session`.
pub(super) fn show(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    match &call.caller {
        Some(Caller { session: Some(found), .. }) => Ok(to_fields(found)),
        Some(caller) => {
            let CurrentGrant { expires_unix_s, .. } = caller.current_grant;
            Ok(answer(&caller.principal, caller.current_grant, expires_unix_s.map(|s| s.saturating_mul(1_000)), None))
        }
        None => Err(super::routes::unauthorized()),
    }
}

/// `DELETE /session`.
pub(super) fn log_out(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    call.head.cookies.iter().for_each(|cookie| call.admin.sessions.end(cookie));
    let gone = format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    Ok(Response::new(Status::NO_CONTENT, JSON, "").with("Set-Cookie", &gone))
}

fn to_fields(found: &ActiveSession) -> Response {
    let ends_ms = u64::try_from((since_epoch() + found.ends_in).as_millis()).unwrap_or(u64::MAX);
    let expires_ms = found.current_grant.expires_unix_s.map_or(ends_ms, |s| ends_ms.min(s.saturating_mul(1_000)));
    answer(&found.principal, found.current_grant, Some(expires_ms), Some(&found.csrf))
}

fn answer(principal: &Principal, current_grant: CurrentGrant, expires_ms: Option<u64>, csrf: Option<&str>) -> Response {
    super::clients::ok(
        Fields::default()
            .with("name", principal.name())
            .with("role", current_grant.grant.role.name())
            .with("payloads", current_grant.grant.payloads)
            .with("expires_ms", expires_ms)
            .with("csrf", csrf),
    )
}

/// Who wants to log in, and by what.
enum LoginCredentials {
    Token(Secret),
    User(String, Secret),
}

impl LoginCredentials {
    fn read(body: &[u8]) -> Result<LoginCredentials, Response> {
        let bad_request = |message: &str| Response::error(Status::BAD_REQUEST, "bad_json", message);
        let text = str::from_utf8(body).map_err(|_| bad_request("the body is not UTF-8"))?;
        let value =
            json::parse(text).map_err(|error| bad_request(&format!("the body is no JSON at byte {}", error.offset)))?;
        let given = |name| value.get(name).and_then(Value::as_text).filter(|text| text.len() <= LOGIN_BYTES_MAX);
        match (given("token"), given("user"), given("password")) {
            (Some(token), None, None) => Ok(LoginCredentials::Token(Secret::new(token.as_bytes()))),
            (None, Some(user), Some(password)) => {
                Ok(LoginCredentials::User(user.to_owned(), Secret::new(password.as_bytes())))
            }
            _ => {
                let message = "send {\"token\": …} or {\"user\": …, \"password\": …}, texts of 4 KiB at most";
                Err(Response::error(Status::UNPROCESSABLE, "login_value", message))
            }
        }
    }

    /// By what failures are counted, and what the audit log says.
    fn name(&self, address: IpAddr) -> String {
        match self {
            LoginCredentials::Token(_) => format!("token from {address}"),
            LoginCredentials::User(name, _) => format!("user {name}"),
        }
    }
}

impl Admin {
    fn check(
        &self,
        asked: &LoginCredentials,
        named: &str,
        address: IpAddr,
    ) -> Result<(Principal, CurrentGrant), Response> {
        // One password is looked at at a time: each takes the memory and the processor of a hash, and who guesses at many at once
        // waits as who guesses at one after the other.
        let _alone = matches!(asked, LoginCredentials::User(..)).then(|| self.checking.lock());
        let now = Instant::now();
        let wait = self.attempts.wait(named, now);
        let credentials = self.credentials.get();
        let found = match asked {
            // Nobody guesses a token: the right one is taken whatever came before.
            LoginCredentials::Token(token) => credentials.principal_of_token(token.expose()),
            LoginCredentials::User(..) if wait.is_some() => None,
            LoginCredentials::User(name, password) => {
                let authenticator = self.reloader.authenticator();
                let is_right = |file| authenticator.verify_password(file, name, password, address);
                credentials.passwords().is_some_and(is_right).then(|| credentials.user(name)).flatten()
            }
        };
        match (found, wait) {
            (Some(found), _) => {
                self.attempts.succeeded(named);
                Ok(found)
            }
            (None, Some(wait)) => {
                let wait_s = wait.as_secs().saturating_add(1);
                let message = format!("too many logins have failed; try again in {wait_s} s");
                let refusal = Response::error(Status::TOO_MANY_REQUESTS, "too_many_failures", &message);
                Err(refusal.with("Retry-After", &wait_s.to_string()))
            }
            (None, None) => {
                self.attempts.failed(named, now);
                let message =
                    "no such token, or user and password do not belong together, or the user has no role here";
                Err(Response::error(Status::UNAUTHORIZED, "login_refused", message))
            }
        }
    }
}
