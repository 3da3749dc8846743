//! `tautwire-bench`: measures MQTT brokers. `tautwire-bench --help` says how; `bench/README.md` says what the figures mean.

#![forbid(unsafe_code)]

mod broker;
mod cli;
mod compare;
mod failure;
mod measure;
mod mqtt;
mod nats;
mod net;
mod scenario;
mod system;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tautwire-bench: {error}");
            ExitCode::from(2)
        }
    }
}
