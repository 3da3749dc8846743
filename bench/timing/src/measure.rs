//! CPU time per operation, in interleaved rounds.

use cpu_time::ThreadTime;

/// A library with one case.
pub struct Contender {
    pub case: &'static str,
    pub library: &'static str,
    /// The number of operations per call.
    pub operations: usize,
    pub call: Box<dyn FnMut()>,
}

pub struct Measured {
    pub case: &'static str,
    pub library: &'static str,
    /// One for each round, in the order of the rounds.
    pub ns_per_op: Vec<f64>,
    pub median: f64,
}

/// The CPU time of one sample, which is long compared with the clock's resolution and the cost of reading it.
const SAMPLE_NS: f64 = 4e6;
const WARM_UP_CALLS: usize = 3;

/// Takes one sample of every contender in each round, so that other load affects all of them.
pub fn run(contenders: Vec<Contender>, rounds: usize) -> Vec<Measured> {
    let mut runners: Vec<(Contender, usize, Vec<f64>)> = contenders
        .into_iter()
        .map(|mut contender| {
            for _ in 0..WARM_UP_CALLS {
                (contender.call)();
            }
            let ns_per_call = sample(&mut contender, 3) * contender.operations as f64;
            let calls = (SAMPLE_NS / ns_per_call).ceil().max(1.0) as usize;
            (contender, calls, Vec::with_capacity(rounds))
        })
        .collect();
    for _ in 0..rounds {
        for (contender, calls, samples) in &mut runners {
            samples.push(sample(contender, *calls));
        }
    }
    runners
        .into_iter()
        .map(|(contender, _, samples)| Measured {
            case: contender.case,
            library: contender.library,
            median: median(&samples),
            ns_per_op: samples,
        })
        .collect()
}

fn sample(contender: &mut Contender, calls: usize) -> f64 {
    let start = ThreadTime::now();
    for _ in 0..calls {
        (contender.call)();
    }
    start.elapsed().as_nanos() as f64 / (calls * contender.operations) as f64
}

/// The median; NaN without values.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return f64::NAN;
    }
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn every_contender_gets_a_sample_in_every_round() {
        let contender = Contender { case: "c", library: "l", operations: 10, call: Box::new(|| {}) };
        let results = run(vec![contender], 3);
        assert_eq!(results[0].ns_per_op.len(), 3);
    }
}
