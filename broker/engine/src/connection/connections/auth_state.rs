//! What is known of who a client is.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use tautwire_access::{Identity, PublishCache};
use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_protocol::{ConnectReason, ProtocolVersion};

/// What a client says to show who it is.
pub enum AuthRequest {
    /// By CONNECT.
    Connect(AuthAttempt),
    /// By AUTH, as the next step of what CONNECT or an earlier AUTH has begun [MQTT 5.0 section 4.12].
    Continue {
        /// Authentication Data.
        data: Box<[u8]>,
        /// What came with the challenge.
        state: ChallengeState,
    },
    /// By AUTH, to show it once more while it is connected [MQTT 5.0 section 4.12.1].
    Reauthenticate(AuthAttempt),
}

/// What a client says of itself.
#[derive(Clone)]
pub struct AuthAttempt {
    /// The version that the client speaks.
    pub version: ProtocolVersion,
    /// The Client Identifier that it asks for; empty where the broker is to assign one.
    pub client_id: Box<str>,
    /// User Name.
    pub user_name: Option<Box<str>>,
    /// Password.
    pub password: Option<Box<[u8]>>,
    /// Authentication Method, for extended authentication.
    pub method: Option<Box<str>>,
    /// Authentication Data.
    pub data: Option<Box<[u8]>>,
}

/// The answer to a [`AuthRequest`].
pub enum AuthDecision {
    /// The client is this one. `data` goes back with CONNACK, or with AUTH where it was connected.
    Admitted {
        /// Who it is.
        identity: Arc<Identity>,
        /// Authentication Data.
        data: Option<Box<[u8]>>,
    },
    /// The client has to answer by AUTH first.
    Challenge {
        /// Authentication Data.
        data: Box<[u8]>,
        /// Kept until the client has answered.
        state: ChallengeState,
    },
    /// The client is not let in.
    Refused {
        /// What it is told. The same code goes into DISCONNECT where it was connected.
        reason: ConnectReason,
        /// What it is told in words. It must not say more than whoever guesses may know.
        why: Cow<'static, str>,
        /// The reason for the log, where that may say more.
        detail: Option<Box<str>>,
    },
}

/// Whatever the one who finds out who clients are has to remember between two steps.
pub type ChallengeState = Box<dyn Any + Send>;

/// What is known of who a client is. It moves with the connection from shard to shard.
#[derive(Default)]
pub struct AuthState {
    phase: AuthPhase,
    /// Asked, and not taken yet.
    request: Option<AuthRequest>,
    /// Given, and not acted on yet.
    decision: Option<AuthDecision>,
    /// Between a challenge and the client's answer.
    state: Option<ChallengeState>,
    /// Extended authentication is by this method, from CONNECT on.
    method: Option<Box<str>>,
    identity: Option<Arc<Identity>>,
    /// Goes with CONNACK.
    last_data: Option<Box<[u8]>>,
    /// Bytes behind CONNECT that have been heard already.
    read_ahead_bytes: usize,
    gate: Option<PublishCache>,
    /// What waits for the client is looked at again before it is sent.
    must_recheck_queue: bool,
    /// The session's subscriptions have been looked at by these rules: how often the rules had been changed before.
    reviewed_version: Option<u64>,
    /// For the question and what is made of it.
    charge: Option<Charge>,
    /// How much had been done to find out who clients are when that was last looked at.
    progress: u64,
    /// When it was last seen that the client waits in a queue that moves, or got a verdict.
    progress_ms: u64,
}

/// How far an authentication has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AuthPhase {
    /// None is under way.
    #[default]
    None,
    /// A verdict is awaited.
    Pending,
    /// The client has to answer.
    Challenged,
}

impl AuthState {
    pub(crate) fn phase(&self) -> AuthPhase {
        self.phase
    }

    /// Asks who the client is; what that takes is charged to `ledger`. `progress`: how much has been done for all clients.
    pub(crate) fn request_auth(
        &mut self,
        request: AuthRequest,
        ledger: &Arc<MemoryLedger>,
        progress: u64,
        now_ms: u64,
    ) {
        (self.progress, self.progress_ms) = (progress, now_ms);
        let mut charge = Charge::new(ledger, Kind::Input);
        charge.set(request.bytes());
        self.charge = Some(charge);
        self.request = Some(request);
        self.decision = None;
        self.phase = AuthPhase::Pending;
    }

    /// For whoever finds the answer.
    pub(crate) fn take_auth_request(&mut self) -> Option<AuthRequest> {
        self.request.take()
    }

    /// There is an answer, to be acted on when CONNECT is brought again.
    pub(crate) fn set_decision(&mut self, decision: AuthDecision, now_ms: u64) {
        self.decision = Some(decision);
        self.progress_ms = now_ms;
    }

    /// From when on the connect timeout counts, as far as it is about finding out who the client is.
    pub(crate) fn progress_ms(&mut self, progress: u64, now_ms: u64) -> u64 {
        if self.phase == AuthPhase::Pending && self.progress != progress {
            (self.progress, self.progress_ms) = (progress, now_ms);
        }
        self.progress_ms
    }

    /// The answer, if there is one; the question is settled then.
    pub(crate) fn take_decision(&mut self) -> Option<AuthDecision> {
        let decision = self.decision.take()?;
        self.settle();
        Some(decision)
    }

    /// No verdict is awaited any more.
    pub(crate) fn settle(&mut self) {
        self.phase = AuthPhase::None;
        self.charge = None;
    }

    /// The client has to answer a challenge.
    pub(crate) fn set_challenge(&mut self, state: ChallengeState) {
        self.phase = AuthPhase::Challenged;
        self.state = Some(state);
    }

    /// What was kept with the challenge.
    pub(crate) fn take_state(&mut self) -> Option<ChallengeState> {
        self.state.take()
    }

    pub(crate) fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    pub(crate) fn set_method(&mut self, method: Option<&str>) {
        self.method = method.map(Box::from);
    }

    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    pub(crate) fn set_identity(&mut self, identity: Arc<Identity>, data: Option<Box<[u8]>>) {
        self.identity = Some(identity);
        self.last_data = data;
    }

    /// What goes with CONNACK.
    pub(crate) fn take_last_data(&mut self) -> Option<Box<[u8]>> {
        self.last_data.take()
    }

    pub(crate) fn gate(&self) -> Option<&PublishCache> {
        self.gate.as_ref()
    }

    pub(crate) fn gate_mut(&mut self) -> Option<&mut PublishCache> {
        self.gate.as_mut()
    }

    pub(crate) fn set_gate(&mut self, gate: Option<PublishCache>) {
        self.gate = gate;
    }

    pub(crate) fn must_recheck_queue(&self) -> bool {
        self.must_recheck_queue
    }

    pub(crate) fn require_queue_recheck(&mut self) {
        self.must_recheck_queue = true;
    }

    /// Whether the subscriptions of the session have been looked at for this connection, by the rules that came with the config of this number.
    pub(crate) fn is_reviewed_for(&self, since: u64) -> bool {
        self.reviewed_version == Some(since)
    }

    pub(crate) fn set_reviewed_version(&mut self, since: u64) {
        self.reviewed_version = Some(since);
    }

    /// It leaves its shard, with so much of the input heard ahead.
    pub(super) fn prepare_move(&mut self, read_ahead_bytes: usize) {
        self.read_ahead_bytes = read_ahead_bytes;
        self.charge = None;
    }

    /// It has come to its shard; gives how much of the input has been heard ahead.
    pub(super) fn finish_move(&mut self) -> usize {
        std::mem::take(&mut self.read_ahead_bytes)
    }

    /// About what it takes.
    pub(super) fn held_bytes(&self) -> usize {
        let gate_bytes = self.gate.as_ref().map_or(0, |gate| gate.permissions().own_heap_bytes());
        let charged_bytes = self.charge.as_ref().map_or(0, Charge::bytes);
        size_of::<AuthState>() + gate_bytes + charged_bytes
    }
}

impl AuthRequest {
    /// About what it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            AuthRequest::Connect(attempt) | AuthRequest::Reauthenticate(attempt) => attempt.bytes(),
            AuthRequest::Continue { data, .. } => data.len(),
        }
    }
}

impl AuthAttempt {
    fn bytes(&self) -> usize {
        let texts = [Some(&self.client_id), self.user_name.as_ref(), self.method.as_ref()];
        let bytes = [self.password.as_ref(), self.data.as_ref()];
        let texts_len: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        let bytes_len: usize = bytes.into_iter().flatten().map(|bytes| bytes.len()).sum();
        size_of::<AuthAttempt>() + texts_len + bytes_len
    }
}

/// Shows no secrets.
impl fmt::Debug for AuthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing")
            .field("exchange", &self.phase)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Shows no secrets.
impl fmt::Debug for AuthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthRequest::Connect(attempt) => f.debug_tuple("Connect").field(attempt).finish(),
            AuthRequest::Continue { .. } => f.write_str("Continue"),
            AuthRequest::Reauthenticate(attempt) => f.debug_tuple("Again").field(attempt).finish(),
        }
    }
}

/// Shows no secrets, and nothing from which they could be made out.
impl fmt::Debug for AuthAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("client_id", &self.client_id)
            .field("user_name", &self.user_name)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// Shows no secrets.
impl fmt::Debug for AuthDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthDecision::Admitted { identity, .. } => f.debug_tuple("Admitted").field(identity).finish(),
            AuthDecision::Challenge { .. } => f.write_str("Challenge"),
            AuthDecision::Refused { reason, why, .. } => f.debug_tuple("Refused").field(reason).field(why).finish(),
        }
    }
}
