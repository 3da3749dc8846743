use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::error::EncodeError;
use crate::properties::{Properties, PropertyContext};
use crate::{Delivery, Publish, TopicName};

/// A PUBLISH that owns its topic, properties and payload, in one allocation.
#[derive(Clone)]
pub struct OwnedPublish {
    /// Topic, property block and payload, one after the other.
    bytes: Box<[u8]>,
    /// 0 if the packet has a Topic Alias instead of a topic.
    topic_len: u16,
    properties_len: u32,
    /// See [`Properties::trusted`].
    seen: u32,
    delivery: Delivery,
    retain: bool,
}

impl Publish<'_> {
    /// Copies the packet into one allocation. A decoded packet can always be copied.
    ///
    /// # Errors
    /// Properties given as a slice that could not be encoded in this packet.
    #[inline]
    pub fn to_owned_publish(&self) -> Result<OwnedPublish, EncodeError> {
        let topic = self.topic.map_or("", TopicName::as_str).as_bytes();
        let properties_len = self.properties.block_len(PropertyContext::Publish)?;
        let mut bytes = Vec::with_capacity(topic.len() + properties_len + self.payload.len());
        bytes.extend_from_slice(topic);
        self.properties.append_block(PropertyContext::Publish, &mut bytes)?;
        bytes.extend_from_slice(self.payload);
        Ok(OwnedPublish {
            bytes: bytes.into_boxed_slice(),
            topic_len: topic.len() as u16,
            properties_len: properties_len as u32,
            seen: self.properties.seen(),
            delivery: self.delivery,
            retain: self.retain,
        })
    }
}

impl OwnedPublish {
    /// Borrows this packet as a [`Publish`].
    #[inline]
    pub fn as_publish(&self) -> Publish<'_> {
        let (topic, rest) = split(&self.bytes, usize::from(self.topic_len));
        let (properties, payload) = split(rest, self.properties_len as usize);
        // The bytes of the topic were copied from a `str`.
        let topic = core::str::from_utf8(topic).unwrap_or_default();
        Publish {
            delivery: self.delivery,
            retain: self.retain,
            topic: if topic.is_empty() { None } else { Some(TopicName::trusted(topic)) },
            properties: Properties::trusted(properties, PropertyContext::Publish, self.seen),
            payload,
        }
    }

    /// The size of its heap memory in bytes.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[inline]
fn split(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}

impl PartialEq for OwnedPublish {
    fn eq(&self, other: &Self) -> bool {
        self.as_publish() == other.as_publish()
    }
}

impl Eq for OwnedPublish {}

impl fmt::Debug for OwnedPublish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_publish().fmt(f)
    }
}
