//! Properties set by the application, in encoded form.

use tautwire_protocol::{EncodeError, Properties, Property, PropertyContext};

/// A property block that is valid for one kind of packet.
#[derive(Debug, Clone)]
pub(crate) struct PropertyBlock {
    context: PropertyContext,
    bytes: Vec<u8>,
}

impl PropertyBlock {
    pub(crate) fn new(context: PropertyContext) -> PropertyBlock {
        PropertyBlock { context, bytes: Vec::new() }
    }

    /// Appends a property if it is allowed there.
    pub(crate) fn push(&mut self, property: Property<'_>) -> Result<(), EncodeError> {
        let id = property.id();
        let start = self.bytes.len();
        property.append_to(&mut self.bytes)?;
        if Properties::from_wire(&self.bytes, self.context).is_ok() {
            return Ok(());
        }
        self.bytes.truncate(start);
        let alone = [property];
        let mut single = Vec::new();
        alone[0].append_to(&mut single)?;
        // Authentication Data must follow its method, which the authenticator sets.
        Err(if Properties::from_wire(&single, self.context).is_ok() {
            EncodeError::PropertyRepeated { property: id }
        } else {
            EncodeError::PropertyNotAllowed { property: id, context: self.context }
        })
    }

    pub(crate) fn get(&self) -> Properties<'_> {
        // It was checked when it grew.
        Properties::from_wire(&self.bytes, self.context).unwrap_or_default()
    }
}
