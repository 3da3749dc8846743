//! Spans: the places of a packet's parts within its one allocation.

use alloc::vec::Vec;

use crate::error::EncodeError;
use crate::list::{List, ListItem};
use crate::properties::{Properties, PropertyContext};

/// A range of the bytes.
#[derive(Clone, Copy)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// A property block and the set of its properties, see [`Properties::trusted`].
#[derive(Clone, Copy)]
pub(super) struct Block {
    span: Span,
    seen: u32,
}

/// The wire form of a list and its number of items.
#[derive(Clone, Copy)]
pub(super) struct Items {
    span: Span,
    len: u32,
}

/// Appends parts one after the other. A packet has less than 4 GiB of them.
pub(super) struct Store {
    pub(super) bytes: Vec<u8>,
}

impl Store {
    pub(super) fn bytes(&mut self, part: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(part);
        self.since(start)
    }

    pub(super) fn properties(
        &mut self,
        properties: &Properties<'_>,
        context: PropertyContext,
    ) -> Result<Block, EncodeError> {
        let start = self.bytes.len();
        properties.append_block(context, &mut self.bytes)?;
        Ok(Block { span: self.since(start), seen: properties.seen() })
    }

    pub(super) fn list<'a, T: ListItem<'a>>(&mut self, list: &List<'a, T>) -> Items {
        let start = self.bytes.len();
        self.bytes.resize(start + list.encoded_len(), 0);
        list.write(&mut self.bytes[start..]);
        Items { span: self.since(start), len: list.len() as u32 }
    }

    fn since(&self, start: usize) -> Span {
        Span { start: start as u32, end: self.bytes.len() as u32 }
    }
}

impl Span {
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }

    /// The part as the text that was stored.
    pub(super) fn text(self, bytes: &[u8]) -> &str {
        core::str::from_utf8(self.of(bytes)).unwrap_or_default()
    }
}

impl Block {
    pub(super) fn of(self, bytes: &[u8], context: PropertyContext) -> Properties<'_> {
        Properties::trusted(self.span.of(bytes), context, self.seen)
    }
}

impl Items {
    pub(super) fn of<'a, T: ListItem<'a>>(self, bytes: &'a [u8]) -> List<'a, T> {
        List::trusted(self.span.of(bytes), self.len)
    }
}
