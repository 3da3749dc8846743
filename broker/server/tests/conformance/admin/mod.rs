//! The admin API over real sockets: what it does, that it lasts, and what hostile requests get.

mod clients;
mod contracts;
mod hostile;
mod messages;
mod metrics;
