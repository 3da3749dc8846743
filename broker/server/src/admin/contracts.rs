//! Changing contracts at run time.

use std::sync::Arc;

use tautwire_contracts::{Catalogue, Files, discovery};

use super::request_context::RequestContext;
use super::response::{JSON, Response, Status, not_found};
use super::shared;
use crate::contracts::{Change, Entry, StoreError, observe_warning};
use crate::shared::Parts;

pub(super) fn put(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let name = call.name(0);
    let entry = Entry::from_json(&call.json()?)
        .map_err(|message| Response::error(Status::UNPROCESSABLE, "contract_value", &message))?;
    let (catalogue, is_new) = match call.admin.store.put(name, &entry) {
        Err(StoreError::Shared) => put_shared(call, name, &entry)?,
        result => result.map_err(|error| store_error_response(name, &error))?,
    };
    log::info!("contract {name} {}", if is_new { "added" } else { "replaced" });
    if catalogue.observing().any(|contract| contract.name() == name) {
        log::warn!("{}", observe_warning(name));
    }
    contract_response(if is_new { Status::CREATED } else { Status::OK }, &catalogue, name)
}

pub(super) fn delete(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let name = call.name(0);
    match call.admin.store.remove(name) {
        Err(StoreError::Shared) => {
            change_shared(call, name, |files| Change::remove(files.clone(), name)?.ok_or(StoreError::Unknown))?
        }
        result => result.map_err(|error| store_error_response(name, &error))?,
    }
    log::info!("contract {name} removed");
    Ok(Response::new(Status::NO_CONTENT, JSON, ""))
}

/// Adds or replaces the contract in the next revision of the cluster's shared configuration.
fn put_shared(call: &RequestContext<'_, '_>, name: &str, entry: &Entry) -> Result<(Arc<Catalogue>, bool), Response> {
    let is_new = call.admin.control.contracts().named(name).is_none();
    change_shared(call, name, |files| Ok(Change::put(files.clone(), name, entry)?))?;
    Ok((call.admin.control.contracts(), is_new))
}

/// Adds, replaces or removes one shared contract. `change` computes the change from the current files. Returns after this node has
/// applied it.
fn change_shared(
    call: &RequestContext<'_, '_>,
    name: &str,
    change: impl Fn(&Files) -> Result<Change, StoreError>,
) -> Result<(), Response> {
    shared::change_parts(call, |parts| {
        let files = parts.contracts.as_ref().ok_or_else(no_longer_shared)?;
        let change = change(files).map_err(|error| store_error_response(name, &error))?;
        Ok(Parts { contracts: Some(change.applied_to(files.clone())), ..parts.clone() })
    })
}

fn contract_response(status: Status, catalogue: &Catalogue, name: &str) -> Result<Response, Response> {
    let contract = catalogue.named(name).ok_or_else(|| not_found("no such contract"))?;
    Ok(Response::new(status, JSON, discovery::describe(contract)))
}

fn store_error_response(name: &str, error: &StoreError) -> Response {
    match error {
        StoreError::Wrong(errors) => Response::invalid_contracts(errors),
        StoreError::Unknown => not_found("no such contract"),
        // Shared contracts are changed by a new revision instead of the local store.
        StoreError::Shared => Response::error(Status::CONFLICT, "contracts_shared", &error.to_string()),
        StoreError::NoFolder => Response::error(Status::CONFLICT, "contracts_not_configured", &error.to_string()),
        StoreError::Write(_) => {
            log::error!("cannot change contract {}: {error}", name.escape_debug());
            Response::error(Status::INTERNAL, "contracts_not_written", &error.to_string())
        }
    }
}

fn no_longer_shared() -> Response {
    let why = "the cluster no longer shares contracts; try again to change those of this broker";
    Response::error(Status::CONFLICT, "configuration_changed", why)
}
