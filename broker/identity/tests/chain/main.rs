//! Authentication chains, driven as a broker does.

mod anonymous;
mod bans;
mod certificates;
mod hook;
mod password_file;
mod rsa;
mod scram;
mod support;
mod tokens;
