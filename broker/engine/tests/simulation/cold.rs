//! Messages that leave memory and come back later: order is kept and nothing is lost, whatever the disk does.

use std::cell::Cell;
use std::rc::Rc;

use tautwire_cold::Faults;
use tautwire_engine::Settings;
use tautwire_message::MessageId;
use tautwire_session::{Journal, LogPosition, Record, SessionNumber};

use crate::random_clients::{Named, seeds};
use crate::support::{Choices, Random};
use crate::world::{Plan, World, settings};

/// A log that is always safe and keeps nothing in memory, as its disk has it.
struct PromptLog {
    sessions: Rc<Cell<u64>>,
    ended: u64,
}

impl PromptLog {
    fn of_all_shards() -> impl FnMut(usize) -> PromptLog {
        let sessions = Rc::new(Cell::new(0));
        move |_| PromptLog { sessions: sessions.clone(), ended: 0 }
    }
}

impl Journal for PromptLog {
    const KEEPS: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        self.sessions.set(self.sessions.get() + 1);
        SessionNumber(self.sessions.get())
    }

    fn record(&mut self, record: Record<'_>) -> LogPosition {
        if let Record::Changed { change, .. } = record {
            use tautwire_session::Change::{Queued, Started};
            if let Queued(delivery) | Started(delivery) = change {
                assert!(delivery.message.hot().is_some(), "what is written down is in memory");
            }
        }
        LogPosition(self.ended + 1)
    }

    fn know(&mut self, _: MessageId) {}

    fn end_frame(&mut self) {
        self.ended += 1;
    }

    fn has_posted_all(&self) -> bool {
        true
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.ended)
    }

    fn is_behind(&self) -> bool {
        false
    }
}

fn plan(random: &mut Random) -> Plan {
    Plan {
        shards: 1 + random.below(3),
        clients: 2 + random.below(6),
        steps: random.pick(&[500, 1_500]),
        prompt_clients: random.chance(20),
    }
}

#[test]
fn what_leaves_memory_arrives_as_promised() {
    let (mut written, mut read) = (0, 0);
    for seed in seeds() {
        let _named = Named(seed);
        let mut random = Random::new(!seed);
        let settings = Settings { hot_bytes: random.pick(&[0, 0, 5_000, 50_000]), ..settings(&mut random) };
        let plan = plan(&mut random);
        let mut world = World::new(seed, plan.clone(), settings, PromptLog::of_all_shards());
        let store = world.broker.connect_cold();
        world.run().unwrap_or_else(|wrong| panic!("{plan:?}: {wrong}"));
        let counts = store.counts();
        (written, read) = (written + counts.1, read + counts.2);
        assert_eq!(world.broker.totals().cold_lost, 0);
    }
    if seeds().count() >= 200 {
        assert!(written > 1_000 && read > 1_000, "{written} were written and {read} read");
    }
}

/// Reading and writing fail now and then. Who needs what cannot be read waits, and gets it when the disk is well again.
#[test]
fn a_disk_that_fails_for_a_while_loses_nothing() {
    for seed in seeds() {
        let _named = Named(seed);
        let mut random = Random::new(!seed ^ 0xFA17);
        let settings = Settings {
            hot_bytes: random.pick(&[0, 5_000]),
            buffered_bytes: 8 << 20,
            client_bytes: 8 << 20,
            receive_maximum: 20,
            ..settings(&mut random)
        };
        let plan = plan(&mut random);
        let mut world = World::new(seed, plan.clone(), settings, PromptLog::of_all_shards());
        let store = world.broker.connect_cold();
        for _ in 0..plan.steps {
            if random.chance(3) {
                store.set_faults(Faults {
                    writing: random.chance(30),
                    creating: random.chance(10),
                    reading: random.chance(30),
                    flipping: random.chance(30),
                });
            }
            world.step().unwrap_or_else(|wrong| panic!("{plan:?}: {wrong}"));
        }
        store.set_faults(Faults::default());
        // What has failed is tried again each second, and some of it is only come to then.
        for _ in 0..20 {
            world.broker.advance(2_000);
            world.exchange_all().unwrap_or_else(|wrong| panic!("{plan:?}: {wrong}"));
        }
        world.finish().unwrap_or_else(|wrong| panic!("{plan:?}: {wrong}"));
        assert_eq!(world.broker.totals().cold_lost, 0);
    }
}
