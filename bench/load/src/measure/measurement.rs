use std::collections::BTreeMap;

use serde::Serialize;

use super::Account;

/// One run of one scenario against one broker. Metric names carry their unit; see `bench/README.md` for each definition.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Measurement {
    pub metrics: BTreeMap<String, f64>,
    pub account: Account,
}

impl Measurement {
    pub(crate) fn of(account: Account) -> Self {
        Self { metrics: BTreeMap::new(), account }
    }

    pub(crate) fn set(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.to_owned(), value);
    }
}
