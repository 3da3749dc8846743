//! Who asks.

use std::time::Instant;

use super::Admin;
use super::credentials::{CurrentGrant, Principal};
use super::request::Head;
use super::response::{Response, Status};
use super::roles::Permission;
use super::routes::unauthorized;
use super::sessions::ActiveSession;
use super::token::Token;

/// Somebody who has shown who it is.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) principal: Principal,
    pub(super) current_grant: CurrentGrant,
    /// Where it has come by a cookie, which browsers send whoever makes them ask. Without, it has shown a token.
    pub(super) session: Option<Box<ActiveSession>>,
}

impl Admin {
    /// Who sends a request.
    ///
    /// # Errors
    /// The answer to one that does not show who sends it, or whose cookie may have been sent without its owner's will.
    pub(super) fn caller(&self, head: &Head) -> Result<Caller, Response> {
        let credentials = self.credentials.get();
        if let Some(token) = &head.token {
            let (principal, current_grant) = credentials.principal_of_token(token).ok_or_else(unauthorized)?;
            return Ok(Caller { principal, current_grant, session: None });
        }
        let limits = credentials.limits();
        let find = |cookie: &String| self.sessions.find(cookie, &credentials, limits, Instant::now());
        let found = head.cookies.iter().find_map(find).ok_or_else(unauthorized)?;
        if !head.is_safe() {
            is_loopback(head)?;
            let is_known = head.csrf.as_ref().is_some_and(|given| Token::of_text(&found.csrf).is(given));
            if !is_known {
                let message = "requests with a cookie that are not GET or HEAD need the field X-CSRF-Token, as GET /session has it";
                return Err(Response::error(Status::FORBIDDEN, "csrf", message));
            }
        }
        Ok(Caller {
            principal: found.principal.clone(),
            current_grant: found.current_grant,
            session: Some(Box::new(found)),
        })
    }
}

impl Admin {
    /// Whether a caller whose request goes on for long may still do what it does: a reload may have taken its role, or it has logged out.
    pub(super) fn is_still_allowed(&self, caller: &Caller, needs: Permission) -> bool {
        let is_here = caller.session.as_ref().is_none_or(|found| self.sessions.has(&found.digest));
        let current_grant = self.credentials.get().current_grant(&caller.principal).filter(|_| is_here);
        current_grant.is_some_and(|current_grant| needs.check(current_grant.grant).is_ok())
    }
}

/// Whether a page of this address makes the request, or no page at all. Browsers say so, and pages cannot make them say something else.
///
/// # Errors
/// The answer to a request that another page makes.
pub(super) fn is_loopback(head: &Head) -> Result<(), Response> {
    match head.fetch_site.as_deref() {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => Err(Response::error(Status::FORBIDDEN, "csrf", "a page of another address makes this request")),
    }
}
