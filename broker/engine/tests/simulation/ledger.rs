//! A model of what MQTT guarantees: it records publications, subscriptions and arrivals, and checks them.
//!
//! Clients see the broker's state late, so most facts have an interval of uncertainty. A subscription is *certain* from SUBACK
//! until UNSUBSCRIBE is sent, and *possible* from when SUBSCRIBE is sent until UNSUBACK. Moments are increasing numbers.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_protocol::{QoS, RetainHandling, TopicFilter, topic_matches};

/// A logical time.
pub(crate) type Moment = u64;

/// One application message.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) publisher: usize,
    pub(crate) topic: String,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) sent_at: Moment,
    /// When the broker acknowledged it.
    pub(crate) acknowledged_at: Option<Moment>,
    /// Whether it was sent more than once.
    pub(crate) resent: bool,
    pub(crate) expiry_interval_s: Option<u32>,
    pub(crate) is_will: bool,
    /// Whether only a part of it was sent.
    pub(crate) is_cut_off: bool,
    /// The broker crashed before the acknowledgement: it may have accepted and delivered the message, and lost the record of that.
    may_be_accepted_twice: bool,
    /// The broker crashed while the message may have been between shards: it is routed to the subscriptions after the restart.
    may_be_routed_late: bool,
}

/// One subscription of a session, from the first SUBSCRIBE on.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) filter: String,
    pub(crate) possible_from: Moment,
    pub(crate) possible_until: Option<Moment>,
    pub(crate) certain: Vec<(Moment, Option<Moment>)>,
    /// Every QoS that may have applied.
    pub(crate) qos: Vec<QoS>,
    pub(crate) identifiers: Vec<u32>,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
}

/// How often a session received a message.
#[derive(Debug, Default, Clone)]
pub(crate) struct Received {
    /// The number of arrivals at QoS 0.
    at_most_once: usize,
    /// The number of deliveries to the application at QoS 2, without filtered duplicates.
    exactly_once: usize,
    /// The number of arrivals without DUP.
    pub(crate) first_times: usize,
    pub(crate) qos: Option<QoS>,
}

/// The model of one session of a client.
#[derive(Debug, Default)]
pub(crate) struct SessionModel {
    pub(crate) client: usize,
    pub(crate) ended_at: Option<Moment>,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) received: BTreeMap<usize, Received>,
    /// Whether the session outlives its connection, according to the last CONNECT.
    pub(crate) is_persistent: bool,
    /// The session may have ended in a crash, and the broker had not recorded it.
    is_lost: bool,
    /// The smallest Maximum Packet Size that the client ever set.
    pub(crate) maximum_packet_bytes: Option<u32>,
    last: BTreeMap<(usize, String, QoS, QoS), usize>,
}

/// A PUBLISH as a client received it.
#[derive(Debug, Clone)]
pub(crate) struct Arrival<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) dup: bool,
    pub(crate) retain: bool,
    pub(crate) identifiers: Vec<u32>,
    pub(crate) expiry_interval_s: Option<u32>,
    /// The client already has the message and only acknowledges it again.
    pub(crate) repeated: bool,
}

#[derive(Debug, Default)]
pub(crate) struct DeliveryLedger {
    now: Moment,
    /// When nothing was in flight, and everything was durable.
    quiet_at: Moment,
    /// Whether messages go between shards.
    pub(crate) has_channels: bool,
    /// Whether the broker may refuse messages because of its memory limit.
    pub(crate) refuses: bool,
    pub(crate) publications: Vec<Publication>,
    pub(crate) sessions: Vec<SessionModel>,
    /// Wills of clients that are connected or have sent DISCONNECT.
    pub(crate) forbidden_wills: BTreeSet<usize>,
    /// For each topic with retained messages: the publications that may be retained, the most certain first.
    retained: BTreeMap<String, Vec<usize>>,
}

/// The prefix of topics that have only shared subscriptions.
pub(crate) const SHARED_PREFIX: &str = "$q/";

impl DeliveryLedger {
    pub(crate) fn new(shards: usize) -> DeliveryLedger {
        DeliveryLedger { has_channels: shards > 1, ..DeliveryLedger::default() }
    }

    pub(crate) fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    // Publishing.

    /// Adds a message. Its payload begins with its number, followed by `filler` bytes.
    pub(crate) fn publication(
        &mut self,
        publisher: usize,
        topic: &str,
        qos: QoS,
        retain: bool,
        filler: usize,
    ) -> usize {
        let number = self.publications.len();
        let mut payload = format!("{number}:").into_bytes();
        payload.resize(payload.len() + filler, b'.');
        let sent_at = self.tick();
        self.publications.push(Publication {
            publisher,
            topic: topic.into(),
            qos,
            retain,
            payload,
            sent_at,
            acknowledged_at: None,
            resent: false,
            expiry_interval_s: None,
            is_will: false,
            is_cut_off: false,
            may_be_accepted_twice: false,
            may_be_routed_late: false,
        });
        number
    }

    /// The client has sent the message, perhaps again.
    pub(crate) fn sent(&mut self, number: usize, again: bool) {
        let publication = &mut self.publications[number];
        publication.resent |= again;
        if publication.retain {
            self.retained.entry(publication.topic.clone()).or_default().push(number);
        }
    }

    /// The broker has acknowledged the message, which certainly replaces earlier retained messages.
    pub(crate) fn acknowledged(&mut self, number: usize) {
        let now = self.tick();
        let publication = &mut self.publications[number];
        publication.acknowledged_at.get_or_insert(now);
        if publication.retain
            && let Some(sent) = self.retained.get_mut(&publication.topic)
        {
            // At QoS 2 it was accepted once, at an unknown time; at QoS 1 every time.
            let unclear = publication.qos == QoS::ExactlyOnce && publication.resent;
            let at = sent.iter().rposition(|held| *held == number).filter(|_| !unclear);
            sent.drain(..at.unwrap_or(0));
        }
    }

    /// The broker has refused the message that was sent last.
    pub(crate) fn refused(&mut self, number: usize) {
        self.tick();
        let publication = &self.publications[number];
        if publication.retain
            && let Some(sent) = self.retained.get_mut(&publication.topic)
            && let Some(at) = sent.iter().rposition(|held| *held == number)
        {
            sent.remove(at);
        }
    }

    /// Whether `payload` can be the retained message of `topic` at the end.
    pub(crate) fn may_be_retained(&self, topic: &str, payload: Option<&[u8]>) -> bool {
        let Some(sent) = self.retained.get(topic) else { return payload.is_none() };
        let surely_set = sent.first().is_some_and(|number| self.publications[*number].acknowledged_at.is_some());
        let may_hold_nothing = !surely_set || sent.iter().any(|number| self.publications[*number].payload.is_empty());
        match payload {
            None => may_hold_nothing,
            Some(payload) => sent.iter().any(|number| self.publications[*number].payload == payload),
        }
    }

    /// The publications with RETAIN on a topic, for failure messages.
    pub(crate) fn retained_history(&self, topic: &str) -> String {
        let sent: Vec<_> = self
            .publications
            .iter()
            .enumerate()
            .filter(|(_, publication)| publication.retain && publication.topic == topic)
            .map(|(number, held)| {
                (number, held.qos, held.payload.len(), held.sent_at, held.acknowledged_at, held.resent)
            })
            .collect();
        format!("{:?} of {sent:?}", self.retained.get(topic))
    }

    pub(crate) fn retained_topics(&self) -> impl Iterator<Item = &str> {
        self.retained.keys().map(String::as_str)
    }

    // Sessions.

    pub(crate) fn begin(&mut self, client: usize) -> usize {
        self.tick();
        self.sessions.push(SessionModel { client, ..SessionModel::default() });
        self.sessions.len() - 1
    }

    pub(crate) fn end(&mut self, session: usize) {
        let now = self.tick();
        self.sessions[session].ended_at.get_or_insert(now);
    }

    // Crashes.

    /// Nothing is in flight, and everything is durable.
    pub(crate) fn mark_quiet(&mut self) {
        self.quiet_at = self.tick();
    }

    /// The broker crashes, and all connections are lost. Changes without a durable record are lost.
    pub(crate) fn crashed(&mut self, is_quiet: bool) {
        let quiet_at = self.quiet_at;
        self.tick();
        for publication in &mut self.publications {
            let is_answered = publication.acknowledged_at.is_some();
            // Wills are never acknowledged, and QoS 0 messages are not sent again.
            publication.may_be_accepted_twice |=
                !is_answered && (publication.is_will || publication.qos != QoS::AtMostOnce);
            publication.may_be_routed_late |= publication.acknowledged_at.is_some_and(|at| at > quiet_at);
        }
        if !is_quiet {
            // The broker may have lost a DISCONNECT.
            self.forbidden_wills.clear();
        }
        for model in &mut self.sessions {
            model.is_lost |= !model.is_persistent && model.ended_at.is_none_or(|at| at > quiet_at);
            // The record of a delivery may be lost; the message is then sent without DUP.
            model.received.values_mut().for_each(|received| received.first_times = 0);
        }
    }

    /// The client has sent SUBSCRIBE.
    pub(crate) fn subscribing(&mut self, session: usize, request: &Request) {
        let now = self.tick();
        let subscriptions = &mut self.sessions[session].subscriptions;
        // A subscription that has ended with UNSUBACK is another one.
        let held = subscriptions.iter_mut().find(|held| held.filter == request.filter && held.possible_until.is_none());
        match held {
            Some(held) => {
                held.qos.push(request.qos);
                held.identifiers.extend(request.identifier);
                held.no_local |= request.no_local;
                held.retain_as_published |= request.retain_as_published;
            }
            None => subscriptions.push(Subscription {
                filter: request.filter.clone(),
                possible_from: now,
                possible_until: None,
                certain: Vec::new(),
                qos: vec![request.qos],
                identifiers: request.identifier.into_iter().collect(),
                no_local: request.no_local,
                retain_as_published: request.retain_as_published,
            }),
        }
    }

    /// The client has received SUBACK.
    pub(crate) fn subscribed(&mut self, session: usize, filter: &str) {
        let now = self.tick();
        let held = self.sessions[session].possible(filter);
        if let Some(held) = held
            && held.certain.last().is_none_or(|(_, until)| until.is_some())
        {
            held.certain.push((now, None));
        }
    }

    /// The client has sent UNSUBSCRIBE.
    pub(crate) fn unsubscribing(&mut self, session: usize, filter: &str) {
        let now = self.tick();
        if let Some(held) = self.sessions[session].possible(filter)
            && let Some((_, until @ None)) = held.certain.last_mut()
        {
            *until = Some(now);
        }
    }

    /// The client has received UNSUBACK.
    pub(crate) fn unsubscribed(&mut self, session: usize, filter: &str) {
        let now = self.tick();
        if let Some(held) = self.sessions[session].possible(filter) {
            held.possible_until = Some(now);
        }
    }

    // Receiving.

    /// Records and checks a message that the client of `session` has received.
    pub(crate) fn arrived(&mut self, session: usize, arrival: &Arrival<'_>) -> Result<(), String> {
        self.tick();
        if arrival.topic.starts_with("$SYS/") {
            return Ok(());
        }
        let number = std::str::from_utf8(arrival.payload).ok().and_then(|text| text.split(':').next()?.parse().ok());
        let number: usize = match number {
            Some(number) => number,
            None if arrival.payload.is_empty() => return Ok(()),
            None => return Err("an unknown payload".into()),
        };
        let Some(publication) = self.publications.get(number) else { return Err("an unknown message number".into()) };
        if publication.payload != arrival.payload || publication.topic != arrival.topic {
            return Err(format!(
                "message {number} arrived changed: topic {:?}, {} bytes",
                arrival.topic,
                arrival.payload.len()
            ));
        }
        match (publication.expiry_interval_s, arrival.expiry_interval_s) {
            (None, Some(_)) => {
                return Err(format!("message {number} arrived with an expiry that it was not published with"));
            }
            (Some(sent), Some(left)) if left > sent.max(1) => {
                return Err(format!("message {number} arrived with {left} s of an expiry of {sent} s"));
            }
            _ => {}
        }
        if publication.is_cut_off {
            return Err(format!("message {number} arrived, but only a part of it was sent"));
        }
        // A client that is disconnected because of the memory limit may learn it later than others receive its will.
        if self.forbidden_wills.contains(&number) && !self.refuses {
            return Err(format!("will {number} of a client that is connected or has sent DISCONNECT"));
        }
        let model = &mut self.sessions[session];
        model.check_subscribed(number, publication, arrival)?;
        if arrival.repeated {
            return Ok(());
        }
        // The broker may have refused the message and accepted later ones; without the PUBACK, the client sent it again.
        if !(self.refuses && publication.resent) {
            model.check_order(number, publication, arrival)?;
        }
        let received = model.received.entry(number).or_default();
        received.at_most_once += usize::from(arrival.qos == QoS::AtMostOnce);
        received.exactly_once += usize::from(arrival.qos == QoS::ExactlyOnce);
        received.first_times += usize::from(!arrival.dup);
        received.qos = received.qos.max(Some(arrival.qos));
        let is_single = match publication.qos {
            // A retained message arrives once for each subscription.
            _ if publication.retain => false,
            QoS::AtLeastOnce => false,
            QoS::AtMostOnce | QoS::ExactlyOnce => true,
        };
        // One copy for all plain subscriptions, one for each shared one.
        let shared = model.subscriptions.iter().filter(|held| held.is_shared() && held.matches(&publication.topic));
        let most = shared.map(|held| &held.filter).collect::<BTreeSet<_>>().len().max(1);
        // If the broker lost its record of the message, it had not delivered it at QoS 2.
        let at_most_once = if publication.may_be_accepted_twice { 0 } else { received.at_most_once };
        let times = at_most_once + received.exactly_once;
        if is_single && arrival.qos != QoS::AtLeastOnce && times > most {
            return Err(format!(
                "message {number} ({:?} on {:?}) arrived {times} times, now at {:?}",
                publication.qos, publication.topic, arrival.qos
            ));
        }
        let copies = received.first_times;
        if !publication.resent && !publication.retain && copies > 1 && !publication.topic.starts_with(SHARED_PREFIX) {
            return Err(format!("message {number} was sent once and arrived {copies} times without DUP"));
        }
        Ok(())
    }

    /// The messages that should have arrived and have not. Call this when nothing is in flight.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (number, publication) in self.publications.iter().enumerate() {
            let Some(acknowledged_at) = publication.acknowledged_at else { continue };
            let may_be_lost = publication.qos == QoS::AtMostOnce
                || publication.is_will
                || publication.expiry_interval_s.is_some()
                // Messages without a payload cannot be identified.
                || publication.payload.is_empty();
            if may_be_lost {
                continue;
            }
            if publication.topic.starts_with(SHARED_PREFIX) {
                missing.extend(self.missing_shared(number, publication, acknowledged_at));
                continue;
            }
            for model in &self.sessions {
                let routed_at = (!self.has_channels).then_some(acknowledged_at);
                let is_required = model.ended_at.is_none() && model.must_receive(publication, routed_at);
                if is_required && !model.received.contains_key(&number) {
                    missing.push(format!(
                        "client {} did not receive message {number} ({:?}, {:?}, from client {})",
                        model.client, publication.topic, publication.qos, publication.publisher,
                    ));
                }
            }
        }
        missing
    }

    fn missing_shared(&self, number: usize, publication: &Publication, acknowledged_at: Moment) -> Vec<String> {
        let mut groups: BTreeMap<&str, Vec<&Subscription>> = BTreeMap::new();
        let mut may_lose = false;
        for model in &self.sessions {
            for held in &model.subscriptions {
                if held.is_shared() && held.matches(&publication.topic) {
                    groups.entry(&held.filter).or_default().push(held);
                    // A QoS 2 message in flight may be lost when its session ends, and so may one that exceeds the Maximum
                    // Packet Size of a member.
                    may_lose |= held.qos.contains(&QoS::AtMostOnce) || model.may_be_too_large(publication);
                    may_lose |= publication.qos == QoS::ExactlyOnce && model.ended_at.is_some();
                    may_lose |= model.is_lost;
                }
            }
        }
        let is_delivered = |filter: &str| {
            self.sessions.iter().any(|model| {
                model.received.contains_key(&number) && model.subscriptions.iter().any(|held| held.filter == filter)
            })
        };
        let is_still_certain = |held: &&Subscription| {
            held.certain.iter().any(|(from, until)| *from < publication.sent_at && until.is_none())
        };
        let has_persistent_member = |filter: &str| {
            self.sessions.iter().any(|model| {
                model.ended_at.is_none()
                    && model
                        .subscriptions
                        .iter()
                        .filter(|held| held.filter == filter)
                        .any(|held| is_still_certain(&held))
            })
        };
        groups
            .keys()
            .filter(|filter| !may_lose && has_persistent_member(filter) && !is_delivered(filter))
            .map(|filter| format!("no member of {filter} received message {number}, acknowledged at {acknowledged_at}"))
            .collect()
    }

    /// QoS 2 messages that more than one member of a group received.
    pub(crate) fn shared_twice(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (number, publication) in self.publications.iter().enumerate() {
            let is_shared = publication.topic.starts_with(SHARED_PREFIX);
            if publication.qos != QoS::ExactlyOnce || !is_shared || publication.may_be_accepted_twice {
                continue;
            }
            let groups = self
                .sessions
                .iter()
                .flat_map(|model| model.subscriptions.iter())
                .filter(|held| held.is_shared() && held.matches(&publication.topic))
                .map(|held| held.filter.as_str())
                .collect::<BTreeSet<_>>();
            let copies: usize = self
                .sessions
                .iter()
                .filter_map(|model| model.received.get(&number))
                .filter(|received| received.qos == Some(QoS::ExactlyOnce))
                .map(|received| received.at_most_once + received.exactly_once)
                .sum();
            if copies > groups.len() {
                errors.push(format!("message {number} arrived {copies} times in {} groups", groups.len()));
            }
        }
        errors
    }
}

/// A subscription in a SUBSCRIBE packet.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) filter: String,
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    pub(crate) retain_handling: RetainHandling,
    pub(crate) identifier: Option<u32>,
}

impl Subscription {
    fn is_shared(&self) -> bool {
        self.filter.starts_with("$share/")
    }

    fn matches(&self, topic: &str) -> bool {
        TopicFilter::new(&self.filter).is_ok_and(|filter| topic_matches(filter.matched(), topic))
    }

    /// Whether a message that was routed between these moments can match it.
    fn was_possible(&self, from: Moment, until: Option<Moment>) -> bool {
        self.possible_until.is_none_or(|end| end >= from) && until.is_none_or(|until| self.possible_from <= until)
    }

    /// Whether the subscription certainly existed between these moments.
    ///
    /// `until` is `None` if the message can be between shards when it is acknowledged, so that an UNSUBSCRIBE can overtake it.
    fn was_certain(&self, from: Moment, until: Option<Moment>) -> bool {
        self.certain
            .iter()
            .any(|(begin, end)| *begin < from && end.is_none_or(|end| until.is_some_and(|until| end > until)))
    }
}

impl SessionModel {
    /// The subscription to `filter` that has not certainly ended.
    fn possible(&mut self, filter: &str) -> Option<&mut Subscription> {
        self.subscriptions.iter_mut().find(|held| held.filter == filter && held.possible_until.is_none())
    }

    /// Whether the message may exceed the client's Maximum Packet Size.
    fn may_be_too_large(&self, publication: &Publication) -> bool {
        let most = publication.payload.len() + publication.topic.len() + 64;
        self.maximum_packet_bytes.is_some_and(|maximum| (maximum as usize) < most)
    }

    fn must_receive(&self, publication: &Publication, routed_at: Option<Moment>) -> bool {
        !self.may_be_too_large(publication)
            && self.subscriptions.iter().any(|held| {
                !held.is_shared()
                    && held.matches(&publication.topic)
                    && held.was_certain(publication.sent_at, routed_at)
                    && !held.qos.contains(&QoS::AtMostOnce)
                    && !(held.no_local && publication.publisher == self.client)
            })
    }

    /// Checks that a subscription matches the message, with its QoS and its Subscription Identifiers.
    fn check_subscribed(&self, number: usize, publication: &Publication, arrival: &Arrival<'_>) -> Result<(), String> {
        let is_routed_late = publication.retain || publication.is_will || publication.may_be_routed_late;
        let routed_until = if is_routed_late { None } else { publication.acknowledged_at };
        let matching = || {
            self.subscriptions.iter().filter(|held| {
                let until = if held.is_shared() { None } else { routed_until };
                held.matches(&publication.topic) && held.was_possible(publication.sent_at, until)
            })
        };
        // A retained message may have been published long before.
        let matching_now = || self.subscriptions.iter().filter(|held| held.matches(&publication.topic));
        let is_replay = publication.retain && arrival.retain;
        let matching: Vec<_> = if is_replay { matching_now().collect() } else { matching().collect() };
        let all = || matching.iter();
        let Some(highest) = all().flat_map(|held| held.qos.iter().copied()).max() else {
            return Err(format!("message {number} ({:?}) arrived without a subscription", publication.topic));
        };
        if arrival.qos > highest.min(publication.qos) {
            return Err(format!("message {number} arrived at {:?}", arrival.qos));
        }
        if let Some(foreign) = arrival.identifiers.iter().find(|id| !all().any(|held| held.identifiers.contains(id))) {
            return Err(format!(
                "message {number} arrived with Subscription Identifier {foreign}, which no matching subscription has"
            ));
        }
        if arrival.retain && !publication.retain {
            return Err(format!("message {number} was published without RETAIN and arrived with it"));
        }
        Ok(())
    }

    /// Checks that messages of one publisher on one topic arrive in the order of publishing [MQTT-4.6.0-6].
    ///
    /// Later copies and messages retained before the subscription do not count.
    fn check_order(&mut self, number: usize, publication: &Publication, arrival: &Arrival<'_>) -> Result<(), String> {
        let is_unordered = publication.is_will || arrival.retain || publication.topic.starts_with(SHARED_PREFIX);
        // The first delivery may have been before the subscription, or have been dropped.
        let is_lost = publication.may_be_accepted_twice && arrival.qos == QoS::AtMostOnce;
        let is_late = publication.resent && (publication.qos == QoS::AtLeastOnce || is_lost);
        if is_unordered || is_late || self.received.contains_key(&number) {
            return Ok(());
        }
        let key = (publication.publisher, publication.topic.clone(), publication.qos, arrival.qos);
        match self.last.insert(key, number) {
            Some(last) if last > number => Err(format!(
                "message {number} ({:?} on {:?}) arrived at {:?} after message {last}",
                publication.qos, publication.topic, arrival.qos
            )),
            _ => Ok(()),
        }
    }
}
