//! Lengths of values whose first byte determines them.

use crate::plan::Pass;

/// By [`Pass`] and first byte: the length of the value including its first byte; 0 if it needs the slow path.
pub(super) static SIZES: [[u8; 256]; Pass::Never as usize + 1] = {
    let mut sizes = [[0; 256]; Pass::Never as usize + 1];
    let mut first = 0;
    while first < 256 {
        let (unsigned_32, unsigned_64, signed_32, signed_64) = match first as u8 {
            0x00..=0x7f => (1, 1, 1, 1),
            0xcc => (2, 2, 2, 2),
            0xcd => (3, 3, 3, 3),
            0xce => (5, 5, 0, 5),
            0xcf => (0, 9, 0, 0),
            0xe0..=0xff => (0, 0, 1, 1),
            0xd0 => (0, 0, 2, 2),
            0xd1 => (0, 0, 3, 3),
            0xd2 => (0, 0, 5, 5),
            0xd3 => (0, 0, 0, 9),
            _ => (0, 0, 0, 0),
        };
        sizes[Pass::Unsigned32 as usize][first] = unsigned_32;
        sizes[Pass::Unsigned64 as usize][first] = unsigned_64;
        sizes[Pass::Signed32 as usize][first] = signed_32;
        sizes[Pass::Signed64 as usize][first] = signed_64;
        // An integer is a number too.
        let small = if first < 0x80 { 1 } else { 0 };
        sizes[Pass::Float as usize][first] = if first == 0xca { 5 } else { small };
        sizes[Pass::Double as usize][first] = match first {
            0xca => 5,
            0xcb => 9,
            _ => small,
        };
        sizes[Pass::Bool as usize][first] = if first == 0xc2 || first == 0xc3 { 1 } else { 0 };
        // Short strings have their length in the first byte.
        sizes[Pass::Text as usize][first] = if first & 0xe0 == 0xa0 { 1 + (first & 0x1f) as u8 } else { 0 };
        first += 1;
    }
    sizes
};
