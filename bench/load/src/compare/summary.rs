use serde::Serialize;

/// One metric of one broker at one placement, over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Half the range in percent of the median.
    pub spread_percent: f64,
    pub rounds: usize,
}

impl Summary {
    /// Returns `None` without values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] };
        let spread_percent = if median == 0.0 { 0.0 } else { 50.0 * (max - min) / median.abs() };
        Some(Self { median, min, max, spread_percent, rounds: values.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread_of_odd_and_even_rounds() {
        let odd = Summary::of(vec![3.0, 1.0, 2.0]).expect("values");
        assert_eq!((odd.median, odd.min, odd.max, odd.spread_percent, odd.rounds), (2.0, 1.0, 3.0, 50.0, 3));
        let even = Summary::of(vec![4.0, 1.0, 2.0, 3.0]).expect("values");
        assert_eq!(even.median, 2.5);
        assert_eq!(Summary::of(vec![]), None);
    }
}
