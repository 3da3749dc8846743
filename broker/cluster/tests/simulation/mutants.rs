//! The simulation finds deliberate faults.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_cluster::mutant::{Mutant, mutate};

/// A fault that is not found with this many seeds counts as not found.
const SEEDS_MAX: u64 = 500;

/// All faults except those that are too rare here, which `tests/lease.rs`, `tests/node` and `steps.rs` find, and those of QoS 0, which
/// `tests/interest.rs` finds.
const FOUND: [Mutant; 60] = [
    Mutant::ServesWithoutLease,
    Mutant::BuriesEarly,
    Mutant::ForgetsFence,
    Mutant::ClaimsFromDying,
    Mutant::ClaimsFromLiving,
    Mutant::BelievesMissing,
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
    Mutant::ReturnsWithoutOpen,
    Mutant::KeepsEndedMembers,
    Mutant::RemovesWhoIsAway,
    Mutant::KeepsEmptyGroups,
    Mutant::RetainsBlindly,
    Mutant::AcknowledgesBeforeRetained,
    Mutant::ForgetsRepair,
    Mutant::ClearsWithoutTrace,
    Mutant::ServesBeforeCaughtUp,
    Mutant::TakesPartForWhole,
    Mutant::LooksWithoutAsking,
    Mutant::ReadsTheEnd,
    Mutant::DropsWills,
    Mutant::IgnoresReturn,
    Mutant::PublishesWillsAtOnce,
    Mutant::PublishesWillsAgain,
    Mutant::ForgetsSweptWills,
    Mutant::ForgetsTooEarly,
    Mutant::NeverExpires,
    Mutant::ExpiresClaimed,
    Mutant::RefusesWithoutWithdrawing,
    Mutant::RefusesOne,
    Mutant::RetiresTooEarly,
    Mutant::ConfiguresBlindly,
    Mutant::BelievesFirstConfiguration,
    Mutant::BelievesReplacedLeaders,
    Mutant::GroupsGoBack,
    Mutant::LeasesAsRead,
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
