//! The model in Go: names, types, literals and imports.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::model::{Api, EnumId, Field, Kind, Presence, Record, Repr, Scalar};
use crate::names;

/// The model with names for Go.
pub(super) struct Go<'a> {
    pub(super) api: &'a Api,
    /// The types of the fields of oneofs, by the type of the oneof and the field.
    arms: BTreeMap<(String, String), String>,
}

impl<'a> Go<'a> {
    pub(super) fn new(api: &'a Api) -> Go<'a> {
        let mut scope = names::Scope::default();
        for name in api.records.iter().map(|record| &record.name).chain(api.enums.iter().map(|one| &one.name)) {
            scope.take(names::go(name));
        }
        let mut arms = BTreeMap::new();
        for record in &api.records {
            for field in &record.fields {
                if let Some(choice) = field.choice {
                    let choice = &record.choices[choice].type_name;
                    let name = scope.take(format!("{}{}", names::go(choice), names::go(&field.name)));
                    arms.insert((choice.clone(), field.name.clone()), name);
                }
            }
        }
        Go { api, arms }
    }

    pub(super) fn arm(&self, record: &Record, field: &Field) -> &str {
        let key = field.choice.map(|choice| (record.choices[choice].type_name.clone(), field.name.clone()));
        key.and_then(|key| self.arms.get(&key)).map_or("", String::as_str)
    }

    pub(super) fn enum_name(&self, id: EnumId) -> String {
        names::go(&self.api.enumeration(id).name)
    }

    /// The type of one value.
    pub(super) fn ty(&self, kind: &Kind) -> String {
        match kind {
            Kind::Scalar(scalar) => scalar_type(*scalar).to_owned(),
            Kind::Enum(id) => self.enum_name(*id),
            Kind::Record(id) => names::go(&self.api.record(*id).name),
            Kind::List(item) => match &**item {
                Kind::Record(id) => format!("[]*{}", names::go(&self.api.record(*id).name)),
                item => format!("[]{}", self.ty(item)),
            },
            Kind::Map(key, item) => match &**item {
                Kind::Record(id) => format!("map[{}]*{}", scalar_type(*key), names::go(&self.api.record(*id).name)),
                item => format!("map[{}]{}", scalar_type(*key), self.ty(item)),
            },
            Kind::Raw => "Raw".to_owned(),
        }
    }

    /// The type of a field.
    pub(super) fn field_type(&self, field: &Field) -> String {
        let pointer = if is_pointer(field) { "*" } else { "" };
        format!("{pointer}{}", self.ty(&field.kind))
    }

    pub(super) fn is_closed(&self, kind: &Kind) -> bool {
        matches!(kind, Kind::Enum(id) if self.api.enumeration(*id).repr == Repr::ClosedNumber)
    }
}

/// Whether a field is a pointer: it may be nil and is not a list, map or slice.
pub(super) fn is_pointer(field: &Field) -> bool {
    match field.kind {
        Kind::List(_) | Kind::Map(..) | Kind::Raw => false,
        Kind::Record(_) => true,
        // A nil slice means absent.
        Kind::Scalar(Scalar::Bytes) => false,
        _ => field.is_optional(),
    }
}

/// The names of the fields of a record, and of its oneofs.
pub(super) fn members(record: &Record) -> (Vec<String>, Vec<String>) {
    // Names of methods are reserved.
    let mut scope = names::Scope::without(&["MarshalJSON", "UnmarshalJSON"]);
    let fields = record.fields.iter().map(|field| match field.choice {
        None => scope.take(names::go(&field.name)),
        Some(_) => String::new(),
    });
    let fields: Vec<String> = fields.collect();
    (fields, record.choices.iter().map(|choice| scope.take(names::go(&choice.name))).collect())
}

pub(super) fn scalar_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => "int32",
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 | Scalar::Integer => "int64",
        Scalar::Uint32 | Scalar::Fixed32 => "uint32",
        Scalar::Uint64 | Scalar::Fixed64 => "uint64",
        Scalar::Float => "float32",
        Scalar::Double => "float64",
        Scalar::String => "string",
        Scalar::Bytes => "[]byte",
        Scalar::Timestamp => "time.Time",
        Scalar::Duration => "time.Duration",
    }
}

/// The condition to write a value without presence.
pub(super) fn presence_condition(kind: &Kind, value: &str) -> String {
    match kind.scalar() {
        Some(Scalar::Bool) => value.to_owned(),
        Some(Scalar::String) => format!("{value} != \"\""),
        Some(Scalar::Bytes) => format!("len({value}) > 0"),
        // Minus zero is not the default.
        Some(Scalar::Double) => format!("math.Float64bits({value}) != 0"),
        Some(Scalar::Float) => format!("math.Float32bits({value}) != 0"),
        Some(_) if matches!(kind, Kind::Scalar(_) | Kind::Enum(_)) => format!("{value} != 0"),
        _ => format!("{value} != nil"),
    }
}

/// The condition to write a field; `None` if it is always written.
pub(super) fn condition(field: &Field, value: &str) -> Option<String> {
    match (&field.kind, field.presence) {
        (Kind::List(_) | Kind::Map(..), Presence::Implicit) => Some(format!("len({value}) > 0")),
        (Kind::Record(_), Presence::Required) if field.number == 0 && !field.is_nullable => None,
        (_, Presence::Required) if !is_pointer(field) => None,
        (_, Presence::Implicit) => Some(presence_condition(&field.kind, value)),
        _ => Some(format!("{value} != nil")),
    }
}

pub(super) fn string(text: &str) -> String {
    names::quoted(text, |character| match u32::from(character) {
        code @ 0..0x1_0000 => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    })
}

pub(super) fn code() -> Code {
    Code::new("\t")
}

/// Adds `package` and the imports that the text needs.
pub(super) fn with_imports(body: &str) -> String {
    let standard = [
        ("cmp.", "cmp"),
        ("context.", "context"),
        ("maps.", "maps"),
        ("math.", "math"),
        ("slices.", "slices"),
        ("strings.", "strings"),
        ("time.", "time"),
    ];
    let needs = |word: &str| {
        body.match_indices(word)
            .any(|(at, _)| !body[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.'))
    };
    let mut groups = vec![standard.iter().filter(|(word, _)| needs(word)).map(|(_, path)| *path).collect::<Vec<_>>()];
    if needs("client.") {
        groups.push(vec!["github.com/tautwire/tautwire/clients/go/client"]);
    }
    groups.retain(|group| !group.is_empty());
    let mut out = String::from("package contracts\n\n");
    match &groups[..] {
        [] => {}
        [one] if one.len() == 1 => out.push_str(&format!("import \"{}\"\n\n", one[0])),
        groups => {
            let groups: Vec<String> =
                groups.iter().map(|group| group.iter().map(|path| format!("\t\"{path}\"\n")).collect()).collect();
            out.push_str(&format!("import (\n{})\n\n", groups.join("\n")));
        }
    }
    out + body
}

/// The name of a variable that belongs to a type.
pub(super) fn variable(name: &str) -> String {
    let mut characters = name.chars();
    characters.next().map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + characters.as_str())
}
