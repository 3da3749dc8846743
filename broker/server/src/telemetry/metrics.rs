//! Metrics in OTLP, converted from the text of `/metrics`, so that both always have the same metrics.

use std::fmt::Write as _;

use super::otlp::{push_attributes, push_separated};
use crate::json::push_string;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: counters accumulate since the process started.
const CUMULATIVE: u8 = 2;

/// The metrics of a message, and their number of data points.
#[derive(Debug, Default)]
pub(super) struct MetricItems {
    pub(super) items: Vec<String>,
    pub(super) points: u64,
}

/// The time span of the counters, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct CollectionInterval {
    pub(super) start_ns: u64,
    pub(super) now_ns: u64,
}

/// Parses metrics in the Prometheus text format. Invalid lines are skipped.
pub(super) fn metric_items(text: &str, span: CollectionInterval) -> MetricItems {
    let mut metric_items = MetricItems::default();
    for family in families(text) {
        let points = match family.kind {
            "histogram" => histogram_points(&family, span),
            _ => number_points(&family, span),
        };
        if points.is_empty() {
            continue;
        }
        metric_items.points += points.len() as u64;
        metric_items.items.push(metric(&family, &points));
    }
    metric_items
}

/// A metric with all its series.
struct Family<'t> {
    name: &'t str,
    meaning: &'t str,
    kind: &'t str,
    samples: Vec<Sample<'t>>,
}

/// A line with a value.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<(&'t str, String)>,
    value: &'t str,
}

fn families(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, meaning) = rest.split_once(' ').unwrap_or((rest, ""));
            families.push(Family { name, meaning, kind: "gauge", samples: Vec::new() });
            continue;
        }
        let Some(family) = families.last_mut() else { continue };
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            if name == family.name {
                family.kind = kind;
            }
        } else if let Some(sample) = sample(line).filter(|sample| sample.name.starts_with(family.name)) {
            family.samples.push(sample);
        }
    }
    families
}

/// Parses `NAME VALUE` or `NAME{LABEL="TEXT",…} VALUE`.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while let Some((label, behind)) = rest.split_once("=\"") {
            let (text, behind) = quoted(behind)?;
            labels.push((label, text));
            rest = behind.strip_prefix(',').unwrap_or(behind);
            if rest.starts_with('}') {
                break;
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    Some(Sample { name, labels, value: rest.trim() })
}

/// Parses an escaped text up to the closing quote. Returns it with the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((out, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => out.push('\n'),
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
    None
}

fn metric(family: &Family<'_>, points: &[String]) -> String {
    let mut out = String::from("{\"name\":");
    push_string(&mut out, family.name);
    out.push_str(",\"description\":");
    push_string(&mut out, family.meaning);
    if let Some(unit) = unit(family.name) {
        let _ = write!(out, ",\"unit\":\"{unit}\"");
    }
    let (kind, more) = match family.kind {
        "histogram" => ("histogram", format!("\"aggregationTemporality\":{CUMULATIVE},")),
        "counter" => ("sum", format!("\"aggregationTemporality\":{CUMULATIVE},\"isMonotonic\":true,")),
        _ => ("gauge", String::new()),
    };
    let _ = write!(out, ",\"{kind}\":{{{more}\"dataPoints\":[");
    push_separated(&mut out, points);
    out.push_str("]}}");
    out
}

/// The unit (UCUM) that the suffix of the name denotes, so that Prometheus exporters need not append it.
fn unit(name: &str) -> Option<&'static str> {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name {
        name if name.ends_with("_seconds") => Some("s"),
        name if name.ends_with("_bytes") => Some("By"),
        _ => None,
    }
}

fn number_points(family: &Family<'_>, span: CollectionInterval) -> Vec<String> {
    let is_sum = family.kind == "counter";
    let point = |sample: &Sample<'_>| {
        let value = match (sample.value.parse::<i64>(), sample.value.parse::<f64>()) {
            (Ok(whole), _) => format!("\"asInt\":\"{whole}\""),
            (_, Ok(fraction)) if fraction.is_finite() => format!("\"asDouble\":{fraction}"),
            _ => return None,
        };
        let mut out = data_point_start(&sample.labels, is_sum, span);
        let _ = write!(out, ",{value}}}");
        Some(out)
    };
    family.samples.iter().filter_map(point).collect()
}

/// A data point up to its value.
fn data_point_start(labels: &[(&str, String)], has_start: bool, span: CollectionInterval) -> String {
    let mut out = String::from("{\"attributes\":");
    push_attributes(&mut out, labels.iter().map(|(name, text)| (*name, text.as_str())));
    if has_start {
        let _ = write!(out, ",\"startTimeUnixNano\":\"{}\"", span.start_ns);
    }
    let _ = write!(out, ",\"timeUnixNano\":\"{}\"", span.now_ns);
    out
}

/// A histogram with one set of labels.
#[derive(Default)]
struct Histogram<'t> {
    labels: Vec<(&'t str, String)>,
    bounds: Vec<f64>,
    /// Cumulative counts of the buckets; the last one has no bound.
    below: Vec<u64>,
    sum: Option<f64>,
}

fn histogram_points(family: &Family<'_>, span: CollectionInterval) -> Vec<String> {
    let mut histograms: Vec<Histogram<'_>> = Vec::new();
    for sample in &family.samples {
        let is_bound = |(name, _): &&(&str, String)| *name == "le";
        let labels = || sample.labels.iter().filter(|label| !is_bound(label)).cloned();
        let at = histograms.iter().position(|known| known.labels.iter().cloned().eq(labels())).unwrap_or_else(|| {
            histograms.push(Histogram { labels: labels().collect(), ..Histogram::default() });
            histograms.len() - 1
        });
        let histogram = &mut histograms[at];
        match sample.name.strip_prefix(family.name) {
            Some("_bucket") => {
                let bound = sample.labels.iter().find(is_bound).and_then(|(_, bound)| bound.parse::<f64>().ok());
                let (Some(bound), Ok(below)) = (bound, sample.value.parse()) else { continue };
                histogram.bounds.extend(Some(bound).filter(|bound| bound.is_finite()));
                histogram.below.push(below);
            }
            Some("_sum") => histogram.sum = sample.value.parse().ok().filter(|sum: &f64| sum.is_finite()),
            _ => {}
        }
    }
    histograms.iter().filter_map(|histogram| histogram_point(histogram, span)).collect()
}

fn histogram_point(histogram: &Histogram<'_>, span: CollectionInterval) -> Option<String> {
    let Histogram { labels, bounds, below, sum } = histogram;
    // The last bucket has no bound.
    if below.len() != bounds.len() + 1 {
        return None;
    }
    // The counters may change while they are read; a bucket must not become negative.
    let before = std::iter::once(&0).chain(below);
    let counts: Vec<u64> = below.iter().zip(before).map(|(below, before)| below.saturating_sub(*before)).collect();
    let mut out = data_point_start(labels, true, span);
    let _ = write!(out, ",\"count\":\"{}\"", counts.iter().sum::<u64>());
    if let Some(sum) = sum {
        let _ = write!(out, ",\"sum\":{sum}");
    }
    let counts: Vec<String> = counts.iter().map(|count| format!("\"{count}\"")).collect();
    let bounds: Vec<String> = bounds.iter().map(f64::to_string).collect();
    let _ = write!(out, ",\"bucketCounts\":[{}],\"explicitBounds\":[{}]}}", counts.join(","), bounds.join(","));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::is_json;

    const SPAN: CollectionInterval =
        CollectionInterval { start_ns: 1_700_000_000_000_000_000, now_ns: 1_700_000_060_000_000_000 };

    fn items(text: &str) -> Vec<String> {
        let metric_items = metric_items(text, SPAN);
        assert!(metric_items.items.iter().all(|item| is_json(item.as_bytes())), "{:?}", metric_items.items);
        metric_items.items
    }

    #[test]
    fn counters_are_sums_since_the_start() {
        let text = "# HELP tautwire_bytes_total Bytes \"of\" it.\n# TYPE tautwire_bytes_total counter\ntautwire_bytes_total 18446744073709551615\n";
        // More than OTLP's integers hold.
        assert!(items(text)[0].contains("\"asDouble\":18446744073709552000"), "{:?}", items(text));
        let text = text.replace("18446744073709551615", "7");
        assert_eq!(
            items(&text),
            [
                "{\"name\":\"tautwire_bytes_total\",\"description\":\"Bytes \\\"of\\\" it.\",\"unit\":\"By\",\"sum\":{\"aggregationTemporality\":2,\
              \"isMonotonic\":true,\"dataPoints\":[{\"attributes\":[],\"startTimeUnixNano\":\"1700000000000000000\",\
              \"timeUnixNano\":\"1700000060000000000\",\"asInt\":\"7\"}]}}"
            ]
        );
    }

    #[test]
    fn labels_are_attributes_without_their_escapes() {
        let text = "# HELP a b\n# TYPE a gauge\na{listener=\"x, \\\"y\\\"}\\\\\",host=\"\"} 1\na{listener=\"z\"} 2\n";
        let items = items(text);
        assert_eq!(items.len(), 1);
        let first = "{\"key\":\"listener\",\"value\":{\"stringValue\":\"x, \\\"y\\\"}\\\\\"}},{\"key\":\"host\",\"value\":{\"stringValue\":\"\"}}";
        assert!(items[0].contains(first) && items[0].contains("\"stringValue\":\"z\""), "{items:?}");
        assert!(!items[0].contains("startTimeUnixNano"), "{items:?}");
        assert_eq!(metric_items(text, SPAN).points, 2);
    }

    #[test]
    fn buckets_are_counted_separately() {
        let text = "# HELP h m\n# TYPE h histogram\n\
                    h_bucket{q=\"0\",le=\"0.5\"} 2\nh_bucket{q=\"0\",le=\"1\"} 5\nh_bucket{q=\"0\",le=\"+Inf\"} 6\nh_sum{q=\"0\"} 2.5\nh_count{q=\"0\"} 6\n\
                    h_bucket{q=\"1\",le=\"0.5\"} 0\nh_bucket{q=\"1\",le=\"1\"} 0\nh_bucket{q=\"1\",le=\"+Inf\"} 0\nh_sum{q=\"1\"} 0\nh_count{q=\"1\"} 0\n";
        let items = items(text);
        assert_eq!(metric_items(text, SPAN).points, 2);
        let point = "\"count\":\"6\",\"sum\":2.5,\"bucketCounts\":[\"2\",\"3\",\"1\"],\"explicitBounds\":[0.5,1]}";
        assert!(items[0].contains(point), "{items:?}");
        assert!(items[0].contains("\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":["), "{items:?}");
        assert!(items[0].contains("\"key\":\"q\"") && !items[0].contains("\"le\""), "{items:?}");
    }

    #[test]
    fn values_that_are_not_numbers_are_omitted() {
        for text in [
            "",
            "a 1\n",
            "# HELP a b\n",
            "# HELP a b\n# TYPE a gauge\na NaN\n",
            "# HELP a b\na{x=\"\n",
            "# HELP a b\na{} \n",
        ] {
            assert!(items(text).is_empty(), "{text:?}");
        }
    }
}
