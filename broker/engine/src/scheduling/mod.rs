//! The turn of a shard: the order of its steps, and the budget of each.

pub(crate) mod clock;
pub(crate) mod fan_out;
pub(crate) mod io;
pub(crate) mod jobs;
pub(crate) mod timer_wheel;
pub(crate) mod turn;
pub(crate) mod work_budget;
