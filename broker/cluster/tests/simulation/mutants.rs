//! The simulation finds faults that are put in on purpose.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_cluster::mutant::{Mutant, mutate};

/// A fault that is not found with so many seeds is not found.
const SEEDS_MAX: u64 = 200;

/// All but `LeaseFromConfirmation`, which does harm too rarely here: `tests/lease.rs` finds it.
const FOUND: [Mutant; 34] = [
    Mutant::ServesWithoutLease,
    Mutant::IgnoresDeath,
    Mutant::BuriesEarly,
    Mutant::BuriesBlindly,
    Mutant::ForgetsFence,
    Mutant::ClaimsFromDying,
    Mutant::ClaimsFromLiving,
    Mutant::ReleasesTooEarly,
    Mutant::ServesAfterRelease,
    Mutant::ReleasesWithMessagesUnderWay,
    Mutant::TrustsUnknownClaims,
    Mutant::TrustsUnknownGroups,
    Mutant::AppendsTwice,
    Mutant::AcknowledgesBeforeStored,
    Mutant::AcknowledgesOutOfOrder,
    Mutant::ForgetsIntents,
    Mutant::DropsIntents,
    Mutant::BelievesIntents,
    Mutant::CompletesTooEarly,
    Mutant::SavesTooEarly,
    Mutant::TrustsGaps,
    Mutant::ResumesAtPosition,
    Mutant::SavesPosition,
    Mutant::SavesNothingOpen,
    Mutant::ForgetsOpen,
    Mutant::OffersToThoseBehind,
    Mutant::ForgetsToHold,
    Mutant::CatchesUpTooEarly,
    Mutant::LeasesFromLiving,
    Mutant::IgnoresDeadHolders,
    Mutant::KeepsLeases,
    Mutant::LeasesFromPosition,
    Mutant::LeasesWithoutOpen,
    Mutant::ReturnsWithoutCursor,
];

#[test]
fn every_fault_is_found_by_one_of_the_first_seeds() {
    let found_at = |mutant| {
        mutate(Some(mutant));
        let found_at = (0..SEEDS_MAX).find(|seed| catch_unwind(AssertUnwindSafe(|| crate::live(*seed))).is_err());
        mutate(None);
        println!("{mutant:?}: {}", found_at.map_or("not found".to_owned(), |seed| format!("found with seed {seed}")));
        found_at
    };
    let found: Vec<_> = FOUND.iter().map(|mutant| (mutant, found_at(*mutant))).collect();
    assert!(found.iter().all(|(_, seed)| seed.is_some()), "{found:?}");
}
