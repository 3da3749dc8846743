use alloc::vec::Vec;
use core::fmt;

use super::id::Admission;
use super::{Property, PropertyContext, PropertyId, RawProperties};
use crate::error::{DecodeCause, DecodeError, EncodeError, Flaw};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::wire::{MAX_VARIABLE_BYTE_INTEGER, variable_byte_integer_len};

/// The properties of a packet or a will.
///
/// Decoded properties are the bytes of the block, checked once: allowed in this packet, repeated only where that is allowed, in range,
/// well-formed. To send properties, give a slice of [`Property`]; encoding makes the same checks. Equality compares the properties in
/// order, in either form.
#[derive(Clone, Copy)]
pub struct Properties<'a> {
    form: Representation<'a>,
}

#[derive(Clone, Copy)]
enum Representation<'a> {
    Wire {
        block: &'a [u8],
        context: PropertyContext,
        /// [`PropertyId::bit`] of every property in the block.
        seen: u32,
    },
    List(&'a [Property<'a>]),
}

impl<'a> Properties<'a> {
    /// No properties.
    pub const EMPTY: Self = Self { form: Representation::List(&[]) };

    /// Properties to send.
    #[inline]
    pub const fn from_list(list: &'a [Property<'a>]) -> Self {
        Self { form: Representation::List(list) }
    }

    /// Properties in their wire form, without the property length, for packets of `context`.
    ///
    /// # Errors
    /// Every error that decoding a block has. Offsets count from the start of `block`.
    pub fn from_wire(block: &'a [u8], context: PropertyContext) -> Result<Self, DecodeError> {
        if block.len() > MAX_VARIABLE_BYTE_INTEGER as usize {
            return Err(Flaw::new(DecodeCause::PropertyBlockPastEnd, 0).into_error(0));
        }
        let seen = Self::check(block, 0, context).map_err(|flaw| flaw.into_error(0))?;
        Ok(Self::trusted(block, context, seen))
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        match self.form {
            Representation::Wire { block, .. } => block.is_empty(),
            Representation::List(list) => list.is_empty(),
        }
    }

    /// The properties in order.
    #[inline]
    pub fn iter(&self) -> PropertiesIter<'a> {
        PropertiesIter {
            form: match self.form {
                Representation::Wire { block, .. } => IterForm::Wire(RawProperties::new(block)),
                Representation::List(list) => IterForm::List(list.iter()),
            },
        }
    }

    /// The checked block without its length, for a broker that forwards it; `None` for properties given as a slice.
    #[inline]
    pub const fn as_wire(&self) -> Option<&'a [u8]> {
        match self.form {
            Representation::Wire { block, .. } => Some(block),
            Representation::List([]) => Some(&[]),
            Representation::List(_) => None,
        }
    }

    /// The properties of [`Self::as_wire`] one by one, still in wire form, to forward some of them.
    #[inline]
    pub fn raw(&self) -> Option<RawProperties<'a>> {
        self.as_wire().map(RawProperties::new)
    }

    /// Whether the property is present. Costs nothing for decoded properties.
    #[inline]
    pub fn contains(&self, id: PropertyId) -> bool {
        match self.form {
            Representation::Wire { seen, .. } => seen & id.bit() != 0,
            Representation::List(list) => list.iter().any(|property| property.id() == id),
        }
    }

    /// The first property of that identifier.
    #[inline]
    pub fn get(&self, id: PropertyId) -> Option<Property<'a>> {
        // Most packets have none, which should not cost a call.
        if self.is_empty() { None } else { self.find(id) }
    }

    fn find(&self, id: PropertyId) -> Option<Property<'a>> {
        match self.form {
            Representation::Wire { block, seen, .. } => {
                if seen & id.bit() == 0 {
                    return None;
                }
                RawProperties::new(block).find(|raw| raw.id == id)?.value()
            }
            Representation::List(list) => list.iter().find(|property| property.id() == id).copied(),
        }
    }

    /// Reads the property length and the block after it.
    #[inline(always)]
    pub(crate) fn decode(r: &mut Reader<'a>, context: PropertyContext) -> Result<Self, Flaw> {
        if let Some((&0, rest)) = r.rest().split_first() {
            r.set_rest(rest);
            return Ok(Self::EMPTY);
        }
        let (block, at) = r.property_block()?;
        let seen = Self::check(block, at, context)?;
        Ok(Self::trusted(block, context, seen))
    }

    /// Returns the set of properties in a block that begins at `at`, as one word: a larger result would be written to memory in parts and
    /// read as a whole, which stalls the processor.
    #[inline(never)]
    fn check(block: &[u8], at: usize, context: PropertyContext) -> Result<u32, Flaw> {
        let mut r = Reader::of_properties(block, at);
        let mut seen = 0;
        while !r.is_empty() {
            let at = r.at();
            // Every identifier fits in one byte. A longer form is not minimal, and as malformed as an unknown identifier.
            let Some(id) = PropertyId::from_u8(r.byte()?) else {
                return Err(Flaw::new(DecodeCause::PropertyUnknown, at));
            };
            match id.admit(context, seen) {
                Admission::Yes(now_seen) => seen = now_seen,
                Admission::NotAllowed => return Err(Flaw::new(DecodeCause::PropertyNotAllowed, at)),
                Admission::Repeated => return Err(Flaw::new(DecodeCause::PropertyRepeated, at)),
            }
            id.check_value(&mut r)?;
        }
        if is_data_without_method(seen) {
            return Err(Flaw::new(DecodeCause::AuthenticationDataAlone, at));
        }
        Ok(seen)
    }

    /// A block that has been checked, or copied from properties that a caller gave. `seen` is the result of [`Self::seen`].
    #[inline]
    pub(crate) fn trusted(block: &'a [u8], context: PropertyContext, seen: u32) -> Self {
        Self { form: Representation::Wire { block, context, seen } }
    }

    /// The set of properties in the block.
    pub(crate) fn seen(&self) -> u32 {
        match self.form {
            Representation::Wire { seen, .. } => seen,
            Representation::List(list) => list.iter().fold(0, |seen, property| seen | property.id().bit()),
        }
    }

    /// Checks the properties for `context` and returns the length of their block, without the property length.
    #[inline]
    pub(crate) fn block_len(&self, context: PropertyContext) -> Result<usize, EncodeError> {
        match self.form {
            Representation::Wire { block, context: checked_for, .. } if checked_for == context => Ok(block.len()),
            Representation::List([]) => Ok(0),
            _ => self.check_all(context),
        }
    }

    fn check_all(&self, context: PropertyContext) -> Result<usize, EncodeError> {
        let (mut seen, mut len) = (0, 0);
        for property in self.iter() {
            match property.id().admit(context, seen) {
                Admission::Yes(now_seen) => seen = now_seen,
                Admission::NotAllowed => {
                    return Err(EncodeError::PropertyNotAllowed { property: property.id(), context });
                }
                Admission::Repeated => return Err(EncodeError::PropertyRepeated { property: property.id() }),
            }
            property.check()?;
            len += property.encoded_len();
        }
        if is_data_without_method(seen) {
            return Err(EncodeError::AuthenticationDataAlone);
        }
        if len > MAX_VARIABLE_BYTE_INTEGER as usize {
            return Err(EncodeError::PacketTooLarge { remaining_len: len });
        }
        Ok(len)
    }

    /// Writes the property length and the block of `block_len` bytes.
    #[inline]
    pub(crate) fn write(&self, block_len: usize, w: &mut Writer<'_>) {
        w.variable_byte_integer(block_len as u32);
        match self.form {
            Representation::Wire { block, .. } => w.bytes(block),
            Representation::List(list) => list.iter().for_each(|property| property.write(w)),
        }
    }

    /// Checks the properties for `context` and appends their block, without its length.
    #[inline]
    pub(crate) fn append_block(&self, context: PropertyContext, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.block_len(context)?;
        match self.form {
            Representation::Wire { block, .. } => out.extend_from_slice(block),
            Representation::List(list) => {
                for property in list {
                    property.append_to(out)?;
                }
            }
        }
        Ok(())
    }
}

/// The length of a property length and a block of `block_len` bytes.
#[inline]
pub(crate) fn len_with_prefix(block_len: usize) -> usize {
    variable_byte_integer_len(block_len as u32) + block_len
}

#[inline]
fn is_data_without_method(seen: u32) -> bool {
    seen & PropertyId::AuthenticationData.bit() != 0 && seen & PropertyId::AuthenticationMethod.bit() == 0
}

/// The properties of a block in order.
#[derive(Clone, Debug)]
pub struct PropertiesIter<'a> {
    form: IterForm<'a>,
}

#[derive(Clone, Debug)]
enum IterForm<'a> {
    Wire(RawProperties<'a>),
    List(core::slice::Iter<'a, Property<'a>>),
}

impl<'a> Iterator for PropertiesIter<'a> {
    type Item = Property<'a>;

    #[inline]
    fn next(&mut self) -> Option<Property<'a>> {
        match &mut self.form {
            IterForm::Wire(raw) => raw.next()?.value(),
            IterForm::List(list) => list.next().copied(),
        }
    }
}

impl<'a> IntoIterator for &Properties<'a> {
    type Item = Property<'a>;
    type IntoIter = PropertiesIter<'a>;

    fn into_iter(self) -> PropertiesIter<'a> {
        self.iter()
    }
}

impl<'a> From<&'a [Property<'a>]> for Properties<'a> {
    fn from(list: &'a [Property<'a>]) -> Self {
        Self::from_list(list)
    }
}

impl Default for Properties<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Properties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Properties<'_> {}

impl fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
