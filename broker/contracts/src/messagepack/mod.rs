//! MessagePack, read in place and written.

mod quick_check;
mod read;
mod write;

pub(crate) use read::MessagePackSource;
pub(crate) use write::MessagePackSink;
