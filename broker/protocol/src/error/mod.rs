//! Errors of decoding ([`DecodeError`]) and of encoding ([`EncodeError`]).

mod cause;
mod decode;
mod encode;
pub(crate) mod table;
pub(crate) mod words;

pub use cause::Fault;
pub use decode::DecodeError;
pub(crate) use decode::Flaw;
pub use encode::EncodeError;
pub use table::DecodeCause;
