//! Topic matching for the broker: which filters match a topic, which retained topics match a filter.
//!
//! * [`FilterTree`]: filter → values. Which filters match this topic?
//! * [`RetainedTree`]: topic → value. Which stored topics does this filter match?
//! * [`MatchCache`]: caches answers of the first question while topics repeat.
//!
//! None of them does I/O. Changes require exclusive access, searches only shared access. Text must already be validated as a topic name or
//! a topic filter. The `$share/group/` prefix is not part of a filter here: strip it first. Invalid text cannot corrupt a tree: it is
//! stored and found as written, and matches only what its levels match. No function recurses by level; still, callers should limit the
//! levels of a topic (128 is plenty), because a hostile text of 65,536 levels takes that many nodes once others share its levels.
//!
//! Rules: MQTT 5.0, section 4.7 (the same in 3.1.1).
#![forbid(unsafe_code)]

mod filter_tree;
mod level_tree;
mod match_cache;
mod pins;
mod retained_tree;
mod slab;
mod text;

pub use filter_tree::FilterTree;
pub use level_tree::NodeId;
pub use match_cache::{BYPASS_WINDOWS, CacheCounters, MatchCache, MatchCacheLimits, Reusable};
pub use retained_tree::{RetainedCursor, RetainedTree};
