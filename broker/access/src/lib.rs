//! Access control: rules that allow or deny publishing and subscribing.
//!
//! * [`Policy`]: a compiled rule file. It is immutable; threads share it in an `Arc`.
//! * [`Subject`]: an authenticated client, as rules see it.
//! * [`Identity`]: the same, owned, for as long as the client is connected.
//! * [`Permissions`]: what a policy allows a subject. A small value, stored with the session.
//! * [`SubscribeCheck`]: the check of one subscription, which can be done incrementally.
//! * [`PublishCache`]: permissions with a cache of the topics that a connection publishes to. Stored with the connection.
//! * [`Changes`]: the permissions that a new policy may have changed.
//! * [`Explanation`]: which rule decides, and why, as text for people.
//! * [`Warning`]: a rule that never decides.
//! * [`ListedRule`]: an entry of the list of all rules, as text for people.
//! * [`import`]: conversion of other brokers' access rules.
//!
//! The rules of a client are the rules of its roles, in the order of the file. **The first rule that matches decides; if none matches, the
//! request is denied.** A subscription is granted if and only if the client may receive every topic that its filter can match. So
//! deliveries need no check.
//!
//! No I/O, no clock, no randomness. Ill-formed topics give an unspecified decision, never a panic.
#![forbid(unsafe_code)]

mod assignment;
mod changes;
mod check;
mod compiled;
mod decision;
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
pub use decision::{AccessDecision, Denial};
pub use error::{AccessError, ErrorCode};
pub use explain::{Explanation, RoleReason, RuleText};
pub use identity::Identity;
pub use lint::Warning;
pub use listing::ListedRule;
pub use permissions::Permissions;
pub use policy::Policy;
pub use publish_cache::{PublishCache, TopicStamp};
pub use request::Request;
pub use subject::Subject;
