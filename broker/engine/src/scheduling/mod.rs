//! The turn: in which order things happen, and how much of each.

pub(crate) mod clock;
pub(crate) mod fan_out;
pub(crate) mod io;
pub(crate) mod jobs;
pub(crate) mod timer_wheel;
pub(crate) mod turn;
pub(crate) mod work_budget;
