//! The fifteen control packets (section 3). The same structs are decoded and encoded.

mod acknowledgements;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod packet;
mod publish;
mod suback;
mod subscribe;
mod unsuback;
mod unsubscribe;

pub use acknowledgements::{PubAck, PubComp, PubRec, PubRel};
pub use auth::Auth;
pub use connack::ConnAck;
pub use connect::{Connect, Will};
pub use disconnect::Disconnect;
pub use packet::Packet;
pub use publish::{Delivery, Publish};
pub use suback::SubAck;
pub use subscribe::{RetainHandling, Subscribe, SubscriptionOptions, SubscriptionRequest};
pub use unsuback::UnsubAck;
pub use unsubscribe::Unsubscribe;

use core::fmt;

use crate::PacketType;
use crate::error::{DecodeCause, Flaw};
use crate::topic::{TopicErrorKind, TopicFilter};
use crate::wire::reader::Reader;
use crate::wire::utf8;

/// Whether the lower four bits of the first byte are those of the packet type `[MQTT-2.1.3-1]`.
#[inline]
pub(crate) fn flags_are_allowed(packet_type: PacketType, flags: u8) -> Result<(), DecodeCause> {
    if packet_type == PacketType::Publish {
        publish::flags_are_allowed(flags)
    } else if flags == packet_type.required_flags() {
        Ok(())
    } else {
        Err(DecodeCause::FlagsReserved)
    }
}

/// A topic filter of SUBSCRIBE or UNSUBSCRIBE.
fn read_filter<'a>(r: &mut Reader<'a>) -> Result<TopicFilter<'a>, Flaw> {
    let bytes = r.binary()?;
    let at = r.at() - bytes.len();
    let text = utf8::well_formed(bytes, at)?;
    TopicFilter::new(text).map_err(|error| {
        let cause = match error.kind {
            TopicErrorKind::Empty => DecodeCause::TopicFilterEmpty,
            TopicErrorKind::Null => DecodeCause::Utf8Null,
            TopicErrorKind::MultiLevelNotLast => DecodeCause::TopicFilterMultiLevel,
            TopicErrorKind::WildcardNotAlone | TopicErrorKind::TooLong | TopicErrorKind::WildcardInName => {
                DecodeCause::TopicFilterWildcard
            }
            TopicErrorKind::ShareNameEmpty | TopicErrorKind::ShareNameWildcard => DecodeCause::ShareNameInvalid,
            TopicErrorKind::ShareFilterMissing => DecodeCause::ShareFilterMissing,
        };
        Flaw::new(cause, at + error.offset)
    })
}

/// The filter at the start of bytes that [`read_filter`] has passed, and the bytes it takes.
fn reread_filter(bytes: &[u8]) -> Option<(TopicFilter<'_>, usize)> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let text = rest.get(..usize::from(u16::from_be_bytes(*len)))?;
    Some((TopicFilter::trusted(core::str::from_utf8(text).ok()?), 2 + text.len()))
}

/// Stands for payloads and passwords in debug output, which may end up in a log.
struct Hidden(usize);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0)
    }
}
