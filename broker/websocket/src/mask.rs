//! Masking (RFC 6455 section 5.3): a client XORs its payload with four bytes of its choice.

/// Bytes that are unmasked per step.
const BLOCK_BYTES: usize = 32;

/// The mask, rotated so that its first byte applies to the next payload byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mask(u32);

impl Mask {
    pub(crate) fn new(key: [u8; 4]) -> Mask {
        Mask(u32::from_le_bytes(key))
    }

    /// Unmasks `len` bytes at `from` and moves them to `to` in one pass, and advances the mask.
    ///
    /// The caller ensures that `to <= from` and that all ranges are within `bytes`.
    pub(crate) fn unmask_within(&mut self, bytes: &mut [u8], from: usize, to: usize, len: usize) {
        debug_assert!(to <= from && from + len <= bytes.len());
        let pattern = self.pattern();
        let mut done = 0;
        // A block is read before it is written, and only bytes that have been read are overwritten.
        while len - done >= BLOCK_BYTES {
            let Some(block) = bytes[from + done..].first_chunk::<BLOCK_BYTES>() else { break };
            let mut block = *block;
            for (byte, mask) in block.iter_mut().zip(pattern) {
                *byte ^= mask;
            }
            bytes[to + done..][..BLOCK_BYTES].copy_from_slice(&block);
            done += BLOCK_BYTES;
        }
        while len - done >= 8 {
            let Some(word) = bytes[from + done..].first_chunk::<8>() else { break };
            let word = u64::from_le_bytes(*word) ^ self.word();
            bytes[to + done..][..8].copy_from_slice(&word.to_le_bytes());
            done += 8;
        }
        for at in done..len {
            bytes[to + at] = bytes[from + at] ^ pattern[at % 4];
        }
        self.turn(len);
    }

    /// Appends an unmasked copy of `bytes` to `into`.
    pub(crate) fn unmask_into(&mut self, bytes: &[u8], into: &mut Vec<u8>) {
        let pattern = self.pattern();
        into.extend(bytes.iter().zip(pattern.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.turn(bytes.len());
    }

    fn turn(&mut self, len: usize) {
        self.0 = self.0.rotate_right(8 * (len % 4) as u32);
    }

    fn word(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }

    fn pattern(self) -> [u8; BLOCK_BYTES] {
        let key = self.0.to_le_bytes();
        std::array::from_fn(|at| key[at % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the standard defines it.
    fn masked(bytes: &[u8], key: [u8; 4]) -> Vec<u8> {
        bytes.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]).collect()
    }

    #[test]
    fn every_length_at_every_offset_is_unmasked() {
        let key = [0x12, 0x00, 0xFE, 0x81];
        for len in (0..140).chain([4096, 4099]) {
            let clear: Vec<u8> = (0..len).map(|at| (at * 7 + at / 256) as u8).collect();
            for from in 0..20 {
                for to in [0, from / 2, from] {
                    let mut bytes = vec![0xAA; from];
                    bytes.extend(masked(&clear, key));
                    bytes.push(0x55);
                    Mask::new(key).unmask_within(&mut bytes, from, to, len);
                    assert_eq!(bytes[to..to + len], clear, "{len} bytes from {from} to {to}");
                    assert_eq!(bytes.last(), Some(&0x55));
                }
            }
        }
    }

    #[test]
    fn consecutive_pieces_continue_the_mask() {
        let key = [1, 2, 3, 4];
        let clear: Vec<u8> = (0..100).collect();
        for first in 0..=clear.len() {
            let mut bytes = masked(&clear, key);
            let mut mask = Mask::new(key);
            mask.unmask_within(&mut bytes, 0, 0, first);
            let mut rest = Vec::new();
            mask.unmask_into(&bytes[first..], &mut rest);
            assert_eq!([&bytes[..first], &rest[..]].concat(), clear);
        }
    }
}
