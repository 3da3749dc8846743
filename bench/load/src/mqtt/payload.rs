/// Room for the stamp; no scenario sends less.
pub(crate) const SMALLEST_PAYLOAD_BYTES: usize = 16;

/// The beginning of every payload: sequence number (8 bytes), publisher (4), run (4), all little endian. Payloads of 24
/// bytes and more repeat the sequence number in their last 8 bytes, so that a torn payload shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PayloadStamp {
    pub seq: u64,
    pub publisher: u32,
    /// Tells the messages of this run from strays of another.
    pub run: u32,
}

impl PayloadStamp {
    /// `payload` must have at least [`SMALLEST_PAYLOAD_BYTES`].
    #[inline]
    pub(crate) fn write(self, payload: &mut [u8]) {
        let len = payload.len();
        payload[..8].copy_from_slice(&self.seq.to_le_bytes());
        payload[8..12].copy_from_slice(&self.publisher.to_le_bytes());
        payload[12..16].copy_from_slice(&self.run.to_le_bytes());
        if len >= SMALLEST_PAYLOAD_BYTES + 8 {
            payload[len - 8..].copy_from_slice(&self.seq.to_le_bytes());
        }
    }

    /// `None` when the payload is not whole or not of this run.
    #[inline]
    pub(crate) fn read(payload: &[u8], expected_bytes: usize, run: u32) -> Option<Self> {
        if payload.len() != expected_bytes {
            return None;
        }
        let stamp = Self {
            seq: u64::from_le_bytes(*payload.first_chunk()?),
            publisher: u32::from_le_bytes(*payload.get(8..)?.first_chunk()?),
            run: u32::from_le_bytes(*payload.get(12..)?.first_chunk()?),
        };
        let tail_agrees = expected_bytes < SMALLEST_PAYLOAD_BYTES + 8
            || payload.last_chunk::<8>().is_some_and(|tail| *tail == stamp.seq.to_le_bytes());
        (stamp.run == run && tail_agrees).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_and_damage_shows() {
        let stamp = PayloadStamp { seq: 0x0102_0304_0506, publisher: 9, run: 77 };
        for len in [16, 23, 24, 65_536] {
            let mut payload = vec![0; len];
            stamp.write(&mut payload);
            assert_eq!(PayloadStamp::read(&payload, len, 77), Some(stamp));
            assert_eq!(PayloadStamp::read(&payload, len, 78), None);
            assert_eq!(PayloadStamp::read(&payload[..len - 1], len, 77), None);
            if len >= 24 {
                payload[len - 1] ^= 1;
                assert_eq!(PayloadStamp::read(&payload, len, 77), None);
            }
        }
    }
}
