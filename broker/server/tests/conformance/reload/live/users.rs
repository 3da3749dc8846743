//! Limits for all clients of one user together.

use super::limits::{first_of_two_that_wait, is_new_client_paused, is_publisher_paused, retains_two, subscribes_twice};
use super::{ACCEPTED, After, Before, NO, QUOTA_EXCEEDED, ReloadTest, Row, YES, try_all};
use crate::support::{AtLeastOnce, Client};
use tautwire_protocol::Packet;

pub(super) const ROWS: &[Row] = &[
    Row {
        keys: &["limits.user_subscriptions"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "limits.user_subscriptions = 1",
        see: Before(subscribes_twice),
        without: ACCEPTED,
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.user_in_flight"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "limits.user_in_flight = 1",
        see: Before(delivered_of_two),
        without: "2",
        with: "1",
    },
    Row {
        keys: &["limits.user_queue_messages"],
        file: "auth.password_file = \"users\"\nlimits.slow_consumer = \"drop_old\"\n{}\n",
        off: "",
        on: "limits.user_queue_messages = 1",
        see: Before(first_of_two_that_wait),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["limits.user_queue_bytes"],
        file: "auth.password_file = \"users\"\nlimits.slow_consumer = \"drop_old\"\n{}\n",
        off: "",
        on: "limits.user_queue_bytes = 1024",
        see: Before(first_of_two_that_wait),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["limits.slow_consumer_users"],
        file: "auth.password_file = \"users\"\nlimits.session_queue_messages = 1\n{}\n",
        off: "",
        on: "limits.slow_consumer_users = [\"OWN_NAME = drop_old\"]",
        see: Before(first_of_two_that_wait),
        without: "1",
        with: "2",
    },
    Row {
        keys: &["limits.user_publish_messages_per_s"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "limits.user_publish_messages_per_s = 1",
        see: Before(is_publisher_paused),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.user_publish_burst_messages"],
        file: "auth.password_file = \"users\"\nlimits.user_publish_messages_per_s = 1\n{}\n",
        off: "",
        on: "limits.user_publish_burst_messages = 1000",
        see: After(is_new_client_paused),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.user_publish_bytes_per_s"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "limits.user_publish_bytes_per_s = 1000",
        see: Before(is_publisher_paused),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.user_publish_burst_bytes"],
        file: "auth.password_file = \"users\"\nlimits.user_publish_bytes_per_s = 1000\n{}\n",
        off: "",
        on: "limits.user_publish_burst_bytes = 1000000",
        see: After(is_new_client_paused),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["limits.user_retained_messages"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "limits.user_retained_messages = 1",
        see: Before(retains_two),
        without: "0x10",
        with: QUOTA_EXCEEDED,
    },
    Row {
        keys: &["limits.user_retained_bytes"],
        file: "auth.password_file = \"users\"\n{}\n",
        off: "",
        on: "limits.user_retained_bytes = 1500",
        see: Before(retains_two),
        without: "0x10",
        with: QUOTA_EXCEEDED,
    },
];

#[test]
fn user_limits_apply_to_connected_clients_and_can_be_reverted() {
    try_all(ROWS, &[]);
}

/// How many of two messages arrive without acknowledgements.
pub(super) fn delivered_of_two(scene: &ReloadTest, mut client: Client) -> String {
    let name = scene.name();
    client.subscribe(&name, AtLeastOnce);
    let id = format!("publisher-{name}");
    let mut publisher = scene.connecting(&id).user_name(&name).open();
    (0..2).for_each(|_| assert_eq!(publisher.publish(&name, AtLeastOnce, b"x"), 0));
    client.send(&Packet::PingReq);
    let count = (0..).find(|_| matches!(client.next().as_packet(), Packet::PingResp));
    count.unwrap_or(0).to_string()
}
