//! How much of each flow comes in each interval of time, and how fair that is.

use serde::Serialize;

/// What the flows of a phase had, interval by interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// The length of an interval in ns; the first one begins with the phase.
    pub interval_ns: u64,
    pub flows: Vec<FlowThroughput>,
    /// Jain's index of the flows under way, the mean over all intervals in which more than one was from beginning to end: 1 if
    /// they had the same, 1/n if one of n had everything. A flow that has begun, gets nothing for a while and goes on counts with
    /// nothing. `None` if there was no such interval. (R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and
    /// Discrimination", DEC-TR-301, 1984.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
}

/// What one flow had.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowThroughput {
    /// The sender and the receiver.
    pub flow: String,
    /// Gbit/s of payload in each interval, at the receiver that had got the least until its end.
    pub gbps: Vec<f64>,
}

/// Bytes that had come when each interval was over.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<u64>);

impl Samples {
    pub(super) fn push(&mut self, bytes: u64) {
        self.0.push(bytes);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of each interval.
    fn each(&self) -> Vec<u64> {
        let before = [0].into_iter().chain(self.0.iter().copied());
        let pairs = self.0.iter().zip(before);
        pairs
            .map(|(after, before)| after.saturating_sub(before))
            .collect()
    }
}

impl Throughput {
    /// Of flows with their names, in intervals of `interval_ns`.
    pub(super) fn of(interval_ns: u64, flows: &[(String, &Samples)]) -> Throughput {
        let each: Vec<Vec<u64>> = flows.iter().map(|(_, samples)| samples.each()).collect();
        let gbps = |bytes: &u64| *bytes as f64 * 8.0 / interval_ns as f64;
        let named = flows
            .iter()
            .zip(&each)
            .map(|((flow, _), bytes)| FlowThroughput {
                flow: flow.clone(),
                gbps: bytes.iter().map(gbps).collect(),
            });
        Throughput {
            interval_ns,
            flows: named.collect(),
            fairness: fairness(&each),
        }
    }
}

fn fairness(each: &[Vec<u64>]) -> Option<f64> {
    let intervals = each.iter().map(Vec::len).max().unwrap_or(0);
    // A flow that begins or ends in an interval has less of it than its share.
    let is_within = |flow: &Vec<u64>, at: usize| {
        let any = |bytes: &[u64]| bytes.iter().any(|bytes| *bytes > 0);
        let has_begun = match at {
            0 => flow.first().is_some_and(|bytes| *bytes > 0),
            _ => flow.get(..at).is_some_and(any),
        };
        has_begun && flow.get(at + 1..).is_some_and(any)
    };
    let indexes: Vec<f64> = (0..intervals)
        .filter_map(|at| {
            let within = each.iter().filter(|flow| is_within(flow, at));
            let shares: Vec<f64> = within.map(|flow| flow[at] as f64).collect();
            let sum: f64 = shares.iter().sum();
            let squares: f64 = shares.iter().map(|share| share * share).sum();
            (shares.len() > 1 && sum > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
        })
        .collect();
    (!indexes.is_empty()).then(|| indexes.iter().sum::<f64>() / indexes.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throughput(flows: &[&[u64]]) -> Throughput {
        let samples: Vec<Samples> = flows.iter().map(|bytes| Samples(bytes.to_vec())).collect();
        let named = samples.iter().map(|samples| ("f".to_owned(), samples));
        Throughput::of(1_000, &named.collect::<Vec<_>>())
    }

    #[test]
    fn each_interval_has_what_came_in_it() {
        let throughput = throughput(&[&[1_000, 3_000, 3_000]]);
        assert_eq!(throughput.flows[0].gbps, [8.0, 16.0, 0.0]);
        assert_eq!(throughput.fairness, None);
    }

    #[test]
    fn equal_shares_are_fair_and_flows_that_begin_or_end_do_not_count() {
        let steady = [10, 20, 30, 40, 50, 60, 70];
        let between = [0, 1, 11, 21, 31, 31, 31];
        assert_eq!(throughput(&[&steady, &between]).fairness, Some(1.0));
        let unfair = [0, 1, 31, 61, 91, 91, 91];
        let index = throughput(&[&steady, &unfair]).fairness.unwrap();
        assert!((index - 0.8).abs() < 1e-9, "{index}");
    }

    #[test]
    fn flow_that_gets_nothing_for_a_while_counts_with_nothing() {
        let steady = [10, 20, 30, 40, 50, 60];
        let starved = [10, 20, 20, 20, 30, 40];
        let index = throughput(&[&steady, &starved]).fairness.unwrap();
        // Five intervals are within, in two of which one has everything.
        assert!((index - 0.8).abs() < 1e-9, "{index}");
    }
}
