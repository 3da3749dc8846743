//! The decisions of backends.

use crate::{Principal, Refusal};

/// The decision of a backend about an attempt.
pub(crate) enum BackendDecision {
    Yes {
        principal: Principal,
        /// Authentication Data for CONNACK or AUTH.
        data: Option<Vec<u8>>,
    },
    No(Refusal),
    /// The backend does not know the client.
    Unknown,
    /// The reason to refuse, unless another backend knows the client.
    UnknownBecause(Refusal),
}

impl From<Principal> for BackendDecision {
    fn from(principal: Principal) -> BackendDecision {
        BackendDecision::Yes { principal, data: None }
    }
}

impl From<Refusal> for BackendDecision {
    fn from(refusal: Refusal) -> BackendDecision {
        BackendDecision::No(refusal)
    }
}
