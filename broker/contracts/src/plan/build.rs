//! Builds a plan from descriptors.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use prost_reflect::{
    Cardinality as Label, EnumDescriptor, FieldDescriptor, Kind as DescriptorKind, MessageDescriptor, Syntax,
};

use super::{
    Action, Cardinality, EnumIndex, EnumPlan, FieldIndex, FieldPlan, Kind, MessageIndex, MessagePlan, Names, Pass,
    Plan, TagStep, WellKnown,
};

/// Limits on the size of a schema.
#[derive(Debug, Clone, Copy)]
pub struct PlanLimits {
    /// Message types that are reachable from the contract's.
    pub messages: usize,
    /// Fields of one message.
    pub fields: usize,
    /// Values of one enumeration.
    pub enum_values: usize,
}

/// Maximum number of fields of a message that the walks support, whatever the limits.
pub(crate) const FIELDS_MAX: usize = 1_024;
/// Maximum number of required fields of a message: one bit of a word for each.
pub(crate) const REQUIRED_MAX: usize = 64;

impl Default for PlanLimits {
    fn default() -> PlanLimits {
        PlanLimits { messages: 1_000, fields: 1_000, enum_values: 10_000 }
    }
}

/// A schema that is not supported, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// The message, field or enumeration.
    pub place: String,
    /// The reason.
    pub why: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

impl std::error::Error for PlanError {}

fn refuse<T>(place: impl Into<String>, why: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError { place: place.into(), why: why.into() })
}

impl Plan {
    /// Builds the plan of `root` and all types that it references.
    ///
    /// # Errors
    /// A group, an exceeded limit, ambiguous JSON names.
    pub fn new(root: &MessageDescriptor, limits: &PlanLimits) -> Result<Plan, PlanError> {
        let mut build = Build {
            limits,
            messages: HashMap::new(),
            enums: HashMap::new(),
            pending: Vec::new(),
            enum_plans: Vec::new(),
        };
        let root = build.message(root)?;
        let mut plans: BTreeMap<u16, MessagePlan> = BTreeMap::new();
        // Types may be recursive, so they are numbered when they are found and built afterwards.
        while let Some(descriptor) = build.pending.pop() {
            let index = build.messages[descriptor.full_name()];
            plans.insert(index.0, build.build_node(&descriptor)?);
        }
        Ok(Plan { messages: plans.into_values().collect(), enums: build.enum_plans.into_boxed_slice(), root })
    }
}

struct Build<'l> {
    limits: &'l PlanLimits,
    messages: HashMap<String, MessageIndex>,
    enums: HashMap<String, EnumIndex>,
    pending: Vec<MessageDescriptor>,
    enum_plans: Vec<EnumPlan>,
}

impl Build<'_> {
    fn message(&mut self, descriptor: &MessageDescriptor) -> Result<MessageIndex, PlanError> {
        if let Some(known) = self.messages.get(descriptor.full_name()) {
            return Ok(*known);
        }
        if self.messages.len() >= self.limits.messages.min(usize::from(u16::MAX)) {
            let why = format!("the schema has more than {} message types", self.limits.messages);
            return refuse(descriptor.full_name(), why);
        }
        let index = MessageIndex(self.messages.len() as u16);
        self.messages.insert(descriptor.full_name().to_owned(), index);
        self.pending.push(descriptor.clone());
        Ok(index)
    }

    fn build_node(&mut self, descriptor: &MessageDescriptor) -> Result<MessagePlan, PlanError> {
        let mut fields = Vec::new();
        let mut oneofs: HashMap<String, u16> = HashMap::new();
        for field in descriptor.fields() {
            if fields.len() >= self.limits.fields.min(FIELDS_MAX) {
                return refuse(
                    descriptor.full_name(),
                    format!("the message has more than {} fields", self.limits.fields.min(FIELDS_MAX)),
                );
            }
            fields.push(self.field(&field, &mut oneofs)?);
        }
        fields.sort_by_key(|field| field.number);
        if descriptor.fields().filter(|field| field.cardinality() == Label::Required).count() > REQUIRED_MAX {
            return refuse(descriptor.full_name(), format!("more than {REQUIRED_MAX} fields are required"));
        }
        let required = descriptor.fields().filter(|field| field.cardinality() == Label::Required);
        let required = required.map(|field| field.number()).collect::<Vec<_>>();
        let names = self.names(descriptor, &fields)?;
        let mut plan = MessagePlan {
            full_name: descriptor.full_name().into(),
            required: (0..fields.len() as u16)
                .filter(|at| required.contains(&fields[usize::from(*at)].number))
                .map(FieldIndex)
                .collect(),
            fields: fields.into_boxed_slice(),
            by_tag: Box::new([TagStep { action: Action::Unknown, field: FieldIndex(0) }; 128]),
            names,
            oneofs: oneofs.len() as u16,
            well_known: well_known(descriptor.full_name()),
        };
        for tag in 0..128u8 {
            plan.by_tag[usize::from(tag)] = match tag >> 3 {
                0 => TagStep { action: Action::NoNumber, field: FieldIndex(0) },
                number => plan.step(u32::from(number), tag & 7),
            };
        }
        Ok(plan)
    }

    fn field(&mut self, field: &FieldDescriptor, oneofs: &mut HashMap<String, u16>) -> Result<FieldPlan, PlanError> {
        if field.is_group() {
            return refuse(field.full_name(), "groups are not supported: use a message field");
        }
        let oneof = field.containing_oneof().filter(|oneof| !oneof.is_synthetic()).map(|oneof| {
            let next = oneofs.len() as u16;
            *oneofs.entry(oneof.name().to_owned()).or_insert(next)
        });
        let cardinality = match () {
            () if field.is_map() => Cardinality::Map,
            () if field.is_list() => Cardinality::Repeated,
            () => Cardinality::Singular,
        };
        let kind = self.kind(field)?;
        let is_plain = cardinality == Cardinality::Singular && oneof.is_none();
        Ok(FieldPlan {
            number: field.number(),
            name: field.name().into(),
            json_name: field.json_name().into(),
            kind,
            pass: if is_plain { kind.pass() } else { Pass::Never },
            cardinality,
            oneof,
            has_presence: field.supports_presence(),
            packed: is_packed(field),
        })
    }

    fn kind(&mut self, field: &FieldDescriptor) -> Result<Kind, PlanError> {
        Ok(match field.kind() {
            DescriptorKind::Double => Kind::Double,
            DescriptorKind::Float => Kind::Float,
            DescriptorKind::Int32 => Kind::Int32,
            DescriptorKind::Int64 => Kind::Int64,
            DescriptorKind::Uint32 => Kind::Uint32,
            DescriptorKind::Uint64 => Kind::Uint64,
            DescriptorKind::Sint32 => Kind::Sint32,
            DescriptorKind::Sint64 => Kind::Sint64,
            DescriptorKind::Fixed32 => Kind::Fixed32,
            DescriptorKind::Fixed64 => Kind::Fixed64,
            DescriptorKind::Sfixed32 => Kind::Sfixed32,
            DescriptorKind::Sfixed64 => Kind::Sfixed64,
            DescriptorKind::Bool => Kind::Bool,
            DescriptorKind::String => Kind::String,
            DescriptorKind::Bytes => Kind::Bytes,
            DescriptorKind::Enum(of) => Kind::Enum(self.enumeration(&of)?),
            DescriptorKind::Message(of) => Kind::Message(self.message(&of)?),
        })
    }

    fn enumeration(&mut self, descriptor: &EnumDescriptor) -> Result<EnumIndex, PlanError> {
        if let Some(known) = self.enums.get(descriptor.full_name()) {
            return Ok(*known);
        }
        let count = descriptor.values().len();
        if count > self.limits.enum_values.min(usize::from(u16::MAX)) {
            let why = format!("the enumeration has {count} values; the maximum is {}", self.limits.enum_values);
            return refuse(descriptor.full_name(), why);
        }
        let mut first_names: BTreeMap<i32, Box<str>> = BTreeMap::new();
        let mut by_name: Vec<(Box<str>, i32)> = Vec::new();
        // In schema order, which determines the first of several names of a number.
        for value in &descriptor.enum_descriptor_proto().value {
            first_names.entry(value.number()).or_insert_with(|| value.name().into());
            by_name.push((short(descriptor.full_name(), value.name())?.into(), value.number()));
        }
        by_name.sort();
        let names = by_name.iter().enumerate().map(|(at, (name, _))| (&**name, FieldIndex(at as u16)));
        let names = Names::new(names);
        let index = EnumIndex(self.enum_plans.len() as u16);
        self.enum_plans.push(EnumPlan {
            full_name: descriptor.full_name().into(),
            values: first_names.into_iter().collect(),
            names,
            by_name: by_name.into_boxed_slice(),
            is_closed: descriptor.parent_file().syntax() == Syntax::Proto2,
            is_null: descriptor.full_name() == "google.protobuf.NullValue",
        });
        self.enums.insert(descriptor.full_name().to_owned(), index);
        Ok(index)
    }

    fn names(&self, descriptor: &MessageDescriptor, fields: &[FieldPlan]) -> Result<Names, PlanError> {
        let mut owners: HashMap<&str, u32> = HashMap::new();
        for field in fields {
            for name in [&*field.json_name, &*field.name] {
                if *owners.entry(short(descriptor.full_name(), name)?).or_insert(field.number) != field.number {
                    return refuse(descriptor.full_name(), format!("two fields are called {name:?} in JSON"));
                }
            }
        }
        let indexed = fields.iter().enumerate().map(|(at, field)| (FieldIndex(at as u16), field));
        Ok(Names::new(indexed.flat_map(|(index, field)| {
            let own = (*field.name != *field.json_name).then_some((&*field.name, index));
            [Some((&*field.json_name, index)), own].into_iter().flatten()
        })))
    }
}

/// Whether a list is written packed. `FieldDescriptor::is_packed` ignores options that the schema compiler has already interpreted.
fn is_packed(field: &FieldDescriptor) -> bool {
    let options = field.options();
    let option = options.get_field_by_name("packed").filter(|_| options.has_field_by_name("packed"));
    let is_set = option.and_then(|option| option.as_bool());
    field.is_list()
        && !matches!(field.kind(), DescriptorKind::String | DescriptorKind::Bytes | DescriptorKind::Message(_))
        && is_set.unwrap_or(field.parent_file().syntax() == Syntax::Proto3)
}

/// A name that fits a plan.
fn short<'n>(place: &str, name: &'n str) -> Result<&'n str, PlanError> {
    if name.len() > usize::from(u16::MAX) { refuse(place, "a name is longer than 65,535 bytes") } else { Ok(name) }
}

fn well_known(full_name: &str) -> Option<WellKnown> {
    Some(match full_name.strip_prefix("google.protobuf.")? {
        "Timestamp" => WellKnown::Timestamp,
        "Duration" => WellKnown::Duration,
        "Struct" => WellKnown::Struct,
        "Value" => WellKnown::Value,
        "ListValue" => WellKnown::ListValue,
        "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value" | "BoolValue"
        | "StringValue" | "BytesValue" => WellKnown::Wrapper,
        "FieldMask" => WellKnown::FieldMask,
        "Empty" => WellKnown::Empty,
        "Any" => WellKnown::Any,
        _ => return None,
    })
}
