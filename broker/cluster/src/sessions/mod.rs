//! Sessions that this node claims or serves. No more than one of both at a time for each client.

mod adopting;
mod asleep;
mod claiming;
mod inheriting;
mod leaving;
mod moving;
mod service;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use crate::lanes::{Keeping, Lanes, Origin, What, Withdrawn};
use crate::names::{ClientKey, Incarnation, Key, Partition, Seed};
use crate::nodes::Nodes;
use crate::operation::{Answer, Decision, Operation, OperationId, Refusal, Revision};
use crate::outbox::Outbox;
use crate::peer_message::{PeerMessage, PeerMessageKind};
use crate::record::{Claim, SessionRecord};
use crate::settings::Settings;
use crate::wills::Terms;

use adopting::Adopting;
pub(crate) use adopting::Swept;
use asleep::{Asleep, Awake};
pub(crate) use claiming::Request;
use claiming::{Claiming, Outcome};
pub use moving::SessionsStatus;
use service::{Service, Standing};

/// What sessions need of the node.
pub(crate) struct Surroundings<'a> {
    pub(crate) me: Incarnation,
    pub(crate) seed: Seed,
    pub(crate) now_ms: u64,
    pub(crate) is_serving: bool,
    pub(crate) settings: &'a Settings,
    pub(crate) nodes: &'a Nodes,
    pub(crate) lanes: &'a mut Lanes,
    pub(crate) out: &'a mut Outbox,
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    held: BTreeMap<ClientKey, Held>,
    claims: usize,
    adoptions: usize,
    last_claim: u64,
    /// When sessions are to be looked at again whose wills have a delay.
    rests: BTreeSet<(u64, ClientKey)>,
    /// Clients that have been told to go to another node, and have not gone yet.
    moving: BTreeSet<ClientKey>,
    /// Up to where clients have been asked to go, one after the other.
    moved_to: Option<ClientKey>,
    /// Sessions that have ended by a claim.
    ended: Vec<Ended>,
    /// Services that are awake, in the order in which they are looked at.
    awake: VecDeque<Awake>,
    /// When that was done last.
    now_ms: u64,
}

/// A session that began anew: this is what the one before had.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) client: ClientKey,
    /// The claim by which the new one began.
    pub(crate) by: Revision,
    pub(crate) state: Vec<u8>,
}

/// What a client publishes, on its way to its partition.
#[derive(Debug)]
pub(crate) struct Publishing {
    pub(crate) partition: Partition,
    pub(crate) ticket: u64,
    pub(crate) heard: u64,
    pub(crate) packet_id: Option<NonZeroU16>,
    pub(crate) keeps: Option<Keeping>,
    pub(crate) message: Vec<u8>,
}

#[derive(Debug)]
enum Held {
    Claiming(Box<Claiming>),
    Adopting(Box<Adopting>),
    Serving(Box<Service>),
    Asleep(Asleep),
}

impl Request {
    pub(crate) fn new(ticket: u64, client_id: &str, start: crate::Start, deadline_ms: u64) -> Request {
        Request { ticket, client_id: client_id.to_owned(), start, deadline_ms }
    }

    fn refuse(&self, why: Refusal, cx: &mut Surroundings<'_>) {
        cx.out.decide(Decision::Refuse { ticket: self.ticket, why });
    }
}

impl Sessions {
    pub(crate) fn claim(&mut self, key: ClientKey, request: Request, cx: &mut Surroundings<'_>) {
        let is_full = self.claims >= cx.settings.claims_max;
        match self.woken(key) {
            Some(Held::Serving(service)) => {
                if let Some(earlier) = service.next.replace(request) {
                    earlier.refuse(Refusal::TakenOver, cx);
                }
                // The engine has ended the connection before this one, or does so now.
                if service.is_open() {
                    let claim = service.claim;
                    service.give_up(cx.me, claim, cx);
                }
                self.go_on(key, cx);
            }
            Some(Held::Claiming(_)) => {
                self.end_claim(key, Refusal::TakenOver, cx);
                self.begin_claim(key, request, cx);
            }
            _ if is_full => request.refuse(Refusal::TooMany, cx),
            // The claim finds out whether this node has taken the session on meanwhile.
            Some(Held::Adopting(_)) => {
                self.drop_adoption(key);
                self.begin_claim(key, request, cx);
            }
            Some(Held::Asleep(_)) | None => self.begin_claim(key, request, cx),
        }
    }

    fn begin_claim(&mut self, key: ClientKey, request: Request, cx: &mut Surroundings<'_>) {
        self.last_claim += 1;
        self.claims += 1;
        let claiming = Claiming::begin(request, key, self.last_claim, cx);
        self.held.insert(key, Held::Claiming(Box::new(claiming)));
    }

    fn end_claim(&mut self, key: ClientKey, why: Refusal, cx: &mut Surroundings<'_>) {
        let Some(Held::Claiming(claiming)) = self.held.get_mut(&key) else { return };
        if !claiming.is_abandoned {
            claiming.request.refuse(why, cx);
        }
        self.give_claim_up(key, why);
    }

    /// Nobody waits for a claim any more.
    fn give_claim_up(&mut self, key: ClientKey, why: Refusal) {
        let Some(Held::Claiming(claiming)) = self.held.get_mut(&key) else { return };
        claiming.is_abandoned = true;
        if why == Refusal::TakenOver || !claiming.may_be_written() {
            self.held.remove(&key);
            self.claims -= 1;
        }
    }

    pub(crate) fn abandon(&mut self, key: ClientKey, ticket: u64, cx: &mut Surroundings<'_>) {
        match self.woken(key) {
            Some(Held::Claiming(claiming)) if claiming.request.ticket == ticket => {
                self.give_claim_up(key, Refusal::Unavailable);
            }
            Some(Held::Serving(service)) => {
                service.abandon(ticket, cx.now_ms);
                self.go_on(key, cx);
            }
            _ => {}
        }
    }

    /// Whether sessions have ended by claims.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Sessions that have ended by claims since this was asked last.
    pub(crate) fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// Does what has come due.
    pub(crate) fn advance(&mut self, cx: &mut Surroundings<'_>) {
        self.let_rest(cx.now_ms);
        let is_claim = |(key, held): (&ClientKey, &Held)| matches!(held, Held::Claiming(_)).then_some(*key);
        let claims: Vec<_> =
            if self.claims == 0 { Vec::new() } else { self.held.iter().filter_map(is_claim).collect() };
        for key in claims {
            if let Some(Held::Claiming(claiming)) = self.held.get_mut(&key) {
                let outcome = claiming.advance(cx);
                self.take_outcome(key, outcome, cx);
            }
        }
        while let Some((until_ms, key)) = self.rests.first().copied()
            && until_ms <= cx.now_ms
            && cx.is_serving
        {
            self.rests.pop_first();
            if let Some(service) = self.service(key) {
                service.wake(cx.now_ms);
            }
            self.go_on(key, cx);
        }
    }

    /// The lease holds again.
    pub(crate) fn resume(&mut self, cx: &mut Surroundings<'_>) {
        for held in self.held.values_mut() {
            if let Held::Serving(service) = held {
                service.resume(cx);
                service.go_on(cx);
            }
        }
    }

    pub(crate) fn answer(&mut self, key: ClientKey, id: OperationId, answer: &Answer, cx: &mut Surroundings<'_>) {
        match self.woken(key) {
            Some(Held::Claiming(claiming)) => {
                let outcome = claiming.answer(id, answer, cx);
                self.take_outcome(key, outcome, cx);
            }
            Some(Held::Serving(service)) => {
                let standing = service.answer(id, answer, cx);
                self.take_standing(key, standing, cx);
            }
            Some(Held::Adopting(_)) => self.answer_adoption(key, id, answer, cx),
            Some(Held::Asleep(_)) | None => {}
        }
    }

    fn take_outcome(&mut self, key: ClientKey, outcome: Outcome, cx: &mut Surroundings<'_>) {
        match outcome {
            Outcome::Open => {}
            Outcome::Refused(why) => self.end_claim(key, why, cx),
            Outcome::Made { record, revision, is_present } => {
                if let Some(Held::Claiming(claiming)) = self.held.remove(&key) {
                    self.claims -= 1;
                    if !claiming.ends.is_empty() {
                        self.ended.push(Ended { client: key, by: revision, state: claiming.ends });
                    }
                    let service = if claiming.is_abandoned {
                        Service::adopted(key, *record, revision, 0, cx.now_ms)
                    } else {
                        Service::begin(key, claiming.request.ticket, *record, revision, is_present, cx)
                    };
                    self.hold(key, service);
                    self.go_on(key, cx);
                }
            }
        }
    }

    fn take_standing(&mut self, key: ClientKey, standing: Standing, cx: &mut Surroundings<'_>) {
        if standing == Standing::Goes {
            return self.go_on(key, cx);
        }
        let Some(Held::Serving(service)) = self.held.remove(&key) else { return };
        self.moving.remove(&key);
        if let Some(until_ms) = service.rests_until() {
            self.rests.remove(&(until_ms, key));
        }
        if service.is_open() {
            cx.out.decide(Decision::Lost(key));
        }
        if let Some(request) = service.next {
            self.begin_claim(key, request, cx);
        }
    }

    fn go_on(&mut self, key: ClientKey, cx: &mut Surroundings<'_>) {
        if let Some(service) = self.service(key) {
            service.go_on(cx);
            if let Some(until_ms) = service.rests_until() {
                self.rests.insert((until_ms, key));
            }
        }
    }

    /// The service whose connection the engine has, and what follows from it.
    fn with_open(
        &mut self,
        key: ClientKey,
        cx: &mut Surroundings<'_>,
        act: impl FnOnce(&mut Service, &mut Surroundings<'_>),
    ) {
        if let Some(service) = self.service(key)
            && service.is_open()
        {
            act(service, cx);
            self.go_on(key, cx);
        }
    }

    pub(crate) fn publish(&mut self, key: ClientKey, publishing: Publishing, cx: &mut Surroundings<'_>) {
        self.with_open(key, cx, |service, cx| match publishing.packet_id {
            None => service.publish(publishing, cx),
            Some(packet_id) => service.publish_once(packet_id, publishing, cx),
        });
    }

    pub(crate) fn release(&mut self, key: ClientKey, packet_id: NonZeroU16, cx: &mut Surroundings<'_>) {
        self.with_open(key, cx, |service, cx| service.release(packet_id, cx));
    }

    pub(crate) fn save(&mut self, key: ClientKey, number: u64, state: Vec<u8>, cx: &mut Surroundings<'_>) {
        self.with_open(key, cx, |service, cx| service.save(number, state, cx));
    }

    /// What holds when a client's connection ends has changed. It is written with the state that follows.
    pub(crate) fn keep(&mut self, key: ClientKey, terms: Terms) {
        if let Some(service) = self.service(key)
            && service.is_open()
        {
            service.keep(terms);
        }
    }

    pub(crate) fn leave(&mut self, key: ClientKey, state: Vec<u8>, cx: &mut Surroundings<'_>) {
        self.with_open(key, cx, |service, cx| service.leave(state, cx.now_ms));
    }

    pub(crate) fn leave_as_saved(&mut self, key: ClientKey, cx: &mut Surroundings<'_>) {
        self.with_open(key, cx, |service, cx| {
            let state = service.state().to_vec();
            service.leave(state, cx.now_ms);
        });
    }

    /// Messages of these are in the log, and with them all QoS 2 messages of the partition up to an ordinal.
    pub(crate) fn settle(&mut self, partition: Partition, ordinal: u64, origins: impl Iterator<Item = Origin>) {
        for origin in origins {
            if let Some(service) = self.service(origin.client)
                && service.claim == origin.claim
            {
                service.settle(partition, ordinal);
            }
        }
    }

    /// These messages are safe.
    pub(crate) fn stored(&mut self, origins: &[Origin], cx: &mut Surroundings<'_>) {
        for origin in origins {
            if let Some(service) = self.service(origin.client)
                && service.claim == origin.claim
            {
                service.stored(origin.what, cx);
                self.go_on(origin.client, cx);
            }
        }
    }

    /// Whether what has become of this can be told to whoever has published it.
    pub(crate) fn hears(&self, origin: &Origin) -> bool {
        if matches!(origin.what, What::Own { .. }) {
            return true;
        }
        let is_message = matches!(origin.what, What::Message { .. });
        let is_open =
            |held: &Held| matches!(held, Held::Serving(service) if service.claim == origin.claim && service.is_open());
        is_message && self.held.get(&origin.client).is_some_and(is_open)
    }

    /// These messages will never be in the log.
    pub(crate) fn withdrawn(&mut self, withdrawn: &[Withdrawn], cx: &mut Surroundings<'_>) {
        for Withdrawn { origin, intent } in withdrawn {
            if let Some(service) = self.service(origin.client)
                && service.claim == origin.claim
            {
                service.withdrawn(origin.what, *intent, cx);
                self.go_on(origin.client, cx);
            }
        }
    }

    /// Another node asks for a session.
    pub(crate) fn wanted(&mut self, key: ClientKey, by: Incarnation, claim: u64, cx: &mut Surroundings<'_>) {
        match self.woken(key) {
            Some(Held::Serving(service)) => {
                service.give_up(by, claim, cx);
                self.go_on(key, cx);
            }
            Some(Held::Claiming(claiming)) => {
                // The other one has seen a claim of this node that this node does not know to be made.
                if claiming.number() <= claim {
                    self.end_claim(key, Refusal::TakenOver, cx);
                }
                say_released(key, by, claim, cx);
            }
            Some(Held::Adopting(_)) => {
                self.drop_adoption(key);
                say_released(key, by, claim, cx);
            }
            Some(Held::Asleep(_)) | None => say_released(key, by, claim, cx),
        }
    }

    /// Another node has released a session.
    pub(crate) fn released(&mut self, key: ClientKey, by: Incarnation, number: u64, cx: &mut Surroundings<'_>) {
        if let Some(Held::Claiming(claiming)) = self.held.get_mut(&key) {
            claiming.released(Claim { by, number }, cx);
        }
    }
}

fn say_released(key: ClientKey, to: Incarnation, claim: u64, cx: &mut Surroundings<'_>) {
    if to != cx.me {
        cx.out.send(to, PeerMessage { from: cx.me, client: key, claim, kind: PeerMessageKind::Released });
    }
}

/// The operation that gives a session's record a new value, or takes it away.
fn write_of(key: ClientKey, expected: Revision, record: Option<&SessionRecord>, for_s: Option<u32>) -> Operation {
    let key = Key::Session(key);
    match (record.map(SessionRecord::encode), for_s) {
        (None, _) => Operation::Remove { key, expected },
        (Some(value), Some(for_s)) => Operation::PutFor { key, expected, value, for_s },
        (Some(value), None) => Operation::Put { key, expected: Some(expected), value },
    }
}
