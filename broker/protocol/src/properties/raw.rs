use super::{Property, PropertyId, PropertyType};
use crate::wire::read_variable_byte_integer;

/// One property of a checked block, still in its wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawProperty<'a> {
    /// The identifier.
    pub id: PropertyId,
    /// Its wire form, identifier included, ready to be copied into another block.
    pub bytes: &'a [u8],
}

/// The properties of a checked block in wire order, with their values not decoded.
#[derive(Clone, Debug)]
pub struct RawProperties<'a> {
    rest: &'a [u8],
}

impl<'a> RawProperties<'a> {
    /// `block` has been checked.
    #[inline]
    pub(super) fn new(block: &'a [u8]) -> Self {
        Self { rest: block }
    }
}

impl<'a> RawProperty<'a> {
    /// The value. Never `None` for a property of a checked block.
    #[inline]
    pub(super) fn value(self) -> Option<Property<'a>> {
        Property::read(self.id, self.bytes.get(1..)?)
    }
}

impl<'a> Iterator for RawProperties<'a> {
    type Item = RawProperty<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawProperty<'a>> {
        let (&id, value) = self.rest.split_first()?;
        let id = PropertyId::from_u8(id)?;
        let value_len = match id.data_type() {
            PropertyType::Byte => 1,
            PropertyType::TwoByteInteger => 2,
            PropertyType::FourByteInteger => 4,
            PropertyType::VariableByteInteger => read_variable_byte_integer(value).ok()?.1,
            PropertyType::Utf8String | PropertyType::BinaryData => prefixed_len(value)?,
            PropertyType::Utf8StringPair => {
                let name_len = prefixed_len(value)?;
                name_len + prefixed_len(value.get(name_len..)?)?
            }
        };
        let (bytes, rest) = self.rest.split_at_checked(1 + value_len)?;
        self.rest = rest;
        Some(RawProperty { id, bytes })
    }
}

/// The length of a field with a two-byte length, prefix included.
#[inline]
fn prefixed_len(bytes: &[u8]) -> Option<usize> {
    Some(2 + usize::from(u16::from_be_bytes(*bytes.first_chunk::<2>()?)))
}
