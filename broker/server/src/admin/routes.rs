//! What each address answers.

use tautwire_contracts::{Catalogue, discovery};

use super::request::{Head, Reading};
use super::response::{JSON, Response, Status, TOML};
use super::{Admin, bans, clients, messages, metrics};
use crate::contracts::{Entry, Store, StoreError};
use crate::fields::Fields;
use crate::json;
use crate::serve::reload::Reloaded;

/// Answers a request whose head is there and whose body may still come.
pub(super) fn answer(admin: &Admin, head: &Head, reading: &mut Reading<'_>) -> Response {
    if head.path == "/health" {
        return match head.method.as_str() {
            "GET" => health(admin),
            _ => not_allowed("GET"),
        };
    }
    if !head.token.as_ref().is_some_and(|given| admin.token.is(given)) {
        return Response::error(Status::UNAUTHORIZED, "unauthorized", "send the token: Authorization: Bearer TOKEN")
            .with("WWW-Authenticate", "Bearer");
    }
    if let Some(topic) = head.path.strip_prefix("/messages/") {
        return match head.method.as_str() {
            "POST" => messages::publish(admin, topic, head, reading),
            _ => not_allowed("POST"),
        };
    }
    if let Some(below) = head.path.strip_prefix("/v1/clients").filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        return clients::answer(admin, below, head, reading);
    }
    let contract = head.path.strip_prefix("/contracts/");
    match (head.path.as_str(), contract, head.method.as_str()) {
        ("/metrics", _, "GET") => metrics::answer(admin, &head.accept),
        ("/config", _, "GET") => Response::new(Status::OK, TOML, admin.reloader.running_toml()),
        ("/config/diff", _, "GET") => reloaded(admin.reloader.compare()),
        ("/config/reload", _, "POST") => reload(admin),
        ("/config/reload", ..) => not_allowed("POST"),
        ("/bans", _, "GET") => bans::list(admin),
        ("/bans", _, "POST") => bans::add(admin, head, reading),
        ("/bans", _, "DELETE") => bans::remove(admin, head, reading),
        ("/bans", ..) => not_allowed("GET, POST, DELETE"),
        ("/v1/listeners", _, "GET") => listeners(admin),
        ("/contracts", _, "GET") => all(&admin.control.contracts()),
        ("/v1/listeners" | "/metrics" | "/contracts" | "/config" | "/config/diff", ..) => not_allowed("GET"),
        (_, Some(name), "GET") => one(Status::OK, &admin.control.contracts(), name),
        (_, Some(name), "PUT") => put(&admin.store, name, head, reading),
        (_, Some(name), "DELETE") => delete(&admin.store, name),
        (_, Some(_), _) => not_allowed("GET, PUT, DELETE"),
        _ => not_found(
            "there is nothing here; there are /health, /metrics, /bans, /config, /config/diff, /config/reload, /contracts, \
             /contracts/NAME, /messages/TOPIC, /v1/clients, /v1/clients/CLIENT, /v1/listeners",
        ),
    }
}

/// Whether the broker does all that it is there for. One whose disk has failed goes on for those who ask for nothing lasting.
/// One that cannot read some messages back goes on for all but the clients who wait for them.
fn health(admin: &Admin) -> Response {
    match admin.control.data() {
        Some(data) if data.failure.is_some() => {
            Response::new(Status::SERVICE_UNAVAILABLE, JSON, "{\"status\":\"failed\",\"disk\":\"failed\"}\n")
        }
        Some(_) if admin.control.totals().cold_unreadable > 0 => {
            Response::new(Status::OK, JSON, "{\"status\":\"degraded\",\"disk\":\"unreadable\"}\n")
        }
        Some(data) if data.is_full => Response::new(Status::OK, JSON, "{\"status\":\"degraded\",\"disk\":\"full\"}\n"),
        _ => Response::new(Status::OK, JSON, "{\"status\":\"ok\"}\n"),
    }
}

/// Where is listened, and who has come.
fn listeners(admin: &Admin) -> Response {
    let described = admin.control.listeners().into_iter().map(|listener| {
        let address = admin.control.address_of(&listener.name).map(|address| address.to_string());
        Fields::default()
            .with("name", &*listener.name)
            .with("address", address.as_deref())
            .with("connections", listener.connections)
            .with("accepted", listener.accepted)
            .with("refused", listener.refused)
    });
    clients::ok(Fields::default().with("listeners", described.collect::<Vec<_>>()))
}

/// Has the broker read its configuration again.
fn reload(admin: &Admin) -> Response {
    let result = admin.reloader.reload();
    match &result {
        Ok(reloaded) => log::info!("admin: {reloaded}"),
        Err(_) => log::warn!("admin: a reload was asked for, and refused; nothing has changed"),
    }
    reloaded(result)
}

fn reloaded(result: Result<Reloaded, Vec<String>>) -> Response {
    match result {
        Ok(reloaded) => Response::new(Status::OK, JSON, reloaded.to_json()),
        Err(errors) => Response::wrong_configuration(&errors),
    }
}

fn all(catalogue: &Catalogue) -> Response {
    let is_empty = catalogue.contracts().is_empty();
    let json = if is_empty { b"{\"contracts\":[]}".to_vec() } else { discovery::index_json(catalogue) };
    Response::new(Status::OK, JSON, json)
}

fn one(status: Status, catalogue: &Catalogue, name: &str) -> Response {
    match catalogue.named(name) {
        Some(contract) => Response::new(status, JSON, discovery::describe(contract)),
        None => not_found("there is no contract of that name"),
    }
}

fn put(store: &Store, name: &str, head: &Head, reading: &mut Reading<'_>) -> Response {
    let body = match reading.body(head) {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let Ok(text) = str::from_utf8(body) else {
        return Response::error(Status::BAD_REQUEST, "bad_json", "the body is not UTF-8");
    };
    let value = match json::parse(text) {
        Ok(value) => value,
        Err(error) => {
            let message = format!("the body is no JSON: {} at byte {}", error.message, error.offset);
            return Response::error(Status::BAD_REQUEST, "bad_json", &message);
        }
    };
    let entry = match Entry::from_json(&value) {
        Ok(entry) => entry,
        Err(message) => return Response::error(Status::UNPROCESSABLE, "contract_value", &message),
    };
    match store.put(name, &entry) {
        Ok((catalogue, is_new)) => {
            log::info!("the contract {name} is {}", if is_new { "added" } else { "replaced" });
            one(if is_new { Status::CREATED } else { Status::OK }, &catalogue, name)
        }
        Err(error) => not_changed(name, &error),
    }
}

fn delete(store: &Store, name: &str) -> Response {
    match store.remove(name) {
        Ok(()) => {
            log::info!("the contract {name} is removed");
            Response::new(Status::NO_CONTENT, JSON, "")
        }
        Err(error) => not_changed(name, &error),
    }
}

fn not_changed(name: &str, error: &StoreError) -> Response {
    match error {
        StoreError::Wrong(errors) => Response::wrong_contracts(errors),
        StoreError::Unknown => not_found("there is no contract of that name"),
        StoreError::NoFolder => Response::error(Status::CONFLICT, "contracts_not_configured", &error.to_string()),
        StoreError::Write(_) => {
            log::error!("the contract {} is not changed: {error}", name.escape_debug());
            Response::error(Status::INTERNAL, "contracts_not_written", &error.to_string())
        }
    }
}

pub(super) fn not_found(message: &str) -> Response {
    Response::error(Status::NOT_FOUND, "not_found", message)
}

pub(super) fn not_allowed(allowed: &str) -> Response {
    let message = format!("the method is not one of {allowed}");
    Response::error(Status::METHOD_NOT_ALLOWED, "method_not_allowed", &message).with("Allow", allowed)
}
