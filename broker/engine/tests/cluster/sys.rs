//! What `$SYS` says of all nodes.

use tautwire_protocol::QoS;

use crate::client::Client;
use crate::world::{Plan, World};

const INTERVAL_S: u32 = 10;

fn said<'c>(client: &'c Client, topic: &str) -> Option<&'c str> {
    client.received.iter().rfind(|one| one.topic == topic).map(|one| &*one.payload)
}

#[test]
fn values_of_all_nodes_are_told_everywhere_and_added_up() {
    let mut world = World::with(3, 0, Plan::default(), |settings| settings.sys_interval_s = INTERVAL_S, |_| {});
    let clients: Vec<_> = (0..4).map(|number| world.client(&format!("c{number}"))).collect();
    for (number, client) in clients.iter().enumerate() {
        // Two of them on the last node.
        world.connect(*client, number.min(2), true, 0);
    }
    let filters = ["$SYS/cluster/#", "$SYS/nodes/+/clients/connected", "$SYS/nodes"];
    filters.into_iter().for_each(|filter| drop(world.subscribe(clients[0], filter, QoS::AtMostOnce)));
    world.run(3 * u64::from(INTERVAL_S) * 1000);
    let client = &world.clients[clients[0]];
    assert_eq!(said(client, "$SYS/cluster/nodes"), Some("3"));
    assert_eq!(said(client, "$SYS/cluster/clients/connected"), Some("4"));
    assert_eq!(said(client, "$SYS/nodes/node-0/clients/connected"), Some("1"));
    assert_eq!(said(client, "$SYS/nodes/node-2/clients/connected"), Some("2"));
    assert_eq!(said(client, "$SYS/nodes"), None, "what nodes tell each other is not for clients");

    world.kill(2);
    world.run(5 * u64::from(INTERVAL_S) * 1000);
    let client = &world.clients[clients[0]];
    assert_eq!(said(client, "$SYS/cluster/nodes"), Some("2"));
    assert_eq!(said(client, "$SYS/cluster/clients/connected"), Some("2"));
    assert_eq!(said(client, "$SYS/nodes/node-2/clients/connected"), Some(""), "its values are not retained any more");
}

#[test]
fn without_sys_topics_nothing_is_told() {
    let mut world = World::new(2);
    world.run(60_000);
    assert!(world.places.iter().all(|place| place.node.as_ref().expect("it lives").listens_to_nothing()));
}
