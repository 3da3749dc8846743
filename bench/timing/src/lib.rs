//! Shared code of the comparisons of Rust libraries: interleaved rounds, tables, result files, command line.

#![forbid(unsafe_code)]

mod arguments;
mod measure;
mod results;

pub use arguments::Arguments;
pub use measure::{Contender, Measured, median, run};
pub use results::{json, rounded, table, versions, write};
