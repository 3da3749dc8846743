//! The subscriptions of one session.

use std::collections::BTreeMap;
use std::ops::Bound;

use tautwire_protocol::{QoS, RetainHandling, SubscriptionId, SubscriptionOptions};

use tautwire_message::Format;

/// Up to this size the set is a sorted list. A tree takes more memory for few subscriptions and less time for many.
const LIST_MAX: usize = 32;

/// The data of a subscription besides its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionRecord {
    /// The granted QoS and the requested options.
    pub options: SubscriptionOptions,
    /// The Subscription Identifier, 1 to 268,435,455; `None` if the client gave none.
    pub identifier: Option<SubscriptionId>,
    /// The requested payload format; `None` for payloads as published.
    pub format: Option<Format>,
}

/// The compact form of a [`SubscriptionRecord`].
#[derive(Debug, Clone, Copy, PartialEq)]
struct StoredSubscription {
    identifier: Option<SubscriptionId>,
    qos: QoS,
    retain_handling: RetainHandling,
    format: Option<Format>,
    flags: u8,
}

const NO_LOCAL: u8 = 1;
const RETAIN_AS_PUBLISHED: u8 = 2;

// Most sessions have one subscription. A list of one takes the smallest possible allocation of this type.
const _: () = assert!(size_of::<(Box<str>, StoredSubscription)>() == 24);

impl From<SubscriptionRecord> for StoredSubscription {
    fn from(record: SubscriptionRecord) -> StoredSubscription {
        let SubscriptionRecord { options, identifier, format } = record;
        let no_local = if options.no_local { NO_LOCAL } else { 0 };
        let retain_as_published = if options.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 };
        StoredSubscription {
            identifier,
            qos: options.qos,
            retain_handling: options.retain_handling,
            format,
            flags: no_local | retain_as_published,
        }
    }
}

impl From<StoredSubscription> for SubscriptionRecord {
    fn from(stored: StoredSubscription) -> SubscriptionRecord {
        let options = SubscriptionOptions {
            qos: stored.qos,
            no_local: stored.flags & NO_LOCAL != 0,
            retain_as_published: stored.flags & RETAIN_AS_PUBLISHED != 0,
            retain_handling: stored.retain_handling,
        };
        SubscriptionRecord { options, identifier: stored.identifier, format: stored.format }
    }
}

/// Bytes of a subscription besides its filter: its records in the session and in the trees that match topics.
const SUBSCRIPTION_BYTES: usize = 160;
/// Bytes of one filter level besides its text, in the trees of a shard and of all shards together.
const LEVEL_BYTES: usize = 160;
/// The number of copies of a filter: in the session, in the tree of its shard, and in the tree of all shards.
const COPIES: usize = 3;

/// The log of a share group's last messages. It exists once per group, however many members the group has.
const GROUP_BYTES: usize = 448;

/// Returns the most bytes that a subscription to `filter` takes in all places. Filters that share levels take less.
pub fn subscription_bytes(filter: &str) -> usize {
    let levels = filter.bytes().filter(|byte| *byte == b'/').count() + 1;
    let group = if filter.starts_with("$share/") { GROUP_BYTES } else { 0 };
    SUBSCRIPTION_BYTES + levels * LEVEL_BYTES + COPIES * filter.len() + group
}

/// A map from Topic Filter (with its `$share/…/` part, if any) to [`SubscriptionRecord`].
#[derive(Debug, Default, Clone, PartialEq)]
pub struct SubscriptionSet {
    representation: Representation,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Representation {
    /// Sorted by filter.
    List(Vec<(Box<str>, StoredSubscription)>),
    Tree(BTreeMap<Box<str>, StoredSubscription>),
}

impl Default for Representation {
    fn default() -> Self {
        Representation::List(Vec::new())
    }
}

impl SubscriptionSet {
    /// Returns the number of subscriptions.
    pub fn len(&self) -> usize {
        match &self.representation {
            Representation::List(list) => list.len(),
            Representation::Tree(tree) => tree.len(),
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes that all subscriptions take (see [`subscription_bytes`]).
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the subscription to exactly `filter`, compared character by character [MQTT-3.10.4-1].
    pub fn get(&self, filter: &str) -> Option<SubscriptionRecord> {
        match &self.representation {
            Representation::List(list) => position(list, filter).ok().map(|at| list[at].1.into()),
            Representation::Tree(tree) => tree.get(filter).map(|stored| (*stored).into()),
        }
    }

    /// Adds or replaces a subscription [MQTT-3.8.4-3]. Returns the replaced one.
    pub fn insert(&mut self, filter: &str, record: SubscriptionRecord) -> Option<SubscriptionRecord> {
        let replaced = self.put(filter, record.into());
        if replaced.is_none() {
            self.bytes += subscription_bytes(filter);
        }
        replaced.map(SubscriptionRecord::from)
    }

    fn put(&mut self, filter: &str, record: StoredSubscription) -> Option<StoredSubscription> {
        if let Representation::List(list) = &mut self.representation {
            match position(list, filter) {
                Ok(at) => return Some(std::mem::replace(&mut list[at].1, record)),
                Err(at) if list.len() < LIST_MAX => {
                    list.reserve_exact(1);
                    list.insert(at, (filter.into(), record));
                    return None;
                }
                Err(_) => self.representation = Representation::Tree(std::mem::take(list).into_iter().collect()),
            }
        }
        match &mut self.representation {
            Representation::Tree(tree) => tree.insert(filter.into(), record),
            Representation::List(_) => None,
        }
    }

    /// Removes the subscription to exactly `filter`.
    pub fn remove(&mut self, filter: &str) -> Option<SubscriptionRecord> {
        let removed = match &mut self.representation {
            Representation::List(list) => position(list, filter).ok().map(|at| list.remove(at).1),
            Representation::Tree(tree) => tree.remove(filter),
        };
        if removed.is_some() {
            self.bytes -= subscription_bytes(filter);
        }
        removed.map(SubscriptionRecord::from)
    }

    /// Returns the first subscription in the order of filters, if there is one.
    pub fn first(&self) -> Option<(&str, SubscriptionRecord)> {
        self.iter().next()
    }

    /// Returns the subscriptions after `filter` in the order of filters; `filter` itself need not be subscribed.
    pub fn after(&self, filter: &str) -> impl Iterator<Item = (&str, SubscriptionRecord)> {
        let (list, tree) = match &self.representation {
            Representation::List(list) => (Some(&list[list.partition_point(|(held, _)| &**held <= filter)..]), None),
            Representation::Tree(tree) => {
                (None, Some(tree.range::<str, _>((Bound::Excluded(filter), Bound::Unbounded))))
            }
        };
        let from_list = list.into_iter().flatten().map(|(filter, stored)| (&**filter, (*stored).into()));
        let from_tree = tree.into_iter().flatten().map(|(filter, stored)| (&**filter, (*stored).into()));
        from_list.chain(from_tree)
    }

    /// Iterates over all subscriptions in the order of their filters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, SubscriptionRecord)> {
        let (list, tree) = match &self.representation {
            Representation::List(list) => (Some(list), None),
            Representation::Tree(tree) => (None, Some(tree)),
        };
        let from_list = list.into_iter().flatten().map(|(filter, stored)| (&**filter, (*stored).into()));
        let from_tree = tree.into_iter().flatten().map(|(filter, stored)| (&**filter, (*stored).into()));
        from_list.chain(from_tree)
    }
}

fn position(list: &[(Box<str>, StoredSubscription)], filter: &str) -> Result<usize, usize> {
    list.binary_search_by(|(held, _)| (**held).cmp(filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(qos: QoS) -> SubscriptionRecord {
        SubscriptionRecord {
            options: SubscriptionOptions {
                qos,
                no_local: false,
                retain_as_published: false,
                retain_handling: RetainHandling::SendAtSubscribe,
            },
            identifier: None,
            format: None,
        }
    }

    #[test]
    fn every_record_round_trips() {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            for handling in 0..3 {
                for flags in 0..4 {
                    for format in [None, Some(Format::Protobuf), Some(Format::MessagePack), Some(Format::Json)] {
                        for identifier in [None, SubscriptionId::new(1), SubscriptionId::new(268_435_455)] {
                            let options = SubscriptionOptions {
                                qos,
                                no_local: flags & 1 != 0,
                                retain_as_published: flags & 2 != 0,
                                retain_handling: RetainHandling::from_u8(handling).expect("0 to 2"),
                            };
                            let record = SubscriptionRecord { options, identifier, format };
                            assert_eq!(SubscriptionRecord::from(StoredSubscription::from(record)), record);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn one_record_is_kept_for_each_filter() {
        let mut set = SubscriptionSet::default();
        for n in 0..LIST_MAX * 3 {
            let filter = format!("f/{n}");
            assert_eq!(set.insert(&filter, record(QoS::AtMostOnce)), None);
            assert_eq!(set.insert(&filter, record(QoS::AtLeastOnce)), Some(record(QoS::AtMostOnce)));
            assert_eq!(set.len(), n + 1);
            assert_eq!(set.after("").count(), n + 1);
            assert_eq!(
                set.after(&filter).collect::<Vec<_>>(),
                set.iter().skip_while(|(held, _)| **held <= *filter).collect::<Vec<_>>()
            );
        }
        assert_eq!(set.iter().count(), LIST_MAX * 3);
        for n in 0..LIST_MAX * 3 {
            let filter = format!("f/{n}");
            assert_eq!(set.get(&filter), Some(record(QoS::AtLeastOnce)));
            assert_eq!(set.remove(&filter), Some(record(QoS::AtLeastOnce)));
            assert_eq!(set.remove(&filter), None);
        }
        assert!(set.is_empty() && set.bytes() == 0);
    }
}
