//! Suspends services that are idle, and activates them again.

use crate::names::ClientKey;
use crate::queue::pop_front_if;

use super::service::SessionService;
use super::{ActiveSession, SessionEntry, Sessions};

/// A service becomes dormant after between one and two of these intervals without activity, in milliseconds. When many clients connect at
/// once, the first are dormant before the last have connected, so their memory is reused.
const IDLE_MS: u64 = 100;
/// The most services that are checked in one call.
const CHECKS_MAX: usize = 1024;

impl ActiveSession {
    fn new(now_ms: u64, key: ClientKey, claim: u64) -> ActiveSession {
        ActiveSession { check_at_ms: now_ms + IDLE_MS, key, claim }
    }
}

impl Sessions {
    /// Adds a service.
    pub(super) fn insert_service(&mut self, key: ClientKey, service: SessionService) {
        self.active.push_back(ActiveSession::new(self.now_ms, key, service.claim));
        self.held.insert(key, SessionEntry::Serving(Box::new(service)));
    }

    /// Returns the service of a client, activating it.
    pub(super) fn service(&mut self, key: ClientKey) -> Option<&mut SessionService> {
        match self.activate(key)? {
            SessionEntry::Serving(service) => Some(service),
            _ => None,
        }
    }

    /// Returns the entry of a session, activating it.
    pub(super) fn activate(&mut self, key: ClientKey) -> Option<&mut SessionEntry> {
        let held = self.held.get_mut(&key)?;
        if let SessionEntry::DormantSession(dormant) = held {
            let service = SessionService::activate(key, dormant)?;
            self.active.push_back(ActiveSession::new(self.now_ms, key, service.claim));
            *held = SessionEntry::Serving(Box::new(service));
        }
        if let SessionEntry::Serving(service) = held {
            service.is_touched = true;
        }
        Some(held)
    }

    /// Suspends services that were idle for some time.
    pub(super) fn suspend_idle(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        for _ in 0..CHECKS_MAX {
            let Some(ActiveSession { key, claim, .. }) =
                pop_front_if(&mut self.active, |active| active.check_at_ms <= now_ms)
            else {
                return;
            };
            let Some(held) = self.held.get_mut(&key) else { continue };
            let SessionEntry::Serving(service) = &mut *held else { continue };
            if service.claim != claim {
                continue;
            }
            let is_touched = std::mem::take(&mut service.is_touched);
            match if is_touched { None } else { service.to_dormant() } {
                Some(to_dormant) => *held = SessionEntry::DormantSession(to_dormant),
                None => self.active.push_back(ActiveSession::new(now_ms, key, claim)),
            }
        }
    }
}
