//! Suggests the name that was probably meant.

/// Returns the candidate with the smallest edit distance to `given`, if it is close enough.
///
/// Close enough means that at most a third of the longer name differs; one edit is always allowed.
pub(crate) fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(given, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| {
            let longer = given.chars().count().max(candidate.chars().count());
            *distance <= (longer / 3).max(1)
        })
        .map(|(_, candidate)| candidate)
}

/// The number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    // Three rows of the table suffice: a swap looks two rows back.
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut row = vec![0; b.len() + 1];
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row[j] = best;
        }
        std::mem::swap(&mut before_last, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_single_edits() {
        assert_eq!(edit_distance("", ""), 0);
        assert_eq!(edit_distance("abc", ""), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("listen", "listne"), 1);
        assert_eq!(edit_distance("listen", "lisen"), 1);
        assert_eq!(edit_distance("listen", "listten"), 1);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn only_close_names_are_suggested() {
        let names = ["mqtt.max_qos", "limits.connections", "listen"];
        assert_eq!(nearest("mqtt.maxqos", names), Some("mqtt.max_qos"));
        assert_eq!(nearest("limit.connection", names), Some("limits.connections"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("x", []), None);
    }
}
