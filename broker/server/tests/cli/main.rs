//! The command line as a person uses it: every test runs the `tautwire` program.

mod cert;
mod commands;
mod contracts;
mod contracts_observe;
mod data;
mod denied;
mod doctor;
mod import;
mod import_bridges;
mod import_options;
mod log;
mod process;
mod publish_subscribe;
mod remote;
mod scripted;
mod scripted_broker;
mod secured;
mod shell;
mod tls;
mod token;
mod user;
