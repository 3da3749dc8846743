//! A limit on messages per second.

/// The most messages that an idle rule may send at once, in seconds of its rate.
const BURST_S: u64 = 1;
const MS_PER_S: u64 = 1000;

/// A token bucket, filled with one token for each message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    per_s: u64,
    /// Thousandths of a token.
    level: u64,
    filled_ms: u64,
}

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn new(per_s: u32, now_ms: u64) -> TokenBucket {
        let per_s = u64::from(per_s.max(1));
        TokenBucket { per_s, level: per_s * BURST_S * MS_PER_S, filled_ms: now_ms }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// There is none; the time at which there is one.
    pub(crate) fn take(&mut self, now_ms: u64) -> Result<(), u64> {
        let elapsed_ms = now_ms.saturating_sub(self.filled_ms);
        self.filled_ms = now_ms;
        self.level =
            self.level.saturating_add(elapsed_ms.saturating_mul(self.per_s)).min(self.per_s * BURST_S * MS_PER_S);
        match self.level.checked_sub(MS_PER_S) {
            Some(left) => {
                self.level = left;
                Ok(())
            }
            None => Err(now_ms + (MS_PER_S - self.level).div_ceil(self.per_s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TokenBucket;

    #[test]
    fn a_bucket_allows_a_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(10, 0);
        assert!((0..10).all(|_| bucket.take(0).is_ok()));
        assert_eq!(bucket.take(0), Err(100));
        assert_eq!(bucket.take(99), Err(100));
        assert_eq!(bucket.take(100), Ok(()));
        assert_eq!(bucket.take(100), Err(200));
        assert!((0..10).all(|_| bucket.take(60_000).is_ok()), "an idle bucket is full again");
        assert!(bucket.take(60_000).is_err());
    }
}
