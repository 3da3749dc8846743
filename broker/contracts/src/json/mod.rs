//! JSON [RFC 8259], read in place and written.

mod quick_check;
mod read;
mod string;
mod write;

pub(crate) use read::JsonSource;
pub(crate) use string::unescaped;
pub(crate) use write::JsonSink;
