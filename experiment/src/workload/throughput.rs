//! Throughput of each flow in successive intervals of time, and the fairness among flows.

use serde::Serialize;

/// Throughput of the flows of a phase in each interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// Length of an interval in ns; the first one begins with the phase.
    pub interval_ns: u64,
    /// Throughput of each flow.
    pub flows: Vec<FlowThroughput>,
    /// Jain's fairness index of the active flows, averaged over all intervals in which more than one was active throughout: 1 for equal
    /// throughput, 1/n if one of n has all. A started flow without throughput counts as 0. `None` without such an interval. (R. Jain,
    /// D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC-TR-301, 1984.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
}

/// Throughput of one flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowThroughput {
    /// Name of the flow: sender and receiver.
    pub flow: String,
    /// Payload in Gbit/s in each interval, at the receiver that has the fewest bytes at the interval's end.
    pub gbps: Vec<f64>,
}

/// Bytes that the slowest receiver of a flow has at the end of each interval.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<u64>);

impl Samples {
    pub(super) fn push(&mut self, bytes: u64) {
        self.0.push(bytes);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes received in each interval, which are the differences between successive samples.
    fn bytes_per_interval(&self) -> Vec<u64> {
        let before = [0].into_iter().chain(self.0.iter().copied());
        let pairs = self.0.iter().zip(before);
        pairs
            .map(|(after, before)| after.saturating_sub(before))
            .collect()
    }
}

impl Throughput {
    /// Computes the throughput of flows, given by name, in intervals of `interval_ns` nanoseconds.
    pub(super) fn of(interval_ns: u64, flows: &[(String, &Samples)]) -> Throughput {
        let each: Vec<Vec<u64>> = flows
            .iter()
            .map(|(_, samples)| samples.bytes_per_interval())
            .collect();
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
    // A flow that begins or ends within an interval has less than its share there.
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
    fn interval_counts_its_own_bytes() {
        let throughput = throughput(&[&[1_000, 3_000, 3_000]]);
        assert_eq!(throughput.flows[0].gbps, [8.0, 16.0, 0.0]);
        assert_eq!(throughput.fairness, None);
    }

    #[test]
    fn equal_shares_are_fair_without_flows_that_begin_or_end() {
        let steady = [10, 20, 30, 40, 50, 60, 70];
        let between = [0, 1, 11, 21, 31, 31, 31];
        assert_eq!(throughput(&[&steady, &between]).fairness, Some(1.0));
        let unfair = [0, 1, 31, 61, 91, 91, 91];
        let index = throughput(&[&steady, &unfair]).fairness.unwrap();
        assert!((index - 0.8).abs() < 1e-9, "{index}");
    }

    #[test]
    fn idle_flow_counts_as_zero() {
        let steady = [10, 20, 30, 40, 50, 60];
        let starved = [10, 20, 20, 20, 30, 40];
        let index = throughput(&[&steady, &starved]).fairness.unwrap();
        // Five intervals count; in two of them one flow has all throughput.
        assert!((index - 0.8).abs() < 1e-9, "{index}");
    }
}
