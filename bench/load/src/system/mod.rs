//! Information about processes and the machine.

mod activity;
mod cpu;
mod machine;
mod memory;
mod meter;
mod placement;

pub(crate) use activity::{ContextSwitches, open_descriptors};
pub(crate) use cpu::CpuClock;
pub(crate) use machine::{Machine, cores, date, load_average, revision};
pub(crate) use memory::{Memory, resident_bytes};
pub(crate) use meter::{Load, Meter};
pub(crate) use placement::{Placement, pin_process, pin_self};

use std::num::NonZeroU64;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Result;

/// Raises the number of open files to the hard limit (children inherit it) and returns it.
pub(crate) fn raise_open_files_limit() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.unwrap_or(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: Some(maximum), maximum: limit.maximum })?;
    Ok(maximum)
}

/// Makes timeouts of this thread exact instead of up to 50 µs late, because latency is measured from the due time of a message.
pub(crate) fn set_timer_slack() -> Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}
