//! `[[assign]]`: roles for clients that match conditions.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use toml::Spanned;
use toml::de::DeValue;

use super::reader::Reader;
use crate::assignment::{Assignment, Condition};
use crate::error::ErrorCode;
use crate::glob::Glob;
use crate::limits::ASSIGNMENTS_MAX;

const KEYS: [&str; 7] = ["roles", "everyone", "anonymous", "client_id", "user", "listener", "claims"];

pub(super) type RoleNumbers = HashMap<Box<str>, u32, FixedState>;

pub(super) fn read<'v>(
    reader: &mut Reader<'_>,
    known: &RoleNumbers,
    tables: impl Iterator<Item = &'v Spanned<DeValue<'v>>>,
) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    for table in tables {
        if assignments.len() == ASSIGNMENTS_MAX {
            let message = format!("there are more than {ASSIGNMENTS_MAX} [[assign]]: list users in [users]");
            reader.fault(ErrorCode::Limit, table.span(), message);
            break;
        }
        assignments.push(assignment(reader, known, table));
    }
    assignments.shrink_to_fit();
    assignments
}

fn assignment(reader: &mut Reader<'_>, known: &RoleNumbers, table: &Spanned<DeValue<'_>>) -> Assignment {
    let mut assignment = Assignment { line: reader.line(&table.span()), conditions: Vec::new(), roles: Vec::new() };
    let DeValue::Table(fields) = table.get_ref() else {
        reader.fault(ErrorCode::Value, table.span(), "assign: write [[assign]] and its keys below");
        return assignment;
    };
    for (key, value) in fields {
        let name = key.get_ref().as_ref();
        let condition = match name {
            "roles" => {
                assignment.roles = roles(reader, known, name, value);
                continue;
            }
            "everyone" => {
                if value.get_ref().as_bool() != Some(true) {
                    reader.fault(ErrorCode::Value, value.span(), "everyone must be true, or absent");
                }
                Condition::Everyone
            }
            "anonymous" => Condition::Anonymous(reader.boolean(name, value).unwrap_or_default()),
            "client_id" => Condition::ClientId(globs(reader, name, value)),
            "user" => Condition::User(globs(reader, name, value)),
            "listener" => Condition::Listener(globs(reader, name, value)),
            "claims" => {
                claims(reader, value, &mut assignment.conditions);
                continue;
            }
            other => {
                reader.unknown_key(key.span(), other, &KEYS);
                continue;
            }
        };
        assignment.conditions.push(condition);
    }
    if !fields.contains_key("roles") {
        reader.fault(ErrorCode::Missing, table.span(), "roles is missing: add the roles to assign");
    }
    if assignment.conditions.is_empty() && fields.len() <= 1 {
        let message =
            "the assignment has no condition: add everyone = true, anonymous, client_id, user, listener or claims";
        reader.fault(ErrorCode::Missing, table.span(), message);
    }
    assignment
}

/// The numbers of the named roles; reports those that are not in the file.
pub(super) fn roles(reader: &mut Reader<'_>, known: &RoleNumbers, key: &str, value: &Spanned<DeValue<'_>>) -> Vec<u32> {
    let mut numbers = Vec::new();
    for (name, span) in reader.texts(key, value) {
        match known.get(name) {
            Some(&number) => numbers.push(number),
            None => {
                let message =
                    format!("there is no role {}: add [[role]] with this name, or correct it", name.escape_debug());
                reader.fault(ErrorCode::UnknownRole, span, message);
            }
        }
    }
    numbers
}

fn globs(reader: &mut Reader<'_>, key: &str, value: &Spanned<DeValue<'_>>) -> Vec<Glob> {
    reader.texts(key, value).iter().map(|(text, _)| Glob::new(text)).collect()
}

fn claims(reader: &mut Reader<'_>, value: &Spanned<DeValue<'_>>, conditions: &mut Vec<Condition>) {
    let fault = "claims must be a table with at least one claim, such as { tenant = \"acme\" }";
    let DeValue::Table(claims) = value.get_ref() else {
        return reader.fault(ErrorCode::Value, value.span(), fault);
    };
    if claims.is_empty() {
        reader.fault(ErrorCode::Value, value.span(), fault);
    }
    for (name, value) in claims {
        let values = reader.texts(name.get_ref(), value).iter().map(|(text, _)| (*text).into()).collect();
        conditions.push(Condition::Claim(name.get_ref().as_ref().into(), values));
    }
}
