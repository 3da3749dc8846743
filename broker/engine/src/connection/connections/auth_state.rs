//! The authentication state of a connection.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use tautwire_access::{Identity, PublishCache};
use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_protocol::{ConnectReason, ProtocolVersion};

/// The credentials in a packet from a client.
pub enum AuthRequest {
    /// From CONNECT.
    Connect(AuthAttempt),
    /// From AUTH, continuing what CONNECT or an earlier AUTH has started [MQTT 5.0 section 4.12].
    Continue {
        /// Authentication Data.
        data: Box<[u8]>,
        /// The state that came with the challenge.
        state: ChallengeState,
    },
    /// From AUTH of a connected client, for re-authentication [MQTT 5.0 section 4.12.1].
    Reauthenticate(AuthAttempt),
}

/// The credentials that start an authentication.
#[derive(Clone)]
pub struct AuthAttempt {
    /// The client's protocol version.
    pub version: ProtocolVersion,
    /// The Client Identifier; empty if the broker is to assign one.
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

/// The decision about an [`AuthRequest`].
pub enum AuthDecision {
    /// The client is authenticated. `data` is sent in CONNACK, or in AUTH for a re-authentication.
    Admitted {
        /// The client's identity.
        identity: Arc<Identity>,
        /// Authentication Data.
        data: Option<Box<[u8]>>,
    },
    /// The client must answer a challenge with AUTH.
    Challenge {
        /// Authentication Data.
        data: Box<[u8]>,
        /// Stored until the client has answered.
        state: ChallengeState,
    },
    /// The client is refused.
    Refused {
        /// The reason code in CONNACK, or in DISCONNECT for a re-authentication.
        reason: ConnectReason,
        /// The reason string. It must not help an attacker who guesses credentials.
        why: Cow<'static, str>,
        /// The reason for the log, which may be more detailed.
        detail: Option<Box<str>>,
    },
}

/// State that an authentication backend keeps between two steps.
pub type ChallengeState = Box<dyn Any + Send>;

/// The authentication state of a connection, which moves with it from shard to shard.
#[derive(Default)]
pub struct AuthState {
    phase: AuthPhase,
    /// The request, until a backend takes it.
    request: Option<AuthRequest>,
    /// The decision, until it is applied.
    decision: Option<AuthDecision>,
    /// The backend's state between a challenge and the client's answer.
    state: Option<ChallengeState>,
    /// The method of extended authentication, from CONNECT on.
    method: Option<Box<str>>,
    identity: Option<Arc<Identity>>,
    /// Authentication Data for CONNACK.
    last_data: Option<Box<[u8]>>,
    /// Bytes behind CONNECT that have been read ahead.
    read_ahead_bytes: usize,
    gate: Option<PublishCache>,
    /// Queued messages must be checked again before they are sent.
    must_recheck_queue: bool,
    /// The version of the rules by which the session's subscriptions were reviewed.
    reviewed_version: Option<u64>,
    /// The memory of the request.
    charge: Option<Charge>,
    /// The progress of the authentication queue when it was last checked.
    progress: u64,
    /// When the authentication queue last made progress, or the decision arrived.
    progress_ms: u64,
}

/// The phase of an authentication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AuthPhase {
    /// No authentication is in progress.
    #[default]
    None,
    /// A decision is pending.
    Pending,
    /// The client must answer a challenge.
    Challenged,
}

impl AuthState {
    pub(crate) fn phase(&self) -> AuthPhase {
        self.phase
    }

    /// Starts a request, whose memory is charged to `ledger`. `progress`: the completed steps of all clients' authentications.
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

    /// Takes the request, for a backend.
    pub(crate) fn take_auth_request(&mut self) -> Option<AuthRequest> {
        self.request.take()
    }

    /// Stores the decision until CONNECT is processed again.
    pub(crate) fn set_decision(&mut self, decision: AuthDecision, now_ms: u64) {
        self.decision = Some(decision);
        self.progress_ms = now_ms;
    }

    /// The start of the connect timeout, as far as it depends on authentication.
    pub(crate) fn progress_ms(&mut self, progress: u64, now_ms: u64) -> u64 {
        if self.phase == AuthPhase::Pending && self.progress != progress {
            (self.progress, self.progress_ms) = (progress, now_ms);
        }
        self.progress_ms
    }

    /// Takes the decision, if there is one, and ends the authentication.
    pub(crate) fn take_decision(&mut self) -> Option<AuthDecision> {
        let decision = self.decision.take()?;
        self.settle();
        Some(decision)
    }

    /// Ends the authentication.
    pub(crate) fn settle(&mut self) {
        self.phase = AuthPhase::None;
        self.charge = None;
    }

    /// Records that the client must answer a challenge.
    pub(crate) fn set_challenge(&mut self, state: ChallengeState) {
        self.phase = AuthPhase::Challenged;
        self.state = Some(state);
    }

    /// Takes the state of the challenge.
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

    /// Takes the Authentication Data for CONNACK.
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

    /// Whether the session's subscriptions were reviewed for this connection by this version of the rules.
    pub(crate) fn is_reviewed_for(&self, since: u64) -> bool {
        self.reviewed_version == Some(since)
    }

    pub(crate) fn set_reviewed_version(&mut self, since: u64) {
        self.reviewed_version = Some(since);
    }

    /// Prepares a move to another shard, with the length of the input that was read ahead.
    pub(super) fn prepare_move(&mut self, read_ahead_bytes: usize) {
        self.read_ahead_bytes = read_ahead_bytes;
        self.charge = None;
    }

    /// Finishes a move. Returns the length of the input that was read ahead.
    pub(super) fn finish_move(&mut self) -> usize {
        std::mem::take(&mut self.read_ahead_bytes)
    }

    /// The approximate memory that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        let gate_bytes = self.gate.as_ref().map_or(0, |gate| gate.permissions().own_heap_bytes());
        let request_bytes = self.charge.as_ref().map_or(0, Charge::bytes);
        size_of::<AuthState>() + gate_bytes + request_bytes
    }
}

impl AuthRequest {
    /// The approximate memory that it takes.
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
        f.debug_struct("AuthState")
            .field("phase", &self.phase)
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
            AuthRequest::Reauthenticate(attempt) => f.debug_tuple("Reauthenticate").field(attempt).finish(),
        }
    }
}

/// Shows no secrets, and nothing that reveals them.
impl fmt::Debug for AuthAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthAttempt")
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
