//! A cache of verified passwords: a reconnecting client does not pay for the hash again.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::hmac;

use crate::limits::VERIFIED_PASSWORD_BYTES_MAX;
use crate::password_file::PasswordHash;

/// A cache of verified passwords. It contains neither passwords nor hashes of a file, but their HMAC-SHA-256 with a key that exists only as
/// long as the process. An entry becomes useless as soon as the file has another hash for the user. Only correct passwords are cached: a
/// wrong one costs the hash each time.
pub struct VerifiedPasswords {
    key: hmac::Key,
    known: Mutex<Generations>,
    hits: AtomicU64,
}

/// Identifies a user, a hash of a file and a password.
pub(crate) type Fingerprint = [u8; 32];

/// Two generations: an entry that is not used while a generation fills is dropped with the older one.
#[derive(Default)]
struct Generations {
    capacity: usize,
    current: HashSet<Fingerprint>,
    previous: HashSet<Fingerprint>,
}

/// A cache without capacity.
impl Default for VerifiedPasswords {
    fn default() -> VerifiedPasswords {
        VerifiedPasswords::new(&[0; 32], 0)
    }
}

impl VerifiedPasswords {
    /// `key`: random, created once per process. `capacity`: the maximum number of passwords; 0 disables the cache.
    #[must_use]
    pub fn new(key: &[u8; 32], capacity: usize) -> VerifiedPasswords {
        let known = Generations { capacity, ..Generations::default() };
        VerifiedPasswords {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            known: Mutex::new(known),
            hits: AtomicU64::new(0),
        }
    }

    /// Removes all entries, and sets the capacity.
    pub fn clear(&self, capacity: usize) {
        *self.locked() = Generations { capacity, ..Generations::default() };
    }

    /// The number of entries.
    #[must_use]
    pub fn count(&self) -> usize {
        let known = self.locked();
        known.current.len() + known.previous.len()
    }

    /// Logins that needed no hash, since startup.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The fingerprint of a user's password; `None` if it would not be cached.
    pub(crate) fn fingerprint(&self, user: &str, hash: &PasswordHash, password: &[u8]) -> Option<Fingerprint> {
        if password.len() > VERIFIED_PASSWORD_BYTES_MAX || self.locked().capacity == 0 {
            return None;
        }
        let mut context = hmac::Context::with_key(&self.key);
        for part in [user.as_bytes(), hash.to_string().as_bytes(), password] {
            context.update(&part.len().to_le_bytes());
            context.update(part);
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(context.sign().as_ref());
        Some(fingerprint)
    }

    /// Whether it has been verified.
    pub(crate) fn has(&self, fingerprint: &Fingerprint) -> bool {
        let has = self.locked().has(fingerprint);
        self.hits.fetch_add(u64::from(has), Ordering::Relaxed);
        has
    }

    pub(crate) fn record(&self, fingerprint: Fingerprint) {
        self.locked().record(fingerprint);
    }

    fn locked(&self) -> MutexGuard<'_, Generations> {
        // A set is consistent even if a panic has interrupted a change.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn has(&mut self, fingerprint: &Fingerprint) -> bool {
        if self.current.contains(fingerprint) {
            return true;
        }
        let is_older = self.previous.remove(fingerprint);
        if is_older {
            self.record(*fingerprint);
        }
        is_older
    }

    fn record(&mut self, fingerprint: Fingerprint) {
        if self.capacity == 0 {
            return;
        }
        self.previous.remove(&fingerprint);
        if self.current.len() >= self.capacity.div_ceil(2) {
            self.previous = std::mem::take(&mut self.current);
        }
        // Both together stay within the capacity.
        if self.current.len() + self.previous.len() < self.capacity {
            self.current.insert(fingerprint);
        }
    }
}

/// Shows only the number of entries.
impl fmt::Debug for VerifiedPasswords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedPasswords").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password_file::Argon2Cost;

    fn number(number: usize) -> Fingerprint {
        let mut fingerprint = [0; 32];
        fingerprint[..8].copy_from_slice(&number.to_le_bytes());
        fingerprint
    }

    #[test]
    fn the_cache_is_bounded_and_used_entries_stay() {
        for capacity in [0, 1, 2, 3, 10, 101] {
            let verified = VerifiedPasswords::new(&[1; 32], capacity);
            for each in 0..1_000 {
                verified.record(number(each));
                assert!(verified.count() <= capacity, "{} of {capacity}", verified.count());
                if capacity > 2 {
                    assert!(verified.has(&number(each)) && verified.has(&number(0)), "{each} of {capacity}");
                }
            }
            assert!(capacity == 0 || verified.count() >= capacity / 2);
            verified.clear(capacity);
            assert!(verified.count() == 0 && !verified.has(&number(0)));
        }
    }

    #[test]
    fn another_user_hash_password_or_key_is_another_entry() {
        let hash = |salt: u8| {
            let cost = Argon2Cost { memory_kib: 8, iterations: 1, lanes: 1 };
            PasswordHash::new(b"x", cost, &mut |bytes| bytes.fill(salt)).expect("a hash")
        };
        let verified = VerifiedPasswords::new(&[1; 32], 10);
        let fingerprint = |user, salt, password: &[u8]| verified.fingerprint(user, &hash(salt), password);
        let one = fingerprint("ab", 1, b"c").expect("it is short");
        assert_eq!(fingerprint("ab", 1, b"c"), Some(one));
        for other in [
            fingerprint("a", 1, b"bc"),
            fingerprint("ab", 2, b"c"),
            fingerprint("ab", 1, b"d"),
            fingerprint("", 1, b"c"),
        ] {
            assert!(other.is_some_and(|other| other != one));
        }
        let elsewhere = VerifiedPasswords::new(&[2; 32], 10);
        assert_ne!(elsewhere.fingerprint("ab", &hash(1), b"c"), Some(one));
        assert_eq!(fingerprint("ab", 1, &[b'x'; VERIFIED_PASSWORD_BYTES_MAX + 1]), None);
    }
}
