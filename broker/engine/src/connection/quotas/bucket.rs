//! Publish rate limits: a token bucket for messages, and one for bytes.
//!
//! A bucket fills at its rate up to its burst, and each PUBLISH takes from it. A packet that is larger than the burst passes when the
//! bucket is full, and leaves it in debt: so it does not wait forever, and the rate is respected in the long run. Over any time `t`, at
//! most `burst + rate * t` passes, plus the part of the last packet that exceeds the burst.

use std::num::NonZeroU64;

/// Levels are in thousandths: a rate of `n` a second adds `n` thousandths each millisecond.
const THOUSANDTHS: u64 = 1_000;
/// The shortest pause of a client whose bucket holds as much, so that it is resumed for several messages at a time.
const PAUSE_MS: u64 = 10;

/// A rate and its burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    per_s: NonZeroU64,
    burst: u64,
}

impl Rate {
    /// Returns `None` if the rate is unlimited. A burst of 0 means one second's worth.
    pub(crate) fn new(per_s: usize, burst: usize) -> Option<Rate> {
        let per_s = NonZeroU64::new(per_s as u64)?;
        Some(Rate { per_s, burst: if burst == 0 { per_s.get() } else { burst as u64 } })
    }

    fn burst_thousandths(self) -> i64 {
        thousandths(self.burst)
    }

    /// The time until this much is added, in milliseconds, rounded up.
    fn time_ms(self, thousandths: i64) -> u64 {
        u64::try_from(thousandths).unwrap_or(0).div_ceil(self.per_s.get())
    }
}

fn thousandths(amount: u64) -> i64 {
    i64::try_from(amount.saturating_mul(THOUSANDTHS)).unwrap_or(i64::MAX)
}

/// The publish rate limits of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishRates {
    /// PUBLISH packets.
    pub(crate) messages: Option<Rate>,
    /// Their bytes, Fixed Headers included.
    pub(crate) bytes: Option<Rate>,
}

impl PublishRates {
    /// Whether there is a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.messages.is_some() || self.bytes.is_some()
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: Rate,
    /// In thousandths; negative if it is in debt.
    level: i64,
}

impl Bucket {
    fn full(rate: Rate) -> Bucket {
        Bucket { rate, level: rate.burst_thousandths() }
    }

    fn change(&mut self, rate: Rate) {
        *self = Bucket { rate, level: self.level.min(rate.burst_thousandths()) };
    }

    fn fill(&mut self, elapsed_ms: u64) {
        let more = i64::try_from(self.rate.per_s.get().saturating_mul(elapsed_ms)).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(more).min(self.rate.burst_thousandths());
    }

    /// How long `amount` must wait; 0 if it need not.
    fn wait_ms(&self, amount: u64) -> u64 {
        let missing = thousandths(amount.min(self.rate.burst)).saturating_sub(self.level);
        if missing <= 0 { 0 } else { self.rate.time_ms(missing).max(self.until_full_ms().min(PAUSE_MS)) }
    }

    fn until_full_ms(&self) -> u64 {
        self.rate.time_ms(self.rate.burst_thousandths().saturating_sub(self.level))
    }

    fn take(&mut self, amount: u64) {
        self.level = self.level.saturating_sub(thousandths(amount));
    }

    fn refund(&mut self, amount: u64) {
        self.level = self.level.saturating_add(thousandths(amount));
    }
}

/// The token buckets of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishBucket {
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
    filled_at_ms: u64,
}

impl PublishBucket {
    /// The full buckets of a client that has not published for long.
    pub(crate) fn full(rates: &PublishRates, now_ms: u64) -> PublishBucket {
        PublishBucket {
            messages: rates.messages.map(Bucket::full),
            bytes: rates.bytes.map(Bucket::full),
            filled_at_ms: now_ms,
        }
    }

    /// Applies new rates. Tokens are kept as far as they fit.
    pub(crate) fn apply_limits(&mut self, rates: &PublishRates) {
        for (bucket, rate) in [(&mut self.messages, rates.messages), (&mut self.bytes, rates.bytes)] {
            match (bucket.as_mut(), rate) {
                (Some(bucket), Some(rate)) if bucket.rate != rate => bucket.change(rate),
                (Some(_), Some(_)) => {}
                (_, rate) => *bucket = rate.map(Bucket::full),
            }
        }
    }

    /// Takes a PUBLISH of `bytes`, Fixed Header included.
    ///
    /// # Errors
    /// It must wait. Nothing was taken; try again at the returned time, in milliseconds.
    pub(crate) fn take(&mut self, bytes: usize, now_ms: u64) -> Result<(), u64> {
        self.fill(now_ms);
        let wait_ms = self.wait_ms(bytes);
        if wait_ms > 0 {
            return Err(now_ms.saturating_add(wait_ms));
        }
        self.each(bytes, Bucket::take);
        Ok(())
    }

    /// Refunds a PUBLISH that was not processed and will be tried again.
    pub(crate) fn refund(&mut self, bytes: usize) {
        self.each(bytes, Bucket::refund);
    }

    /// When the buckets will be full if nothing is taken.
    pub(crate) fn full_at_ms(&self) -> u64 {
        let until_full_ms = [self.messages, self.bytes].iter().flatten().map(Bucket::until_full_ms).max();
        self.filled_at_ms.saturating_add(until_full_ms.unwrap_or(0))
    }

    fn fill(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.filled_at_ms);
        if elapsed_ms > 0 {
            self.filled_at_ms = now_ms;
            [&mut self.messages, &mut self.bytes].into_iter().flatten().for_each(|bucket| bucket.fill(elapsed_ms));
        }
    }

    fn wait_ms(&self, bytes: usize) -> u64 {
        let for_message = self.messages.map_or(0, |bucket| bucket.wait_ms(1));
        for_message.max(self.bytes.map_or(0, |bucket| bucket.wait_ms(bytes as u64)))
    }

    fn each(&mut self, bytes: usize, change: impl Fn(&mut Bucket, u64)) {
        if let Some(bucket) = &mut self.messages {
            change(bucket, 1);
        }
        if let Some(bucket) = &mut self.bytes {
            change(bucket, bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn rates(messages: (usize, usize), bytes: (usize, usize)) -> PublishRates {
        PublishRates { messages: Rate::new(messages.0, messages.1), bytes: Rate::new(bytes.0, bytes.1) }
    }

    fn bucket(messages: (usize, usize), bytes: (usize, usize)) -> PublishBucket {
        PublishBucket::full(&rates(messages, bytes), NOW_MS)
    }

    #[test]
    fn a_burst_passes_at_once_then_messages_are_spaced() {
        let mut bucket = bucket((2, 3), (0, 0));
        for _ in 0..3 {
            assert_eq!(bucket.take(10, NOW_MS), Ok(()));
        }
        assert_eq!(bucket.take(10, NOW_MS), Err(NOW_MS + 500));
        assert!(bucket.take(10, NOW_MS + 499).is_err());
        assert_eq!(bucket.take(10, NOW_MS + 500), Ok(()), "tokens added before are not lost");
        assert_eq!(bucket.take(10, NOW_MS + 500), Err(NOW_MS + 1_000));
        // It never holds more than the burst.
        let later_ms = NOW_MS + 1_000_000;
        for _ in 0..3 {
            assert_eq!(bucket.take(10, later_ms), Ok(()));
        }
        assert_eq!(bucket.take(10, later_ms), Err(later_ms + 500));
    }

    #[test]
    fn the_default_burst_is_one_second() {
        let mut bucket = bucket((7, 0), (0, 0));
        assert_eq!((0..10).filter(|_| bucket.take(1, NOW_MS).is_ok()).count(), 7);
        assert!(!rates((0, 5), (0, 5)).is_limited(), "without a rate there is no limit");
        assert!(rates((0, 0), (1, 0)).is_limited());
    }

    #[test]
    fn a_packet_larger_than_the_burst_overdraws_a_full_bucket() {
        let mut bucket = bucket((0, 0), (100, 200));
        assert_eq!(bucket.take(1_000, NOW_MS), Ok(()));
        // 800 bytes of debt, and one byte to take.
        assert_eq!(bucket.take(1, NOW_MS), Err(NOW_MS + 8_010));
        assert_eq!(bucket.take(1, NOW_MS + 8_010), Ok(()));
        assert_eq!(bucket.take(1_000, NOW_MS + 8_010), Err(NOW_MS + 10_010), "a full bucket is enough");
        assert_eq!(bucket.take(1_000, NOW_MS + 10_010), Ok(()));
    }

    #[test]
    fn messages_and_bytes_are_both_limited() {
        let mut bucket = bucket((10, 10), (1_000, 1_000));
        assert_eq!(bucket.take(1_000, NOW_MS), Ok(()));
        assert_eq!(bucket.take(500, NOW_MS), Err(NOW_MS + 500), "messages are left, bytes are not");
        for _ in 0..10 {
            assert_eq!(bucket.take(1, NOW_MS + 2_000), Ok(()));
        }
        assert_eq!(bucket.take(1, NOW_MS + 2_000), Err(NOW_MS + 2_100), "bytes are left, messages are not");
    }

    #[test]
    fn returned_tokens_can_be_taken_again() {
        let mut bucket = bucket((1, 1), (100, 100));
        assert_eq!(bucket.take(250, NOW_MS), Ok(()));
        bucket.refund(250);
        assert_eq!(bucket.full_at_ms(), NOW_MS);
        assert_eq!(bucket.take(250, NOW_MS), Ok(()));
        assert_eq!(bucket.full_at_ms(), NOW_MS + 2_500);
    }

    #[test]
    fn a_wait_covers_several_messages_if_the_burst_allows() {
        let mut large = bucket((1_000, 100), (0, 0));
        (0..100).for_each(|_| large.take(1, NOW_MS).expect("the burst"));
        assert_eq!(large.take(1, NOW_MS), Err(NOW_MS + PAUSE_MS));
        assert_eq!((0..100).filter(|_| large.take(1, NOW_MS + PAUSE_MS).is_ok()).count(), 10);
        let mut small = bucket((1_000, 1), (0, 0));
        assert_eq!((small.take(1, NOW_MS), small.take(1, NOW_MS)), (Ok(()), Err(NOW_MS + 1)));
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let most = usize::MAX;
        let mut bucket = bucket((most, most), (1, most));
        assert_eq!(bucket.take(most, u64::MAX), Ok(()));
        let _ = bucket.take(most, u64::MAX);
        bucket.refund(most);
        assert!(bucket.full_at_ms() > 0);
    }
}
