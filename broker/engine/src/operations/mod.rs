//! Operations: admin queries, publishing for operators, traces, taps, `$SYS` topics, audit events.

pub(crate) mod admin_query;
pub(crate) mod audit;
pub(crate) mod latency;
pub(crate) mod operator;
pub(crate) mod publish_range;
pub(crate) mod refusal;
pub(crate) mod state;
pub(crate) mod sys;
pub(crate) mod tap;
pub(crate) mod trace;
pub(crate) mod trace_parent;
pub(crate) mod violations;
