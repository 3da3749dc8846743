//! The hot paths on fixed input, for counting their instructions. `run.py` runs this under callgrind, which collects
//! only inside [`measured_operations`] and writes one file per call. Prints a line for each, in order:
//! `NAME OPERATIONS`.
//!
//! A group of cases is a module with a function `cases`; add a new one to the list in [`main`].

mod decode;
mod encode;
mod engine;
mod other_shards;
mod packets;
mod topics;
mod validate;

/// The number of operations per measurement: enough that the overhead is negligible.
const OPERATIONS: u32 = 2_000;

/// One path through the code.
struct Case {
    name: &'static str,
    /// Runs the operation this many times.
    run: Box<dyn FnMut(u32)>,
}

impl Case {
    fn new(name: &'static str, run: impl FnMut(u32) + 'static) -> Case {
        Case { name, run: Box::new(run) }
    }
}

fn main() {
    other_shards::meet();
    for mut case in
        [decode::cases(), encode::cases(), topics::cases(), engine::cases(), validate::cases()].into_iter().flatten()
    {
        // Warm up, so that buffers grow and caches fill before the measurement.
        (case.run)(OPERATIONS / 10);
        measured_operations(&mut case);
        println!("{} {OPERATIONS}", case.name);
    }
}

#[inline(never)]
fn measured_operations(case: &mut Case) {
    (case.run)(OPERATIONS);
}
