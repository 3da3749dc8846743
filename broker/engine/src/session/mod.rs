//! Sessions: what they hold, acknowledgements that arrive, queues that are full, and the end.

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
