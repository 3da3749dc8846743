//! Payloads in the binary form of Protocol Buffers.

mod check;
mod emit;
mod find;
mod wire;
mod write;

pub(crate) use check::{PayloadCheck, check};
pub(crate) use emit::emit;
pub(crate) use find::field_is;
pub(crate) use wire::{FieldValue, each_field};
pub(crate) use write::{ProtobufSink, varint as write_varint};
