//! Sessions that this node claims or serves. No more than one of both at a time for each client.

mod claiming;
mod service;

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use crate::lanes::{Lanes, Origin};
use crate::names::{ClientKey, Incarnation, Partition};
use crate::nodes::Nodes;
use crate::operation::{Answer, Decision, OperationId, Refusal};
use crate::outbox::Outbox;
use crate::peer_message::{PeerMessage, PeerMessageKind};
use crate::settings::Settings;

pub(crate) use claiming::Request;
use claiming::{Claiming, Outcome};
use service::{Service, Standing};

/// What sessions need of the node.
pub(crate) struct Surroundings<'a> {
    pub(crate) me: Incarnation,
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
    last_claim: u64,
}

#[derive(Debug)]
enum Held {
    Claiming(Box<Claiming>),
    Serving(Box<Service>),
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
        match self.held.get_mut(&key) {
            Some(Held::Serving(service)) => {
                if let Some(earlier) = service.next.replace(request) {
                    earlier.refuse(Refusal::TakenOver, cx);
                }
                // The engine has ended the connection before this one, or does so now.
                if service.is_open() {
                    let epoch = service.epoch();
                    service.give_up(cx.me, epoch, cx);
                    self.go_on(key, cx);
                }
            }
            Some(Held::Claiming(_)) => {
                self.end_claim(key, Refusal::TakenOver, cx);
                self.begin_claim(key, request, cx);
            }
            None if self.claims >= cx.settings.claims_max => request.refuse(Refusal::TooMany, cx),
            None => self.begin_claim(key, request, cx),
        }
    }

    fn begin_claim(&mut self, key: ClientKey, request: Request, cx: &mut Surroundings<'_>) {
        self.last_claim += 1;
        self.claims += 1;
        let claiming = Claiming::begin(request, key, self.last_claim, cx);
        self.held.insert(key, Held::Claiming(Box::new(claiming)));
    }

    fn end_claim(&mut self, key: ClientKey, why: Refusal, cx: &mut Surroundings<'_>) {
        if let Some(Held::Claiming(claiming)) = self.held.remove(&key) {
            self.claims -= 1;
            claiming.request.refuse(why, cx);
        }
    }

    pub(crate) fn abandon(&mut self, key: ClientKey, ticket: u64, cx: &mut Surroundings<'_>) {
        match self.held.get_mut(&key) {
            Some(Held::Claiming(claiming)) if claiming.request.ticket == ticket => {
                self.held.remove(&key);
                self.claims -= 1;
            }
            Some(Held::Serving(service)) => {
                service.abandon(ticket);
                service.go_on(cx);
            }
            _ => {}
        }
    }

    /// Does what has come due.
    pub(crate) fn advance(&mut self, cx: &mut Surroundings<'_>) {
        let claims: Vec<_> =
            self.held.iter().filter_map(|(key, held)| matches!(held, Held::Claiming(_)).then_some(*key)).collect();
        for key in claims {
            if let Some(Held::Claiming(claiming)) = self.held.get_mut(&key) {
                let outcome = claiming.advance(cx);
                self.take_outcome(key, outcome, cx);
            }
        }
    }

    /// The lease holds again.
    pub(crate) fn resume(&mut self, cx: &mut Surroundings<'_>) {
        for held in self.held.values_mut() {
            if let Held::Serving(service) = held {
                service.resume(cx);
            }
        }
    }

    pub(crate) fn answer(&mut self, key: ClientKey, id: OperationId, answer: &Answer, cx: &mut Surroundings<'_>) {
        match self.held.get_mut(&key) {
            Some(Held::Claiming(claiming)) => {
                let outcome = claiming.answer(id, answer, cx);
                self.take_outcome(key, outcome, cx);
            }
            Some(Held::Serving(service)) => {
                let standing = service.answer(id, answer, cx);
                self.take_standing(key, standing, cx);
            }
            None => {}
        }
    }

    fn take_outcome(&mut self, key: ClientKey, outcome: Outcome, cx: &mut Surroundings<'_>) {
        match outcome {
            Outcome::Open => {}
            Outcome::Refused(why) => self.end_claim(key, why, cx),
            Outcome::Made { record, revision, is_present } => {
                if let Some(Held::Claiming(claiming)) = self.held.remove(&key) {
                    self.claims -= 1;
                    let service = Service::begin(key, claiming.request.ticket, record, revision, is_present, cx);
                    self.held.insert(key, Held::Serving(Box::new(service)));
                }
            }
        }
    }

    fn take_standing(&mut self, key: ClientKey, standing: Standing, cx: &mut Surroundings<'_>) {
        if standing == Standing::Goes {
            return self.go_on(key, cx);
        }
        let Some(Held::Serving(service)) = self.held.remove(&key) else { return };
        if service.is_open() {
            cx.out.decide(Decision::Lost(key));
        }
        if let Some(request) = service.next {
            self.begin_claim(key, request, cx);
        }
    }

    fn go_on(&mut self, key: ClientKey, cx: &mut Surroundings<'_>) {
        if let Some(Held::Serving(service)) = self.held.get_mut(&key) {
            service.go_on(cx);
        }
    }

    /// The service whose connection the engine has, and what follows from it.
    fn with_open(
        &mut self,
        key: ClientKey,
        cx: &mut Surroundings<'_>,
        act: impl FnOnce(&mut Service, &mut Surroundings<'_>),
    ) {
        if let Some(Held::Serving(service)) = self.held.get_mut(&key)
            && service.is_open()
        {
            act(service, cx);
            service.go_on(cx);
        }
    }

    pub(crate) fn publish(
        &mut self,
        key: ClientKey,
        partition: Partition,
        ticket: u64,
        packet_id: Option<NonZeroU16>,
        message: &[u8],
        cx: &mut Surroundings<'_>,
    ) {
        self.with_open(key, cx, |service, cx| match packet_id {
            None => service.publish(partition, ticket, message, cx),
            Some(packet_id) => service.publish_once(packet_id, partition, ticket, message, cx),
        });
    }

    pub(crate) fn release(&mut self, key: ClientKey, packet_id: NonZeroU16, cx: &mut Surroundings<'_>) {
        self.with_open(key, cx, |service, cx| service.release(packet_id, cx));
    }

    pub(crate) fn save(&mut self, key: ClientKey, number: u64, state: Vec<u8>, cx: &mut Surroundings<'_>) {
        self.with_open(key, cx, |service, cx| service.save(number, state, cx));
    }

    pub(crate) fn leave(&mut self, key: ClientKey, state: Vec<u8>, cx: &mut Surroundings<'_>) {
        self.with_open(key, cx, |service, _| service.leave(state));
    }

    /// These messages are in the log, and with them all QoS 2 messages of the partition up to an ordinal.
    pub(crate) fn stored(&mut self, partition: Partition, ordinal: u64, origins: &[Origin], cx: &mut Surroundings<'_>) {
        for origin in origins {
            if let Some(Held::Serving(service)) = self.held.get_mut(&origin.client)
                && service.epoch() == origin.epoch
            {
                service.settle(partition, ordinal);
                service.stored(origin.ticket, true, cx);
                service.go_on(cx);
            }
        }
    }

    /// Another node asks for a session.
    pub(crate) fn wanted(&mut self, key: ClientKey, by: Incarnation, epoch: u64, cx: &mut Surroundings<'_>) {
        match self.held.get_mut(&key) {
            Some(Held::Serving(service)) => {
                service.give_up(by, epoch, cx);
                self.go_on(key, cx);
            }
            Some(Held::Claiming(claiming)) => {
                // The other one has seen a claim of this node that this node does not know to be made.
                if claiming.epoch_written().is_some_and(|written| written <= epoch) {
                    self.end_claim(key, Refusal::TakenOver, cx);
                }
                say_released(key, by, epoch, cx);
            }
            None => say_released(key, by, epoch, cx),
        }
    }

    /// Another node has released a session.
    pub(crate) fn released(&mut self, key: ClientKey, by: Incarnation, epoch: u64, cx: &mut Surroundings<'_>) {
        if let Some(Held::Claiming(claiming)) = self.held.get_mut(&key) {
            claiming.released(by, epoch, cx);
        }
    }
}

fn say_released(key: ClientKey, to: Incarnation, epoch: u64, cx: &mut Surroundings<'_>) {
    if to != cx.me {
        cx.out.send(to, PeerMessage { from: cx.me, client: key, epoch, kind: PeerMessageKind::Released });
    }
}
