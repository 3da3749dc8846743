//! Compiles the text of a schema to a plan.

use std::collections::BTreeMap;

use super::{
    Additional, Constant, ListRules, MapRules, Node, NodeIndex, Number, NumberRules, SchemaPlan, TextFormat, TextRules,
    Types,
};
use crate::json::JsonSource;
use crate::plan::{FieldIndex, Name, Names, PlanLimits};
use crate::source::{Source as _, Value};

/// An error in a schema, and its byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaError {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// Maximum nesting of the text.
const DEPTH_MAX: u16 = 64;
/// Maximum nesting of schemas, including referenced ones: compilation recurses.
const SCHEMA_DEPTH_MAX: usize = 128;
/// Maximum length of a pattern, which determines its memory.
const PATTERN_MAX_BYTES: usize = 1_000;
/// Maximum number of properties that a plan supports.
const PROPERTIES_MAX: usize = 1_000;

/// Keywords without a constraint.
const ANNOTATIONS: [&str; 14] = [
    "$schema",
    "$id",
    "$comment",
    "$anchor",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$defs",
    "definitions",
    "contentEncoding",
];

/// Compiles a schema.
///
/// # Errors
/// Text that is not a schema, and keywords that a single pass cannot check.
pub(crate) fn compile(text: &str, limits: &PlanLimits) -> Result<SchemaPlan, SchemaError> {
    let document = Json::parse(text)?;
    let mut compile = Compile { document: &document, limits, nodes: Vec::new(), known: BTreeMap::new(), depth: 0 };
    let root = compile.schema(&document)?;
    Ok(SchemaPlan { nodes: compile.nodes.into_boxed_slice(), root })
}

/// A value of the schema's text, with its position.
#[derive(Debug)]
struct Json {
    offset: usize,
    value: JsonValue,
}

#[derive(Debug)]
enum JsonValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    fn parse(text: &str) -> Result<Json, SchemaError> {
        let wrong = |violation: Box<crate::Violation>| SchemaError {
            offset: violation.offset,
            message: format!("not valid JSON: {violation}"),
        };
        let mut source = JsonSource::new(text.as_bytes()).map_err(wrong)?;
        let json = Json::read(&mut source, DEPTH_MAX).map_err(wrong)?;
        source.end().map_err(wrong)?;
        Ok(json)
    }

    fn read(source: &mut JsonSource<'_>, depth_left: u16) -> Result<Json, Box<crate::Violation>> {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Err(crate::source::too_deep(source.offset()));
        };
        source.skip_space();
        let offset = source.offset();
        let value = match source.value()? {
            Value::Null => JsonValue::Null,
            Value::Bool(value) => JsonValue::Bool(value),
            Value::Int(value) => JsonValue::Number(Number::Whole(i128::from(value))),
            Value::Uint(value) => JsonValue::Number(Number::Whole(i128::from(value))),
            Value::Decimal(text) => JsonValue::Number(Number::of(text.parse().unwrap_or(f64::NAN))),
            Value::Text(text) => JsonValue::Text(text.decoded().into_owned()),
            Value::List(mut sequence) => {
                let mut items = Vec::new();
                while source.item(&mut sequence)? {
                    items.push(Json::read(source, depth_left)?);
                }
                JsonValue::List(items)
            }
            Value::Map(mut sequence) => {
                let mut entries = Vec::new();
                while let Some(key) = source.key(&mut sequence)? {
                    entries.push((key.decoded().into_owned(), Json::read(source, depth_left)?));
                }
                JsonValue::Map(entries)
            }
            Value::Float(_) | Value::Bytes(_) | Value::Timestamp(..) | Value::Extension => JsonValue::Null,
        };
        Ok(Json { offset, value })
    }

    fn get(&self, key: &str) -> Option<&Json> {
        match &self.value {
            JsonValue::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Result<T, SchemaError> {
        Err(SchemaError { offset: self.offset, message: message.into() })
    }

    fn text(&self, keyword: &str) -> Result<&str, SchemaError> {
        match &self.value {
            JsonValue::Text(text) => Ok(text),
            _ => self.wrong(format!("{keyword} must be a string")),
        }
    }

    fn count(&self, keyword: &str) -> Result<usize, SchemaError> {
        match &self.value {
            JsonValue::Number(Number::Whole(count)) if *count >= 0 => Ok(usize::try_from(*count).unwrap_or(usize::MAX)),
            _ => self.wrong(format!("{keyword} must be a non-negative integer")),
        }
    }

    fn number(&self, keyword: &str) -> Result<Number, SchemaError> {
        match &self.value {
            JsonValue::Number(number) => Ok(*number),
            _ => self.wrong(format!("{keyword} must be a number")),
        }
    }

    fn list(&self, keyword: &str) -> Result<&[Json], SchemaError> {
        match &self.value {
            JsonValue::List(items) => Ok(items),
            _ => self.wrong(format!("{keyword} must be a list")),
        }
    }

    fn entries(&self, keyword: &str) -> Result<&[(String, Json)], SchemaError> {
        match &self.value {
            JsonValue::Map(entries) => Ok(entries),
            _ => self.wrong(format!("{keyword} must be an object")),
        }
    }
}

struct Compile<'d> {
    document: &'d Json,
    limits: &'d PlanLimits,
    nodes: Vec<Node>,
    /// Schemas by position: a recursive one is compiled once.
    known: BTreeMap<usize, NodeIndex>,
    depth: usize,
}

impl<'d> Compile<'d> {
    fn schema(&mut self, schema: &'d Json) -> Result<NodeIndex, SchemaError> {
        if let Some(known) = self.known.get(&schema.offset) {
            return Ok(*known);
        }
        if self.nodes.len() >= self.limits.messages {
            return schema.wrong(format!("there are more than {} schemas", self.limits.messages));
        }
        if self.depth >= SCHEMA_DEPTH_MAX {
            return schema.wrong(format!("schemas are nested more than {SCHEMA_DEPTH_MAX} deep"));
        }
        self.depth += 1;
        let outcome = match schema.get("$ref") {
            Some(reference) => self.reference(schema, reference),
            None => self.build_node(schema),
        };
        self.depth -= 1;
        outcome
    }

    fn build_node(&mut self, schema: &'d Json) -> Result<NodeIndex, SchemaError> {
        let index = NodeIndex(self.nodes.len() as u32);
        self.known.insert(schema.offset, index);
        self.nodes.push(Node::default());
        let node = match &schema.value {
            JsonValue::Bool(true) => Node::default(),
            JsonValue::Bool(false) => Node { types: Types::NONE, ..Node::default() },
            JsonValue::Map(entries) => self.node(schema, entries)?,
            _ => return schema.wrong("a schema must be an object, true or false"),
        };
        self.nodes[index.0 as usize] = node;
        Ok(index)
    }

    /// Resolves `#`, or a path within the document such as `#/$defs/point`.
    fn reference(&mut self, schema: &'d Json, reference: &'d Json) -> Result<NodeIndex, SchemaError> {
        let text = reference.text("$ref")?;
        let Some(path) = text.strip_prefix('#') else {
            return reference.wrong("$ref points outside the file: only references that begin with # are supported");
        };
        for (keyword, value) in schema.entries("a schema")? {
            if keyword != "$ref" && !ANNOTATIONS.contains(&keyword.as_str()) {
                return value.wrong(format!("{keyword} next to $ref is not supported"));
            }
        }
        let mut target = self.document;
        for part in path.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let next = match &target.value {
                JsonValue::List(items) => part.parse::<usize>().ok().and_then(|at| items.get(at)),
                _ => target.get(&part),
            };
            let Some(next) = next else { return reference.wrong(format!("$ref {text} does not exist")) };
            target = next;
        }
        if target.offset == schema.offset || (target.get("$ref").is_some() && self.is_recursive(target)) {
            return reference.wrong(format!("$ref {text} is circular"));
        }
        self.schema(target)
    }

    fn is_recursive(&self, start: &Json) -> bool {
        let mut at = start;
        for _ in 0..self.limits.messages {
            let Some(text) = at.get("$ref").and_then(|reference| reference.text("$ref").ok()) else { return false };
            let mut target = self.document;
            for part in text.split('/').skip(1) {
                let Some(next) = target.get(&part.replace("~1", "/").replace("~0", "~")) else { return false };
                target = next;
            }
            at = target;
        }
        true
    }

    fn node(&mut self, schema: &'d Json, entries: &'d [(String, Json)]) -> Result<Node, SchemaError> {
        let mut node = Node::default();
        let mut text = TextRules::default();
        let mut number = NumberRules::default();
        let mut list = ListRules::default();
        let mut map = MapRules::default();
        let (mut of_text, mut of_number, mut of_list, mut of_map) = (false, false, false, false);
        for (keyword, value) in entries {
            match keyword.as_str() {
                "type" => node.types = types(value)?,
                "enum" => node.allowed = Some(constants(value.list("enum")?)?),
                "const" => node.allowed = Some(constants(std::slice::from_ref(value))?),
                "minLength" | "maxLength" | "pattern" | "format" => of_text = true,
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => of_number = true,
                "items" | "prefixItems" | "minItems" | "maxItems" => of_list = true,
                "properties" | "required" | "additionalProperties" | "minProperties" | "maxProperties" => of_map = true,
                other if ANNOTATIONS.contains(&other) => {}
                other => {
                    return value
                        .wrong(format!("the keyword {other} is not supported: it cannot be checked in one pass"));
                }
            }
            match keyword.as_str() {
                "minLength" => text.min_characters = Some(value.count(keyword)?),
                "maxLength" => text.max_characters = Some(value.count(keyword)?),
                "pattern" => text.pattern = Some(pattern(value)?),
                "format" => text.format = Some(format(value)?),
                "minimum" => number.minimum = Some(value.number(keyword)?),
                "maximum" => number.maximum = Some(value.number(keyword)?),
                "exclusiveMinimum" => number.above = Some(value.number(keyword)?),
                "exclusiveMaximum" => number.below = Some(value.number(keyword)?),
                "multipleOf" => match value.number(keyword)? {
                    divisor if divisor.as_f64() > 0.0 => number.multiple_of = Some(divisor),
                    _ => return value.wrong("multipleOf must be greater than 0"),
                },
                "items" => list.items = Some(self.schema(value)?),
                "prefixItems" => {
                    let items = value.list(keyword)?.iter().map(|item| self.schema(item));
                    list.prefix = items.collect::<Result<_, _>>()?;
                }
                "minItems" => list.min_items = value.count(keyword)?,
                "maxItems" => list.max_items = Some(value.count(keyword)?),
                "minProperties" => map.min_properties = value.count(keyword)?,
                "maxProperties" => map.max_properties = Some(value.count(keyword)?),
                "additionalProperties" => {
                    map.additional = match value.value {
                        JsonValue::Bool(true) => Additional::Like(self.schema(value)?),
                        JsonValue::Bool(false) => Additional::Refused,
                        _ => Additional::Like(self.schema(value)?),
                    };
                }
                _ => {}
            }
        }
        if of_map {
            self.properties(schema, &mut map)?;
        }
        node.text = of_text.then(|| Box::new(text));
        node.number = of_number.then(|| Box::new(number));
        node.list = of_list.then(|| Box::new(list));
        node.map = of_map.then(|| Box::new(map));
        Ok(node)
    }

    fn properties(&mut self, schema: &'d Json, map: &mut MapRules) -> Result<(), SchemaError> {
        let mut properties: Vec<(Name, NodeIndex)> = Vec::new();
        if let Some(named) = schema.get("properties") {
            for (name, value) in named.entries("properties")? {
                if properties.iter().any(|(known, _)| **known == **name) {
                    return value.wrong(format!("the property {name:?} is duplicated"));
                }
                self.check_property_count(&properties, value)?;
                properties.push((name.as_str().into(), self.schema(value)?));
            }
        }
        let mut required = Vec::new();
        for name in schema.get("required").map_or(Ok(&[][..]), |list| list.list("required"))? {
            let text = name.text("required")?;
            let at = match properties.iter().position(|(known, _)| **known == *text) {
                Some(at) => at,
                None => {
                    self.check_property_count(&properties, name)?;
                    // It has no constraint except that it is required.
                    let node = match map.additional {
                        Additional::Unspecified => {
                            self.nodes.push(Node::default());
                            NodeIndex(self.nodes.len() as u32 - 1)
                        }
                        Additional::Like(node) => node,
                        Additional::Refused => {
                            return name.wrong(format!("{text:?} is required, but additionalProperties rejects it"));
                        }
                    };
                    properties.push((text.into(), node));
                    properties.len() - 1
                }
            };
            required.push(at as u16);
        }
        map.names = Names::new(properties.iter().enumerate().map(|(at, (name, _))| (&**name, FieldIndex(at as u16))));
        map.properties = properties.into_boxed_slice();
        map.required = required.into_boxed_slice();
        Ok(())
    }
}

impl Compile<'_> {
    /// Checks that another property is allowed.
    fn check_property_count(&self, properties: &[(Name, NodeIndex)], place: &Json) -> Result<(), SchemaError> {
        let most = self.limits.fields.min(PROPERTIES_MAX);
        if properties.len() < most { Ok(()) } else { place.wrong(format!("there are more than {most} properties")) }
    }
}

fn types(value: &Json) -> Result<Types, SchemaError> {
    let named = |value: &Json| {
        let name = value.text("type")?;
        Types::named(name).map_or_else(|| value.wrong(format!("unknown type {name:?}")), Ok)
    };
    match &value.value {
        JsonValue::List(items) => items.iter().try_fold(Types::NONE, |types, item| Ok(types.with(named(item)?))),
        _ => named(value),
    }
}

fn constants(values: &[Json]) -> Result<Box<[Constant]>, SchemaError> {
    values
        .iter()
        .map(|value| match &value.value {
            JsonValue::Null => Ok(Constant::Null),
            JsonValue::Bool(value) => Ok(Constant::Bool(*value)),
            JsonValue::Number(number) => Ok(Constant::Number(*number)),
            JsonValue::Text(text) => Ok(Constant::Text(text.as_str().into())),
            _ => {
                value.wrong("a list or an object in enum or const is not supported: it cannot be compared in one pass")
            }
        })
        .collect()
}

fn pattern(value: &Json) -> Result<regex_lite::Regex, SchemaError> {
    let text = value.text("pattern")?;
    if text.len() > PATTERN_MAX_BYTES {
        return value.wrong(format!("the pattern is longer than {PATTERN_MAX_BYTES} bytes"));
    }
    regex_lite::Regex::new(text)
        .or_else(|error| value.wrong(format!("the pattern cannot be matched in linear time: {error}")))
}

fn format(value: &Json) -> Result<TextFormat, SchemaError> {
    let name = value.text("format")?;
    let found = TextFormat::ALL.into_iter().find(|(known, _)| *known == name);
    found
        .map(|(_, format)| format)
        .map_or_else(|| value.wrong(format!("the format {name:?} is not supported; use a pattern")), Ok)
}
