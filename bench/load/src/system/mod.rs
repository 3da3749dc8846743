//! What the machine says about processes and about itself.

mod cpu;
mod machine;
mod memory;
mod placement;

pub(crate) use cpu::CpuClock;
pub(crate) use machine::{Machine, load_average, revision};
pub(crate) use memory::resident_bytes;
pub(crate) use placement::{Placement, pin_process, pin_self};

use crate::failure::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of open files to the hard limit (children inherit it) and returns it.
pub(crate) fn raise_open_files_limit() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.unwrap_or(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: Some(maximum), maximum: limit.maximum })?;
    Ok(maximum)
}
