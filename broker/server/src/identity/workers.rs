//! Worker threads for slow authentication steps. Hashes, signatures and network requests have separate queues and threads, so that none
//! delays another. Queues are FIFO and have no timeouts of their own: the engine watches by [`AuthProgress`] whether they advance.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::time::since_epoch;
use tautwire_engine::AuthProgress;
use tautwire_identity::{AuthStep, AuthWork, HttpClient, Now, Refusal, RefusalCode, WorkKind};

/// The number of threads, and the length of their queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerLimits {
    /// Threads that compute hashes, each with the memory of a hash. The same number verifies signatures.
    pub(crate) computing_threads: usize,
    /// Threads for requests to hooks and key URLs.
    pub(crate) waiting_threads: usize,
    /// Longest queue for threads of one kind. Further attempts are refused.
    pub(crate) queue: usize,
}

impl Default for WorkerLimits {
    fn default() -> WorkerLimits {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        WorkerLimits { computing_threads: (cores / 2).clamp(1, 8), waiting_threads: 16, queue: 100_000 }
    }
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WorkerCounters {
    /// Steps completed by a thread.
    pub(crate) done: u64,
    /// Attempts refused because a queue was full.
    pub(crate) refused: u64,
    /// Attempts whose clients disconnected before a thread was free.
    pub(crate) abandoned: u64,
}

/// The clock of authentication chains. All users of a chain share one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(crate) fn now(self) -> Now {
        let unix_s = since_epoch().as_secs();
        let steady_ms = self.0.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        Now { unix_s, steady_ms }
    }
}

/// Receives the outcome of an attempt, on a worker thread or immediately.
pub(crate) trait AuthCallback: Send {
    /// Whether the outcome is still needed. If not, the attempt is dropped.
    fn is_connected(&self) -> bool {
        true
    }

    fn complete(self: Box<Self>, step: AuthStep);
}

impl<F: FnOnce(AuthStep) + Send> AuthCallback for F {
    fn complete(self: Box<Self>, step: AuthStep) {
        self(step);
    }
}

/// The worker threads. After a drop they complete their queues and end.
pub(crate) struct Workers(Arc<Shared>);

struct Shared {
    limits: WorkerLimits,
    http_client: Box<dyn HttpClient + Send + Sync>,
    clock: Clock,
    hashes: Queue,
    signatures: Queue,
    network: Queue,
    tally: Arc<WorkerTally>,
}

/// Counters that persist when the threads are replaced.
#[derive(Debug, Default)]
pub(crate) struct WorkerTally {
    progress: Arc<AuthProgress>,
    refused: AtomicU64,
    abandoned: AtomicU64,
}

impl WorkerTally {
    /// The number of completed steps.
    pub(crate) fn progress(&self) -> &Arc<AuthProgress> {
        &self.progress
    }

    pub(crate) fn counters(&self) -> WorkerCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerCounters { done: self.progress.count(), refused: read(&self.refused), abandoned: read(&self.abandoned) }
    }
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    arrived: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<(AuthWork, Box<dyn AuthCallback>)>,
    is_closed: bool,
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        limits: WorkerLimits,
        clock: Clock,
        http_client: Box<dyn HttpClient + Send + Sync>,
        tally: Arc<WorkerTally>,
    ) -> io::Result<Workers> {
        let workers = Workers(Arc::new(Shared {
            limits,
            http_client,
            clock,
            hashes: Queue::default(),
            signatures: Queue::default(),
            network: Queue::default(),
            tally,
        }));
        for (count, kind, name) in [
            (limits.computing_threads, WorkKind::Hash, "auth-hash"),
            (limits.computing_threads, WorkKind::Signature, "auth-sign"),
            (limits.waiting_threads, WorkKind::Network, "auth-wait"),
        ] {
            for _ in 0..count {
                let shared = workers.0.clone();
                thread::Builder::new().name(name.to_owned()).spawn(move || shared.run(kind))?;
            }
        }
        Ok(workers)
    }

    /// Runs the work and its follow-up steps on worker threads, and calls back with the outcome: an identity, a refusal, or a challenge.
    /// Does not block.
    pub(crate) fn submit(&self, work: AuthWork, callback: impl AuthCallback + 'static) {
        self.0.submit(work, Box::new(callback));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for queue in [&self.0.hashes, &self.0.signatures, &self.0.network] {
            queue.locked().is_closed = true;
            queue.arrived.notify_all();
        }
    }
}

impl Shared {
    fn run(&self, kind: WorkKind) {
        if kind == WorkKind::Hash {
            lower_priority();
        }
        while let Some((work, callback)) = self.queue(kind).next() {
            if !callback.is_connected() {
                self.tally.abandoned.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.run_steps(work, callback);
        }
    }

    fn run_steps(&self, mut work: AuthWork, mut callback: Box<dyn AuthCallback>) {
        loop {
            let step = work.run(&*self.http_client, self.clock.now());
            self.tally.progress.note();
            let more = match step {
                AuthStep::AuthWork(more) => more,
                step => return callback.complete(step),
            };
            match self.queue(more.kind()).push(more, callback, self.limits.queue) {
                Ok(()) => return,
                // The threads are ending, so continue on this one.
                Err(RejectedWork { is_closed: true, work: more, callback: then }) => (work, callback) = (more, then),
                Err(RejectedWork { callback, .. }) => return self.refuse(callback),
            }
        }
    }

    fn refuse(&self, callback: Box<dyn AuthCallback>) {
        self.tally.refused.fetch_add(1, Ordering::Relaxed);
        callback.complete(busy("the authentication queue is full"));
    }

    fn submit(&self, work: AuthWork, callback: Box<dyn AuthCallback>) {
        if let Err(RejectedWork { callback, .. }) = self.queue(work.kind()).push(work, callback, self.limits.queue) {
            self.refuse(callback);
        }
    }

    fn queue(&self, kind: WorkKind) -> &Queue {
        match kind {
            WorkKind::Hash => &self.hashes,
            WorkKind::Signature => &self.signatures,
            WorkKind::Network => &self.network,
        }
    }
}

/// An attempt that does not fit into the queue.
struct RejectedWork {
    is_closed: bool,
    work: AuthWork,
    callback: Box<dyn AuthCallback>,
}

impl Queue {
    fn push(&self, work: AuthWork, callback: Box<dyn AuthCallback>, max: usize) -> Result<(), RejectedWork> {
        let mut state = self.locked();
        if state.is_closed || state.waiting.len() >= max {
            return Err(RejectedWork { is_closed: state.is_closed, work, callback });
        }
        state.waiting.push_back((work, callback));
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for the next attempt. `None` after the queue is closed.
    fn next(&self) -> Option<(AuthWork, Box<dyn AuthCallback>)> {
        let mut state = self.locked();
        loop {
            if let Some(next) = state.waiting.pop_front() {
                return Some(next);
            }
            if state.is_closed {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn locked(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lowers the priority below that of the threads that serve clients. If the system denies it, hashes compete with them.
fn lower_priority() {
    const NICENESS: i32 = 10;
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        log::debug!("cannot lower the priority of a hash thread: {error}");
    }
}

fn busy(why: &'static str) -> AuthStep {
    AuthStep::Refuse(Refusal::new(RefusalCode::Busy, why))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tautwire_identity::{
        Algorithm, AuthAttempt, AuthBackend, Chain, ClientOrigin, Hook, HookSettings, HttpRequest, HttpRequestError,
        HttpResponse, Jwt, JwtSettings, KeySet, Keys, PasswordFile, Secret, Settings,
    };

    use super::*;

    /// User `dave` with the password `password`.
    const USERS: &str = "dave:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    const LIMITS: WorkerLimits = WorkerLimits { computing_threads: 1, waiting_threads: 1, queue: 1 };

    /// A hook that responds when the test sends the response.
    struct ScriptedHook(Mutex<mpsc::Receiver<&'static str>>, Mutex<mpsc::Sender<()>>);

    impl HttpClient for ScriptedHook {
        fn request(&self, _: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
            self.1.lock().expect("a lock").send(()).expect("a test");
            let body = self.0.lock().expect("a lock").recv().expect("an answer");
            Ok(HttpResponse::new(200, body))
        }
    }

    fn work(chain: &Arc<Chain>, user: &str) -> AuthWork {
        work_with(chain, user, Secret::new("password"))
    }

    fn work_with(chain: &Arc<Chain>, user: &str, password: Secret) -> AuthWork {
        let origin = ClientOrigin {
            listener: "tcp".into(),
            address: None,
            is_encrypted: false,
            certificate: None,
            peer_uid: None,
        };
        let attempt = AuthAttempt {
            origin: Arc::new(origin),
            client_id: "c".into(),
            user_name: Some(user.into()),
            password: Some(password),
            method: None,
            data: None,
            is_v5: true,
        };
        match chain.begin(attempt, Now::default(), &mut |_| Ok(())) {
            AuthStep::AuthWork(work) => work,
            other => panic!("{other:?}"),
        }
    }

    fn chain() -> Arc<Chain> {
        let hook = Hook::new(HookSettings { negative_s: 0, ..HookSettings::new("https://hook/") }, &[0; 32]);
        chain_with(Some(AuthBackend::Hook(Arc::new(hook.expect("settings")))))
    }

    fn chain_of_users() -> Arc<Chain> {
        chain_with(None)
    }

    fn chain_with(first: Option<AuthBackend>) -> Arc<Chain> {
        let file = PasswordFile::parse("users", USERS).expect("a file");
        let links = first.into_iter().chain([AuthBackend::PasswordFile(Arc::new(file))]).collect();
        let settings =
            Settings { allows_plain_passwords: false, key: [0; 32], bans: Arc::default(), verified: Arc::default() };
        Arc::new(Chain::new(links, settings).expect("a chain"))
    }

    type Outcome = Result<Option<Arc<str>>, RefusalCode>;

    fn send_outcome(sender: &mpsc::Sender<Outcome>) -> impl FnOnce(AuthStep) + Send + 'static {
        let sender = sender.clone();
        move |step| {
            let outcome = match step {
                AuthStep::Admit { principal, .. } => Ok(principal.user),
                AuthStep::Refuse(refusal) => Err(refusal.code),
                other => panic!("{other:?}"),
            };
            // The test may have ended.
            let _ = sender.send(outcome);
        }
    }

    fn next(outcomes: &mpsc::Receiver<Outcome>) -> Outcome {
        outcomes.recv_timeout(Duration::from_secs(60)).expect("an outcome")
    }

    #[test]
    fn requests_move_between_threads_and_too_many_are_refused() {
        let ((answer, answers), (requested, requests)) = (mpsc::channel(), mpsc::channel());
        let hook = ScriptedHook(Mutex::new(answers), Mutex::new(requested));
        let tally = Arc::new(WorkerTally::default());
        let workers = Workers::start(LIMITS, Clock::start(), Box::new(hook), tally.clone()).expect("threads");
        let (chain, (complete, outcomes)) = (chain(), mpsc::channel());
        workers.submit(work(&chain, "dave"), send_outcome(&complete));
        requests.recv_timeout(Duration::from_secs(60)).expect("a request");
        // One is running, one is queued, and the third is refused.
        workers.submit(work(&chain, "mallory"), send_outcome(&complete));
        workers.submit(work(&chain, "dave"), send_outcome(&complete));
        assert_eq!(next(&outcomes), Err(RefusalCode::Busy));
        answer.send(r#"{"result":"ignore"}"#).expect("a hook");
        assert_eq!(next(&outcomes), Ok(Some("dave".into())));
        requests.recv_timeout(Duration::from_secs(60)).expect("a request");
        answer.send(r#"{"result":"deny"}"#).expect("a hook");
        assert_eq!(next(&outcomes), Err(RefusalCode::HookDenied));
        // The hook twice, a hash once.
        assert_eq!(tally.counters(), WorkerCounters { done: 3, refused: 1, ..WorkerCounters::default() });
    }

    #[test]
    fn stopping_threads_finish_their_work() {
        let ((answer, answers), (requested, requests)) = (mpsc::channel(), mpsc::channel());
        let hook = ScriptedHook(Mutex::new(answers), Mutex::new(requested));
        let tally = Arc::new(WorkerTally::default());
        let workers = Workers::start(LIMITS, Clock::start(), Box::new(hook), tally.clone()).expect("threads");
        let (complete, outcomes) = mpsc::channel();
        workers.submit(work(&chain(), "dave"), send_outcome(&complete));
        requests.recv_timeout(Duration::from_secs(60)).expect("a request");
        drop(workers);
        answer.send(r#"{"result":"ignore"}"#).expect("a hook");
        // The hash is computed as well.
        assert_eq!(next(&outcomes), Ok(Some("dave".into())));
        assert_eq!(tally.counters(), WorkerCounters { done: 2, ..WorkerCounters::default() });
    }

    struct DisconnectedClient(mpsc::Sender<Outcome>);

    impl AuthCallback for DisconnectedClient {
        fn is_connected(&self) -> bool {
            false
        }

        fn complete(self: Box<Self>, step: AuthStep) {
            send_outcome(&self.0)(step);
        }
    }

    #[test]
    fn no_work_runs_for_a_disconnected_client() {
        let (limits, tally) = (WorkerLimits { queue: 2, ..LIMITS }, Arc::new(WorkerTally::default()));
        let workers = Workers::start(limits, Clock::start(), Box::new(()), tally.clone()).expect("threads");
        let (complete, outcomes) = mpsc::channel();
        workers.submit(work(&chain_of_users(), "dave"), DisconnectedClient(complete.clone()));
        workers.submit(work(&chain_of_users(), "dave"), send_outcome(&complete));
        assert_eq!(next(&outcomes), Ok(Some("dave".into())), "the first one gets no outcome");
        assert!(outcomes.try_recv().is_err());
        assert_eq!(tally.counters(), WorkerCounters { done: 1, abandoned: 1, ..WorkerCounters::default() });
    }

    const SECRET: &str = "a secret that is long enough for HS256";
    /// An HS256 token with that secret for `carol`, without an expiry.
    const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYXJvbCJ9.GXx8ZiFeFCC7oOUbgmnVNfE65zEw1lfXIdR8iLcjL8s";

    fn tokens() -> AuthBackend {
        let keys = Keys::Fixed(Arc::new(KeySet::of_secret(Secret::new(SECRET)).expect("a key")));
        let settings =
            JwtSettings { algorithms: vec![Algorithm::Hs256], needs_expiry: false, ..JwtSettings::default() };
        AuthBackend::Jwt(Arc::new(Jwt::new(settings, keys).expect("settings")))
    }

    #[test]
    fn a_signature_does_not_wait_behind_hashes() {
        let (limits, tally) = (WorkerLimits { queue: 100, ..LIMITS }, Arc::new(WorkerTally::default()));
        let workers = Workers::start(limits, Clock::start(), Box::new(()), tally.clone()).expect("threads");
        let chain = chain_with(Some(tokens()));
        let (complete, outcomes) = mpsc::channel();
        // Blocks the only hash thread until the test ends it.
        let (end, ended) = mpsc::channel::<()>();
        let blocked = work(&chain, "dave");
        let started = Arc::new(std::sync::Barrier::new(2));
        workers.submit(blocked, BlockingCallback(started.clone(), Mutex::new(ended), send_outcome_boxed(&complete)));
        started.wait();
        for _ in 0..50 {
            workers.submit(work(&chain, "dave"), send_outcome(&complete));
        }
        workers.submit(work_with(&chain, "carol", Secret::new(TOKEN)), send_outcome(&complete));
        assert_eq!(next(&outcomes), Ok(Some("carol".into())));
        end.send(()).expect("the thread is blocked");
        for _ in 0..51 {
            assert_eq!(next(&outcomes), Ok(Some("dave".into())), "no client is refused");
        }
        assert_eq!(tally.counters(), WorkerCounters { done: 52, ..WorkerCounters::default() });
    }

    /// Blocks its thread until released.
    struct BlockingCallback(Arc<std::sync::Barrier>, Mutex<mpsc::Receiver<()>>, Box<dyn FnOnce(AuthStep) + Send>);

    impl AuthCallback for BlockingCallback {
        fn complete(self: Box<Self>, step: AuthStep) {
            self.0.wait();
            self.1.lock().expect("a lock").recv().expect("an end");
            (self.2)(step);
        }
    }

    fn send_outcome_boxed(sender: &mpsc::Sender<Outcome>) -> Box<dyn FnOnce(AuthStep) + Send> {
        Box::new(send_outcome(sender))
    }

    #[test]
    fn the_clock_shows_the_time() {
        assert!(Clock::start().now().unix_s > 1_700_000_000);
    }
}
