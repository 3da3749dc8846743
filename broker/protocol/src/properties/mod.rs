//! Properties of MQTT 5.0 (section 2.2.2): the table of all 27, one property, a block of them.

mod accessors;
mod block;
mod id;
mod property;
mod raw;

pub use accessors::UserProperties;
pub(crate) use block::len_with_prefix;
pub use block::{Properties, PropertiesIter};
pub use id::{PropertyContext, PropertyId, PropertyType};
pub use property::{PayloadFormat, Property};
pub(crate) use property::{check_len, check_text};
pub use raw::{RawProperties, RawProperty};
