//! The hot paths on fixed input, for counting their instructions. `run.py` runs this under callgrind, which collects
//! only inside [`measured_operations`] and writes one file for each call of it. Prints a line for each, in order:
//! `NAME OPERATIONS`.
//!
//! A group of cases is a module with a function `cases`; a new one joins the list in [`main`].

mod decode;
mod encode;
mod engine;
mod other_shards;
mod packets;
mod topics;
mod validate;

/// Operations in one measurement: enough that the way in and out of it does not count.
const OPERATIONS: u32 = 2_000;

/// One path through the code.
struct Case {
    name: &'static str,
    /// Does it so many times.
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
        // Buffers grow and caches fill before, not meanwhile.
        (case.run)(OPERATIONS / 10);
        measured_operations(&mut case);
        println!("{} {OPERATIONS}", case.name);
    }
}

#[inline(never)]
fn measured_operations(case: &mut Case) {
    (case.run)(OPERATIONS);
}
