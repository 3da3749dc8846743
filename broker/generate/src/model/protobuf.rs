//! Records of Protobuf schemas.

use prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind as DescriptorKind, MessageDescriptor, Syntax,
};
use tautwire_contracts::Schema;

use super::{Builder, Choice, Enum, EnumId, EnumValue, Family, Field, Kind, Presence, Record, RecordId, Repr, Scalar};
use crate::names;

pub(super) fn record(builder: &mut Builder, schema: &Schema, family: Family) -> Result<RecordId, String> {
    let pool = DescriptorPool::decode(&*schema.descriptor_set).map_err(|error| format!("its descriptors: {error}"))?;
    let message = pool.get_message_by_name(&schema.message);
    let message = message.ok_or_else(|| format!("its descriptors have no message {}", schema.message))?;
    Ok(match builder.kind_of(&message, family) {
        Kind::Record(id) => id,
        // A well-known type that is not an object in this form.
        other => builder.wrapper_of(&message, family, other),
    })
}

impl Builder {
    fn message(&mut self, message: &MessageDescriptor, family: Family) -> RecordId {
        let key = (message.parent_file().name().to_owned(), message.full_name().to_owned(), family);
        if let Some(known) = self.known_records.get(&key) {
            return *known;
        }
        let id = self.reserve();
        self.known_records.insert(key, id);
        let name = self.type_name(short_name(message.full_name(), message.package_name()), message.full_name());
        let mut choices: Vec<Choice> = Vec::new();
        let mut fields: Vec<Field> = Vec::new();
        for field in message.fields() {
            let choice = field.containing_oneof().filter(|choice| !choice.is_synthetic()).map(|choice| {
                choices.iter().position(|known| known.name == choice.name()).unwrap_or_else(|| {
                    let type_name = format!("{name} {}", choice.name());
                    let type_name = self.type_name(&type_name, &type_name);
                    choices.push(Choice { name: choice.name().to_owned(), type_name });
                    choices.len() - 1
                })
            });
            let kind = self.field_kind(&field, family);
            let presence = match () {
                () if field.cardinality() == Cardinality::Required => Presence::Required,
                // Null is one of its values.
                () if kind == Kind::Raw => Presence::Optional,
                () if kind.is_sequence() || !field.supports_presence() => Presence::Implicit,
                () => Presence::Optional,
            };
            fields.push(Field {
                name: field.name().to_owned(),
                wire_name: field.json_name().to_owned(),
                number: field.number(),
                kind,
                presence,
                choice,
                is_nullable: false,
                is_packed: field.is_packed(),
                is_recursive: false,
                doc: format!("Field {}, `{}`.", field.number(), field.name()),
            });
        }
        fields.sort_by_key(|field| field.number);
        let doc = format!("The message {}.", message.full_name());
        self.set(id, Record { name, doc, fields, choices, family, is_transparent: false, formats: Default::default() });
        id
    }

    fn field_kind(&mut self, field: &FieldDescriptor, family: Family) -> Kind {
        if field.is_map()
            && let DescriptorKind::Message(entry) = field.kind()
        {
            let key = match self.value_kind(&entry.map_entry_key_field(), family) {
                Kind::Scalar(key) => key,
                _ => Scalar::String,
            };
            return Kind::Map(key, Box::new(self.value_kind(&entry.map_entry_value_field(), family)));
        }
        let kind = self.value_kind(field, family);
        if field.is_list() { Kind::List(Box::new(kind)) } else { kind }
    }

    fn value_kind(&mut self, field: &FieldDescriptor, family: Family) -> Kind {
        Kind::Scalar(match field.kind() {
            DescriptorKind::Bool => Scalar::Bool,
            DescriptorKind::Int32 => Scalar::Int32,
            DescriptorKind::Int64 => Scalar::Int64,
            DescriptorKind::Uint32 => Scalar::Uint32,
            DescriptorKind::Uint64 => Scalar::Uint64,
            DescriptorKind::Sint32 => Scalar::Sint32,
            DescriptorKind::Sint64 => Scalar::Sint64,
            DescriptorKind::Fixed32 => Scalar::Fixed32,
            DescriptorKind::Fixed64 => Scalar::Fixed64,
            DescriptorKind::Sfixed32 => Scalar::Sfixed32,
            DescriptorKind::Sfixed64 => Scalar::Sfixed64,
            DescriptorKind::Float => Scalar::Float,
            DescriptorKind::Double => Scalar::Double,
            DescriptorKind::String => Scalar::String,
            DescriptorKind::Bytes => Scalar::Bytes,
            DescriptorKind::Enum(of) if family == Family::Mapped && of.full_name() == "google.protobuf.NullValue" => {
                return Kind::Raw;
            }
            DescriptorKind::Enum(of) => return Kind::Enum(self.enumeration(&of)),
            DescriptorKind::Message(of) => return self.kind_of(&of, family),
        })
    }

    /// The kind of a message in the formats of `family`.
    fn kind_of(&mut self, message: &MessageDescriptor, family: Family) -> Kind {
        if let (Some(scalar), Family::Mapped) = (wrapped(message.full_name()), family) {
            return Kind::Scalar(scalar);
        }
        match (message.full_name(), family) {
            ("google.protobuf.Timestamp", _) => Kind::Scalar(Scalar::Timestamp),
            ("google.protobuf.Duration", _) => Kind::Scalar(Scalar::Duration),
            ("google.protobuf.Value", Family::Mapped) => Kind::Raw,
            ("google.protobuf.Struct", Family::Mapped) => Kind::Map(Scalar::String, Box::new(Kind::Raw)),
            ("google.protobuf.ListValue", Family::Mapped) => Kind::List(Box::new(Kind::Raw)),
            ("google.protobuf.FieldMask", Family::Mapped) => Kind::Scalar(Scalar::String),
            _ => Kind::Record(self.message(message, family)),
        }
    }

    /// A record whose only field is the whole payload.
    fn wrapper_of(&mut self, message: &MessageDescriptor, family: Family, kind: Kind) -> RecordId {
        if family == Family::Binary {
            return self.message(message, family);
        }
        let id = self.reserve();
        let name = self.type_name(message.name(), message.full_name());
        let doc = format!("The message {}.", message.full_name());
        self.set(id, super::only(name, doc, family, kind));
        id
    }

    fn enumeration(&mut self, descriptor: &EnumDescriptor) -> EnumId {
        let key = (descriptor.parent_file().name().to_owned(), descriptor.full_name().to_owned());
        if let Some(known) = self.known_enums.get(&key) {
            return *known;
        }
        let package = descriptor.package_name().to_owned();
        let name = self.type_name(short_name(descriptor.full_name(), &package), descriptor.full_name());
        let prefix = format!("{}_", names::upper(descriptor.name()));
        let has_prefix =
            descriptor.values().all(|value| value.name().len() > prefix.len() && value.name().starts_with(&prefix));
        let values = descriptor.values().map(|value| EnumValue {
            name: if has_prefix { value.name()[prefix.len()..].to_owned() } else { value.name().to_owned() },
            wire_name: value.name().to_owned(),
            number: value.number(),
        });
        let is_closed = descriptor.parent_file().syntax() == Syntax::Proto2;
        let enumeration = Enum {
            name,
            doc: format!("The enumeration {}.", descriptor.full_name()),
            values: values.collect(),
            repr: if is_closed { Repr::ClosedNumber } else { Repr::OpenNumber },
            default: descriptor.default_value().number(),
            is_named: false,
        };
        let id = self.add_enum(enumeration);
        self.known_enums.insert(key, id);
        id
    }
}

fn short_name<'n>(full_name: &'n str, package: &str) -> &'n str {
    full_name.strip_prefix(package).map_or(full_name, |rest| rest.trim_start_matches('.'))
}

/// The scalar that `DoubleValue` and similar wrap, which JSON shows directly.
fn wrapped(full_name: &str) -> Option<Scalar> {
    Some(match full_name.strip_prefix("google.protobuf.")?.strip_suffix("Value")? {
        "Double" => Scalar::Double,
        "Float" => Scalar::Float,
        "Int64" => Scalar::Int64,
        "UInt64" => Scalar::Uint64,
        "Int32" => Scalar::Int32,
        "UInt32" => Scalar::Uint32,
        "Bool" => Scalar::Bool,
        "String" => Scalar::String,
        "Bytes" => Scalar::Bytes,
        _ => return None,
    })
}
