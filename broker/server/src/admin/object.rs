//! JSON objects that are written member by member.

use std::fmt::Write as _;

use crate::json::push_string;

/// An object that is being written.
#[derive(Debug)]
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Object {
        Object(String::from("{"))
    }

    fn name(&mut self, name: &str) -> &mut String {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_string(&mut self.0, name);
        self.0.push(':');
        &mut self.0
    }

    pub(super) fn text(mut self, name: &str, text: &str) -> Object {
        push_string(self.name(name), text);
        self
    }

    /// `null` where there is none.
    pub(super) fn text_or_null(mut self, name: &str, text: Option<&str>) -> Object {
        match text {
            Some(text) => push_string(self.name(name), text),
            None => self.name(name).push_str("null"),
        }
        self
    }

    pub(super) fn number(mut self, name: &str, number: impl TryInto<u64>) -> Object {
        let number = number.try_into().unwrap_or(u64::MAX);
        let _ = write!(self.name(name), "{number}");
        self
    }

    /// `null` where there is none.
    pub(super) fn number_or_null(mut self, name: &str, number: Option<impl TryInto<u64>>) -> Object {
        match number {
            Some(number) => return self.number(name, number),
            None => self.name(name).push_str("null"),
        }
        self
    }

    pub(super) fn flag(mut self, name: &str, flag: bool) -> Object {
        let _ = write!(self.name(name), "{flag}");
        self
    }

    /// A list of what is JSON already.
    pub(super) fn list(mut self, name: &str, items: impl IntoIterator<Item = String>) -> Object {
        let items: Vec<String> = items.into_iter().collect();
        let _ = write!(self.name(name), "[{}]", items.join(","));
        self
    }

    pub(super) fn texts<'t>(self, name: &str, texts: impl IntoIterator<Item = &'t str>) -> Object {
        self.list(
            name,
            texts.into_iter().map(|text| {
                let mut quoted = String::new();
                push_string(&mut quoted, text);
                quoted
            }),
        )
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_separated_and_escaped() {
        let object = Object::new().text("a\"", "b\n").number("n", 7_usize).number_or_null("m", None::<u32>);
        let object = object.text_or_null("t", None).flag("yes", true).texts("list", ["x", "y"]).finish();
        let expected = r#"{"a\"":"b\n","n":7,"m":null,"t":null,"yes":true,"list":["x","y"]}"#;
        assert_eq!(object, expected);
        assert_eq!(Object::new().finish(), "{}");
    }
}
