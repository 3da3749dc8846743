//! `tautwire-bench`: measures MQTT brokers. `tautwire-bench --help` shows the usage; `bench/README.md` defines the figures.

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
