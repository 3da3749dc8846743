//! Chains as a broker asks them.

mod anonymous;
mod bans;
mod certificates;
mod password_file;
mod scram;
mod support;
