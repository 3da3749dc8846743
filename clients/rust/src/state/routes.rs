//! Routes messages to streams, and handles all other events of the machine.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use hashbrown::HashMap;
use tautwire_protocol::{
    OwnedPublish, Publish, ReasonCode, RetainHandling, SubscribeReason, SubscriptionId, SubscriptionOptions,
    TopicFilter, TopicName, topic_matches,
};

use super::completion::Completion;
use super::stream::{Stream, Unclaimed};
use super::{ConnectionEvent, Status, StatusTracker};
use crate::machine::{AckToken, Answer, Event, FilterRequest, Handler, Incoming, Published};
use crate::sync::lock;
use crate::{Counters, Error, Message, Options, Subscribe};

/// The machine's tag for a pending operation.
#[derive(Debug)]
pub(crate) enum Tag {
    Publish(Arc<Completion<Result<Published, Error>>>),
    Subscribe(Arc<Completion<Result<Granted, Error>>>),
    Unsubscribe(Arc<Completion<Result<Vec<ReasonCode>, Error>>>),
    Reauthenticate(Arc<Completion<Result<(), Error>>>),
}

/// The result of SUBACK: one code per filter and the server's explanation.
pub(super) type Granted = (Vec<SubscribeReason>, Option<Box<str>>);

/// Pending responses, by their correlation data.
pub(super) type Replies = Mutex<HashMap<u64, Arc<Completion<Result<Message, Error>>>>>;

#[derive(Debug)]
pub(super) struct Route {
    pub(super) id: u64,
    pub(super) filters: Vec<Box<str>>,
    /// The topic filters without the `$share` prefix.
    matched: Vec<Box<str>>,
    /// The options of its SUBSCRIBE; `None` if it only listens.
    asked: Option<SubscriptionOptions>,
    identifier: Option<SubscriptionId>,
    /// Another route has one of its filters. The server has one identifier for both, so it cannot distinguish them.
    is_shared: bool,
    /// Gets messages that match no other route.
    takes_rest: bool,
    target: Target,
}

/// What to send to the server when a route is removed.
#[derive(Debug, Default)]
pub(super) struct RouteRemoval {
    /// Filters that no other route has.
    pub(super) unwanted: Vec<Box<str>>,
    /// Filters for which the other routes need other options.
    pub(super) changed: Vec<FilterRequest>,
    /// The identifier of the subscriptions to `changed`.
    pub(super) identifier: Option<SubscriptionId>,
}

#[derive(Debug, Clone)]
pub(super) enum Target {
    Stream(Arc<Stream>),
    Replies(Arc<Replies>),
}

#[derive(Debug, Default)]
pub(crate) struct Routes {
    routes: Vec<Route>,
    last_id: u64,
    pub(super) delivery: Delivery,
    /// Messages delivered to several streams: acknowledged when the last one is done.
    shares: HashMap<AckToken, usize>,
    unclaimed: Unclaimed,
    unclaimed_limit: usize,
    /// The session outlives the connection, so unclaimed messages may be claimed later.
    keeps_unclaimed: bool,
    /// Acknowledgements that have not been passed to the machine yet.
    pub(super) given_up: Vec<AckToken>,
    pub(super) board: StatusTracker,
    /// Messages were acknowledged or sent, so there may be room again.
    pub(super) made_room: bool,
}

/// The state that message delivery changes, besides the stream.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Streams that are full and pause reading.
    pub(super) holding_up: usize,
    /// Reading continues although a stream is full.
    pub(super) is_forced: bool,
    pub(super) counters: Counters,
    /// Wakers to call once the lock is released.
    pub(super) woken: Vec<Waker>,
}

impl Routes {
    pub(super) fn new(options: &Options) -> Routes {
        Routes {
            unclaimed_limit: options.limits.unclaimed_messages,
            keeps_unclaimed: options.is_persistent(),
            ..Routes::default()
        }
    }

    /// Adds a route that only listens. It claims matching messages that arrived before.
    pub(super) fn listen(&mut self, subscribe: &Subscribe, target: Target) -> u64 {
        self.add(subscribe, None, target)
    }

    /// Adds a route that needs a SUBSCRIBE. Returns the options to request: two subscriptions to one filter are one for the server
    /// [MQTT-3.8.4-3].
    pub(super) fn ask(
        &mut self,
        subscribe: &Subscribe,
        target: Target,
    ) -> (u64, Vec<FilterRequest>, Option<SubscriptionId>) {
        let id = self.add(subscribe, Some(subscribe.options), target);
        let wanted = subscribe.filters.iter().map(|filter| {
            let merged = self.merged(filter).unwrap_or(subscribe.options);
            (
                filter.as_str().into(),
                SubscriptionOptions { retain_handling: subscribe.options.retain_handling, ..merged },
            )
        });
        let wanted: Vec<FilterRequest> = wanted.collect();
        let known = || match &wanted[..] {
            [(filter, _)] => self.identifier_of(filter),
            _ => None,
        };
        let identifier = subscribe.identifier.or_else(known);
        (id, wanted, identifier)
    }

    fn add(&mut self, subscribe: &Subscribe, asked: Option<SubscriptionOptions>, target: Target) -> u64 {
        let filters = &subscribe.filters;
        self.last_id += 1;
        let matched = |filter: &String| TopicFilter::new(filter).map_or("", TopicFilter::matched).into();
        let mut route = Route {
            id: self.last_id,
            filters: filters.iter().map(|filter| filter.as_str().into()).collect(),
            matched: filters.iter().map(matched).collect(),
            asked,
            identifier: subscribe.identifier,
            is_shared: false,
            takes_rest: subscribe.takes_rest,
            target,
        };
        for other in &mut self.routes {
            if other.filters.iter().any(|filter| route.filters.contains(filter)) {
                other.is_shared = true;
                route.is_shared = true;
            }
        }
        let claimed = self
            .unclaimed
            .claim(|message| route.takes_rest || route.wants(&message.publish.as_publish(), message.topic()));
        for message in claimed {
            let token = message.token;
            if !self.delivery.deliver(&route.target, message) {
                self.given_up.extend(token);
            }
        }
        self.routes.push(route);
        self.last_id
    }

    /// Removes a route; returns what to send to the server if the route had a SUBSCRIBE.
    pub(super) fn remove(&mut self, id: u64) -> RouteRemoval {
        let Some(at) = self.routes.iter().position(|route| route.id == id) else { return RouteRemoval::default() };
        let before: Vec<_> = self.routes[at].filters.iter().map(|filter| self.merged(filter)).collect();
        let route = self.routes.remove(at);
        let mut left = RouteRemoval::default();
        for (filter, before) in route.filters.into_iter().zip(before) {
            match self.merged(&filter) {
                Some(now) if before != Some(now) => {
                    left.identifier = left.identifier.or_else(|| self.identifier_of(&filter));
                    left.changed.push((filter, now));
                }
                Some(_) => {}
                None if self.routes.iter().any(|other| other.filters.contains(&filter)) => {}
                None => left.unwanted.push(filter),
            }
        }
        left
    }

    /// The merged options of all routes for a filter; `None` if no route has a SUBSCRIBE for it. Retain Handling matters only to the
    /// route that subscribes.
    fn merged(&self, filter: &str) -> Option<SubscriptionOptions> {
        let routes = self.routes.iter().filter(|route| route.filters.iter().any(|known| &**known == filter));
        let merged = routes.filter_map(|route| route.asked).reduce(|one, other| SubscriptionOptions {
            qos: one.qos.max(other.qos),
            no_local: one.no_local && other.no_local,
            retain_as_published: one.retain_as_published || other.retain_as_published,
            retain_handling: one.retain_handling,
        })?;
        Some(SubscriptionOptions { retain_handling: RetainHandling::SendAtSubscribe, ..merged })
    }

    /// The identifier that a route has for a filter; if there are several, the newest.
    fn identifier_of(&self, filter: &str) -> Option<SubscriptionId> {
        let routes = self.routes.iter().rev().filter(|route| route.filters.iter().any(|known| &**known == filter));
        routes.filter_map(|route| route.identifier).next()
    }

    /// Handles the messages of a removed stream.
    pub(super) fn return_messages(&mut self, messages: impl IntoIterator<Item = Message>) {
        for message in messages {
            if let Some(token) = message.token {
                self.settle_unwanted(message, token);
            }
        }
    }

    /// A stream no longer pauses reading.
    pub(super) fn stop_holding_up(&mut self, held_up: bool) {
        self.delivery.holding_up = self.delivery.holding_up.saturating_sub(usize::from(held_up));
    }

    /// Removes one holder of the message of `token`; returns whether it was the last.
    pub(super) fn is_last_holder(&mut self, token: AckToken) -> bool {
        let Some(holders) = self.shares.get_mut(&token) else { return true };
        *holders -= 1;
        let last = *holders == 0;
        if last {
            self.shares.remove(&token);
        }
        last
    }

    /// Ends all streams and requests.
    pub(super) fn end(&mut self, why: &Error) {
        for route in self.routes.drain(..) {
            match route.target {
                Target::Stream(stream) => self.delivery.woken.extend(stream.end(why.clone())),
                Target::Replies(replies) => {
                    for (_, completion) in lock(&replies).drain() {
                        self.delivery.woken.extend(completion.complete(Err(why.clone())));
                    }
                }
            }
        }
        self.delivery.holding_up = 0;
        self.unclaimed.clear();
    }

    fn settle_unwanted(&mut self, message: Message, token: AckToken) {
        let given_up =
            if self.keeps_unclaimed { self.unclaimed.keep(message, self.unclaimed_limit) } else { Some(token) };
        if let Some(token) = given_up {
            self.delivery.counters.unclaimed_dropped += 1;
            self.given_up.push(token);
        }
    }

    fn tell_tag(&mut self, tag: Tag, error: &Error) {
        self.delivery.woken.extend(match tag {
            Tag::Publish(completion) => completion.complete(Err(error.clone())),
            Tag::Subscribe(completion) => completion.complete(Err(error.clone())),
            Tag::Unsubscribe(completion) => completion.complete(Err(error.clone())),
            Tag::Reauthenticate(completion) => completion.complete(Err(error.clone())),
        });
    }

    pub(super) fn fail_all(&mut self, tags: Vec<Tag>, error: &Error) {
        for tag in tags {
            self.tell_tag(tag, error);
        }
    }
}

impl Route {
    #[inline]
    fn wants(&self, publish: &Publish<'_>, topic: &str) -> bool {
        // Subscription identifiers in a message say which subscriptions it matches.
        if let Some(identifier) = self.identifier
            && !self.is_shared
            && publish.properties.subscription_identifier().is_some()
        {
            return publish.properties.subscription_identifiers().any(|id| id == identifier);
        }
        self.matched.iter().any(|filter| topic_matches(filter, topic))
    }
}

impl Delivery {
    /// Delivers a message to a target; returns whether the application will acknowledge it.
    fn deliver(&mut self, target: &Target, message: Message) -> bool {
        match target {
            Target::Stream(stream) => {
                let has_token = message.token.is_some();
                let pushed = stream.push(message, self.is_forced);
                self.counters.dropped_full += u64::from(pushed.dropped);
                self.holding_up += usize::from(pushed.holds_up);
                self.woken.extend(pushed.waker);
                has_token && !pushed.refused
            }
            Target::Replies(replies) => {
                let data = message.properties().correlation_data().and_then(|data| data.try_into().ok());
                let waiting = data.and_then(|data| lock(replies).remove(&u64::from_be_bytes(data)));
                match waiting {
                    Some(completion) => self.woken.extend(completion.complete(Ok(message))),
                    None => self.counters.responses_dropped += 1,
                }
                false
            }
        }
    }
}

impl Handler<Tag> for Routes {
    #[inline]
    fn message(&mut self, incoming: &Incoming<'_>) -> Answer {
        let publish = &incoming.publish;
        let topic = publish.topic.map_or("", TopicName::as_str);
        let Routes { routes, delivery, shares, .. } = self;
        let keep = |publish: &OwnedPublish| Message { publish: publish.clone(), token: incoming.token };
        let mut wanting = routes.iter().filter(|route| route.wants(publish, topic));
        let first = wanting.next().or_else(|| routes.iter().find(|route| route.takes_rest));
        let Some(first) = first else {
            drop(wanting);
            match (incoming.token, publish.to_owned_publish()) {
                (Some(token), Ok(publish)) if self.keeps_unclaimed => {
                    self.settle_unwanted(Message { publish, token: Some(token) }, token);
                    return Answer::Later;
                }
                _ => self.delivery.counters.unrouted += 1,
            }
            return Answer::Acknowledge;
        };
        // A decoded message can always be copied.
        let Ok(owned) = publish.to_owned_publish() else { return Answer::Acknowledge };
        let mut holders = 0;
        for other in wanting {
            holders += usize::from(delivery.deliver(&other.target, keep(&owned)));
        }
        let message = Message { publish: owned, token: incoming.token };
        holders += usize::from(delivery.deliver(&first.target, message));
        if let (Some(token), 2..) = (incoming.token, holders) {
            shares.insert(token, holders);
        }
        if holders == 0 { Answer::Acknowledge } else { Answer::Later }
    }

    fn event(&mut self, event: Event<'_, Tag>) {
        match event {
            Event::Published(Tag::Publish(completion), outcome) => {
                self.made_room = true;
                self.delivery.woken.extend(completion.complete(outcome));
            }
            Event::Subscribed(Tag::Subscribe(completion), outcome) => {
                let outcome = outcome.map(|(reasons, text)| (reasons, text.map(Into::into)));
                self.delivery.woken.extend(completion.complete(outcome));
            }
            Event::Unsubscribed(Tag::Unsubscribe(completion), outcome) => {
                let outcome = outcome.map(|(reasons, _)| reasons.into_iter().map(Into::into).collect());
                self.delivery.woken.extend(completion.complete(outcome));
            }
            Event::Reauthenticated(Tag::Reauthenticate(completion)) => {
                self.delivery.woken.extend(completion.complete(Ok(())));
            }
            // The events that follow resolve tags of their own kind.
            Event::Published(tag, _)
            | Event::Subscribed(tag, _)
            | Event::Unsubscribed(tag, _)
            | Event::Reauthenticated(tag) => {
                self.tell_tag(tag, &Error::Closed);
            }
            Event::Connected { connack } => {
                crate::log::connected(connack.session_present);
                if !connack.session_present {
                    // The tokens of the lost session are invalid.
                    self.shares.clear();
                    self.unclaimed.clear();
                }
                let session_present = connack.session_present;
                let status = Status::Online { session_present };
                let woken = self.board.set(status, Some(ConnectionEvent::Connected { session_present }));
                self.delivery.woken.extend(woken);
            }
            Event::SubscriptionLost(filter, error) => {
                crate::log::subscription_lost(&filter, &error);
                for route in self.routes.iter().filter(|route| route.filters.contains(&filter)) {
                    if let Target::Stream(stream) = &route.target {
                        self.delivery.woken.extend(stream.end(error.clone()));
                    }
                }
            }
        }
    }
}
