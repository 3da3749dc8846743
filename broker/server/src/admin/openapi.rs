//! The OpenAPI description of the API.

use super::request_context::RequestContext;
use super::response::{JSON, Response, Status};

/// OpenAPI 3.1.
const DOCUMENT: &str = include_str!("../../../../docs/reference/admin-api.openapi.json");

/// `GET /openapi.json`.
pub(super) fn document(_: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    Ok(Response::new(Status::OK, JSON, DOCUMENT))
}

#[cfg(test)]
mod tests {
    use super::super::routes::ROUTES;
    use super::DOCUMENT;
    use crate::json::{self, Value};

    #[test]
    fn the_document_has_exactly_the_routes_and_their_permissions() {
        let document = json::parse(DOCUMENT).expect("JSON");
        let Some(Value::Object(paths)) = document.get("paths") else { panic!("there are no paths") };
        let mut documented = Vec::new();
        for (path, methods) in paths {
            let Value::Object(methods) = methods else { panic!("{path} has no methods") };
            for (method, operation) in methods.iter().filter(|(name, _)| name != "parameters") {
                documented.push((method.to_uppercase(), path.clone(), operation.text("x-required-role").to_owned()));
            }
        }
        let served =
            ROUTES.iter().map(|route| (route.0.to_owned(), route.1.replace("{+", "{"), route.2.name().to_owned()));
        let mut served: Vec<_> = served.collect();
        documented.sort();
        served.sort();
        let missing: Vec<_> = served.iter().filter(|route| !documented.contains(route)).collect();
        let unknown: Vec<_> = documented.iter().filter(|route| !served.contains(route)).collect();
        assert!(missing.is_empty() && unknown.is_empty(), "not in the document: {missing:?}; only there: {unknown:?}");
    }
}
