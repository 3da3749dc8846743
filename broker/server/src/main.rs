//! The `tautwire` binary: the broker (`serve`) and its tools (`pub`, `sub`, `discover`, `contract`, `data`, `acl`, `user`, `cert`,
//! `config`).

#![forbid(unsafe_code)]

mod admin;
mod certificates;
mod cli;
mod client;
mod config;
mod contracts;
mod identity;
mod json;
mod log;
mod nearest;
mod porter;
mod rules;
mod serve;
mod time;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os().skip(1))
}
