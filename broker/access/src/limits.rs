//! Limits on rule files, and on the work of one check.

/// Maximum length of a rule file, in bytes. A longer one is rejected before it is parsed.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Maximum number of rules in a file. Each filter of a rule counts as one.
pub const RULES_MAX: usize = 100_000;
/// Maximum number of roles in a file.
pub const ROLES_MAX: usize = 10_000;
/// Maximum number of users in the table `[users]`.
pub const USERS_MAX: usize = 500_000;
/// Maximum number of `[[assign]]` tables. All of them are evaluated when a client connects.
pub const ASSIGNMENTS_MAX: usize = 10_000;
/// Maximum number of levels in a filter of a rule; `a/b/#` has three.
pub const LEVELS_MAX: usize = 128;
/// Maximum number of different placeholders in a file. Each claim that a filter names is one.
pub const PLACEHOLDERS_MAX: usize = 64;
/// Maximum number of errors reported for one file.
pub const ERRORS_MAX: usize = 100;
/// Maximum number of steps in the check of one subscription, for comparing the deny rules that overlap with its filter to the allow rules
/// before them. A subscription that needs more is denied ([`crate::Denial::TooComplex`]): a client chooses its filters, and must not be
/// able to choose how long the broker works. A step is a visit to a node, some 25 ns. The search for overlapping rules does not count: it
/// visits each node at most once.
pub const SUBSCRIBE_STEPS_MAX: usize = 1 << 20;
/// Maximum number of steps for finding unreachable rules of a file. Rules beyond that are not checked.
pub const LINT_STEPS_MAX: usize = 20_000_000;
/// Maximum number of warnings for one file.
pub const WARNINGS_MAX: usize = 100;
/// Maximum number of role sets that a policy caches, to be shared by clients with the same roles. Further ones are not shared.
pub const SHARED_ROLE_SETS_MAX: usize = 4_096;
