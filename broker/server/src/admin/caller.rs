//! Authentication of the caller of a request.

use std::time::Instant;

use super::credentials::{CurrentGrant, Principal};
use super::request::Head;
use super::response::{Response, Status, unauthorized};
use super::roles::Permission;
use super::sessions::ActiveSession;
use super::state::AdminState;
use super::token::Token;

/// An authenticated caller.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) principal: Principal,
    pub(super) current_grant: CurrentGrant,
    /// Set if the caller authenticated with a cookie, which browsers attach to any page's request. `None` for a token.
    pub(super) session: Option<Box<ActiveSession>>,
}

impl AdminState {
    /// Authenticates the sender of a request.
    ///
    /// # Errors
    /// The response to a request without valid credentials, or with a cookie but without a valid CSRF token.
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
            check_same_origin(head)?;
            let is_known = head.csrf.as_ref().is_some_and(|given| Token::of_text(&found.csrf).is(given));
            if !is_known {
                let message = "a request with a cookie other than GET and HEAD needs the field X-CSRF-Token with the csrf value of GET /session";
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

impl AdminState {
    /// Whether the caller of a long request still has the permission: a reload may have removed its role, or it has logged out.
    pub(super) fn is_still_allowed(&self, caller: &Caller, needs: Permission) -> bool {
        let is_logged_in = caller.session.as_ref().is_none_or(|found| self.sessions.contains(&found.digest));
        let current_grant = self.credentials.get().current_grant(&caller.principal).filter(|_| is_logged_in);
        current_grant.is_some_and(|current_grant| needs.check(current_grant.grant).is_ok())
    }
}

/// Checks that the request comes from a page of this origin or from no page. Browsers set the field, and pages cannot change it.
///
/// # Errors
/// The response to a request from another origin.
pub(super) fn check_same_origin(head: &Head) -> Result<(), Response> {
    match head.fetch_site.as_deref() {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => Err(Response::error(Status::FORBIDDEN, "csrf", "cross-origin requests are not allowed")),
    }
}
