//! Warnings about contracts with `on_violation = "observe"`, which deliver payloads that violate them.

use tautwire_contracts::Catalogue;

/// Maximum number of names in a message.
const NAMES_MAX: usize = 10;

/// Describes the contracts in observe mode; `None` if there are none.
pub(crate) fn observing(catalogue: &Catalogue) -> Option<String> {
    let names: Vec<&str> = catalogue.observing().map(|contract| contract.name()).collect();
    let [first, others @ ..] = names.as_slice() else { return None };
    if others.is_empty() {
        return Some(observe_warning(first));
    }
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let written = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let count = names.len();
    Some(format!(
        "{count} contracts are in observe mode: payloads that violate them are counted and delivered: {written}{more}"
    ))
}

/// The warning about one contract in observe mode.
pub(crate) fn observe_warning(name: &str) -> String {
    format!("the contract {name} is in observe mode: payloads that violate it are counted and delivered")
}

/// Logs a warning about contracts in observe mode.
pub(crate) fn warn_of_observe_mode(catalogue: &Catalogue) {
    if let Some(text) = observing(catalogue) {
        log::warn!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautwire_contracts::{Files, LoadLimits};

    fn named(policies: &[&str]) -> Option<String> {
        let entry = |(at, policy): (usize, &&str)| {
            format!(
                "[[contract]]\nname = 'c{at:02}'\ntopics = 't/{at}'\nformat = 'json'\nschema = 's.json'\n\
                 on_violation = '{policy}'\n"
            )
        };
        let manifest: String = policies.iter().enumerate().map(entry).collect();
        let files = Files::from([("contracts.toml".to_owned(), manifest), ("s.json".to_owned(), "{}".to_owned())]);
        observing(&Catalogue::load(&files, &LoadLimits::default()).expect("they are right"))
    }

    #[test]
    fn observing_contracts_are_listed_up_to_a_limit() {
        assert_eq!(named(&["reject", "quarantine", "disconnect"]), None);
        let one = "the contract c01 is in observe mode: payloads that violate it are counted and delivered";
        assert_eq!(named(&["reject", "observe"]).as_deref(), Some(one));
        let many = named(&["observe"; 12]).expect("they observe");
        assert!(
            many.starts_with("12 contracts are in observe mode: ") && many.ends_with("c08, c09 and 2 more"),
            "{many}"
        );
    }
}
