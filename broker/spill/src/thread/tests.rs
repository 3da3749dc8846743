use std::sync::mpsc;

use tautwire_memory::MemoryLedger;
use tautwire_message::{Message, MessageId, MessageRef, Spilled};
use tautwire_protocol::QoS;

use super::*;
use crate::files::{Faults, FaultyFiles, Folder};
use crate::store::Settings;

/// A store with one shard, and the calls that its thread has made.
struct World {
    thread: Option<SpillThread>,
    port: ShardPort,
    woken: mpsc::Receiver<usize>,
    reports: mpsc::Receiver<Stats>,
    ledger: Arc<MemoryLedger>,
}

impl World {
    fn new(files: impl Files) -> World {
        let (wake, woken) = mpsc::channel();
        let (report, reports) = mpsc::channel();
        let (ledger, freed) = (Arc::new(MemoryLedger::default()), Arc::new(FreedSlots::default()));
        let account = Arc::new(SpillAccount::new(ledger.clone(), freed.clone()));
        let store = Store::new(files, Settings::with_limit(64 << 20));
        let wake = move |shard| {
            let _ = wake.send(shard);
        };
        let report = move |stats: &Stats| {
            let _ = report.send(*stats);
        };
        let (thread, ports) = SpillThread::start(store, freed, vec![account], wake, report).expect("a thread");
        let port = ports.into_iter().next().expect("one shard");
        World { thread: Some(thread), port, woken, reports, ledger }
    }

    fn ask(&mut self, request: SpillRequest) -> SpillResponse {
        self.port.post(request).expect("not full");
        loop {
            if let Some(answer) = self.port.next_answer() {
                return answer;
            }
            self.woken.recv().expect("the thread answers");
        }
    }

    fn write(&mut self, messages: Vec<Message>) -> Vec<Option<Spilled>> {
        let account = self.port.spill_account().clone();
        match self.ask(SpillRequest::Write { ticket: 1, messages }) {
            SpillResponse::Written { ticket: 1, messages } => {
                messages.iter().map(|(message, slot)| Some(Spilled::new(message, (*slot)?, &account))).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, messages: Vec<Spilled>) -> Vec<(Spilled, Option<Message>)> {
        match self.ask(SpillRequest::Read { ticket: 2, messages }) {
            SpillResponse::Read { ticket: 2, messages } => messages.into_messages(&self.ledger).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn message(number: u64) -> Message {
    let payload = format!("payload {number}");
    MessageRef {
        id: MessageId { run: 1, number },
        topic: "a/b",
        properties: &[],
        payload: payload.as_bytes(),
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at_ms: None,
    }
    .to_message()
}

#[test]
fn written_messages_are_readable_until_freed() {
    let folder = std::env::temp_dir().join(format!("tautwire-spill-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a directory");
    std::fs::write(folder.join("spill-000000ff"), b"from an earlier run").expect("a file");
    let mut world = World::new(Folder::emptied(&folder).expect("a directory"));
    assert!(!folder.join("spill-000000ff").exists());
    let spilled: Vec<Spilled> = world.write((0..100).map(message).collect()).into_iter().flatten().collect();
    assert_eq!(spilled.len(), 100);
    let backwards: Vec<Spilled> = spilled.iter().rev().cloned().collect();
    let read = world.read(backwards);
    for (number, (_, found)) in (0..100).rev().zip(&read) {
        assert_eq!(found.as_ref(), Some(&message(number)));
    }
    drop((read, spilled));
    let is_empty = |stats: &Stats| stats.messages == 0 && stats.file_bytes == 0 && stats.read == 100;
    assert!(world.reports.iter().any(|stats| is_empty(&stats)), "the reports end with the thread");
    assert_eq!(world.ledger.all(), 0);
    let left: Vec<Spilled> = world.write(vec![message(1)]).into_iter().flatten().collect();
    assert_eq!(std::fs::read_dir(&folder).expect("the directory exists").count(), 1);
    world.thread.take();
    assert_eq!(std::fs::read_dir(&folder).expect("the directory exists").count(), 0, "files do not outlive the thread");
    drop(left);
    std::fs::remove_dir_all(&folder).expect("created above");
}

#[test]
fn disk_failures_are_reported_and_writes_are_not_counted() {
    let files = FaultyFiles::default();
    let mut world = World::new(files.clone());
    files.set_faults(Faults { writing: true, ..Faults::default() });
    assert_eq!(world.write(vec![message(1), message(2)]), [None, None]);
    files.set_faults(Faults::default());
    let spilled: Vec<Spilled> = world.write(vec![message(1), message(2)]).into_iter().flatten().collect();
    for faults in [Faults { reading: true, ..Faults::default() }, Faults { flipping: true, ..Faults::default() }] {
        files.set_faults(faults);
        let read = world.read(vec![spilled[1].clone()]);
        assert_eq!(read[0].1, None);
    }
    files.set_faults(Faults::default());
    assert_eq!(world.read(spilled)[0].1, Some(message(1)), "readable again once the disk works");
}
