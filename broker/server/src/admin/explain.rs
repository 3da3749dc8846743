//! Explains which access rule applies to a request, and why.

use tautwire_access::{AccessDecision, Request, RoleReason, RuleText, Subject};
use tautwire_protocol::{QoS, TopicFilter, TopicName};

use super::request_context::RequestContext;
use super::response::{Response, Status, ok};
use crate::fields::Fields;
use crate::json::Value;

/// `POST /v1/explain`: the same as `tautwire acl explain`, with the rules in effect.
pub(super) fn answer(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let value = call.json()?;
    let body = Body { value: &value };
    body.has_only(&["client_id", "user", "listener", "claims", "roles", "action", "topic", "filter", "qos", "retain"])?;
    let listener = body.text("listener")?;
    let listener = match listener {
        None => call.admin.control.listeners().first().map_or_else(String::new, |first| first.name.to_string()),
        Some(name) if call.admin.control.listeners().iter().any(|known| *known.name == *name) => name.to_owned(),
        Some(_) => return Err(invalid_value("listener: no such listener")),
    };
    let (claims, roles) = (body.claims()?, body.roles()?);
    let subject = Subject {
        client_id: body.text("client_id")?.ok_or_else(|| invalid_value("client_id is missing"))?,
        user: body.text("user")?,
        listener: &listener,
        claims: &claims,
        roles: &roles,
    };
    let explanation = call.admin.control.policy().explain(&subject, &body.request()?);
    let rule = explanation.rule.as_ref().map(|RuleText { file, line, role, text }| {
        Fields::default().with("file", &**file).with("line", *line).with("role", &**role).with("text", &**text)
    });
    let roles = explanation
        .roles
        .iter()
        .map(|RoleReason { role, reason }| Fields::default().with("role", &**role).with("reason", &**reason));
    Ok(ok(Fields::default()
        .with("allowed", explanation.decision.is_allowed())
        .with(
            "decision",
            match explanation.decision {
                AccessDecision::Allowed => "allowed",
                AccessDecision::Denied(denial) => denial.as_str(),
            },
        )
        .with("request", &*explanation.request)
        .with("rule", rule)
        .with("example", explanation.example.as_deref())
        .with("reason", &*explanation.reason)
        .with("roles", roles.collect::<Vec<_>>())
        .with("notes", explanation.notes.iter().map(|note| &**note).collect::<Vec<_>>())
        .with("text", explanation.to_string())))
}

/// The body of the request.
struct Body<'v> {
    value: &'v Value,
}

impl<'v> Body<'v> {
    fn has_only(&self, known: &[&str]) -> Result<(), Response> {
        let Value::Object(members) = self.value else { return Err(invalid_value("expected an object")) };
        match members.iter().find(|(name, _)| !known.contains(&&**name)) {
            Some((name, _)) => {
                Err(invalid_value(&format!("unknown member {name:?}; known members: {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    fn text(&self, name: &str) -> Result<Option<&'v str>, Response> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(invalid_value(&format!("{name}: expected a string"))),
        }
    }

    fn claims(&self) -> Result<Vec<(&'v str, &'v str)>, Response> {
        let claims = match self.value.get("claims") {
            None | Some(Value::Null) => &[],
            Some(Value::Object(claims)) => claims.as_slice(),
            Some(_) => return Err(invalid_value("claims: expected an object")),
        };
        let pair = |(name, value): &'v (String, Value)| value.as_text().map(|text| (&**name, text));
        claims.iter().map(|claim| pair(claim).ok_or_else(|| invalid_value("claims: expected strings"))).collect()
    }

    fn roles(&self) -> Result<Vec<&'v str>, Response> {
        let roles = match self.value.get("roles") {
            None | Some(Value::Null) => &[],
            Some(Value::List(roles)) => roles.as_slice(),
            Some(_) => return Err(invalid_value("roles: expected a list")),
        };
        roles.iter().map(|role| role.as_text().ok_or_else(|| invalid_value("roles: expected strings"))).collect()
    }

    fn request(&self) -> Result<Request<'v>, Response> {
        let qos = match self.value.get("qos") {
            None | Some(Value::Null) => QoS::AtMostOnce,
            Some(Value::Number(number)) => match &**number {
                "0" => QoS::AtMostOnce,
                "1" => QoS::AtLeastOnce,
                "2" => QoS::ExactlyOnce,
                _ => return Err(invalid_value("qos: expected 0, 1 or 2")),
            },
            Some(_) => return Err(invalid_value("qos: expected 0, 1 or 2")),
        };
        let retain = match self.value.get("retain") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(retain)) => *retain,
            Some(_) => return Err(invalid_value("retain: expected true or false")),
        };
        match (self.text("action")?, self.text("topic")?, self.text("filter")?) {
            (Some("publish"), Some(topic), None) => {
                let topic = TopicName::new(topic).map_err(|error| invalid_value(&format!("topic: {error}")))?;
                Ok(Request::Publish { topic: topic.as_str(), qos, retain })
            }
            (Some("subscribe"), None, Some(filter)) => {
                let filter = TopicFilter::new(filter).map_err(|error| invalid_value(&format!("filter: {error}")))?;
                Ok(Request::Subscribe { filter, qos })
            }
            _ => Err(invalid_value("action: expected \"publish\" with topic, or \"subscribe\" with filter")),
        }
    }
}

fn invalid_value(message: &str) -> Response {
    Response::error(Status::UNPROCESSABLE, "explain_value", message)
}
