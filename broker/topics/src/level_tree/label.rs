//! The text of a tree node: short text inside the node, long text in a separate slab.

use crate::slab::Slab;

/// Longest text stored inside a node, in bytes. Most topic levels are shorter; 14 makes a label 15 bytes, and a node 36.
pub(super) const INLINE_BYTES: usize = 14;

/// `tag` of a label whose text is in [`LongLabels`].
const LONG: u8 = u8::MAX;

/// The text of a node: the inline length or [`LONG`], then the text or the index of the long text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label {
    tag: u8,
    bytes: [u8; INLINE_BYTES],
}

/// Texts that do not fit into a node.
#[derive(Debug, Clone)]
pub(super) struct LongLabels {
    texts: Slab<Box<[u8]>>,
    text_bytes: usize,
}

impl Label {
    pub(super) const EMPTY: Self = Self { tag: 0, bytes: [0; INLINE_BYTES] };

    pub(super) fn new(text: &[u8], long: &mut LongLabels) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        if text.len() <= INLINE_BYTES {
            bytes[..text.len()].copy_from_slice(text);
            return Self { tag: text.len() as u8, bytes };
        }
        long.text_bytes += text.len();
        let index = long.texts.insert(text.into());
        bytes[..4].copy_from_slice(&index.to_le_bytes());
        Self { tag: LONG, bytes }
    }

    #[inline]
    pub(super) fn text<'a>(&'a self, long: &'a LongLabels) -> &'a [u8] {
        match self.long_index() {
            None => &self.bytes[..usize::from(self.tag)],
            Some(index) => &long.texts[index],
        }
    }

    /// Frees the long text, if there is one.
    pub(super) fn free(self, long: &mut LongLabels) {
        if let Some(index) = self.long_index() {
            long.text_bytes -= long.texts.remove(index).len();
        }
    }

    #[inline]
    fn long_index(&self) -> Option<u32> {
        let [a, b, c, d, ..] = self.bytes;
        (self.tag == LONG).then_some(u32::from_le_bytes([a, b, c, d]))
    }
}

impl LongLabels {
    pub(super) const fn new() -> Self {
        Self { texts: Slab::new(), text_bytes: 0 }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.texts.memory_bytes() + self.text_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_around_the_inline_limit_round_trips() {
        let mut long = LongLabels::new();
        for len in [0, 1, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1, 254, 255, 256, 65_535] {
            let text: Vec<u8> = (0..len).map(|i| b'a' + (i % 26) as u8).collect();
            let label = Label::new(&text, &mut long);
            assert_eq!(label.text(&long), text);
            label.free(&mut long);
        }
        assert_eq!(long.text_bytes, 0);
    }
}
