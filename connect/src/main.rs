//! `tautwire-connect`: connectors between MQTT topics and other systems.
//!
//! A sink is an MQTT client with a persistent session. It writes batches of messages to its target and acknowledges them afterwards, so
//! the session's queue in the broker is its only queue. See decision 0049.

mod backoff;
mod commands;
mod config;
mod http;
mod logger;
mod mapping;
mod metrics;
mod runtime;
mod sinks;
mod text;
mod time;
mod tls;

use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tautwire-connect: {error}");
            ExitCode::FAILURE
        }
    }
}
