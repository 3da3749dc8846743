//! The `tautwire` binary: the broker (`serve`) and its tools (`pub`, `sub`, `discover`, `contract`, `data`, `acl`, `user`, `cert`,
//! `config`).

#![forbid(unsafe_code)]
#![warn(clippy::print_stderr)]

mod admin;
mod bridges;
mod certificates;
mod cli;
mod client;
mod cluster;
mod config;
mod contracts;
mod fields;
mod file_edit;
mod files;
mod identity;
mod log;
mod nearest;
mod rules;
mod serve;
mod shared;
mod stderr;
mod telemetry;
mod time;

use std::process::ExitCode;

use tautwire_json as json;

fn main() -> ExitCode {
    cli::run(std::env::args_os().skip(1))
}
