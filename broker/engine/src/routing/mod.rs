//! Routing of messages from PUBLISH to subscribers: matching, delivery, subscriptions, retained messages, shared subscriptions, payloads.

pub(crate) mod capacity;
pub(crate) mod contracts;
pub(crate) mod deliver;
pub(crate) mod discovery;
pub(crate) mod metered;
pub(crate) mod packet_copies;
pub(crate) mod publish;
pub(crate) mod publish_packets;
pub(crate) mod retained_publisher;
pub(crate) mod route;
pub(crate) mod scans;
pub(crate) mod shard_outbox;
pub(crate) mod share_delivery;
pub(crate) mod share_queue;
pub(crate) mod state;
pub(crate) mod subscribe;
pub(crate) mod transcoding;
pub(crate) mod transcoding_budget;
