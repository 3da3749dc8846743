//! Memory allocations of checks.

use std::num::NonZeroU64;
use std::sync::Arc;

use allocation_counter::measure;
use tautwire_access::{Permissions, Policy, PublishCache, Subject, TopicStamp};
use tautwire_protocol::QoS;

const FILE: &str = "\
[[role]]
name = 'plain'
rules = [{ allow = ['publish', 'subscribe'], topics = ['a/+/c', 'b/#'] }]
[[role]]
name = 'own'
rules = [{ deny = 'publish', topics = 'a/{client_id}/{user}/#' }, { allow = 'publish', topics = 'a/{client_id}/#' }]
";

fn permissions(policy: &Arc<Policy>, client_id: &str, roles: &[&str]) -> Permissions {
    policy.resolve(&Subject { client_id, user: Some("ann"), listener: "tls", claims: &[], roles })
}

#[test]
fn a_publish_check_allocates_nothing() {
    let policy = Arc::new(Policy::parse("access.toml", FILE).expect("a valid file"));
    let mut cache = PublishCache::new(permissions(&policy, "sensor", &["plain", "own"]));
    let mut answers = 0;
    let info = measure(|| {
        for (stamp, topic) in ["a/sensor/ann/x", "a/sensor/x", "b/c", "z", "a/x/c"].into_iter().enumerate() {
            let stamp = NonZeroU64::new(stamp as u64).map(TopicStamp::new);
            answers += usize::from(cache.permissions().may_publish(topic, QoS::AtLeastOnce, true).is_allowed());
            answers += usize::from(cache.may_publish(stamp, topic, QoS::AtLeastOnce, true).is_allowed());
            answers += usize::from(cache.permissions().may_receive(topic, QoS::AtLeastOnce, true).is_allowed());
        }
    });
    assert_eq!((info.count_total, answers), (0, 8));
}

#[test]
fn clients_with_the_same_roles_share_them_and_hold_only_their_names() {
    let policy = Arc::new(Policy::parse("access.toml", FILE).expect("a valid file"));
    let first = [permissions(&policy, "sensor-1", &["plain"]), permissions(&policy, "sensor-1", &["own"])];
    assert_eq!((first[0].own_heap_bytes(), first[1].own_heap_bytes()), (0, 2 + 8 + 2 + 3));
    let bytes_left = |roles: &[&str]| {
        let mut kept = None;
        let info = measure(|| kept = Some(permissions(&policy, "sensor-2", roles)));
        drop(kept);
        info.bytes_current
    };
    assert_eq!((bytes_left(&["plain"]), bytes_left(&["own"])), (0, 15));
    assert!(size_of::<Permissions>() <= 48 && size_of::<PublishCache>() <= 120);
}

#[test]
fn policies_and_permissions_can_be_sent_between_threads() {
    fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Policy>();
    is_shareable::<Permissions>();
    is_shareable::<PublishCache>();
}
