//! Connections: CONNECT, authentication, rate limits, acknowledgements, output and disconnects.

pub(crate) mod ack;
pub(crate) mod auth_progress;
pub(crate) mod authentication;
pub(crate) mod connack;
pub(crate) mod connect;
pub(crate) mod connect_refusal;
pub(crate) mod connections;
pub(crate) mod disconnect;
pub(crate) mod flapping_block;
pub(crate) mod mount;
pub(crate) mod origin;
pub(crate) mod partial_packet;
pub(crate) mod paused_readers;
pub(crate) mod quota_state;
pub(crate) mod quotas;
pub(crate) mod rate_limit;
pub(crate) mod read_ahead;
pub(crate) mod send_acks;
pub(crate) mod will;
