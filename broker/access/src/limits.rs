//! How much a rule file may hold, and how much work one question may be.

/// Longest rule file, in bytes. A longer one is refused before it is parsed.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Most rules in a file. Each filter of a rule counts as one.
pub const RULES_MAX: usize = 100_000;
/// Most roles in a file.
pub const ROLES_MAX: usize = 10_000;
/// Most users in the table `[users]`.
pub const USERS_MAX: usize = 500_000;
/// Most `[[assign]]` tables. All of them are looked at when a client connects.
pub const ASSIGNMENTS_MAX: usize = 10_000;
/// Most levels in a filter of a rule; `a/b/#` has three.
pub const LEVELS_MAX: usize = 128;
/// Most different placeholders in a file. Each claim that is named in a filter is one.
pub const PLACEHOLDERS_MAX: usize = 64;
/// Most errors reported for one file.
pub const ERRORS_MAX: usize = 100;
/// Most steps for comparing, in the check of one subscription, the rules that deny and meet its filter with the rules that allow
/// and come before them. A subscription that needs more is refused ([`crate::Denial::TooComplex`]): a client chooses its filters, and
/// must not be able to choose how long the broker works. A step is a look at a node, some 25 ns. The search for rules that meet the
/// filter does not count: it looks at each node once at most.
pub const SUBSCRIBE_STEPS_MAX: usize = 1 << 20;
/// Most steps for finding the rules of a file that never decide. Rules behind are not looked at.
pub const LINT_STEPS_MAX: usize = 20_000_000;
/// Most warnings for one file.
pub const WARNINGS_MAX: usize = 100;
/// Combinations of roles that a policy remembers, for clients with the same roles to share. Further ones are not shared.
pub const SHARED_ROLE_SETS_MAX: usize = 4_096;
