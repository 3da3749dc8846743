//! The chunks of a file, and the fields in them.

use crate::error::{DatabaseError, Fault};

/// Length of a chunk header: kind and length.
const HEADER_BYTES: usize = 8;

/// A chunk: kind and body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk<'a> {
    pub(crate) kind: u32,
    /// The offset in the file.
    pub(crate) offset: usize,
    pub(crate) body: &'a [u8],
}

/// The chunks of a file, in order.
pub(crate) struct Chunks<'a> {
    file: &'a [u8],
    offset: usize,
}

impl<'a> Chunks<'a> {
    /// The chunks from byte `offset` on.
    pub(crate) fn from(file: &'a [u8], offset: usize) -> Chunks<'a> {
        Chunks { file, offset }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, DatabaseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset;
        let rest = self.file.get(offset..).filter(|rest| !rest.is_empty())?;
        let chunk = split(rest).map(|(kind, body)| Chunk { kind, offset, body });
        self.offset = chunk.map_or(self.file.len(), |chunk| offset + HEADER_BYTES + chunk.body.len());
        Some(chunk.ok_or(DatabaseError { at: offset, fault: Fault::Truncated }))
    }
}

fn split(rest: &[u8]) -> Option<(u32, &[u8])> {
    let (kind, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    Some((u32::from_be_bytes(*kind), rest.get(..length)?))
}

/// The unread fields of a chunk.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    wrong: DatabaseError,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(chunk: Chunk<'a>) -> Fields<'a> {
        Fields { rest: chunk.body, wrong: DatabaseError { at: chunk.offset, fault: Fault::Length(chunk.kind) } }
    }

    /// The error for lengths in the chunk that do not add up to its own.
    pub(crate) fn wrong(&self) -> DatabaseError {
        self.wrong
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DatabaseError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(self.wrong)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DatabaseError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(self.wrong)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DatabaseError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DatabaseError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DatabaseError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a number in native byte order.
    pub(crate) fn u64(&mut self) -> Result<u64, DatabaseError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a two-byte length of a later field.
    pub(crate) fn length(&mut self) -> Result<usize, DatabaseError> {
        self.u16().map(usize::from)
    }

    /// Seconds of Unix time; 0 for none.
    pub(crate) fn time_s(&mut self) -> Result<u64, DatabaseError> {
        const LAST_S: u64 = 1 << 40;
        let seconds = self.u64()?;
        if seconds > LAST_S {
            return Err(DatabaseError { fault: Fault::Time, ..self.wrong });
        }
        Ok(seconds)
    }

    pub(crate) fn skipped(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), DatabaseError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.wrong) }
    }
}
