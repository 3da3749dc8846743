//! The Prometheus text format.

use std::fmt::Write as _;

use tautwire_reactor::Durations;

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Bucket bounds of the histograms: powers of two from 8 µs to 16 s.
const BOUND_DOUBLINGS: std::ops::RangeInclusive<u32> = 3..=24;

/// Appends the lines that precede the values of a metric.
pub(super) fn push_head(text: &mut String, name: &str, kind: &str, meaning: &str) {
    let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
}

/// Escapes a label value.
pub(super) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Appends a histogram with one series per label.
pub(super) fn push_histogram(text: &mut String, name: &str, meaning: &str, series: &[(&str, &Durations)]) {
    let name = format!("tautwire_{name}");
    push_head(text, &name, "histogram", meaning);
    for (label, durations) in series {
        let (braced, before) = match label.is_empty() {
            true => (String::new(), String::new()),
            false => (format!("{{{label}}}"), format!("{label},")),
        };
        for doublings in BOUND_DOUBLINGS {
            let bound_s = (1_u64 << doublings) as f64 / 1e6;
            let _ = writeln!(text, "{name}_bucket{{{before}le=\"{bound_s}\"}} {}", durations.count_below(doublings));
        }
        let count = durations.count();
        let _ = writeln!(text, "{name}_bucket{{{before}le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{braced} {}", durations.sum_us() as f64 / 1e6);
        let _ = writeln!(text, "{name}_count{braced} {count}");
    }
}
