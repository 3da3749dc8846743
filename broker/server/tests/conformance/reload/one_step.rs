//! A reload is atomic for messages: none is checked with new rules and old contracts.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::World;
use super::load::StopOnDrop;
use crate::support::{AtLeastOnce, Folder, V5};

const RELOADS: usize = 60;
const FILE: &str = "[auth]\nanonymous = true\n[acl]\nfile = \"rules.toml\"\n";
const ALLOWED: &str = "[[role]]\nname = \"all\"\nrules = [{ allow = [\"publish\", \"subscribe\"], topics = \"#\" }]\n\
                       [[assign]]\neveryone = true\nroles = \"all\"\n";
const DENIED: &str = "[[role]]\nname = \"all\"\nrules = [{ allow = \"subscribe\", topics = \"#\" }]\n\
                      [[assign]]\neveryone = true\nroles = \"all\"\n";
const STRICT: &str =
    "[[contract]]\nname = \"c\"\ntopics = \"t\"\nformat = \"json\"\nschema = \"s.json\"\non_violation = \"reject\"\n";
/// For another topic.
const LOOSE: &str =
    "[[contract]]\nname = \"c\"\ntopics = \"u\"\nformat = \"json\"\nschema = \"s.json\"\non_violation = \"reject\"\n";

/// Either the rules deny the message or the contract rejects it: none may pass between the two.
#[test]
fn no_message_is_checked_with_new_rules_and_old_contracts() {
    let folder = Folder::new(&[("rules.toml", DENIED)]);
    let contracts = folder.path().join("contracts");
    fs::create_dir(&contracts).expect("a folder");
    folder.write("contracts/s.json", "{\"type\": \"object\"}");
    folder.write("contracts/contracts.toml", LOOSE);
    let world = World::within(folder, 2, FILE, &[&format!("contracts.path={}", contracts.display())]);
    let publishers = ["p-0", "p-1", "p-2"].map(|id| world.broker.connect(V5, id));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // If a step fails, the other threads must stop.
        let over = StopOnDrop(&is_over);
        let publishing: Vec<_> = publishers
            .into_iter()
            .map(|mut client| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut seen = [0; 2];
                    while !is_over.load(Ordering::Acquire) {
                        match client.publish("t", AtLeastOnce, b"7") {
                            0x87 => seen[0] += 1,
                            0x99 => seen[1] += 1,
                            other => panic!("a message was accepted with {other:#x}, after {seen:?} that were refused"),
                        }
                    }
                    seen
                })
            })
            .collect();
        for step in 0..RELOADS {
            let (rules, contract) = if step % 2 == 0 { (ALLOWED, STRICT) } else { (DENIED, LOOSE) };
            world.folder.write("rules.toml", rules);
            world.folder.write("contracts/contracts.toml", contract);
            world.reload_again().expect(200);
            // After the response to the reload, all of it is in effect on every thread.
            let mut client = world.broker.connect(V5, "c");
            assert_eq!(client.publish("t", AtLeastOnce, b"7"), if step % 2 == 0 { 0x99 } else { 0x87 });
        }
        drop(over);
        for thread in publishing {
            let seen = thread.join().expect("no message is accepted");
            assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
        }
    });
}
