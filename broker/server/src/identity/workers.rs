//! Threads that find out who clients are, where that takes long. Hashes, signatures and what waits for a network have queues and threads of
//! their own, so that none holds up another. Each queue is in the order of arrival, and has no timeout of its own: the engine sees by
//! [`AuthProgress`] whether the queues move.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::time::since_epoch;
use tautwire_engine::AuthProgress;
use tautwire_identity::{AuthStep, AuthWork, HttpClient, Now, Refusal, RefusalCode, WorkKind};

/// How many threads there are, and how many attempts wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerLimits {
    /// Threads that compute hashes; each takes the memory of a hash while it does. There are as many for signatures.
    pub(crate) computing_threads: usize,
    /// Threads that wait for hooks and keys.
    pub(crate) waiting_threads: usize,
    /// Attempts that wait for a thread of a kind. Further ones are refused.
    pub(crate) queue: usize,
}

impl Default for WorkerLimits {
    fn default() -> WorkerLimits {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        WorkerLimits { computing_threads: (cores / 2).clamp(1, 8), waiting_threads: 16, queue: 100_000 }
    }
}

/// What has happened since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WorkerCounters {
    /// Parts of attempts that a thread has done.
    pub(crate) done: u64,
    /// Attempts refused because too many waited.
    pub(crate) refused: u64,
    /// Attempts whose clients were gone before a thread had time for them.
    pub(crate) abandoned: u64,
}

/// The time as chains count it. Whoever asks one chain has one clock.
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

/// Who is told what becomes of an attempt, on a thread of the pool, or at once.
pub(crate) trait AuthCallback: Send {
    /// Whether anybody still wants to know. Otherwise the attempt is dropped.
    fn is_wanted(&self) -> bool {
        true
    }

    fn complete(self: Box<Self>, step: AuthStep);
}

impl<F: FnOnce(AuthStep) + Send> AuthCallback for F {
    fn complete(self: Box<Self>, step: AuthStep) {
        self(step);
    }
}

/// The threads. They end when this is dropped and their work is done.
pub(crate) struct Workers(Arc<Shared>);

struct Shared {
    limits: WorkerLimits,
    outside: Box<dyn HttpClient + Send + Sync>,
    clock: Clock,
    hashes: Queue,
    signatures: Queue,
    network: Queue,
    tally: Arc<WorkerTally>,
}

/// What threads count, those of later limits too.
#[derive(Debug, Default)]
pub(crate) struct WorkerTally {
    progress: Arc<AuthProgress>,
    refused: AtomicU64,
    abandoned: AtomicU64,
}

impl WorkerTally {
    /// Counts the parts of attempts that have been done.
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
        outside: Box<dyn HttpClient + Send + Sync>,
        tally: Arc<WorkerTally>,
    ) -> io::Result<Workers> {
        let workers = Workers(Arc::new(Shared {
            limits,
            outside,
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

    /// Has a thread do it, and all that follows, and tells what becomes of the attempt: who it is, a refusal, or a challenge. Does
    /// not block.
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
            if !callback.is_wanted() {
                self.tally.abandoned.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.go_on(work, callback);
        }
    }

    fn go_on(&self, mut work: AuthWork, mut callback: Box<dyn AuthCallback>) {
        loop {
            let step = work.run(&*self.outside, self.clock.now());
            self.tally.progress.note();
            let more = match step {
                AuthStep::AuthWork(more) => more,
                step => return callback.complete(step),
            };
            match self.queue(more.kind()).push(more, callback, self.limits.queue) {
                Ok(()) => return,
                // The threads are being ended, and there may be nobody else to go on.
                Err(RejectedWork { is_closed: true, work: more, callback: then }) => (work, callback) = (more, then),
                Err(RejectedWork { callback, .. }) => return self.refuse(callback),
            }
        }
    }

    fn refuse(&self, callback: Box<dyn AuthCallback>) {
        self.tally.refused.fetch_add(1, Ordering::Relaxed);
        callback.complete(busy("too many attempts wait for a thread"));
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

/// An attempt for which there is no place.
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

    /// The next; waits for it. `None` when there will be none.
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

/// Lets the threads that serve clients go first. Where the system does not let it, hashes have their share of the processors.
fn lower_priority() {
    const NICENESS: i32 = 10;
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        log::debug!("a thread for hashes runs at the priority of all others: {error}");
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

    /// `dave` with the password `password`.
    const USERS: &str = "dave:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    const LIMITS: WorkerLimits = WorkerLimits { computing_threads: 1, waiting_threads: 1, queue: 1 };

    /// Answers when it is told to.
    struct Gate(Mutex<mpsc::Receiver<&'static str>>, Mutex<mpsc::Sender<()>>);

    impl HttpClient for Gate {
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

    fn telling(sender: &mpsc::Sender<Outcome>) -> impl FnOnce(AuthStep) + Send + 'static {
        let sender = sender.clone();
        move |step| {
            let outcome = match step {
                AuthStep::Admit { principal, .. } => Ok(principal.user),
                AuthStep::Refuse(refusal) => Err(refusal.code),
                other => panic!("{other:?}"),
            };
            // The test may be over.
            let _ = sender.send(outcome);
        }
    }

    fn next(outcomes: &mpsc::Receiver<Outcome>) -> Outcome {
        outcomes.recv_timeout(Duration::from_secs(60)).expect("an outcome")
    }

    #[test]
    fn an_attempt_goes_from_thread_to_thread_and_too_many_are_refused() {
        let ((answer, answers), (asked, questions)) = (mpsc::channel(), mpsc::channel());
        let gate = Gate(Mutex::new(answers), Mutex::new(asked));
        let tally = Arc::new(WorkerTally::default());
        let workers = Workers::start(LIMITS, Clock::start(), Box::new(gate), tally.clone()).expect("threads");
        let (chain, (complete, outcomes)) = (chain(), mpsc::channel());
        workers.submit(work(&chain, "dave"), telling(&complete));
        questions.recv_timeout(Duration::from_secs(60)).expect("a question");
        // One is on its way, one waits, and a third does not find room.
        workers.submit(work(&chain, "mallory"), telling(&complete));
        workers.submit(work(&chain, "dave"), telling(&complete));
        assert_eq!(next(&outcomes), Err(RefusalCode::Busy));
        answer.send(r#"{"result":"ignore"}"#).expect("a hook");
        assert_eq!(next(&outcomes), Ok(Some("dave".into())));
        questions.recv_timeout(Duration::from_secs(60)).expect("a question");
        answer.send(r#"{"result":"deny"}"#).expect("a hook");
        assert_eq!(next(&outcomes), Err(RefusalCode::HookDenied));
        // The hook twice, a hash once.
        assert_eq!(tally.counters(), WorkerCounters { done: 3, refused: 1, ..WorkerCounters::default() });
    }

    #[test]
    fn threads_that_are_ended_finish_what_they_have() {
        let ((answer, answers), (asked, questions)) = (mpsc::channel(), mpsc::channel());
        let gate = Gate(Mutex::new(answers), Mutex::new(asked));
        let tally = Arc::new(WorkerTally::default());
        let workers = Workers::start(LIMITS, Clock::start(), Box::new(gate), tally.clone()).expect("threads");
        let (complete, outcomes) = mpsc::channel();
        workers.submit(work(&chain(), "dave"), telling(&complete));
        questions.recv_timeout(Duration::from_secs(60)).expect("a question");
        drop(workers);
        answer.send(r#"{"result":"ignore"}"#).expect("a hook");
        // The hash is computed, too.
        assert_eq!(next(&outcomes), Ok(Some("dave".into())));
        assert_eq!(tally.counters(), WorkerCounters { done: 2, ..WorkerCounters::default() });
    }

    struct Gone(mpsc::Sender<Outcome>);

    impl AuthCallback for Gone {
        fn is_wanted(&self) -> bool {
            false
        }

        fn complete(self: Box<Self>, step: AuthStep) {
            telling(&self.0)(step);
        }
    }

    #[test]
    fn no_work_runs_for_a_disconnected_client() {
        let (limits, tally) = (WorkerLimits { queue: 2, ..LIMITS }, Arc::new(WorkerTally::default()));
        let workers = Workers::start(limits, Clock::start(), Box::new(()), tally.clone()).expect("threads");
        let (complete, outcomes) = mpsc::channel();
        workers.submit(work(&chain_of_users(), "dave"), Gone(complete.clone()));
        workers.submit(work(&chain_of_users(), "dave"), telling(&complete));
        assert_eq!(next(&outcomes), Ok(Some("dave".into())), "the first one is told nothing");
        assert!(outcomes.try_recv().is_err());
        assert_eq!(tally.counters(), WorkerCounters { done: 1, abandoned: 1, ..WorkerCounters::default() });
    }

    const SECRET: &str = "a secret that is long enough for HS256";
    /// By HS256 with that secret, for `carol`, without an end.
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
        // The only thread for hashes is busy for as long as the test wants.
        let (end, ended) = mpsc::channel::<()>();
        let held = work(&chain, "dave");
        let begun = Arc::new(std::sync::Barrier::new(2));
        workers.submit(held, Holding(begun.clone(), Mutex::new(ended), telling_boxed(&complete)));
        begun.wait();
        for _ in 0..50 {
            workers.submit(work(&chain, "dave"), telling(&complete));
        }
        workers.submit(work_with(&chain, "carol", Secret::new(TOKEN)), telling(&complete));
        assert_eq!(next(&outcomes), Ok(Some("carol".into())));
        end.send(()).expect("the thread waits");
        for _ in 0..51 {
            assert_eq!(next(&outcomes), Ok(Some("dave".into())), "nobody is refused");
        }
        assert_eq!(tally.counters(), WorkerCounters { done: 52, ..WorkerCounters::default() });
    }

    /// Keeps its thread until it is told to go on.
    struct Holding(Arc<std::sync::Barrier>, Mutex<mpsc::Receiver<()>>, Box<dyn FnOnce(AuthStep) + Send>);

    impl AuthCallback for Holding {
        fn complete(self: Box<Self>, step: AuthStep) {
            self.0.wait();
            self.1.lock().expect("a lock").recv().expect("an end");
            (self.2)(step);
        }
    }

    fn telling_boxed(sender: &mpsc::Sender<Outcome>) -> Box<dyn FnOnce(AuthStep) + Send> {
        Box::new(telling(sender))
    }

    #[test]
    fn the_clock_shows_the_time() {
        assert!(Clock::start().now().unix_s > 1_700_000_000);
    }
}
