//! The simulation finds deliberate faults.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_cluster::mutant::{Mutant, mutate};

/// A fault that is not found with this many seeds counts as not found.
const SEEDS_MAX: u64 = 500;

/// All faults except those that are too rare here, which `tests/lease.rs`, `tests/node` and `steps.rs` find, and those of QoS 0, which
/// `tests/interest.rs` finds.
const FOUND: [Mutant; 60] = [
    Mutant::ServesWithoutLease,
    Mutant::RemovesEarly,
    Mutant::SkipsFence,
    Mutant::ClaimsBeforeRemoval,
    Mutant::ClaimsFromLiveOwner,
    Mutant::TrustsOneMissingAnswer,
    Mutant::ReleasesTooEarly,
    Mutant::ServesAfterRelease,
    Mutant::ReleasesWithMessagesInFlight,
    Mutant::TrustsUnknownClaims,
    Mutant::TrustsUnknownGroups,
    Mutant::AppendsTwice,
    Mutant::AcknowledgesBeforeStored,
    Mutant::AcknowledgesOutOfOrder,
    Mutant::OmitsIntents,
    Mutant::DropsIntents,
    Mutant::AssumesIntentsStored,
    Mutant::CompletesTooEarly,
    Mutant::SavesTooEarly,
    Mutant::TrustsGaps,
    Mutant::ResumesAtPosition,
    Mutant::SavesPosition,
    Mutant::OmitsOpenMessages,
    Mutant::SkipsOpenMessages,
    Mutant::OffersToLaggingSessions,
    Mutant::SkipsMessageWithoutCapacity,
    Mutant::CatchesUpTooEarly,
    Mutant::LeasesFromLiveHolder,
    Mutant::IgnoresDeadHolders,
    Mutant::KeepsLeases,
    Mutant::LeasesFromPosition,
    Mutant::LeasesWithoutOpen,
    Mutant::ReturnsWithoutOpen,
    Mutant::KeepsEndedMembers,
    Mutant::RemovesOfflineMember,
    Mutant::KeepsEmptyGroups,
    Mutant::RetainsWithoutOrderCheck,
    Mutant::AcknowledgesBeforeRetained,
    Mutant::SkipsRetainedRepair,
    Mutant::DropsClearedPosition,
    Mutant::ServesBeforeCaughtUp,
    Mutant::TrustsPartialCopy,
    Mutant::ScansWithoutSync,
    Mutant::TrustsOneServersEnd,
    Mutant::DropsWills,
    Mutant::IgnoresReconnect,
    Mutant::IgnoresWillDelay,
    Mutant::PublishesWillsAgain,
    Mutant::DropsCollectedWills,
    Mutant::DeletesRecordTooEarly,
    Mutant::NeverExpires,
    Mutant::ExpiresClaimed,
    Mutant::RefusesWithoutWithdrawing,
    Mutant::RefusesOnlyOne,
    Mutant::RetiresTooEarly,
    Mutant::ConfiguresWithoutRevision,
    Mutant::TrustsFirstConfiguration,
    Mutant::TrustsReplacedLeaders,
    Mutant::AppliesOlderGroups,
    Mutant::AppliesUnverifiedGroups,
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
