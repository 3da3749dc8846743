//! The HTTP API for operators: health, metrics, contracts at run time, messages.
//!
//! One thread per address runs hyper (HTTP/1.1) for all clients ([`server`], [`exchange`]), so that a slow or silent client does not block
//! a thread. Handlers may block; they run on a small pool of separate threads ([`handler_limits`]).

mod attempts;
mod bans;
mod bridges;
mod caller;
mod clients;
mod cluster;
mod configuration;
mod connections;
mod contracts;
mod credentials;
mod exchange;
mod explain;
mod handler_limits;
mod health;
mod history;
mod listener;
mod listeners;
mod login;
mod messages;
mod metrics;
mod openapi;
mod overview;
mod payload;
mod process;
mod prometheus;
mod query;
mod request;
mod request_context;
mod response;
mod retained;
mod roles;
mod routes;
mod rules;
mod server;
mod sessions;
mod shared;
mod state;
mod tap;
mod token;
mod tokens_file;
mod topic_metrics;
mod transport;
mod ui;
mod violations;
mod why;

pub(crate) use credentials::{Credentials, CurrentCredentials};
pub(crate) use listener::{AdminListener, ListenerChange};
pub(crate) use roles::{Grant, Role};
pub(crate) use state::AdminState;
pub(crate) use token::{Token, generate_token, read_text as read_token};
pub(crate) use tokens_file::NamedToken;
pub(crate) mod tokens {
    pub(crate) use super::tokens_file::{FILE_BYTES_MAX, add, is_name, parse, parse_rfc3339, remove};
}
