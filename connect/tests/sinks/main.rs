//! Sinks against real servers, also while connector, broker and target are killed.
//!
//! The broker is the program that `TAUTWIRE` names. Without it, these tests report that they did not run.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

mod jetstream;
mod kafka;
mod postgres;
mod support;
mod webhook;
