//! The admin API over real sockets: functions, persistence, and hostile requests.

mod bridges;
mod clients;
mod connections;
mod contracts;
mod explain;
mod hostile;
mod messages;
mod metrics;
mod overview;
mod pages;
mod retained;
mod roles;
mod sessions;
mod tap;
mod why;
