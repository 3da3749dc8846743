//! A session, and the only way to change it.

use std::borrow::Cow;

use tautwire_protocol::PacketId;

use crate::change::Change;
use crate::outbound::{Outbound, PendingMessage, Sequence};
use crate::packet_id_set::PacketIdSet;
use crate::subscriptions::SubscriptionSet;
use crate::will::StoredWill;
use tautwire_memory::{Footprint, Kind, MemoryFootprint};

/// The session state of one Client Identifier. Small while no messages are pending: queues are allocated on first use.
#[derive(Debug, Default, PartialEq)]
pub struct Session {
    /// See [`session_name`].
    name: Box<str>,
    subscriptions: SubscriptionSet,
    will: Option<Box<StoredWill>>,
    outbound: Option<Box<Outbound>>,
    held: Option<Box<PacketIdSet>>,
    expiry_interval_s: u32,
    /// The next Packet Identifier while there is no outbound state. The sequence continues even then, because the client may still hold the
    /// last identifiers.
    sequence: Sequence,
}

/// The size of a session without what it points to, including its entries in the tables of its shard.
pub const SESSION_BYTES: usize = size_of::<Session>() + 64;

/// No Client Identifier contains this character [MQTT-1.5.4-2], so no client can name the session of another mount point.
const MOUNT_POINT_SEPARATOR: char = '\0';

/// Returns the name of a client's session: its Client Identifier, prefixed by its mount point if it has one. Clients of different mount
/// points with the same identifier therefore have separate sessions, also after a restart.
pub fn session_name<'a>(mount_point: Option<&str>, client_id: &'a str) -> Cow<'a, str> {
    match mount_point {
        None => Cow::Borrowed(client_id),
        Some(mount_point) => Cow::Owned(format!("{mount_point}{MOUNT_POINT_SEPARATOR}{client_id}")),
    }
}

/// Splits a session name into mount point and Client Identifier.
pub fn split_session_name(name: &str) -> (Option<&str>, &str) {
    match name.split_once(MOUNT_POINT_SEPARATOR) {
        None => (None, name),
        Some((mount_point, client_id)) => (Some(mount_point), client_id),
    }
}

/// Returns the name of the session that is the queue of a shared subscription, given by its whole filter `$share/group/filter`. Mount
/// points are not empty, so no client has this name.
pub fn share_queue_name(share: &str) -> String {
    format!("{MOUNT_POINT_SEPARATOR}{share}")
}

/// Returns the shared subscription whose queue has this session name, or `None` for the session of a client.
pub fn share_of_queue(name: &str) -> Option<&str> {
    name.strip_prefix(MOUNT_POINT_SEPARATOR)
}

impl MemoryFootprint<5> for Session {
    fn footprint(&self) -> Footprint<5> {
        let ids_bytes = self.held.as_ref().map_or(0, |held| size_of::<PacketIdSet>() + held.heap_bytes());
        // The message of the will is counted like all messages.
        let will_bytes = self.will.as_ref().map_or(0, |_| size_of::<StoredWill>());
        // A vacant slot holds a session without an identifier.
        let own_bytes = if self.name.is_empty() { 0 } else { SESSION_BYTES + self.name.len() };
        let subscriptions = (Kind::Subscription, self.subscriptions.bytes());
        let none = [(Kind::Queue, 0), (Kind::Window, 0)];
        let [queue, window] = self.outbound.as_ref().map_or(none, |outbound| outbound.footprint());
        [(Kind::Session, own_bytes + ids_bytes), subscriptions, (Kind::Will, will_bytes), queue, window]
    }
}

impl Session {
    /// Creates a session without state, which ends with its connection. `name`: see [`session_name`].
    pub fn new(name: &str) -> Session {
        Session { name: name.into(), ..Session::default() }
    }

    /// Returns the name, which is unique in a broker (see [`session_name`]).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the Client Identifier.
    pub fn client_id(&self) -> &str {
        let (_, client_id) = split_session_name(&self.name);
        client_id
    }

    /// Returns the Session Expiry Interval in seconds: 0 ends with the connection, `u32::MAX` never ends.
    pub fn expiry_interval_s(&self) -> u32 {
        self.expiry_interval_s
    }

    /// Returns the subscriptions.
    pub fn subscriptions(&self) -> &SubscriptionSet {
        &self.subscriptions
    }

    /// Returns the will, if one is set.
    pub fn will(&self) -> Option<&StoredWill> {
        self.will.as_deref()
    }

    /// Returns the outbound state, if there is any.
    pub fn outbound(&self) -> Option<&Outbound> {
        self.outbound.as_deref()
    }

    /// Returns the identifier that the next message will get, or `None` while all 65,535 are in use.
    pub fn next_packet_id(&self) -> Option<PacketId> {
        match &self.outbound {
            Some(outbound) => outbound.next_packet_id(),
            None => Outbound::resuming(self.sequence).next_packet_id(),
        }
    }

    /// Returns the outbound state to change the parts that end with a connection: [`Outbound::rewind`] and [`Outbound::resend`].
    pub fn outbound_mut(&mut self) -> Option<&mut Outbound> {
        self.outbound.as_deref_mut()
    }

    /// Returns the Packet Identifiers of received QoS 2 messages that are not released.
    pub fn held(&self) -> Option<&PacketIdSet> {
        self.held.as_deref()
    }

    /// Returns the memory that the session counts against the limit of its client in bytes: everything it holds, with messages in full if
    /// they are in memory.
    pub fn memory_bytes(&self) -> usize {
        let footprint: usize = self.footprint().iter().map(|(_, bytes)| bytes).sum();
        let will_bytes = self.will.as_ref().map_or(0, |will| will.message.allocated_bytes());
        footprint + will_bytes + self.outbound().map_or(0, Outbound::memory_bytes)
    }

    /// Applies one change. This is the only way to change a session's persistent state. Returns the message that the session no longer
    /// holds, if any.
    ///
    /// Changes that refer to identifiers or queue positions that do not exist do nothing.
    // Inlined because callers mostly know the kind of change, and every acknowledged message takes this path.
    #[inline(always)]
    pub fn apply(&mut self, change: Change) -> Option<PendingMessage> {
        match change {
            Change::Started(delivery) => self.outbound_or_new().start(delivery),
            Change::Queued(delivery) => self.outbound_or_new().enqueue(delivery),
            Change::StartedQueued => {
                if let Some(outbound) = &mut self.outbound
                    && let Some(delivery) = outbound.withdraw()
                {
                    outbound.start(delivery);
                }
            }
            Change::Unqueued => return self.outbound.as_mut()?.withdraw(),
            Change::Received(id) => return self.outbound.as_mut()?.release(id),
            Change::Completed(id) => return self.outbound.as_mut()?.complete(id),
            Change::Taken(id) => {
                self.held.get_or_insert_default().insert(id);
            }
            Change::Released(id) => {
                if let Some(held) = &mut self.held {
                    held.remove(id);
                }
            }
            Change::NextPacketId(id) => match &mut self.outbound {
                Some(outbound) => outbound.set_next_packet_id(id),
                None => self.sequence = Sequence::from(id),
            },
            Change::AwaitingPubComp(id) => self.outbound_or_new().add_awaiting_pubcomp(id),
            Change::ExpiryInterval(seconds) => self.expiry_interval_s = seconds,
            Change::Will(will) => self.will = will,
            Change::Subscribed(filter, record) => {
                self.subscriptions.insert(&filter, record);
            }
            Change::Unsubscribed(filter) => {
                self.subscriptions.remove(&filter);
            }
        }
        None
    }

    /// Passes the changes that lead from a new session to this state to `visit`, in order, with the identifiers that they assign. A session
    /// with these changes sends the same packets in the same order, with the same identifiers.
    pub fn describe(&self, mut visit: impl FnMut(&Change, Option<PacketId>)) {
        if self.expiry_interval_s > 0 {
            visit(&Change::ExpiryInterval(self.expiry_interval_s), None);
        }
        if let Some(will) = &self.will {
            visit(&Change::Will(Some(will.clone())), None);
        }
        for (filter, record) in self.subscriptions.iter() {
            visit(&Change::Subscribed(filter.into(), record), None);
        }
        for id in self.held.iter().flat_map(|held| held.iter()) {
            visit(&Change::Taken(id), None);
        }
        let mut next = Session::default().next_packet_id();
        if let Some(outbound) = &self.outbound {
            next = outbound.describe_window(next, &mut visit);
        }
        if let Some(id) = self.next_packet_id()
            && next != Some(id)
        {
            visit(&Change::NextPacketId(id), None);
        }
        for delivery in self.outbound.iter().flat_map(|outbound| outbound.queue()) {
            visit(&Change::Queued(delivery.clone()), None);
        }
    }

    /// Frees memory that an idle session does not need.
    pub fn shrink(&mut self) {
        if let Some(outbound) = self.outbound.take_if(|outbound| outbound.is_empty()) {
            self.sequence = outbound.sequence();
        }
        self.held.take_if(|held| held.is_empty());
    }

    /// Removes the next pending message of a session that has ended (see [`Outbound::take_unfinished`]).
    pub fn take_unfinished(&mut self) -> Option<(PendingMessage, Option<PacketId>)> {
        self.outbound.as_mut()?.take_unfinished()
    }

    fn outbound_or_new(&mut self) -> &mut Outbound {
        let sequence = self.sequence;
        self.outbound.get_or_insert_with(|| Box::new(Outbound::resuming(sequence)))
    }
}
