//! The data types of the wire (section 1.5) as plain functions.

pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod utf8;
mod variable_byte_integer;
pub(crate) mod writer;

pub use variable_byte_integer::{
    MAX_VARIABLE_BYTE_INTEGER, VariableByteIntegerError, read_variable_byte_integer, variable_byte_integer_len,
    write_variable_byte_integer,
};
