//! The running configuration, and its reload.

use super::request_context::RequestContext;
use super::response::{JSON, Response, Status, TOML};
use crate::serve::reload_report::ReloadReport;

pub(super) fn show(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    Ok(Response::new(Status::OK, TOML, call.admin.reloader.running_toml()))
}

pub(super) fn diff(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    to_response(call.admin.reloader.compare())
}

/// Reloads the configuration.
pub(super) fn reload(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let result = call.admin.reloader.reload();
    match &result {
        Ok(reloaded) => log::info!("admin: {reloaded}"),
        Err(errors) => log::warn!("admin: reload failed, the configuration is unchanged: {}", errors.join("; ")),
    }
    to_response(result)
}

fn to_response(result: Result<ReloadReport, Vec<String>>) -> Result<Response, Response> {
    match result {
        Ok(reloaded) => Ok(Response::new(Status::OK, JSON, reloaded.to_json())),
        Err(errors) => Err(Response::invalid_configuration(&errors)),
    }
}
