//! A deliberate fault, to verify that the target finds it. `TAUTWIRE_MUTANT` names it, and `mutants.sh` has the names.

use std::sync::OnceLock;

use tautwire_durable::mutant::{self as durable, Mutant as Durable};
use tautwire_engine::mutant::{self as engine, Mutant as Engine};
use tautwire_journal::mutant::{self as journal, Mutant as Journal};

#[derive(Clone, Copy)]
enum Fault {
    Engine(Engine),
    Durable(Durable),
    Journal(Journal),
}

/// Enables the fault in this thread.
pub(crate) fn enable() {
    static FAULT: OnceLock<Option<Fault>> = OnceLock::new();
    match FAULT.get_or_init(|| std::env::var("TAUTWIRE_MUTANT").ok().map(|name| named(&name))) {
        Some(Fault::Engine(fault)) => engine::mutate(Some(*fault)),
        Some(Fault::Durable(fault)) => durable::mutate(Some(*fault)),
        Some(Fault::Journal(fault)) => journal::mutate(Some(*fault)),
        None => {}
    }
}

fn named(name: &str) -> Fault {
    match name {
        "AcknowledgesOneFrameEarly" => Fault::Engine(Engine::AcknowledgesOneFrameEarly),
        "OmitsForwardedRecord" => Fault::Engine(Engine::OmitsForwardedRecord),
        "OmitsForwardAcceptedRecord" => Fault::Engine(Engine::OmitsForwardAcceptedRecord),
        "SnapshotOmitsForwards" => Fault::Durable(Durable::SnapshotOmitsForwards),
        "SnapshotEndsOneFrameEarly" => Fault::Durable(Durable::SnapshotEndsOneFrameEarly),
        "SkipsSync" => Fault::Journal(Journal::SkipsSync),
        _ => {
            eprintln!("unknown fault {name}");
            std::process::exit(2)
        }
    }
}
