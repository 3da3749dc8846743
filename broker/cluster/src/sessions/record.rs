//! How the record of a session is written.

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, Key};
use crate::numbers::Revision;
use crate::operation::Operation;
use crate::record::{NEVER_EXPIRES, SessionRecord};
use crate::settings::Settings;

impl SessionRecord {
    /// Returns the record without an owner, and after how many seconds the store removes it; `None` if the session has ended. `age_ms` is
    /// the age of the record.
    pub(super) fn detached_record(self, age_ms: u64, settings: &Settings) -> (Option<SessionRecord>, Option<u32>) {
        let record = SessionRecord { owner: None, ..self };
        // A new owner decides about the will. If there is none, garbage collection finds it.
        if record.will.is_some() || !record.due.is_empty() {
            return (Some(record), None);
        }
        if record.state.is_empty() || record.expiry_s == 0 {
            return (None, None);
        }
        if record.expiry_s == NEVER_EXPIRES || is(Mutant::NeverExpires) {
            return (Some(record), None);
        }
        let away_s = (record.away_ms.map_or(0, |away_ms| away_ms + age_ms) / 1000).min(u32::MAX.into()) as u32;
        let for_s = record.expiry_s.saturating_sub(away_s).saturating_add(settings.expiry_margin_s).max(1);
        (Some(record), Some(for_s))
    }
}

/// Returns the operation that writes or removes a session's record.
pub(super) fn write_operation(
    key: ClientKey,
    expected: Revision,
    record: Option<&SessionRecord>,
    for_s: Option<u32>,
) -> Operation {
    let key = Key::Session(key);
    match (record.map(SessionRecord::encode), for_s) {
        (None, _) => Operation::Remove { key, expected },
        (Some(value), Some(for_s)) => Operation::PutFor { key, expected, value, for_s },
        (Some(value), None) => Operation::Put { key, expected: Some(expected), value },
    }
}
