//! Reads an input as a script: actions of clients, network and time, and how bytes are split.
//!
//! Bytes of connections are raw, or packets built from a few bytes, so that mutations of a short input reach deep into the broker.

use tautwire_protocol::{
    Connect, Delivery, Packet, PacketId, Properties, Property, ProtocolVersion, PubAck, PubComp, PubRec, PubRel,
    Publish, QoS, RetainHandling, Subscribe, SubscriptionId, SubscriptionOptions, SubscriptionRequest, TopicFilter,
    TopicName, Unsubscribe, Will,
};

use crate::support::Choices;

/// The next action.
pub(crate) enum Step {
    Connect { shard: usize, room_bytes: usize },
    Send { peer: usize, bytes: Vec<u8> },
    Read { peer: usize, most: usize },
    Finish { peer: usize },
    Cut { peer: usize },
    Turn { shard: usize },
    Advance { ms: u64 },
}

const STEPS_MAX: usize = 600;
const IDS: [&str; 4] = ["a", "b", "c", ""];
const TOPICS: [&str; 5] = ["t", "t/u", "t/u/v", "$q", "x"];
const FILTERS: [&str; 8] = ["t", "t/#", "+/u", "#", "$share/g/#", "$share/g/t", "$share/h/$q", "$SYS/#"];
const LENGTHS: [usize; 4] = [0, 3, 900, 5_000];
const TIMES_MS: [u64; 6] = [0, 1, 300, 5_000, 40_000, 200_000];

/// The rest of an input. When it is used up, all further choices are 0.
pub(crate) struct Script<'a> {
    rest: &'a [u8],
    steps: usize,
}

impl Choices for Script<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }
}

impl<'a> Script<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Script<'a> {
        Script { rest: input, steps: 0 }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *byte
    }

    pub(crate) fn next_step(&mut self) -> Option<Step> {
        self.steps += 1;
        if self.rest.is_empty() || self.steps > STEPS_MAX {
            return None;
        }
        let (kind, which) = (self.byte(), self.byte());
        let peer = usize::from(which);
        Some(match kind % 16 {
            0 => Step::Connect { shard: peer, room_bytes: if which < 128 { 1 << 20 } else { 300 } },
            1 => Step::Send { peer, bytes: self.raw() },
            2 | 3 => Step::Send { peer, bytes: self.connect() },
            4 | 5 => Step::Send { peer, bytes: self.subscribe() },
            6..=8 => Step::Send { peer, bytes: self.publish() },
            9 | 10 => Step::Send { peer, bytes: self.acknowledgement() },
            11 => Step::Read { peer, most: if self.byte() < 200 { usize::MAX } else { 7 } },
            12 => match self.byte() {
                0..100 => Step::Finish { peer },
                _ => Step::Cut { peer },
            },
            13 => Step::Advance { ms: self.pick(&TIMES_MS) },
            _ => Step::Turn { shard: peer },
        })
    }

    /// Raw bytes of the input.
    fn raw(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte()).min(self.rest.len());
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest;
        bytes.to_vec()
    }

    fn version(&mut self) -> ProtocolVersion {
        self.pick(&[ProtocolVersion::V5, ProtocolVersion::V5, ProtocolVersion::V3_1_1, ProtocolVersion::V3_1])
    }

    fn qos(&mut self) -> QoS {
        self.pick(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
    }

    fn packet_id(&mut self) -> PacketId {
        PacketId::new(u16::from(self.byte() % 6) + 1).unwrap_or_else(|| unreachable!("above zero"))
    }

    fn connect(&mut self) -> Vec<u8> {
        let version = self.version();
        let flags = self.byte();
        let delay = [Property::WillDelayInterval(u32::from(flags))];
        let payload = vec![b'w'; self.pick(&LENGTHS)];
        let will = TopicName::new(self.pick(&TOPICS)).ok().filter(|_| flags & 1 != 0).map(|topic| Will {
            topic,
            payload: &payload,
            qos: self.qos(),
            retain: flags & 2 != 0,
            properties: if version.is_v5() { Properties::from_list(&delay) } else { Properties::EMPTY },
        });
        let mut properties = Vec::new();
        if version.is_v5() {
            properties.push(Property::SessionExpiryInterval(u32::from(flags & 4) * 40));
            properties.push(Property::TopicAliasMaximum(u16::from(flags & 24)));
            properties.extend(std::num::NonZeroU16::new(u16::from(flags & 32) / 16).map(Property::ReceiveMaximum));
            properties.extend(std::num::NonZeroU32::new(u32::from(flags & 64)).map(Property::MaximumPacketSize));
            properties.push(Property::RequestProblemInformation(flags & 128 != 0));
        }
        let connect = Connect {
            version,
            clean_start: flags & 4 == 0,
            keep_alive_s: u16::from(flags >> 4),
            client_id: self.pick(&IDS),
            will,
            user_name: None,
            password: None,
            properties: Properties::from_list(&properties),
        };
        bytes(&Packet::Connect(connect), version)
    }

    fn subscribe(&mut self) -> Vec<u8> {
        let (version, flags, packet_id) = (self.version(), self.byte(), self.packet_id());
        let filters = [self.pick(&FILTERS), self.pick(&FILTERS)];
        let filters: Vec<_> = filters.into_iter().filter_map(|filter| TopicFilter::new(filter).ok()).collect();
        if flags & 1 != 0 {
            let filters = (&filters[..]).into();
            let packet = Unsubscribe { packet_id, properties: Properties::EMPTY, filters };
            return bytes(&Packet::Unsubscribe(packet), version);
        }
        let v5 = version.is_v5();
        let options = SubscriptionOptions {
            qos: self.qos(),
            no_local: v5 && flags & 2 != 0,
            retain_as_published: v5 && flags & 4 != 0,
            retain_handling: if v5 && flags & 8 != 0 {
                RetainHandling::SendIfNew
            } else {
                RetainHandling::SendAtSubscribe
            },
        };
        let requests: Vec<_> = filters.into_iter().map(|filter| SubscriptionRequest { filter, options }).collect();
        let identifier =
            SubscriptionId::new(u32::from(flags >> 4)).filter(|_| v5).map(Property::SubscriptionIdentifier);
        let packet = Subscribe {
            packet_id,
            properties: Properties::from_list(identifier.as_slice()),
            requests: (&requests[..]).into(),
        };
        bytes(&Packet::Subscribe(packet), version)
    }

    fn publish(&mut self) -> Vec<u8> {
        let (version, flags, packet_id) = (self.version(), self.byte(), self.packet_id());
        let dup = flags & 1 != 0;
        let payload = vec![flags; self.pick(&LENGTHS)];
        let mut topic = TopicName::new(self.pick(&TOPICS)).ok();
        let mut properties = Vec::new();
        if version.is_v5() && flags & 2 != 0 {
            properties.push(Property::MessageExpiryInterval(u32::from(flags >> 4)));
        }
        if version.is_v5() && flags & 4 != 0 {
            properties.extend(std::num::NonZeroU16::new(u16::from(flags >> 6) + 1).map(Property::TopicAlias));
            topic = topic.filter(|_| flags & 8 == 0);
        }
        let publish = Publish {
            delivery: match self.qos() {
                QoS::AtMostOnce => Delivery::AtMostOnce,
                QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id, dup },
                QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup },
            },
            retain: flags & 16 != 0,
            topic,
            properties: Properties::from_list(&properties),
            payload: &payload,
        };
        bytes(&Packet::Publish(publish), version)
    }

    fn acknowledgement(&mut self) -> Vec<u8> {
        let id = self.packet_id();
        let packet = match self.byte() % 5 {
            0 => Packet::PubAck(PubAck::success(id)),
            1 => Packet::PubRec(PubRec::success(id)),
            2 => Packet::PubRel(PubRel::success(id)),
            3 => Packet::PubComp(PubComp::success(id)),
            _ => Packet::PingReq,
        };
        bytes(&packet, ProtocolVersion::V3_1_1)
    }
}

/// A packet's bytes; empty if it cannot be encoded, which a script may request.
fn bytes(packet: &Packet<'_>, version: ProtocolVersion) -> Vec<u8> {
    let mut bytes = Vec::new();
    match packet.append_to(version, &mut bytes) {
        Ok(_) => bytes,
        Err(_) => Vec::new(),
    }
}
