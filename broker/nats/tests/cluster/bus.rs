//! QoS 0 between nodes.

use tautwire_nats::Command;

use crate::node::{Node, Told, settings};
use crate::servers::{Config, Servers, program};

fn heard(node: &Node, subject: &str) -> Vec<(String, Vec<u8>)> {
    let told = node.told.all();
    let heard = told.into_iter().filter_map(|told| match told {
        Told::Heard { pattern, subject: of, message } if of == subject => Some((pattern, message)),
        _ => None,
    });
    heard.collect()
}

#[test]
fn messages_go_to_those_who_listen_and_not_back() {
    let Some(program) = program() else { return };
    let servers = Servers::start(&program, 3, &Config::default());
    let (a, b) = (Node::start(settings(&servers), None), Node::start(settings(&servers), None));
    for node in [&a, &b] {
        for (filter, pattern) in [("sport/#", "sport.>"), ("sport/+", "sport.*"), ("last", "last")] {
            node.give(Command::Listen { filter: filter.to_owned() });
            node.told.wait_for("it listens", |told| told.contains(&Told::Listening(pattern.to_owned())).then_some(()));
        }
    }
    let hears = |node: &Node, subject: &str| {
        node.told.wait_for("a message", |told| {
            told.iter().any(|told| matches!(told, Told::Heard { subject: of, .. } if of == subject)).then_some(())
        });
    };
    // What a server knows of interest elsewhere comes a moment after it is confirmed here: the first messages may be lost.
    for (from, to) in [(&a, &b), (&b, &a)] {
        crate::servers::wait_until("the other one hears", || {
            from.handle().send("sport.first", b"x".to_vec());
            !heard(to, "sport.first").is_empty()
        });
    }
    assert!(a.handle().send("sport.tennis", b"1".to_vec()) && a.handle().send("other", b"2".to_vec()));
    assert!(a.handle().send("last", b"3".to_vec()));
    hears(&b, "last");
    // It comes by two patterns, and one copy counts.
    assert_eq!(heard(&b, "sport.tennis"), [("sport.*".to_owned(), b"1".to_vec())]);
    assert!(heard(&b, "other").is_empty());

    // Nobody hears what they have sent, or what they do not listen to any more.
    b.give(Command::Unlisten { filter: "sport/#".to_owned() });
    b.give(Command::Listen { filter: "mark".to_owned() });
    b.told.wait_for("it listens", |told| told.contains(&Told::Listening("mark".to_owned())).then_some(()));
    b.told.forget();
    a.handle().send("sport.golf.open", b"4".to_vec());
    a.handle().send("last", b"5".to_vec());
    hears(&b, "last");
    assert!(heard(&b, "sport.golf.open").is_empty());
    assert!(heard(&a, "sport.tennis").is_empty() && heard(&a, "last").is_empty());
}
