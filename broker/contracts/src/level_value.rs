//! Compares values with topic levels.

use crate::plan::{FieldPlan, Kind, Plan};
use crate::source::Value;

/// Whether a value, in any of its forms, equals the level.
pub(crate) fn value_is(plan: &Plan, field: &FieldPlan, value: &Value<'_>, level: &str) -> bool {
    match (value, field.kind) {
        (Value::Text(text), Kind::Enum(_)) => number_is(plan, field, plan_number(plan, field, &text.decoded()), level),
        (Value::Text(text), Kind::String) => text.decoded() == level,
        (Value::Text(text), _) => same_number(&text.decoded(), level),
        (Value::Int(number), Kind::Enum(_)) => number_is(plan, field, i32::try_from(*number).ok(), level),
        (Value::Null, _) => zero_is(plan, field, level),
        (value, _) => plain_value_is(value, level),
    }
}

/// Whether a number or boolean equals the level.
pub(crate) fn plain_value_is(value: &Value<'_>, level: &str) -> bool {
    match value {
        Value::Int(number) => level.parse() == Ok(*number),
        Value::Uint(number) => level.parse() == Ok(*number),
        Value::Float(number) => level.parse::<i64>().is_ok_and(|level| level as f64 == *number),
        Value::Decimal(text) => same_number(text, level),
        Value::Bool(value) => level == if *value { "true" } else { "false" },
        _ => false,
    }
}

fn same_number(text: &str, level: &str) -> bool {
    match (text.parse::<i128>(), level.parse::<i128>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => text.parse::<f64>().is_ok_and(|number| level.parse::<i64>().is_ok_and(|level| level as f64 == number)),
    }
}

fn plan_number(plan: &Plan, field: &FieldPlan, name: &str) -> Option<i32> {
    match field.kind {
        Kind::Enum(index) => plan.enumeration(index).number_of(name),
        _ => None,
    }
}

/// Whether an enumeration value has the level as its name or number.
pub(crate) fn number_is(plan: &Plan, field: &FieldPlan, number: Option<i32>, level: &str) -> bool {
    number.is_some_and(|number| plan_number(plan, field, level) == Some(number) || level.parse() == Ok(number))
}

/// Whether the default of an absent field equals the level.
pub(crate) fn zero_is(plan: &Plan, field: &FieldPlan, level: &str) -> bool {
    match field.kind {
        Kind::String => level.is_empty(),
        Kind::Bool => level == "false",
        Kind::Enum(_) => number_is(plan, field, Some(0), level),
        _ => level.parse() == Ok(0),
    }
}
