//! Pseudorandom choices from a seed.

pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) fn new(seed: u64) -> Choices {
        Choices(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.bits() >> 33) as usize % limit.max(1)
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn of<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        &options[self.below(options.len())]
    }

    /// The bytes with a few mutations.
    pub(crate) fn mutate(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[at] = self.bits() as u8,
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 if !bytes.is_empty() => drop(bytes.remove(at)),
                3 => bytes.insert(at, *self.of(&[0, 1, 8, 0x0a, 0x12, 0x7f, 0x80, 0xc3, 0xff])),
                _ => bytes.truncate(at),
            }
        }
        bytes
    }

    /// The text with a few mutations that likely leave it valid JSON.
    pub(crate) fn mutate_json(&mut self, json: &[u8]) -> Vec<u8> {
        let mut text = String::from_utf8_lossy(json).into_owned();
        for _ in 0..=self.below(2) {
            let places: Vec<usize> = text
                .char_indices()
                .filter(|(_, char)| "{}[]:,\"0123456789eE.-".contains(*char))
                .map(|(at, _)| at)
                .collect();
            let Some(at) = (!places.is_empty()).then(|| *self.of(&places)) else { break };
            let replaced = *self.of(&[
                "",
                "1",
                "-1",
                "0",
                "00",
                "1.5",
                "1e2",
                "1.0",
                "null",
                "true",
                "\"x\"",
                "\"1\"",
                "{}",
                "[]",
                ",",
                ":",
                " ",
                "\n",
                "99999999999",
                "1e400",
                "\"NaN\"",
                "\"Infinity\"",
                "\\u0041",
                "\\",
                "\"\"",
                "E0",
            ]);
            let end = if self.one_in(2) { at } else { at + 1 };
            text.replace_range(at..end, replaced);
        }
        text.into_bytes()
    }
}
