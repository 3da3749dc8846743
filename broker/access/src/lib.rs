//! Who may do what: access rules, compiled.
//!
//! * [`Policy`]: a rule file, read and compiled. It never changes; threads share it by `Arc`.
//! * [`Subject`]: who somebody is, as it is known when CONNECT has been authenticated.
//! * [`Identity`]: the same, kept for as long as the client is there.
//! * [`Permissions`]: what a subject may do by a policy. A small value, kept with the session.
//! * [`SubscribeCheck`]: the check of one subscription, which can go on in parts.
//! * [`PublishCache`]: permissions with a memory for the topics that a connection publishes to. Kept with the connection.
//! * [`Changes`]: whose permissions a new policy may have changed.
//! * [`Explanation`]: which rule decides, and why, as text for people.
//! * [`Warning`]: a rule that never decides.
//! * [`ListedRule`]: one of all rules, as text for people.
//! * [`import`]: rule files from other brokers' files.
//!
//! The rules of a client are the rules of its roles, in the order of the file. **The first that matches decides; where none
//! does, the answer is no.** A subscription is granted if and only if the client may receive every topic that its filter can
//! match. So a delivery need not be checked.
//!
//! No I/O, no clock, no randomness. Text that is no topic gives some answer, never a panic.
#![forbid(unsafe_code)]

mod assignment;
mod changes;
mod check;
mod error;
mod explain;
mod file;
mod glob;
mod identity;
pub mod import;
pub mod limits;
mod lint;
mod listing;
mod pattern;
mod permissions;
mod placeholder;
mod policy;
mod publish_cache;
mod request;
mod rule;
mod subject;
mod tree;
mod users;

pub use changes::Changes;
pub use check::SubscribeCheck;
pub use error::{AccessError, ErrorCode};
pub use explain::{Explanation, RoleReason, RuleText};
pub use identity::Identity;
pub use lint::Warning;
pub use listing::ListedRule;
pub use permissions::{AccessDecision, Denial, Permissions};
pub use policy::Policy;
pub use publish_cache::{PublishCache, TopicStamp};
pub use request::Request;
pub use subject::Subject;
