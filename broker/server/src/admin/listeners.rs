//! Listeners with their addresses, certificates and connection counts.

use super::request_context::RequestContext;
use super::response::{Response, ok};
use crate::fields::Fields;

/// `GET /v1/listeners`.
pub(super) fn list(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let control = &call.admin.control;
    let certificates = call.admin.reloader.certificates();
    let to_fields = control.listeners().into_iter().map(|listener| {
        let address = control.address_of(&listener.name).map(|address| address.to_string());
        let tls = certificates.iter().find(|(name, _)| **name == *listener.name).map(|(_, certificates)| {
            let certificates = certificates.iter().map(|certificate| {
                Fields::default()
                    .with("names", certificate.names.iter().map(|name| &**name).collect::<Vec<_>>())
                    .with("not_after_ms", certificate.not_after_unix_s.map(|s| s.saturating_mul(1_000)))
            });
            Fields::default().with("certificates", certificates.collect::<Vec<_>>())
        });
        Fields::default()
            .with("name", &*listener.name)
            .with("address", address.as_deref())
            .with("connections", listener.connections)
            .with("accepted", listener.accepted)
            .with("refused", listener.refused)
            .with("tls", tls)
    });
    Ok(ok(Fields::default().with("listeners", to_fields.collect::<Vec<_>>())))
}
