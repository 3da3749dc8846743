//! The messages of `google.protobuf` with special forms.

use super::time::{self, TIMESTAMP_SECONDS};
use super::walk::Walk;
use crate::plan::{MessagePlan, WellKnown};
use crate::sink::{AnyPosition, Sink, ValueContext};
use crate::source::{Source, Value};
use crate::untyped::{self, SchemaKind};
use crate::violation::{Checked, Rule, Violation};

impl<'a, S: Source<'a>, K: Sink> Walk<'_, S, K> {
    pub(super) fn well_known(
        &mut self,
        kind: WellKnown,
        message: &MessagePlan,
        value: Value<'a>,
        place: ValueContext<'_>,
        depth_left: u16,
    ) -> Checked {
        match kind {
            WellKnown::Timestamp => self.timestamp(value, place),
            WellKnown::Duration => self.duration(value, place),
            WellKnown::FieldMask => self.field_mask(value, place),
            WellKnown::Wrapper => {
                let Some(field) = message.fields.first() else { return Ok(()) };
                self.sink.message_begin(place, message);
                self.one(field, value, ValueContext::WrapperValue(field), depth_left)?;
                self.sink.message_end(place, message);
                Ok(())
            }
            WellKnown::Value => untyped::walk(
                self.source,
                self.sink,
                value,
                AnyPosition::Outer(place),
                true,
                SchemaKind::Protobuf,
                depth_left,
            ),
            WellKnown::Struct => match value {
                Value::Map(_) => untyped::walk(
                    self.source,
                    self.sink,
                    value,
                    AnyPosition::Outer(place),
                    false,
                    SchemaKind::Protobuf,
                    depth_left,
                ),
                other => Err(self.mistyped("a map", other.describe())),
            },
            WellKnown::ListValue => match value {
                Value::List(_) => untyped::walk(
                    self.source,
                    self.sink,
                    value,
                    AnyPosition::Outer(place),
                    false,
                    SchemaKind::Protobuf,
                    depth_left,
                ),
                other => Err(self.mistyped("a list", other.describe())),
            },
            WellKnown::Any => {
                Err(self.mistyped("the binary form, the only one for google.protobuf.Any", value.describe()))
            }
            WellKnown::Empty => Ok(()),
        }
    }

    fn timestamp(&mut self, value: Value<'a>, place: ValueContext<'_>) -> Checked {
        let moment = match &value {
            Value::Timestamp(seconds, nanos) => TIMESTAMP_SECONDS.contains(seconds).then_some((*seconds, *nanos)),
            // The mapping requires upper-case letters in RFC 3339.
            Value::Text(text) if text.raw.bytes().any(|byte| matches!(byte, b't' | b'z')) => None,
            Value::Text(text) => time::parse_timestamp(&text.decoded()),
            other => return Err(self.mistyped("a timestamp", other.describe())),
        };
        let Some((seconds, nanos)) = moment else {
            return Err(self.badly_formed("an RFC 3339 timestamp in the years 1 to 9999"));
        };
        self.sink.timestamp(place, seconds, nanos);
        Ok(())
    }

    fn duration(&mut self, value: Value<'a>, place: ValueContext<'_>) -> Checked {
        let Value::Text(text) = &value else {
            return Err(self.mistyped("a duration as a string", value.describe()));
        };
        let Some((seconds, nanos)) = time::parse_duration(&text.decoded()) else {
            return Err(self.badly_formed("seconds with the suffix s, such as 1.5s"));
        };
        self.sink.duration(place, seconds, nanos);
        Ok(())
    }

    fn field_mask(&mut self, value: Value<'a>, place: ValueContext<'_>) -> Checked {
        let Value::Text(text) = &value else {
            return Err(self.mistyped("the paths of a field mask as a string", value.describe()));
        };
        let Some(paths) = snake_case(&text.decoded()) else {
            return Err(self.badly_formed("comma-separated paths in camel case"));
        };
        self.sink.field_mask(place, &paths);
        Ok(())
    }

    #[cold]
    fn badly_formed(&self, expected: &'static str) -> Box<Violation> {
        Violation::new(Rule::TextFormat, self.source.offset(), expected, "another string")
    }
}

/// Converts paths from the spelling of the schema to that of JSON.
pub(crate) fn camel_case(paths: &str) -> String {
    let mut out = String::with_capacity(paths.len());
    let mut raise = false;
    for character in paths.chars() {
        match character {
            '_' => raise = true,
            _ if raise => {
                out.push(character.to_ascii_uppercase());
                raise = false;
            }
            _ => out.push(character),
        }
    }
    out
}

/// The reverse; `None` for text that [`camel_case`] never writes.
fn snake_case(paths: &str) -> Option<String> {
    let mut out = String::with_capacity(paths.len() + 4);
    for character in paths.chars() {
        match character {
            'A'..='Z' => {
                out.push('_');
                out.push(character.to_ascii_lowercase());
            }
            'a'..='z' | '0'..='9' | '.' | ',' => out.push(character),
            _ => return None,
        }
    }
    Some(out)
}

/// Whether the path survives the conversion to camel case and back.
pub(crate) fn round_trips_camel_case(path: &str) -> bool {
    snake_case(&camel_case(path)).as_deref() == Some(path)
}
