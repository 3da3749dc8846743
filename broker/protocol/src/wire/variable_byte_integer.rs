use core::fmt;

/// The largest value that four bytes hold: 268,435,455 (section 1.5.5).
pub const MAX_VARIABLE_BYTE_INTEGER: u32 = 0x0FFF_FFFF;

/// Why bytes are not a variable byte integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariableByteIntegerError {
    /// The bytes end before the integer does.
    Incomplete,
    /// The fourth byte has the continuation bit set.
    TooLong,
    /// Fewer bytes would have been enough `[MQTT-1.5.5-1]`.
    NotMinimal,
}

/// The length of `value` in bytes, 1 to 4. Values above [`MAX_VARIABLE_BYTE_INTEGER`] have no encoding and give 4.
#[inline]
pub const fn variable_byte_integer_len(value: u32) -> usize {
    if value < 0x80 {
        1
    } else if value < 0x4000 {
        2
    } else if value < 0x20_0000 {
        3
    } else {
        4
    }
}

/// Writes `value` at the start of `out` and returns its length in bytes, 1 to 4.
///
/// Returns 0 and writes nothing if `out` is too short or `value` is above [`MAX_VARIABLE_BYTE_INTEGER`].
#[inline]
pub fn write_variable_byte_integer(value: u32, out: &mut [u8]) -> usize {
    if value < 0x80 {
        let Some(slot) = out.first_mut() else { return 0 };
        *slot = value as u8;
        return 1;
    }
    write_long(value, out)
}

#[inline(never)]
fn write_long(value: u32, out: &mut [u8]) -> usize {
    let len = variable_byte_integer_len(value);
    if value > MAX_VARIABLE_BYTE_INTEGER {
        return 0;
    }
    let Some(slots) = out.get_mut(..len) else { return 0 };
    let mut rest = value;
    for slot in slots {
        let more = if rest >= 0x80 { 0x80 } else { 0 };
        *slot = (rest & 0x7F) as u8 | more;
        rest >>= 7;
    }
    len
}

/// Reads a variable byte integer at the start of `input` and returns the value and its length.
///
/// # Errors
/// The bytes end too early, continue after the fourth, or are more than the value needs.
#[inline]
pub fn read_variable_byte_integer(input: &[u8]) -> Result<(u32, usize), VariableByteIntegerError> {
    match input.first() {
        None => Err(VariableByteIntegerError::Incomplete),
        Some(&byte) if byte < 0x80 => Ok((u32::from(byte), 1)),
        Some(_) => read_long(input),
    }
}

fn read_long(input: &[u8]) -> Result<(u32, usize), VariableByteIntegerError> {
    let mut value = 0;
    for (at, &byte) in input.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * at);
        if byte < 0x80 {
            if byte == 0 && at > 0 {
                return Err(VariableByteIntegerError::NotMinimal);
            }
            return Ok((value, at + 1));
        }
    }
    Err(if input.len() < 4 { VariableByteIntegerError::Incomplete } else { VariableByteIntegerError::TooLong })
}

impl fmt::Display for VariableByteIntegerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incomplete => "the variable byte integer ends too early: wait for more bytes",
            Self::TooLong => "the variable byte integer is longer than four bytes: send at most four",
            Self::NotMinimal => "the variable byte integer uses more bytes than it needs: send the shortest form",
        })
    }
}

impl core::error::Error for VariableByteIntegerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_boundary_round_trips() {
        for (value, len) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (2_097_151, 3),
            (2_097_152, 4),
            (MAX_VARIABLE_BYTE_INTEGER, 4),
        ] {
            let mut bytes = [0; 4];
            assert_eq!(variable_byte_integer_len(value), len);
            assert_eq!(write_variable_byte_integer(value, &mut bytes), len);
            assert_eq!(read_variable_byte_integer(&bytes[..len]), Ok((value, len)));
            for cut in 0..len {
                assert_eq!(read_variable_byte_integer(&bytes[..cut]), Err(VariableByteIntegerError::Incomplete));
                assert_eq!(write_variable_byte_integer(value, &mut [0; 4][..cut]), 0);
            }
        }
    }

    #[test]
    fn over_long_and_padded_encodings_are_refused() {
        assert_eq!(read_variable_byte_integer(&[0x80, 0x80, 0x80, 0x80]), Err(VariableByteIntegerError::TooLong));
        assert_eq!(read_variable_byte_integer(&[0xFF; 5]), Err(VariableByteIntegerError::TooLong));
        assert_eq!(read_variable_byte_integer(&[0x80, 0x00]), Err(VariableByteIntegerError::NotMinimal));
        assert_eq!(read_variable_byte_integer(&[0xFF, 0x80, 0x80, 0x00]), Err(VariableByteIntegerError::NotMinimal));
        assert_eq!(write_variable_byte_integer(MAX_VARIABLE_BYTE_INTEGER + 1, &mut [0; 8]), 0);
    }
}
