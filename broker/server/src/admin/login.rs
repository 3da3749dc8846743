//! Login and logout for browsers: a token or a password is exchanged for a session cookie.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tautwire_identity::Secret;

use super::caller::{Caller, check_same_origin};
use super::credentials::{CurrentGrant, Principal};
use super::request_context::RequestContext;
use super::response::{JSON, Response, Status, ok, unauthorized};
use super::sessions::{ActiveSession, COOKIE};
use super::state::AdminState;
use crate::fields::Fields;
use crate::json::{self, Value};
use crate::log::audit;
use crate::time::since_epoch;

/// Longest body of a login, whose sender is not authenticated yet.
pub(super) const BODY_BYTES_MAX: usize = 16 << 10;
/// Longest user name, password and token that are checked.
const LOGIN_BYTES_MAX: usize = 4 << 10;

/// `POST /session`.
pub(super) fn log_in(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let (head, admin, now) = (call.head, call.admin, Instant::now());
    check_same_origin(head)?;
    let media_type = head.content_type.as_deref().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case(JSON) {
        // A form on another page cannot send this type without a CORS preflight.
        let message = "send the body with Content-Type: application/json";
        return Err(Response::error(Status::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    let address = call.peer.ip();
    let login = LoginCredentials::read(call.body()?)?;
    let name = login.name(address);
    let audit = |by: &str, result: &str| {
        let address = &*call.peer.to_string();
        log::error!(target: audit::TARGET, event = "admin_login", actor = by, address = address, result = result; "");
    };
    let checked = admin.check(&login, &name, address).inspect_err(|refusal| {
        let slowed = refusal.status() == Status::TOO_MANY_REQUESTS;
        let counter = if slowed { &admin.counters.logins_slowed } else { &admin.counters.logins_refused };
        counter.fetch_add(1, Ordering::Relaxed);
        audit(&name, if slowed { "throttled" } else { "failure" });
    });
    let (principal, current_grant) = checked?;
    let limits = admin.credentials.get().limits();
    let started = admin.sessions.begin(principal, current_grant, limits, now);
    let started = started.map_err(|why| Response::error(Status::INTERNAL, "no_random_bytes", &why))?;
    admin.counters.logins.fetch_add(1, Ordering::Relaxed);
    admin.counters.sessions_displaced.fetch_add(u64::from(started.evicted), Ordering::Relaxed);
    audit(&started.found.principal.by(), "success");
    // A new login replaces the earlier session of the same browser.
    head.cookies.iter().for_each(|before| admin.sessions.end(before));
    let secure = if head.came_by_https { "; Secure" } else { "" };
    let max_age_s = limits.longest.as_secs();
    let cookie = format!("{COOKIE}={}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}", started.cookie);
    Ok(to_fields(&started.found).with("Set-Cookie", &cookie))
}

/// `GET /session`.
pub(super) fn show(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    match &call.caller {
        Some(Caller { session: Some(found), .. }) => Ok(to_fields(found)),
        Some(caller) => {
            let CurrentGrant { expires_unix_s, .. } = caller.current_grant;
            Ok(answer(&caller.principal, caller.current_grant, expires_unix_s.map(|s| s.saturating_mul(1_000)), None))
        }
        None => Err(unauthorized()),
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
    ok(Fields::default()
        .with("name", principal.name())
        .with("role", current_grant.grant.role.name())
        .with("payloads", current_grant.grant.payloads)
        .with("expires_ms", expires_ms)
        .with("csrf", csrf))
}

/// The credentials of a login.
enum LoginCredentials {
    Token(Secret),
    User(String, Secret),
}

impl LoginCredentials {
    fn read(body: &[u8]) -> Result<LoginCredentials, Response> {
        let bad_request = |message: &str| Response::error(Status::BAD_REQUEST, "bad_json", message);
        let text = str::from_utf8(body).map_err(|_| bad_request("the body is not UTF-8"))?;
        let value = json::parse(text)
            .map_err(|error| bad_request(&format!("the body is not valid JSON at byte {}", error.offset)))?;
        let given = |name| value.get(name).and_then(Value::as_text).filter(|text| text.len() <= LOGIN_BYTES_MAX);
        match (given("token"), given("user"), given("password")) {
            (Some(token), None, None) => Ok(LoginCredentials::Token(Secret::new(token.as_bytes()))),
            (None, Some(user), Some(password)) => {
                Ok(LoginCredentials::User(user.to_owned(), Secret::new(password.as_bytes())))
            }
            _ => {
                let message =
                    "send {\"token\": …} or {\"user\": …, \"password\": …}; each value is a string of at most 4 KiB";
                Err(Response::error(Status::UNPROCESSABLE, "login_value", message))
            }
        }
    }

    /// The name that failures are counted by and that the audit log shows.
    fn name(&self, address: IpAddr) -> String {
        match self {
            LoginCredentials::Token(_) => format!("token from {address}"),
            LoginCredentials::User(name, _) => format!("user {name}"),
        }
    }
}

impl AdminState {
    fn check(
        &self,
        login: &LoginCredentials,
        name: &str,
        address: IpAddr,
    ) -> Result<(Principal, CurrentGrant), Response> {
        // Passwords are checked one at a time: each check takes the memory and the CPU time of a hash, and parallel guesses must wait like
        // sequential ones.
        let _alone = matches!(login, LoginCredentials::User(..)).then(|| self.checking.lock());
        let now = Instant::now();
        let wait = self.attempts.wait(name, now);
        let credentials = self.credentials.get();
        let found = match login {
            // A token cannot be guessed: the right one is accepted whatever failed before.
            LoginCredentials::Token(token) => credentials.principal_of_token(token.expose()),
            LoginCredentials::User(..) if wait.is_some() => None,
            LoginCredentials::User(user, password) => {
                let authenticator = self.reloader.authenticator();
                let is_right = |file| authenticator.verify_password(file, user, password, address);
                credentials.passwords().is_some_and(is_right).then(|| credentials.user(user)).flatten()
            }
        };
        match (found, wait) {
            (Some(found), _) => {
                self.attempts.succeeded(name);
                Ok(found)
            }
            (None, Some(wait)) => {
                let wait_s = wait.as_secs().saturating_add(1);
                let message = format!("too many failed logins; try again in {wait_s} s");
                let refusal = Response::error(Status::TOO_MANY_REQUESTS, "too_many_failures", &message);
                Err(refusal.with("Retry-After", &wait_s.to_string()))
            }
            (None, None) => {
                self.attempts.failed(name, now);
                let message =
                    "login failed: unknown token, wrong user or password, or the user has no role in admin.roles";
                Err(Response::error(Status::UNAUTHORIZED, "login_refused", message))
            }
        }
    }
}
