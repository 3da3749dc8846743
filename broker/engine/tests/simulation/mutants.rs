//! The simulation finds deliberate faults of the engine, of the durable state, and of the log.
//!
//! Faults of the turn have their own simulation in `turns.rs`. Other faults of the log and of compaction are tested in their crates.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_durable::mutant as durable;
use tautwire_engine::mutant as engine;
use tautwire_journal::mutant as journal;

use crate::{crashes, journal as slow_journal, shared};

#[derive(Debug, Clone, Copy)]
enum Fault {
    Engine(engine::Mutant),
    Durable(durable::Mutant),
    Journal(journal::Mutant),
}

/// The number of seeds to try for each fault.
const SEEDS_MAX: u64 = 200;

/// Faults that a crash reveals.
const FOUND_BY_CRASHES: [Fault; 16] = [
    Fault::Engine(engine::Mutant::AcknowledgesOneFrameEarly),
    Fault::Engine(engine::Mutant::SendsConnAckBeforeDurable),
    Fault::Engine(engine::Mutant::DeliversBeforeDurable),
    Fault::Engine(engine::Mutant::OmitsForwardedRecord),
    Fault::Engine(engine::Mutant::OmitsForwardAcceptedRecord),
    Fault::Engine(engine::Mutant::SendsBatchBeforeFrame),
    Fault::Engine(engine::Mutant::OmitsRetainedRecord),
    Fault::Engine(engine::Mutant::OmitsReceivedPacketId),
    Fault::Engine(engine::Mutant::SkipsFirstResend),
    Fault::Durable(durable::Mutant::SnapshotOmitsForwards),
    Fault::Durable(durable::Mutant::SnapshotEndsOneFrameEarly),
    Fault::Durable(durable::Mutant::OmitsReceivedPacketIds),
    Fault::Durable(durable::Mutant::MergeDropsUnchanged),
    Fault::Durable(durable::Mutant::MergeUsesFirstChange),
    Fault::Journal(journal::Mutant::SkipsSync),
    Fault::Journal(journal::Mutant::ReleasesUncoveredFrames),
];

/// Faults that an early acknowledgement reveals.
const FOUND_BY_WAITING: [Fault; 2] = [
    Fault::Engine(engine::Mutant::AcknowledgesOneFrameEarly),
    Fault::Engine(engine::Mutant::SendsPubCompBeforeDurable),
];

/// Faults that lose messages of shared subscriptions.
const FOUND_BY_MEMBERS: [Fault; 4] = [
    Fault::Engine(engine::Mutant::OmitsTransientMemberRecord),
    Fault::Engine(engine::Mutant::QueuesSharedInSession),
    Fault::Engine(engine::Mutant::SkipsCreditRequest),
    Fault::Engine(engine::Mutant::SkipsCreditReport),
];

/// Enables a fault, or disables all.
fn mutate(fault: Option<Fault>) {
    engine::mutate(None);
    durable::mutate(None);
    journal::mutate(None);
    match fault {
        Some(Fault::Engine(mutant)) => engine::mutate(Some(mutant)),
        Some(Fault::Durable(mutant)) => durable::mutate(Some(mutant)),
        Some(Fault::Journal(mutant)) => journal::mutate(Some(mutant)),
        None => {}
    }
}

/// Checks that the simulation fails for each fault with one of the first seeds.
fn check_found(faults: &[Fault], run: impl Fn(u64)) {
    let found_at = |fault| {
        mutate(Some(fault));
        let found_at = (0..SEEDS_MAX).find(|seed| catch_unwind(AssertUnwindSafe(|| run(*seed))).is_err());
        mutate(None);
        println!("{fault:?}: {}", found_at.map_or("not found".to_owned(), |seed| format!("found with seed {seed}")));
        found_at
    };
    let found: Vec<_> = faults.iter().map(|fault| (fault, found_at(*fault))).collect();
    assert!(found.iter().all(|(_, seed)| seed.is_some()), "{found:?}");
}

#[test]
fn faults_that_a_crash_reveals_are_found() {
    check_found(&FOUND_BY_CRASHES, |seed| {
        crashes::run_seed(seed);
    });
}

#[test]
fn faults_of_shared_subscriptions_are_found() {
    check_found(&FOUND_BY_MEMBERS, shared::run_seed);
}

#[test]
fn faults_of_early_acknowledgements_are_found() {
    check_found(&FOUND_BY_WAITING, slow_journal::run_with_slow_log);
}
