//! Sessions: their state, acknowledgements from clients, full queues, restore, and cleanup.

pub(crate) mod acknowledgements;
pub(crate) mod drops;
pub(crate) mod message_loss;
pub(crate) mod queue_capacity;
pub(crate) mod restore;
pub(crate) mod session_cleanup;
pub(crate) mod sessions;
pub(crate) mod slow_consumer;
pub(crate) mod throttle;
pub(crate) mod throttled;
