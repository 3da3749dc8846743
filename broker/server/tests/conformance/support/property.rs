//! Constructors for properties from plain numbers and text.

use std::num::{NonZeroU16, NonZeroU32};

use tautwire_protocol::{Property, SubscriptionId, TopicName};

pub(crate) fn receive_maximum(value: u16) -> Property<'static> {
    Property::ReceiveMaximum(NonZeroU16::new(value).expect("Receive Maximum is not zero"))
}

pub(crate) fn maximum_packet_size(value: u32) -> Property<'static> {
    Property::MaximumPacketSize(NonZeroU32::new(value).expect("Maximum Packet Size is not zero"))
}

pub(crate) fn topic_alias(value: u16) -> Property<'static> {
    Property::TopicAlias(NonZeroU16::new(value).expect("the test names a legal Topic Alias"))
}

pub(crate) fn subscription_identifier(value: u32) -> Property<'static> {
    Property::SubscriptionIdentifier(SubscriptionId::new(value).expect("the test names a legal identifier"))
}

pub(crate) fn response_topic(topic: &str) -> Property<'_> {
    Property::ResponseTopic(TopicName::new(topic).expect("the test names a valid topic"))
}
