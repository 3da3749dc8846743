//! Named values that print as text or as a JSON object.

use std::fmt::Write as _;

use crate::json::push_string;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Flag(bool),
    Text(String),
    /// JSON text.
    Json(String),
    /// Unknown or none.
    Null,
    List(Vec<Value>),
    Object(Fields),
}

/// An ordered list of fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Fields {
        self.add(name, value);
        self
    }

    pub(crate) fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    /// Appends the fields as a JSON object.
    pub(crate) fn push_json(&self, out: &mut String) {
        out.push('{');
        for (at, (name, value)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            push_string(out, name);
            out.push(':');
            value.push_json(out);
        }
        out.push('}');
    }

    /// Appends the fields as ` name=value` each. Strings are quoted, and null values are omitted.
    pub(crate) fn push_text(&self, out: &mut String) {
        for (name, value) in &self.0 {
            if *value != Value::Null {
                let _ = write!(out, " {name}=");
                value.push_json(out);
            }
        }
    }
}

impl Value {
    fn push_json(&self, out: &mut String) {
        match self {
            Value::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Value::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Value::Text(text) => push_string(out, text),
            Value::Json(json) => out.push_str(json),
            Value::Null => out.push_str("null"),
            Value::List(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    value.push_json(out);
                }
                out.push(']');
            }
            Value::Object(fields) => fields.push_json(out),
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Value {
                Value::Number(number as u64)
            }
        }
    )+};
}

numbers!(u8, u16, u32, usize);

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Value {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}

impl From<Fields> for Value {
    fn from(fields: Fields) -> Value {
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_text_or_json() {
        let fields = Fields::default()
            .with("a", 1u64)
            .with("b", "x\"y")
            .with("c", None::<u64>)
            .with("d", vec![Fields::default().with("e", true)]);
        let (mut json, mut text) = (String::new(), String::new());
        fields.push_json(&mut json);
        fields.push_text(&mut text);
        assert_eq!(json, r#"{"a":1,"b":"x\"y","c":null,"d":[{"e":true}]}"#);
        assert_eq!(text, r#" a=1 b="x\"y" d=[{"e":true}]"#);
    }
}
