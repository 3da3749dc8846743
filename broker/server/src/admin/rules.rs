//! The access rules in effect.

use tautwire_access::{ListedRule, RuleText};

use super::query::Query;
use super::request_context::RequestContext;
use super::response::{Response, ok};
use crate::fields::Fields;

/// `GET /v1/rules`.
pub(super) fn list(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let mut query = Query::parse(&call.head.query)?;
    let after =
        query.take_as("after", "the value of `next` in the previous response", |text| text.parse::<usize>().ok())?;
    let role = query.take("role");
    let limit = query.take_limit()?;
    query.finish("role, limit, after")?;
    let policy = call.admin.control.policy();
    let rules = policy.list(role.as_deref(), after.unwrap_or_default(), limit);
    let next = rules.last().filter(|_| rules.len() == limit).map(|last| last.number.to_string());
    Ok(ok(Fields::default()
        .with("unrestricted", policy.is_open())
        .with("total", policy.rule_count())
        .with("rules", rules.into_iter().map(to_fields).collect::<Vec<_>>())
        .with("next", next)))
}

fn to_fields(listed: ListedRule) -> Fields {
    let ListedRule { number, listener, allows, publish, subscribe, filter, rule } = listed;
    let RuleText { file, line, role, text } = rule;
    let actions = [("publish", publish), ("subscribe", subscribe)];
    Fields::default()
        .with("number", number)
        .with("listener", listener)
        .with("file", file)
        .with("line", line)
        .with("role", role)
        .with("effect", if allows { "allow" } else { "deny" })
        .with("actions", actions.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect::<Vec<_>>())
        .with("filter", filter)
        .with("text", text)
}
