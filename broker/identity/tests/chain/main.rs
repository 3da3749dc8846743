//! Chains as a broker asks them.

mod anonymous;
mod bans;
mod certificates;
mod hook;
mod password_file;
mod rsa;
mod scram;
mod support;
mod tokens;
