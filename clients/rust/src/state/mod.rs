//! The state that the application's handles and the driver share. It is independent of any runtime: waiters leave a waker.
//!
//! One lock protects the machine and the routes. It is held while the bytes of one read are handled, never while waiting (except for the
//! last sync of a store); wakers are called after it is released. A stream has a lock of its own, which may be taken while the first is
//! held, but not the other way round.

mod completion;
mod counters;
mod events;
mod handle;
mod requester;
mod responder;
mod routes;
mod status;
mod stream;
mod subscribing;
mod subscription;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tautwire_protocol::{DisconnectReason, Property, PropertyContext, PubAckReason};

pub use completion::Publishing;
pub use counters::Counters;
pub use events::Events;
pub(crate) use handle::Handle;
pub use handle::Unsubscribing;
pub use requester::Requester;
pub use responder::{Response, ResponseFailure};
pub(crate) use responder::{StopSignal, answer, caught};
pub(crate) use routes::{Routes, Tag};
pub(crate) use status::StatusTracker;
pub use status::{ConnectionEvent, Status};
pub use subscribing::Subscribing;
pub use subscription::Subscription;

use crate::duration::millis;
use crate::machine::{AckToken, AuthCall, Machine};
use crate::options::CredentialsSource;
use crate::properties::PropertyBlock;
use crate::store::StoreWatch;
use crate::sync::{add_waker, lock};
use crate::{Credentials, Error, Options};

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Held while an authenticator that may wait is called; taken before the state.
    asking: Mutex<()>,
    began: Instant,
    store: Option<StoreWatch>,
}

pub(crate) struct State {
    machine: Machine<Tag>,
    routes: Routes,
    /// Set while the driver sleeps.
    driver: Option<Waker>,
    /// The wakers of publishers that wait for room.
    room: Vec<Waker>,
    stop: Stop,
    reading: bool,
    /// The socket accepts no more bytes for now.
    is_blocked: bool,
    /// The properties of our DISCONNECT.
    farewell: PropertyBlock,
}

/// Whether the client is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    No,
    /// When everything is acknowledged, or at this time.
    By(u64),
    /// DISCONNECT is in the output.
    Left,
}

/// The next work of the driver.
pub(crate) struct Turn {
    /// The bytes to write.
    pub(crate) output: Vec<u8>,
    /// Whether to read from the socket.
    pub(crate) is_reading: bool,
    /// When to run again, if nothing happens before.
    pub(crate) deadline_ms: Option<u64>,
    /// The output contains DISCONNECT.
    pub(crate) is_leaving: bool,
    /// The store position that must be on disk before the output is sent.
    pub(crate) depends_on: Option<u64>,
}

/// What the driver needs to know while it cannot write.
pub(crate) struct Watch {
    pub(crate) is_reading: bool,
    pub(crate) deadline_ms: Option<u64>,
    /// The time limit for a clean end has passed.
    pub(crate) is_over: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("status", self.routes.board.status()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(options: Options) -> Arc<Shared> {
        let routes = Routes::new(&options);
        let mut machine = Machine::new(options);
        machine.ask_outside();
        let store = machine.store();
        let state = State {
            machine,
            routes,
            driver: None,
            room: Vec::new(),
            stop: Stop::No,
            reading: true,
            is_blocked: false,
            farewell: PropertyBlock::new(PropertyContext::Disconnect),
        };
        Arc::new(Shared { state: Mutex::new(state), asking: Mutex::new(()), began: Instant::now(), store })
    }

    pub(crate) fn now_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }

    pub(crate) fn instant_of(&self, at_ms: u64) -> Instant {
        self.began + std::time::Duration::from_millis(at_ms)
    }

    /// Runs `action` on the state, then wakes the waiters. The driver is woken if it sleeps and has work.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        let mut state = lock(&self.state);
        let result = action(&mut state);
        state.settle_given_up();
        let woken = std::mem::take(&mut state.routes.delivery.woken);
        let driver = if state.has_work() { state.driver.take() } else { None };
        drop(state);
        for waker in woken {
            waker.wake();
        }
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    /// As [`Shared::with`], but does not wake the driver: the next `with` or [`Shared::flush`] wakes it.
    fn with_quietly<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        action(&mut lock(&self.state))
    }

    /// Wakes the driver if it sleeps and has work.
    pub(crate) fn flush(&self) {
        self.with(|_| ());
    }

    /// The next work of the driver. `spare` is an empty buffer for the next output.
    pub(crate) fn turn(&self, spare: Vec<u8>) -> Result<Turn, Error> {
        let now_ms = self.now_ms();
        self.with(|state| {
            // The driver is awake: it needs no waker.
            state.driver = None;
            state.is_blocked = false;
            let is_reading = state.update_reading();
            state.machine.on_time(now_ms, is_reading)?;
            state.leave_if_due(now_ms)?;
            let output = state.machine.take_output(spare, now_ms, &mut state.routes);
            if !output.is_empty() || state.routes.made_room {
                state.wake_room();
            }
            let stop_ms = if let Stop::By(at_ms) = state.stop { Some(at_ms) } else { None };
            let deadline_ms = state.machine.deadline_ms().into_iter().chain(stop_ms).min();
            let depends_on = if output.is_empty() { None } else { self.store_ticket() };
            Ok(Turn { output, is_reading, deadline_ms, is_leaving: state.stop == Stop::Left, depends_on })
        })
    }

    /// The store position that must be on disk before the current output is sent.
    pub(crate) fn store_ticket(&self) -> Option<u64> {
        self.store.as_ref().and_then(StoreWatch::ticket)
    }

    pub(crate) fn poll_stored(&self, ticket: u64, cx: &Context<'_>) -> Poll<Result<(), Error>> {
        self.store.as_ref().map_or(Poll::Ready(Ok(())), |store| store.poll_synced(ticket, cx))
    }

    /// The state while the socket accepts no bytes: whether to read, and when to run again.
    pub(crate) fn watch(&self) -> Result<Watch, Error> {
        let now_ms = self.now_ms();
        self.with(|state| {
            state.driver = None;
            state.is_blocked = true;
            let is_reading = state.update_reading();
            state.machine.on_time(now_ms, is_reading)?;
            let stop_ms = if let Stop::By(at_ms) = state.stop { Some(at_ms) } else { None };
            let deadline_ms = state.machine.deadline_ms().into_iter().chain(stop_ms).min();
            let is_over = stop_ms.is_some_and(|at_ms| now_ms >= at_ms);
            Ok(Watch { is_reading, deadline_ms, is_over })
        })
    }

    /// Whether the server has accepted the current connection.
    pub(crate) fn was_online(&self) -> bool {
        matches!(lock(&self.state).routes.board.status(), Status::Online { .. })
    }

    /// Handles bytes from the server.
    pub(crate) fn receive(&self, bytes: &[u8]) -> Result<(), Error> {
        let (mut received, mut auth_call) = self.with(|state| state.receive(bytes, self.now_ms()));
        while let Some(call) = auth_call {
            let guard = lock(&self.asking);
            let result = call.run();
            (received, auth_call) = self.with(|state| {
                state.machine.finish_auth_call(result);
                // The rest of the received bytes.
                state.receive(&[], self.now_ms())
            });
            drop(guard);
        }
        received
    }

    /// Calls an authenticator that may wait for the data of the next CONNECT.
    pub(crate) fn prepare_authentication(&self) {
        let _guard = lock(&self.asking);
        let auth_call = lock(&self.state).machine.auth_call_of_connect();
        if let Some(auth_call) = auth_call {
            let result = auth_call.run();
            lock(&self.state).machine.finish_auth_call(result);
        }
    }

    /// Starts a re-authentication.
    pub(crate) fn reauthenticate(&self, tag: Tag) -> Result<(), Error> {
        let _guard = lock(&self.asking);
        let auth_call = self.with(|state| state.machine.auth_call_of_reauthentication());
        let result = auth_call.map(AuthCall::run);
        self.with(|state| {
            let has_result = result.is_some();
            if let Some(result) = result {
                state.machine.finish_auth_call(result);
            }
            let begun = match state.closed() {
                Some(why) => Err(why),
                None => state.machine.reauthenticate(tag),
            };
            if has_result {
                state.machine.forget_answer();
            }
            begun
        })
    }

    /// A connection is open; CONNACK must arrive by `until_ms`.
    pub(crate) fn opened(&self, until_ms: u64) -> Result<(), Error> {
        let now_ms = self.now_ms();
        self.with(|state| state.machine.opened_by(now_ms, until_ms))
    }

    /// The last output after an error: a DISCONNECT with the reason.
    pub(crate) fn disconnect_output(&self) -> Vec<u8> {
        let now_ms = self.now_ms();
        self.with(|state| state.machine.take_output(Vec::new(), now_ms, &mut state.routes))
    }

    /// Registers the waker of the driver; returns false if there is work for it.
    pub(crate) fn sleep(&self, cx: &Context<'_>) -> bool {
        let mut state = lock(&self.state);
        if state.has_work() {
            return false;
        }
        state.driver = Some(cx.waker().clone());
        true
    }

    /// As [`Shared::sleep`], without a connection: only a request to stop is work.
    pub(crate) fn sleep_offline(&self, cx: &Context<'_>) -> bool {
        let mut state = lock(&self.state);
        if state.stop != Stop::No {
            return false;
        }
        state.driver = Some(cx.waker().clone());
        true
    }

    /// The connection was lost or could not be made; returns whether another attempt follows.
    pub(crate) fn lost(&self, error: &Error, may_try_again: bool) -> bool {
        self.with(|state| {
            let was_online = matches!(state.routes.board.status(), Status::Online { .. });
            state.machine.lost();
            let cut_short = state.machine.take_reauthentication();
            state.routes.fail_all(cut_short.into_iter().collect(), error);
            state.routes.delivery.counters.disconnections += 1;
            let again = may_try_again
                && state.stop == Stop::No
                && state.machine.options().reconnect.is_some()
                && !error.is_permanent();
            if again {
                let event = match was_online {
                    true => ConnectionEvent::Disconnected(error.clone()),
                    false => ConnectionEvent::AttemptFailed(error.clone()),
                };
                let woken = state.routes.board.set(Status::Offline(error.clone()), Some(event));
                state.routes.delivery.woken.extend(woken);
            } else {
                state.finish(error);
            }
            again
        })
    }

    /// The client has ended.
    pub(crate) fn finish(&self, why: &Error) {
        self.with(|state| state.finish(why));
    }

    pub(crate) fn set_connecting(&self) {
        self.with(|state| {
            let woken = state.routes.board.set(Status::Connecting, None);
            state.routes.delivery.woken.extend(woken);
        });
    }

    /// The credentials callback of the application, if any. It is called outside of the lock, and then returned.
    pub(crate) fn take_credentials_source(&self) -> Option<CredentialsSource> {
        lock(&self.state).machine.options_mut().credentials.take()
    }

    /// Returns the callback, with its result.
    pub(crate) fn set_credentials(&self, source: CredentialsSource, credentials: Option<Credentials>) {
        let mut state = lock(&self.state);
        state.machine.options_mut().credentials = Some(source);
        if let Some(credentials) = credentials {
            state.machine.set_credentials(credentials);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        lock(&self.state).stop != Stop::No
    }

    pub(crate) fn with_options<R>(&self, look: impl FnOnce(&Options) -> R) -> R {
        look(lock(&self.state).machine.options())
    }

    fn poll_room(
        &self,
        cx: &mut Context<'_>,
        action: impl FnOnce(&mut State) -> Result<Publishing, Error>,
    ) -> Poll<Result<Publishing, Error>> {
        self.with(|state| match action(state) {
            Err(error) if error.is_full() => {
                add_waker(&mut state.room, cx);
                Poll::Pending
            }
            done => Poll::Ready(done),
        })
    }
}

impl State {
    /// Also returns the authenticator call that is needed before the machine continues.
    fn receive(&mut self, bytes: &[u8], now_ms: u64) -> (Result<(), Error>, Option<Box<AuthCall>>) {
        let received = self.machine.receive(bytes, now_ms, &mut self.routes);
        if self.routes.made_room {
            self.wake_room();
        }
        (received, self.machine.take_auth_call())
    }

    fn has_work(&self) -> bool {
        let may_write = self.machine.has_output()
            || self.stop == Stop::Left
            || matches!(self.stop, Stop::By(_)) && (self.machine.is_settled() || !self.machine.is_open());
        may_write && !self.is_blocked || self.reading != self.wants_reading()
    }

    fn wants_reading(&self) -> bool {
        self.routes.delivery.holding_up == 0
            || self.machine.awaits_answer()
            || self.stop != Stop::No
            || !self.room.is_empty()
    }

    fn update_reading(&mut self) -> bool {
        let wants = self.wants_reading();
        if self.reading && !wants {
            self.routes.delivery.counters.reading_held_up += 1;
        }
        self.routes.delivery.is_forced = wants && self.routes.delivery.holding_up > 0;
        self.reading = wants;
        wants
    }

    fn wake_room(&mut self) {
        self.routes.made_room = false;
        self.routes.delivery.woken.append(&mut self.room);
    }

    /// Acknowledges messages that no stream will acknowledge.
    fn settle_given_up(&mut self) {
        while let Some(token) = self.routes.given_up.pop() {
            self.machine.acknowledge(token, PubAckReason::Success);
        }
    }

    fn acknowledge(&mut self, token: AckToken, reason: PubAckReason) {
        if self.routes.is_last_holder(token) {
            self.machine.acknowledge(token, reason);
        }
    }

    /// Sends DISCONNECT if everything before it is done.
    fn leave_if_due(&mut self, now_ms: u64) -> Result<(), Error> {
        let Stop::By(at_ms) = self.stop else { return Ok(()) };
        if !self.machine.is_open() {
            // The server has not accepted the client yet, so there is no DISCONNECT.
            self.stop = Stop::Left;
        } else if self.machine.is_settled() || now_ms >= at_ms {
            let options = self.machine.options();
            if options.version.is_v5() && !options.has_session_expiry && options.session_expiry_s > 0 {
                // The session will not be resumed. A property set by the application takes precedence.
                let _ = self.farewell.push(Property::SessionExpiryInterval(0));
            }
            self.machine.disconnect(DisconnectReason::NormalDisconnection, self.farewell.get())?;
            self.stop = Stop::Left;
        }
        Ok(())
    }

    /// Starts to end the client.
    fn begin_stop(&mut self, now_ms: u64) {
        if self.stop != Stop::No {
            return;
        }
        let patience_ms = millis(self.machine.options().disconnect_timeout);
        self.stop = Stop::By(now_ms.saturating_add(patience_ms));
        if !self.machine.is_open() && !matches!(self.routes.board.status(), Status::Connecting) {
            // There is no connection for a DISCONNECT.
            self.finish(&Error::Closed);
        }
        let driver = self.driver.take();
        self.routes.delivery.woken.extend(driver);
    }

    fn finish(&mut self, why: &Error) {
        if let Some(store) = self.machine.store() {
            // A caller that learns that the client has ended may open the file again.
            store.close();
        }
        let tags = self.machine.drain_tags();
        self.routes.fail_all(tags, why);
        self.routes.end(why);
        let event = ConnectionEvent::Ended(why.clone());
        let woken = self.routes.board.set(Status::Closed(why.clone()), Some(event));
        self.routes.delivery.woken.extend(woken);
        if self.stop == Stop::No {
            self.stop = Stop::Left;
        }
        self.wake_room();
    }

    fn closed(&self) -> Option<Error> {
        match self.routes.board.status() {
            Status::Closed(why) => Some(why.clone()),
            _ if self.stop != Stop::No => Some(Error::Closed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::handle::Handle;
    use super::*;
    use crate::Subscribe;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_acknowledgement_can_wait_for_the_next_packet() {
        let handle = Handle::new(Options::new("mqtt://127.0.0.1").expect("an address"));
        let shared = handle.shared();
        let turn = || shared.turn(Vec::new()).expect("no fault").output;
        shared.opened(u64::MAX).expect("CONNECT has room");
        turn();
        shared.receive(&[0x20, 3, 0, 0, 0]).expect("CONNACK");
        let subscribing = handle.subscribe(&Subscribe::to("t").qos(tautwire_protocol::QoS::AtLeastOnce)).expect("sent");
        let id = turn()[2..4].to_vec();
        shared.receive(&[0x90, 4, id[0], id[1], 0, 1]).expect("SUBACK");
        let mut stream = crate::blocking::block_on(subscribing, None).expect("answered").expect("granted");
        shared.receive(&[0x32, 6, 0, 1, b't', 0, 7, 0]).expect("PUBLISH");
        let message = crate::blocking::block_on(std::future::poll_fn(|cx| stream.poll_next(cx)), None).flatten();
        let token = message.and_then(|message| message.token()).expect("QoS 1");
        turn();

        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        assert!(shared.sleep(&Context::from_waker(&waker)));
        handle.acknowledge_with_next(token);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        handle.flush();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(turn(), [0x40, 2, 0, 7]);
        assert!(shared.sleep(&Context::from_waker(&waker)));
        handle.flush();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_partially_renewed_subscription_leaves_nothing_on_the_server() {
        let minute = std::time::Duration::from_secs(60);
        let options = Options::new("mqtt://127.0.0.1").expect("an address").client_id("one").persistent(minute);
        let handle = Handle::new(options);
        let shared = handle.shared();
        let turn = || shared.turn(Vec::new()).expect("no fault").output;
        // SUBSCRIBE is one for each filter when it is renewed.
        let ids_of = |sent: &[u8]| -> Vec<[u8; 2]> {
            let starts = (0..sent.len()).filter(|at| sent[*at] == 0x82);
            starts.map(|at| [sent[at + 2], sent[at + 3]]).collect()
        };
        let connect = || {
            shared.opened(u64::MAX).expect("CONNECT has room");
            turn();
            shared.receive(&[0x20, 3, 0, 0, 0]).expect("CONNACK");
        };
        connect();
        let subscribing = handle.subscribe(&Subscribe::to("a").and("b")).expect("sent");
        let sent = ids_of(&turn());
        assert_eq!(sent.len(), 1);
        shared.receive(&[0x90, 5, sent[0][0], sent[0][1], 0, 0, 0]).expect("SUBACK");
        let stream = crate::blocking::block_on(subscribing, None).expect("answered").expect("granted");
        assert_eq!(stream.granted().count(), 2);

        assert!(shared.lost(&Error::lost("cut"), true));
        connect();
        let renewed = ids_of(&turn());
        assert_eq!(renewed.len(), 2);
        shared.receive(&[0x90, 4, renewed[0][0], renewed[0][1], 0, 0x87]).expect("SUBACK");
        shared.receive(&[0x90, 4, renewed[1][0], renewed[1][1], 0, 0]).expect("SUBACK");
        assert!(matches!(stream.ended(), Some(Error::Refused { .. })), "{:?}", stream.ended());
        turn();
        drop(stream);
        let left = turn();
        assert_eq!((left[0], &left[5..]), (0xA2, &[0, 1, b'a', 0, 1, b'b'][..]), "{left:x?}");
    }
}
