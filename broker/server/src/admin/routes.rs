//! The routes of the API and the permissions they require.

use std::net::SocketAddr;
use std::sync::Arc;

use super::caller::Caller;
use super::handler_limits::Class;
use super::request::{Head, RequestBody};
use super::request_context::RequestContext;
use super::response::{Response, Status, not_found, unauthorized};
use super::roles::{Permission, Role};
use super::state::AdminState;
use super::transport::Client;
use super::{
    bans, bridges, clients, cluster, configuration, contracts, explain, health, listeners, login, messages, metrics,
    openapi, overview, retained, rules, shared, tap, topic_metrics, ui, violations, why,
};

type Handler = fn(&mut RequestContext<'_, '_>) -> Result<Response, Response>;

/// A method, a path pattern, the required permission, and the handler. In a pattern `{name}` matches one path segment, and `{+name}`
/// matches the rest. The paths are those of the OpenAPI document.
pub(super) struct Route(pub(super) &'static str, pub(super) &'static str, pub(super) Permission, Handler);

const OPEN: Permission = Permission::Public;
const KNOWN: Permission = Permission::Authenticated;
const READ: Permission = Permission::Role(Role::Read);
const PAYLOADS: Permission = Permission::Payloads;
const OPERATE: Permission = Permission::Role(Role::Operate);
const ADMINISTER: Permission = Permission::Role(Role::Administer);

/// The version prefix of paths. Without it, the newest version answers, which is this one.
const VERSION: &str = "/v1";

#[rustfmt::skip]
pub(super) static ROUTES: &[Route] = &[
    Route("GET",    "/",                                   OPEN,       ui::page),
    Route("GET",    "/ui/{name}",                          OPEN,       ui::file),
    Route("GET",    "/openapi.json",                       OPEN,       openapi::document),
    Route("GET",    "/health",                             OPEN,       health::whole),
    Route("GET",    "/health/live",                        OPEN,       health::live),
    Route("GET",    "/health/ready",                       OPEN,       health::ready),
    Route("GET",    "/metrics",                            READ,       metrics::answer),
    Route("GET",    "/session",                            KNOWN,      login::show),
    Route("POST",   "/session",                            OPEN,       login::log_in),
    Route("DELETE", "/session",                            KNOWN,      login::log_out),
    Route("GET",    "/v1/bans",                            READ,       bans::list),
    Route("POST",   "/v1/bans",                            OPERATE,    bans::add),
    Route("DELETE", "/v1/bans",                            OPERATE,    bans::remove),
    Route("GET",    "/v1/bridges",                         READ,       bridges::list),
    Route("GET",    "/v1/bridges/{bridge}",                READ,       bridges::one),
    Route("POST",   "/v1/bridges/{bridge}/pause",          OPERATE,    bridges::pause),
    Route("POST",   "/v1/bridges/{bridge}/resume",         OPERATE,    bridges::resume),
    Route("POST",   "/v1/bridges/{bridge}/test",           OPERATE,    bridges::test),
    Route("GET",    "/v1/clients",                         READ,       clients::list),
    Route("GET",    "/v1/clients/{client}",                READ,       clients::one),
    Route("GET",    "/v1/clients/{client}/subscriptions",  READ,       clients::subscriptions),
    Route("GET",    "/v1/clients/{client}/why",            READ,       why::answer),
    Route("DELETE", "/v1/clients/{client}/connection",     OPERATE,    clients::end_connection),
    Route("DELETE", "/v1/clients/{client}/session",        OPERATE,    clients::end_session),
    Route("GET",    "/v1/cluster",                         READ,       cluster::show),
    Route("GET",    "/v1/cluster/configuration",           ADMINISTER, shared::show),
    Route("PUT",    "/v1/cluster/configuration",           ADMINISTER, shared::put),
    Route("POST",   "/v1/cluster/drain",                   OPERATE,    cluster::drain),
    Route("POST",   "/v1/cluster/rebalance",               OPERATE,    cluster::rebalance),
    Route("GET",    "/v1/config",                          READ,       configuration::show),
    Route("GET",    "/v1/config/diff",                     READ,       configuration::diff),
    Route("POST",   "/v1/config/reload",                   OPERATE,    configuration::reload),
    Route("GET",    "/v1/contracts",                       READ,       violations::all),
    Route("GET",    "/v1/contracts/{+name}",               READ,       violations::one),
    Route("PUT",    "/v1/contracts/{+name}",               ADMINISTER, contracts::put),
    Route("DELETE", "/v1/contracts/{+name}",               ADMINISTER, contracts::delete),
    Route("POST",   "/v1/explain",                         READ,       explain::answer),
    Route("GET",    "/v1/listeners",                       READ,       listeners::list),
    Route("POST",   "/v1/messages/{+topic}",               OPERATE,    messages::publish),
    Route("GET",    "/v1/overview",                        READ,       overview::answer),
    Route("GET",    "/v1/overview/history",                READ,       overview::history),
    Route("GET",    "/v1/rules",                           READ,       rules::list),
    Route("GET",    "/v1/retained",                        READ,       retained::list),
    Route("DELETE", "/v1/retained",                        OPERATE,    retained::remove),
    Route("GET",    "/v1/retained/{+topic}",               PAYLOADS,   retained::show),
    Route("GET",    "/v1/tap",                             PAYLOADS,   tap::answer),
    Route("GET",    "/v1/topic-metrics",                   READ,       topic_metrics::answer),
    Route("GET",    "/v1/topics",                          READ,       retained::topics),
];

impl Route {
    pub(super) fn class(&self) -> Class {
        match self {
            Route("GET", _, Permission::Public, _) => Class::Immediate,
            Route("GET", "/metrics", ..) => Class::Metrics,
            Route("POST", "/session", ..) => Class::Login,
            _ => Class::General,
        }
    }

    /// Calls the handler.
    pub(super) fn answer(
        &self,
        (admin, head, received): (&Arc<AdminState>, &Head, &RequestBody),
        caller: Option<&Caller>,
        (peer, client): (SocketAddr, &Client),
    ) -> Response {
        let names = names(self.1, without_version(&head.path)).unwrap_or_default();
        let mut call = RequestContext { admin, head, received, caller, peer, client, names };
        (self.3)(&mut call).unwrap_or_else(|refusal| refusal)
    }
}

/// Finds the route for a request, and its caller.
///
/// # Errors
/// The response to a request without a route, or whose caller lacks the permission.
pub(super) fn choose(admin: &AdminState, head: &Head) -> (Result<&'static Route, Response>, Option<Caller>) {
    let path = without_version(&head.path);
    let matching = || ROUTES.iter().filter(|route| names(route.1, path).is_some());
    let method = if head.is_head() { "GET" } else { &head.method };
    let chosen = matching().find(|route| route.0 == method);
    let is_open = matching().any(|Route(_, _, needs, _)| *needs == Permission::Public);
    let (caller, unknown) = match admin.caller(head) {
        Ok(caller) => (Some(caller), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let chosen = match (chosen, &caller, unknown) {
        (Some(route), caller, unknown) => {
            let needs = route.2;
            let checked = match (caller, unknown) {
                _ if needs == Permission::Public => Ok(()),
                (Some(caller), _) => needs.check(caller.current_grant.grant),
                (None, refusal) => Err(refusal.unwrap_or_else(unauthorized)),
            };
            checked.map(|()| route)
        }
        // An unauthenticated caller cannot probe which paths exist, apart from the public ones.
        (None, None, Some(refusal)) if !is_open => Err(refusal),
        (None, ..) => {
            let mut methods: Vec<&str> = matching().map(|route| route.0).collect();
            if methods.contains(&"GET") {
                methods.push("HEAD");
            }
            Err(if methods.is_empty() { no_such_path() } else { not_allowed(&methods.join(", ")) })
        }
    };
    (chosen, caller)
}

/// Strips the version prefix, once.
fn without_version(path: &str) -> &str {
    path.strip_prefix(VERSION).filter(|rest| rest.starts_with('/')).unwrap_or(path)
}

/// The values of the placeholders, if the path matches the pattern.
fn names<'p>(pattern: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let mut names = Vec::new();
    let mut rest = Some(path.strip_prefix('/')?);
    for part in without_version(pattern).split('/').skip(1) {
        let here = rest?;
        if part.starts_with("{+") {
            names.push(here);
            return Some(names);
        }
        let (first, after) = here.split_once('/').map_or((here, None), |(first, after)| (first, Some(after)));
        match part.starts_with('{') {
            true => names.push(first),
            false if part == first => {}
            false => return None,
        }
        rest = after;
    }
    rest.is_none().then_some(names)
}

fn no_such_path() -> Response {
    let mut paths: Vec<String> = ROUTES.iter().map(|route| route.1.replace("{+", "{")).collect();
    paths.dedup();
    not_found(&format!("no such path; the paths are {}", paths.join(", ")))
}

fn not_allowed(allowed: &str) -> Response {
    let message = format!("method not allowed here; allowed: {allowed}");
    Response::error(Status::METHOD_NOT_ALLOWED, "method_not_allowed", &message).with("Allow", allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_matches_exactly_one_pattern_or_none() {
        for (pattern, path, expected) in [
            ("/health", "/health", Some(vec![])),
            ("/health", "/health/", None),
            ("/health", "/healthy", None),
            ("/v1/clients/{client}", "/clients/a%2Fb", Some(vec!["a%2Fb"])),
            ("/v1/clients/{client}", "/clients/", Some(vec![""])),
            ("/v1/clients/{client}", "/clients", None),
            ("/v1/clients/{client}", "/clients/a/b", None),
            ("/v1/clients/{client}/why", "/clients/a/why", Some(vec!["a"])),
            ("/v1/messages/{+topic}", "/messages//a//b/", Some(vec!["/a//b/"])),
            ("/v1/messages/{+topic}", "/messages/", Some(vec![""])),
            ("/v1/messages/{+topic}", "/messages", None),
            ("/", "/", Some(vec![])),
            ("/health", "http://elsewhere/health", None),
        ] {
            let expected: Option<Vec<&str>> = expected;
            assert_eq!(names(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_version_prefix_is_removed_once() {
        for (path, expected) in
            [("/v1/bans", "/bans"), ("/v1/v1/bans", "/v1/bans"), ("/bans", "/bans"), ("/v1x", "/v1x"), ("/v1", "/v1")]
        {
            assert_eq!(without_version(path), expected);
        }
    }

    #[test]
    fn read_only_roles_cannot_change_anything() {
        for (at, Route(method, path, needs, _)) in ROUTES.iter().enumerate() {
            let changes = *method != "GET";
            let is_twice = ROUTES[..at].iter().any(|other| (other.0, other.1) == (*method, *path));
            assert!(!is_twice, "duplicate route {method} {path}");
            // A caller may always end its own session, and explaining changes nothing.
            let is_own = *path == "/session" || *path == "/v1/explain";
            assert!(!changes || is_own || matches!(needs, Permission::Role(_)), "{method} {path}");
        }
    }
}
