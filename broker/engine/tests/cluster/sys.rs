//! The `$SYS` topics of a cluster.

use tautwire_protocol::QoS;

use crate::client::Client;
use crate::world::{Plan, World};

const INTERVAL_S: u32 = 10;

fn last_value<'c>(client: &'c Client, topic: &str) -> Option<&'c str> {
    client.received.iter().rfind(|one| one.topic == topic).map(|one| &*one.payload)
}

#[test]
fn values_of_all_nodes_are_published_on_each_and_summed() {
    let mut world = World::with(3, 0, Plan::default(), |settings| settings.sys_interval_s = INTERVAL_S, |_| {});
    let clients: Vec<_> = (0..4).map(|number| world.client(&format!("c{number}"))).collect();
    for (number, client) in clients.iter().enumerate() {
        // Two of them are on the last node.
        world.connect(*client, number.min(2), true, 0);
    }
    let filters = ["$SYS/cluster/#", "$SYS/nodes/+/clients/connected", "$SYS/nodes"];
    filters.into_iter().for_each(|filter| drop(world.subscribe(clients[0], filter, QoS::AtMostOnce)));
    world.run(3 * u64::from(INTERVAL_S) * 1000);
    let client = &world.clients[clients[0]];
    assert_eq!(last_value(client, "$SYS/cluster/nodes"), Some("3"));
    assert_eq!(last_value(client, "$SYS/cluster/clients/connected"), Some("4"));
    assert_eq!(last_value(client, "$SYS/nodes/node-0/clients/connected"), Some("1"));
    assert_eq!(last_value(client, "$SYS/nodes/node-2/clients/connected"), Some("2"));
    assert_eq!(last_value(client, "$SYS/nodes"), None, "reports between nodes must not reach clients");

    world.kill(2);
    world.run(5 * u64::from(INTERVAL_S) * 1000);
    let client = &world.clients[clients[0]];
    assert_eq!(last_value(client, "$SYS/cluster/nodes"), Some("2"));
    assert_eq!(last_value(client, "$SYS/cluster/clients/connected"), Some("2"));
    assert_eq!(
        last_value(client, "$SYS/nodes/node-2/clients/connected"),
        Some(""),
        "its retained values must be cleared"
    );
}

#[test]
fn without_sys_topics_nothing_is_published() {
    let mut world = World::new(2);
    world.run(60_000);
    assert!(world.places.iter().all(|place| place.node.as_ref().expect("the node runs").has_no_interest()));
}
