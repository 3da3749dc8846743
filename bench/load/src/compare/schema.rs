//! Validates results with `bench/schema/result.json`: the part of JSON Schema 2020-12 that this file uses.

use serde_json::Value;

use crate::failure::{ErrorContext, Failure, Result};

const RESULT_SCHEMA: &str = include_str!("../../../schema/result.json");

/// Returns an error with the position and the reason if `text` does not match the schema.
pub(crate) fn validate_result(text: &str) -> Result<()> {
    let value: Value = serde_json::from_str(text).during(|| "not JSON".to_owned())?;
    let schema: Value = serde_json::from_str(RESULT_SCHEMA).during(|| "the schema of results".to_owned())?;
    validate(&value, &schema, &schema, "result").map_err(Failure::new)
}

/// An `Err` contains the position.
fn validate(value: &Value, schema: &Value, root: &Value, at: &str) -> std::result::Result<(), String> {
    let keywords = schema.as_object().ok_or_else(|| format!("{at}: the schema has no keywords here"))?;
    for (keyword, argument) in keywords {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer = argument.as_str().and_then(|reference| reference.strip_prefix('#'));
                let target = pointer.and_then(|pointer| root.pointer(pointer));
                validate(value, target.ok_or_else(|| format!("{at}: {argument} leads nowhere"))?, root, at)?;
            }
            "type" if !has_type(value, argument) => return Err(format!("{at}: not of type {argument}: {value}")),
            "enum" if !argument.as_array().is_some_and(|allowed| allowed.contains(value)) => {
                return Err(format!("{at}: {value} is none of {argument}"));
            }
            "minLength"
                if value
                    .as_str()
                    .is_some_and(|text| (text.chars().count() as u64) < argument.as_u64().unwrap_or(0)) =>
            {
                return Err(format!("{at}: shorter than {argument}"));
            }
            "minimum" if value.as_f64().zip(argument.as_f64()).is_some_and(|(value, least)| value < least) => {
                return Err(format!("{at}: {value} is less than {argument}"));
            }
            "required" => {
                let names = argument.as_array().into_iter().flatten().filter_map(Value::as_str);
                if let Some(missing) = names.into_iter().find(|name| value.is_object() && value.get(name).is_none()) {
                    return Err(format!("{at}: {missing:?} is missing"));
                }
            }
            "properties" | "additionalProperties" => validate_members(value, keyword, schema, root, at)?,
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(item, argument, root, &format!("{at}[{index}]"))?;
                }
            }
            "type" | "enum" | "minLength" | "minimum" => {}
            other => return Err(format!("{at}: the schema uses {other:?}, which is not checked")),
        }
    }
    Ok(())
}

fn validate_members(
    value: &Value,
    keyword: &str,
    schema: &Value,
    root: &Value,
    at: &str,
) -> std::result::Result<(), String> {
    let declared = schema.get("properties");
    for (name, member) in value.as_object().into_iter().flatten() {
        let place = format!("{at}.{name}");
        match (declared.and_then(|declared| declared.get(name)), keyword) {
            (Some(of_member), "properties") => validate(member, of_member, root, &place)?,
            (None, "additionalProperties") => match &schema[keyword] {
                Value::Bool(true) => {}
                Value::Bool(false) => return Err(format!("{place}: the schema knows no such member")),
                others => validate(member, others, root, &place)?,
            },
            _ => {}
        }
    }
    Ok(())
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::*;

    fn verdict(value: &Value, schema: &Value) -> std::result::Result<(), String> {
        validate(value, schema, schema, "x")
    }

    #[test]
    fn each_keyword_can_refuse() {
        for (schema, right, wrong) in [
            (json!({"type": "integer"}), json!(3), json!(3.5)),
            (json!({"type": "number"}), json!(3.5), json!("3")),
            (json!({"type": "object"}), json!({}), json!([])),
            (json!({"enum": ["a", 1]}), json!(1), json!(2)),
            (json!({"minLength": 2}), json!("ab"), json!("a")),
            (json!({"minimum": 0}), json!(0), json!(-0.1)),
            (json!({"required": ["a"]}), json!({"a": null}), json!({"b": 1})),
            (json!({"items": {"type": "string"}}), json!(["a"]), json!(["a", 1])),
            (json!({"properties": {"a": {"type": "string"}}}), json!({"a": "", "b": 1}), json!({"a": 1})),
            (json!({"properties": {"a": {}}, "additionalProperties": false}), json!({"a": 1}), json!({"b": 1})),
            (json!({"additionalProperties": {"minimum": 1}}), json!({"a": 1}), json!({"a": 0})),
            (json!({"$ref": "#/$defs/d", "$defs": {"d": {"minimum": 1}}}), json!(1), json!(0)),
        ] {
            assert_eq!(verdict(&right, &schema), Ok(()), "{schema}");
            assert!(verdict(&wrong, &schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn an_unsupported_keyword_is_an_error() {
        assert!(verdict(&json!(1), &json!({"maximum": 5})).is_err());
        assert!(verdict(&json!(1), &json!({"$ref": "#/$defs/nowhere"})).is_err());
    }

    #[test]
    fn errors_contain_the_location() {
        let schema = json!({"properties": {"a": {"items": {"type": "string"}}}});
        assert!(verdict(&json!({"a": ["", 1]}), &schema).is_err_and(|error| error.starts_with("x.a[1]:")));
    }

    #[test]
    fn the_committed_results_match_the_schema() {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../results")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path: PathBuf = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                if path.is_dir() && name != "quick" {
                    folders.push(path);
                } else if name.starts_with("latest-") && name.ends_with(".json") {
                    let text = fs::read_to_string(&path).expect("readable");
                    validate_result(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                }
            }
        }
    }
}
