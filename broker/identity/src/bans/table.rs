//! The table of bans.

use core::net::IpAddr;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use super::ban::{Ban, BanError, BanTarget, is_active};
use super::failures::{FailureRule, Failures};
use super::network::{Network, PREFIX_MAX};
use crate::limits::{BAN_REASON_BYTES_MAX, BANS_MAX};
use crate::{AuthAttempt, Now};

/// Counters since startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BanCounters {
    /// Attempts and connections that a ban has refused.
    pub refused: u64,
    /// Bans that rules have added.
    pub by_rule: u64,
    /// Bans and failures that were not recorded because a table was full.
    pub not_recorded: u64,
}

/// All bans, and the failures that may lead to bans. It outlives chains, and threads share it.
#[derive(Debug, Default)]
pub struct Bans {
    rules: RwLock<Vec<FailureRule>>,
    rule_ban_callback: BanCallback,
    table: Mutex<Table>,
    /// The number of bans, so that the lock is not taken if there are none.
    count: AtomicUsize,
    refused: AtomicU64,
    by_rule: AtomicU64,
    not_recorded: AtomicU64,
}

/// The callback for bans by rule.
#[derive(Default)]
struct BanCallback(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for BanCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BanCallback")
    }
}

#[derive(Debug, Default)]
struct Table {
    bans: HashMap<BanTarget, (Option<u64>, Box<str>)>,
    /// Those of them that several brokers share, and that are stored elsewhere.
    shared: HashSet<BanTarget>,
    /// The prefix lengths of banned networks.
    prefixes: Prefixes,
    /// When expired bans were last removed because the table was full.
    last_cleanup_s: Option<u64>,
    failures: Failures,
}

#[derive(Debug)]
struct Prefixes([u32; PREFIX_MAX as usize + 1]);

impl Bans {
    /// An empty table with these rules.
    #[must_use]
    pub fn new(rules: Vec<FailureRule>) -> Bans {
        Bans { rules: RwLock::new(rules), ..Bans::default() }
    }

    /// Calls `callback` after each attempt for which a rule has added a ban, so that existing connections can be checked. It must return at
    /// once: a thread that serves clients may call it. Only the first callback is registered.
    pub fn on_rule_ban(&self, callback: impl Fn() + Send + Sync + 'static) {
        let _ = self.rule_ban_callback.0.set(Box::new(callback));
    }

    /// Replaces the rules. If they differ, earlier failures are discarded; bans are kept.
    pub fn set_rules(&self, rules: Vec<FailureRule>) {
        let mut held = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        if *held != rules {
            *held = rules;
            self.table().failures = Failures::default();
        }
    }

    /// Adds or replaces a ban.
    ///
    /// # Errors
    /// There are too many bans, or the reason is too long.
    pub fn add(&self, ban: Ban, now: Now) -> Result<(), BanError> {
        if ban.reason.len() > BAN_REASON_BYTES_MAX {
            return Err(BanError::Reason);
        }
        let added = self.table().add(ban, now);
        if added.is_err() {
            self.not_recorded.fetch_add(1, Ordering::Relaxed);
        }
        added
    }

    /// Replaces the bans that this broker shares with others. Their number is not limited.
    pub fn share(&self, bans: Vec<Ban>, now: Now) {
        let mut table = self.table();
        for who in std::mem::take(&mut table.shared) {
            table.remove(&who);
        }
        for ban in bans.into_iter().filter(|ban| is_active(ban.until_unix_s, now)) {
            table.shared.insert(ban.who.clone());
            table.insert(ban);
        }
    }

    /// Removes a ban. Returns whether there was one.
    pub fn remove(&self, who: &BanTarget) -> bool {
        self.table().remove(who)
    }

    /// The active bans, in order.
    #[must_use]
    pub fn list(&self, now: Now) -> Vec<Ban> {
        self.list_of(now, |_, _| true)
    }

    /// The active bans that are not [shared](Bans::share).
    #[must_use]
    pub fn list_own(&self, now: Now) -> Vec<Ban> {
        self.list_of(now, |table, who| !table.shared.contains(who))
    }

    fn list_of(&self, now: Now, predicate: impl Fn(&Table, &BanTarget) -> bool) -> Vec<Ban> {
        let table = self.table();
        let holding = table.bans.iter().filter(|(who, (until, _))| is_active(*until, now) && predicate(&table, who));
        let ban = |(who, (until, reason)): (&BanTarget, &(Option<u64>, Box<str>))| Ban {
            who: who.clone(),
            until_unix_s: *until,
            reason: reason.clone(),
        };
        let mut bans: Vec<Ban> = holding.map(ban).collect();
        // Release the lock: threads that serve clients may wait for it.
        drop(table);
        bans.sort_by(|a, b| a.who.cmp(&b.who));
        bans
    }

    /// Whether an address is banned: checked as soon as a connection is accepted.
    #[must_use]
    pub fn has_address(&self, address: IpAddr, now: Now) -> bool {
        self.is_any() && self.callback(self.table().has_address(address, now))
    }

    /// Whether any network is banned.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        self.is_any() && self.table().prefixes.0.iter().any(|count| *count > 0)
    }

    /// Whether a user or a Client Identifier is banned. Counts as a refusal if so.
    #[must_use]
    pub fn has(&self, who: &BanTarget, now: Now) -> bool {
        self.callback(self.is_banned(who, now))
    }

    /// As [`Self::has`], for a query: it does not count as a refusal.
    #[must_use]
    pub fn is_banned(&self, who: &BanTarget, now: Now) -> bool {
        self.is_any() && self.table().has(who, now)
    }

    /// The first banned target that an attempt names.
    pub(crate) fn find(&self, attempt: &AuthAttempt, now: Now) -> Option<BanTarget> {
        if !self.is_any() {
            return None;
        }
        let mut table = self.table();
        let address = attempt.origin.address.filter(|address| table.has_address(*address, now));
        let found = address.map(|address| BanTarget::Network(Network::of(address))).or_else(|| {
            let named =
                [Some(BanTarget::ClientId(attempt.client_id.clone())), attempt.user_name.clone().map(BanTarget::User)];
            named.into_iter().flatten().find(|who| table.has(who, now))
        });
        drop(table);
        self.callback(found.is_some());
        found
    }

    /// Records a failed attempt, and adds bans by rule. Returns the new targets.
    pub(crate) fn failed(&self, attempt: &AuthAttempt, now: Now) -> Vec<BanTarget> {
        let mut banned = Vec::new();
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        for (index, rule) in rules.iter().enumerate() {
            let Some(who) = rule.by.subject(attempt) else { continue };
            let mut table = self.table();
            let noted = table.failures.record(index, rule, who.clone(), now);
            let added = match noted {
                Some(false) => continue,
                Some(true) => {
                    let until_unix_s = Some(now.unix_s.saturating_add(rule.ban_s));
                    let reason = format!("{} failures within {} s", rule.count, rule.within_s).into();
                    table.add(Ban { who: who.clone(), until_unix_s, reason }, now)
                }
                None => Err(BanError::Full),
            };
            drop(table);
            match added {
                Ok(()) => {
                    self.by_rule.fetch_add(1, Ordering::Relaxed);
                    banned.push(who);
                }
                Err(_) => {
                    self.not_recorded.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        drop(rules);
        if let Some(callback) = self.rule_ban_callback.0.get().filter(|_| !banned.is_empty()) {
            callback();
        }
        banned
    }

    /// The counters since startup.
    #[must_use]
    pub fn counters(&self) -> BanCounters {
        BanCounters {
            refused: self.refused.load(Ordering::Relaxed),
            by_rule: self.by_rule.load(Ordering::Relaxed),
            not_recorded: self.not_recorded.load(Ordering::Relaxed),
        }
    }

    /// Whether there are any bans, including expired ones that have not been removed. Takes no lock.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn callback(&self, is_banned: bool) -> bool {
        self.refused.fetch_add(u64::from(is_banned), Ordering::Relaxed);
        is_banned
    }

    fn table(&self) -> LockedTable<'_> {
        LockedTable { table: self.table.lock().unwrap_or_else(PoisonError::into_inner), count: &self.count }
    }
}

/// The locked table. Its size is published when the lock is released.
struct LockedTable<'b> {
    table: MutexGuard<'b, Table>,
    count: &'b AtomicUsize,
}

impl std::ops::Deref for LockedTable<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl std::ops::DerefMut for LockedTable<'_> {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl Drop for LockedTable<'_> {
    fn drop(&mut self) {
        self.count.store(self.table.bans.len(), Ordering::Release);
    }
}

impl Table {
    fn add(&mut self, ban: Ban, now: Now) -> Result<(), BanError> {
        // This broker cannot change a ban that several brokers share.
        if self.shared.contains(&ban.who) && self.has(&ban.who, now) {
            return Ok(());
        }
        if !self.bans.contains_key(&ban.who) && self.bans.len() >= BANS_MAX {
            // At most once a second, or many failing clients would keep a thread busy.
            if self.last_cleanup_s.replace(now.unix_s) == Some(now.unix_s) {
                return Err(BanError::Full);
            }
            let over: Vec<BanTarget> = self
                .bans
                .iter()
                .filter(|(_, (until, _))| !is_active(*until, now))
                .map(|(who, _)| who.clone())
                .collect();
            for who in over {
                self.remove(&who);
            }
            if self.bans.len() >= BANS_MAX {
                return Err(BanError::Full);
            }
        }
        self.insert(ban);
        Ok(())
    }

    fn insert(&mut self, ban: Ban) {
        let prefix = ban.who.prefix();
        if self.bans.insert(ban.who, (ban.until_unix_s, ban.reason)).is_none()
            && let Some(count) = prefix.and_then(|prefix| self.prefixes.0.get_mut(usize::from(prefix)))
        {
            *count += 1;
        }
    }

    fn remove(&mut self, who: &BanTarget) -> bool {
        self.shared.remove(who);
        let was_there = self.bans.remove(who).is_some();
        let prefix = who.prefix().filter(|_| was_there);
        if let Some(count) = prefix.and_then(|prefix| self.prefixes.0.get_mut(usize::from(prefix))) {
            *count = count.saturating_sub(1);
        }
        was_there
    }

    /// Whether exactly this target is banned. Removes the ban if it has expired.
    fn has(&mut self, who: &BanTarget, now: Now) -> bool {
        match self.bans.get(who) {
            Some((until, _)) if is_active(*until, now) => true,
            Some(_) => {
                self.remove(who);
                false
            }
            None => false,
        }
    }

    fn has_address(&mut self, address: IpAddr, now: Now) -> bool {
        let prefixes = (0..=PREFIX_MAX).filter(|prefix| self.prefixes.0[usize::from(*prefix)] > 0);
        let prefixes: Vec<u8> = prefixes.collect();
        prefixes.into_iter().any(|prefix| self.has(&BanTarget::Network(Network::around(address, prefix)), now))
    }
}

impl Default for Prefixes {
    fn default() -> Prefixes {
        Prefixes([0; PREFIX_MAX as usize + 1])
    }
}
