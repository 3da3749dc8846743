//! What was published, who subscribed when, what arrived: and what follows from it.
//!
//! Clients see the broker late, so most facts hold for a while and not at a moment. A subscription is *certain* from SUBACK
//! until UNSUBSCRIBE is sent, and *possible* from SUBSCRIBE being sent until UNSUBACK. Moments are numbers that only grow.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_protocol::{QoS, RetainHandling, TopicFilter, topic_matches};

/// A moment.
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
    /// The broker has said that it has it.
    pub(crate) acknowledged_at: Option<Moment>,
    /// It was sent more than once.
    pub(crate) resent: bool,
    pub(crate) expiry_interval_s: Option<u32>,
    pub(crate) is_will: bool,
    /// Only a part of it was sent.
    pub(crate) is_cut_off: bool,
    /// The broker crashed before it had answered: it may have taken the message on, sent it to some, and forgotten that.
    may_be_taken_twice: bool,
    /// The broker crashed while the message may have been between shards: it is given to who has subscribed then.
    may_be_routed_late: bool,
}

/// One subscription of a session, from the first SUBSCRIBE on.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) filter: String,
    pub(crate) possible_from: Moment,
    pub(crate) possible_until: Option<Moment>,
    pub(crate) certain: Vec<(Moment, Option<Moment>)>,
    /// Every QoS that may have been in force.
    pub(crate) qos: Vec<QoS>,
    pub(crate) identifiers: Vec<u32>,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
}

/// A message as a session received it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Received {
    /// Times it came at QoS 0.
    at_most_once: usize,
    /// Times it was handed to the application at QoS 2: copies that are filtered out are not counted.
    exactly_once: usize,
    /// Times it came without DUP.
    pub(crate) first_times: usize,
    pub(crate) qos: Option<QoS>,
}

/// A session of a client, from its beginning to its end.
#[derive(Debug, Default)]
pub(crate) struct Incarnation {
    pub(crate) client: usize,
    pub(crate) ended_at: Option<Moment>,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) received: BTreeMap<usize, Received>,
    /// It outlives its connection, as the client was last told.
    pub(crate) lasts: bool,
    /// It ended in a crash, or not surely before, and the broker had none of it on disk.
    is_lost: bool,
    /// The least Maximum Packet Size that the client ever set.
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
    /// The client has it already and only answers again.
    pub(crate) repeated: bool,
}

#[derive(Debug, Default)]
pub(crate) struct MemoryLedger {
    now: Moment,
    /// When nothing was on its way, and everything was on disk.
    quiet_at: Moment,
    /// Messages go from shard to shard.
    pub(crate) has_channels: bool,
    /// The broker may refuse messages for want of memory.
    pub(crate) refuses: bool,
    pub(crate) publications: Vec<Publication>,
    pub(crate) incarnations: Vec<Incarnation>,
    /// Wills of clients that are connected or have said goodbye.
    pub(crate) forbidden_wills: BTreeSet<usize>,
    /// For each topic that retains: what may be retained, the surest first.
    retained: BTreeMap<String, Vec<usize>>,
}

/// The last part of a topic in which only shared subscriptions are made.
pub(crate) const SHARED_PREFIX: &str = "$q/";

impl MemoryLedger {
    pub(crate) fn new(shards: usize) -> MemoryLedger {
        MemoryLedger { has_channels: shards > 1, ..MemoryLedger::default() }
    }

    pub(crate) fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    // Publishing.

    /// A new message; its payload names it. `filler` makes it longer.
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
            may_be_taken_twice: false,
            may_be_routed_late: false,
        });
        number
    }

    /// The message is on its way to the broker, perhaps again.
    pub(crate) fn sent(&mut self, number: usize, again: bool) {
        let publication = &mut self.publications[number];
        publication.resent |= again;
        if publication.retain {
            self.retained.entry(publication.topic.clone()).or_default().push(number);
        }
    }

    /// The broker has answered; what was sent on the topic before is overwritten for sure.
    pub(crate) fn acknowledged(&mut self, number: usize) {
        let now = self.tick();
        let publication = &mut self.publications[number];
        publication.acknowledged_at.get_or_insert(now);
        if publication.retain
            && let Some(sent) = self.retained.get_mut(&publication.topic)
        {
            // At QoS 2 it was taken on once, nobody knows which time; at QoS 1 every time.
            let unclear = publication.qos == QoS::ExactlyOnce && publication.resent;
            let at = sent.iter().rposition(|held| *held == number).filter(|_| !unclear);
            sent.drain(..at.unwrap_or(0));
        }
    }

    /// The broker has said that it did not take what was sent last.
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

    /// Whether `payload` may be what `topic` retains in the end.
    pub(crate) fn may_be_retained(&self, topic: &str, payload: Option<&[u8]>) -> bool {
        let Some(sent) = self.retained.get(topic) else { return payload.is_none() };
        let surely_set = sent.first().is_some_and(|number| self.publications[*number].acknowledged_at.is_some());
        let may_hold_nothing = !surely_set || sent.iter().any(|number| self.publications[*number].payload.is_empty());
        match payload {
            None => may_hold_nothing,
            Some(payload) => sent.iter().any(|number| self.publications[*number].payload == payload),
        }
    }

    /// What was sent to be retained, for messages of tests.
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
        self.incarnations.push(Incarnation { client, ..Incarnation::default() });
        self.incarnations.len() - 1
    }

    pub(crate) fn end(&mut self, session: usize) {
        let now = self.tick();
        self.incarnations[session].ended_at.get_or_insert(now);
    }

    // Crashes.

    /// Nothing is on its way, and everything is on disk.
    pub(crate) fn is_quiet(&mut self) {
        self.quiet_at = self.tick();
    }

    /// The broker crashes, and all clients have lost their connections. What it had not written down is forgotten.
    pub(crate) fn crashed(&mut self, is_quiet: bool) {
        let quiet_at = self.quiet_at;
        self.tick();
        for publication in &mut self.publications {
            let is_answered = publication.acknowledged_at.is_some();
            // Nobody answers for a will, and nobody sends a message of QoS 0 again.
            publication.may_be_taken_twice |=
                !is_answered && (publication.is_will || publication.qos != QoS::AtMostOnce);
            publication.may_be_routed_late |= publication.acknowledged_at.is_some_and(|at| at > quiet_at);
        }
        if !is_quiet {
            // Goodbyes may be forgotten.
            self.forbidden_wills.clear();
        }
        for incarnation in &mut self.incarnations {
            incarnation.is_lost |= !incarnation.lasts && incarnation.ended_at.is_none_or(|at| at > quiet_at);
            // That it was sent may be forgotten, then it is sent as if for the first time.
            incarnation.received.values_mut().for_each(|received| received.first_times = 0);
        }
    }

    /// SUBSCRIBE is sent.
    pub(crate) fn subscribing(&mut self, session: usize, request: &Request) {
        let now = self.tick();
        let subscriptions = &mut self.incarnations[session].subscriptions;
        // One that an UNSUBACK has ended is another.
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

    /// SUBACK has come.
    pub(crate) fn subscribed(&mut self, session: usize, filter: &str) {
        let now = self.tick();
        let held = self.incarnations[session].possible(filter);
        if let Some(held) = held
            && held.certain.last().is_none_or(|(_, until)| until.is_some())
        {
            held.certain.push((now, None));
        }
    }

    /// UNSUBSCRIBE is sent.
    pub(crate) fn unsubscribing(&mut self, session: usize, filter: &str) {
        let now = self.tick();
        if let Some(held) = self.incarnations[session].possible(filter)
            && let Some((_, until @ None)) = held.certain.last_mut()
        {
            *until = Some(now);
        }
    }

    /// UNSUBACK has come.
    pub(crate) fn unsubscribed(&mut self, session: usize, filter: &str) {
        let now = self.tick();
        if let Some(held) = self.incarnations[session].possible(filter) {
            held.possible_until = Some(now);
        }
    }

    // Receiving.

    /// A message has come to a client of `session`. Says what is wrong with that.
    pub(crate) fn arrived(&mut self, session: usize, arrival: &Arrival<'_>) -> Result<(), String> {
        self.tick();
        if arrival.topic.starts_with("$SYS/") {
            return Ok(());
        }
        let number = std::str::from_utf8(arrival.payload).ok().and_then(|text| text.split(':').next()?.parse().ok());
        let number: usize = match number {
            Some(number) => number,
            None if arrival.payload.is_empty() => return Ok(()),
            None => return Err("a payload that nobody sent".into()),
        };
        let Some(publication) = self.publications.get(number) else { return Err("a number never given".into()) };
        if publication.payload != arrival.payload || publication.topic != arrival.topic {
            return Err(format!(
                "message {number} came changed: topic {:?}, {} bytes",
                arrival.topic,
                arrival.payload.len()
            ));
        }
        match (publication.expiry_interval_s, arrival.expiry_interval_s) {
            (None, Some(_)) => return Err(format!("message {number} came with an expiry that nobody gave it")),
            (Some(sent), Some(left)) if left > sent.max(1) => {
                return Err(format!("message {number}: {left} s left of {sent}"));
            }
            _ => {}
        }
        if publication.is_cut_off {
            return Err(format!("message {number}, of which only a part was sent"));
        }
        // A client that is thrown out for want of memory hears of it later than others of its will.
        if self.forbidden_wills.contains(&number) && !self.refuses {
            return Err(format!("the will {number} of a client that is connected or has said goodbye"));
        }
        let incarnation = &mut self.incarnations[session];
        incarnation.check_subscribed(number, publication, arrival)?;
        if arrival.repeated {
            return Ok(());
        }
        // The broker may have refused it and taken later ones; the client did not hear of that and sent it again.
        if !(self.refuses && publication.resent) {
            incarnation.check_order(number, publication, arrival)?;
        }
        let received = incarnation.received.entry(number).or_default();
        received.at_most_once += usize::from(arrival.qos == QoS::AtMostOnce);
        received.exactly_once += usize::from(arrival.qos == QoS::ExactlyOnce);
        received.first_times += usize::from(!arrival.dup);
        received.qos = received.qos.max(Some(arrival.qos));
        let once = match publication.qos {
            // What is retained comes once for each subscription.
            _ if publication.retain => false,
            QoS::AtLeastOnce => false,
            QoS::AtMostOnce | QoS::ExactlyOnce => true,
        };
        // One copy for all plain subscriptions, one for each shared one.
        let shared =
            incarnation.subscriptions.iter().filter(|held| held.is_shared() && held.matches(&publication.topic));
        let most = shared.map(|held| &held.filter).collect::<BTreeSet<_>>().len().max(1);
        // What the broker has forgotten of a message, it has given to nobody at QoS 2.
        let at_most_once = if publication.may_be_taken_twice { 0 } else { received.at_most_once };
        let times = at_most_once + received.exactly_once;
        if once && arrival.qos != QoS::AtLeastOnce && times > most {
            return Err(format!(
                "message {number} ({:?} on {:?}) came {times} times, now at {:?}",
                publication.qos, publication.topic, arrival.qos
            ));
        }
        let copies = received.first_times;
        if !publication.resent && !publication.retain && copies > 1 && !publication.topic.starts_with(SHARED_PREFIX) {
            return Err(format!("message {number} was sent once and came {copies} times without DUP"));
        }
        Ok(())
    }

    /// At the end, when nothing is on its way any more: what should have arrived and has not.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (number, publication) in self.publications.iter().enumerate() {
            let Some(acknowledged_at) = publication.acknowledged_at else { continue };
            let may_be_lost = publication.qos == QoS::AtMostOnce
                || publication.is_will
                || publication.expiry_interval_s.is_some()
                // Without a payload it cannot be told from others.
                || publication.payload.is_empty();
            if may_be_lost {
                continue;
            }
            if publication.topic.starts_with(SHARED_PREFIX) {
                missing.extend(self.missing_shared(number, publication, acknowledged_at));
                continue;
            }
            for incarnation in &self.incarnations {
                let routed_at = (!self.has_channels).then_some(acknowledged_at);
                let owed = incarnation.ended_at.is_none() && incarnation.is_owed(publication, routed_at);
                if owed && !incarnation.received.contains_key(&number) {
                    missing.push(format!(
                        "client {} did not get message {number} ({:?}, {:?}, client {})",
                        incarnation.client, publication.topic, publication.qos, publication.publisher,
                    ));
                }
            }
        }
        missing
    }

    fn missing_shared(&self, number: usize, publication: &Publication, acknowledged_at: Moment) -> Vec<String> {
        let mut groups: BTreeMap<&str, Vec<&Subscription>> = BTreeMap::new();
        let mut disturbed = false;
        for incarnation in &self.incarnations {
            for held in &incarnation.subscriptions {
                if held.is_shared() && held.matches(&publication.topic) {
                    groups.entry(&held.filter).or_default().push(held);
                    // What was in the window of a session that ends may be lost at QoS 2, and a member whose limits are
                    // too small for the message loses it.
                    disturbed |= held.qos.contains(&QoS::AtMostOnce) || incarnation.refuses(publication);
                    disturbed |= publication.qos == QoS::ExactlyOnce && incarnation.ended_at.is_some();
                    disturbed |= incarnation.is_lost;
                }
            }
        }
        let served = |filter: &str| {
            self.incarnations.iter().any(|incarnation| {
                incarnation.received.contains_key(&number)
                    && incarnation.subscriptions.iter().any(|held| held.filter == filter)
            })
        };
        let is_lasting = |held: &&Subscription| {
            held.certain.iter().any(|(from, until)| *from < publication.sent_at && until.is_none())
        };
        let lasting_session = |filter: &str| {
            self.incarnations.iter().any(|incarnation| {
                incarnation.ended_at.is_none()
                    && incarnation
                        .subscriptions
                        .iter()
                        .filter(|held| held.filter == filter)
                        .any(|held| is_lasting(&held))
            })
        };
        groups
            .keys()
            .filter(|filter| !disturbed && lasting_session(filter) && !served(filter))
            .map(|filter| format!("no member of {filter} got message {number}, acknowledged at {acknowledged_at}"))
            .collect()
    }

    /// Messages of QoS 2 that more than one member of a group got.
    pub(crate) fn shared_twice(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (number, publication) in self.publications.iter().enumerate() {
            let is_shared = publication.topic.starts_with(SHARED_PREFIX);
            if publication.qos != QoS::ExactlyOnce || !is_shared || publication.may_be_taken_twice {
                continue;
            }
            let groups = self
                .incarnations
                .iter()
                .flat_map(|incarnation| incarnation.subscriptions.iter())
                .filter(|held| held.is_shared() && held.matches(&publication.topic))
                .map(|held| held.filter.as_str())
                .collect::<BTreeSet<_>>();
            let copies: usize = self
                .incarnations
                .iter()
                .filter_map(|incarnation| incarnation.received.get(&number))
                .filter(|received| received.qos == Some(QoS::ExactlyOnce))
                .map(|received| received.at_most_once + received.exactly_once)
                .sum();
            if copies > groups.len() {
                wrong.push(format!("message {number} came {copies} times to {} groups", groups.len()));
            }
        }
        wrong
    }
}

/// A subscription that a client asks for.
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

    /// Whether it may be that a message which was routed between these moments was for it.
    fn was_possible(&self, from: Moment, until: Option<Moment>) -> bool {
        self.possible_until.is_none_or(|end| end >= from) && until.is_none_or(|until| self.possible_from <= until)
    }

    /// `until` is `None` where the message may still be on its way from one shard to another when it is acknowledged, and
    /// an UNSUBSCRIBE may overtake it.
    fn was_certain(&self, from: Moment, until: Option<Moment>) -> bool {
        self.certain
            .iter()
            .any(|(begin, end)| *begin < from && end.is_none_or(|end| until.is_some_and(|until| end > until)))
    }
}

impl Incarnation {
    /// The subscription to `filter` that has not been ended for sure.
    fn possible(&mut self, filter: &str) -> Option<&mut Subscription> {
        self.subscriptions.iter_mut().find(|held| held.filter == filter && held.possible_until.is_none())
    }

    /// A message so large that the client may not accept it.
    fn refuses(&self, publication: &Publication) -> bool {
        let most = publication.payload.len() + publication.topic.len() + 64;
        self.maximum_packet_bytes.is_some_and(|maximum| (maximum as usize) < most)
    }

    fn is_owed(&self, publication: &Publication, routed_at: Option<Moment>) -> bool {
        !self.refuses(publication)
            && self.subscriptions.iter().any(|held| {
                !held.is_shared()
                    && held.matches(&publication.topic)
                    && held.was_certain(publication.sent_at, routed_at)
                    && !held.qos.contains(&QoS::AtMostOnce)
                    && !(held.no_local && publication.publisher == self.client)
            })
    }

    /// A message comes only where a subscription matches, at no more than its QoS, with its identifiers.
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
            return Err(format!("message {number} ({:?}) came without a subscription", publication.topic));
        };
        if arrival.qos > highest.min(publication.qos) {
            return Err(format!("message {number} came at {:?}", arrival.qos));
        }
        if let Some(foreign) = arrival.identifiers.iter().find(|id| !all().any(|held| held.identifiers.contains(id))) {
            return Err(format!("message {number} came with the identifier {foreign} of no subscription that matches"));
        }
        if arrival.retain && !publication.retain {
            return Err(format!("message {number} was not published with RETAIN and came with it"));
        }
        Ok(())
    }

    /// Messages of one publisher on one topic come in the order of publishing [MQTT-4.6.0-6]. Copies that come later do
    /// not count, nor what was retained before the subscription.
    fn check_order(&mut self, number: usize, publication: &Publication, arrival: &Arrival<'_>) -> Result<(), String> {
        let apart = publication.is_will || arrival.retain || publication.topic.starts_with(SHARED_PREFIX);
        // It may have come the first time before there was a subscription, or have been dropped then.
        let forgotten = publication.may_be_taken_twice && arrival.qos == QoS::AtMostOnce;
        let late = publication.resent && (publication.qos == QoS::AtLeastOnce || forgotten);
        if apart || late || self.received.contains_key(&number) {
            return Ok(());
        }
        let key = (publication.publisher, publication.topic.clone(), publication.qos, arrival.qos);
        match self.last.insert(key, number) {
            Some(last) if last > number => Err(format!(
                "message {number} ({:?} on {:?}) came at {:?} after message {last}",
                publication.qos, publication.topic, arrival.qos
            )),
            _ => Ok(()),
        }
    }
}
