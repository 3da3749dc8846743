//! Contracts with their violation counts and samples.

use tautwire_contracts::discovery;
use tautwire_engine::{ContractViolations, ViolationSample};

use super::request_context::RequestContext;
use super::response::{JSON, Response, Status, not_found};
use crate::json::{self, Value};

/// `GET /v1/contracts`.
pub(super) fn all(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    to_fields(call, None)
}

/// `GET /v1/contracts/{+name}`.
pub(super) fn one(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    to_fields(call, Some(call.name(0)))
}

fn to_fields(call: &RequestContext<'_, '_>, name: Option<&str>) -> Result<Response, Response> {
    let admin = call.admin;
    let catalogue = admin.control.contracts();
    let book = admin.control.violations(call.query_deadline())?;
    let document = match name {
        Some(name) => {
            let contract = catalogue.named(name).ok_or_else(|| not_found("no such contract"))?;
            discovery::describe(contract)
        }
        None if catalogue.contracts().is_empty() => b"{\"contracts\":[]}".to_vec(),
        None => discovery::index_json(&catalogue),
    };
    let mut document = str::from_utf8(&document).ok().and_then(|text| json::parse(text).ok()).unwrap_or(Value::Null);
    match (name, &mut document) {
        (Some(name), Value::Object(members)) => members.extend(of(book.of(name))),
        (None, Value::Object(members)) => {
            let contracts = members.iter_mut().filter(|(name, _)| name == "contracts");
            for contract in contracts
                .flat_map(|(_, list)| if let Value::List(items) = list { items.iter_mut() } else { [].iter_mut() })
            {
                let violations = book.of(contract.text("name"));
                if let Value::Object(members) = contract {
                    members.extend(of(violations));
                }
            }
        }
        _ => {}
    }
    let mut text = String::new();
    document.push_json(&mut text);
    Ok(Response::new(Status::OK, JSON, text))
}

fn of(violations: Option<&ContractViolations>) -> [(String, Value); 2] {
    let count = violations.map_or(0, |violations| violations.count);
    let samples = violations.into_iter().flat_map(|violations| &violations.samples).map(sample).collect();
    [("violations".to_owned(), Value::Number(count.to_string())), ("samples".to_owned(), Value::List(samples))]
}

fn sample(sample: &ViolationSample) -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    let number = |number: u64| Value::Number(number.to_string());
    let members = [
        ("path", text(&sample.path)),
        ("expected", text(&sample.expected)),
        ("rule", text(sample.rule)),
        ("topic", text(&sample.topic)),
        ("count", number(sample.count)),
        ("last_ms", number(sample.last_ms)),
    ];
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
