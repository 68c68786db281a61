//! Queue depth: the root keeps a fixed number of messages in flight, and records the latency of each.
//!
//! Models a storage client whose WRITEs are separate requests. The client posts the next request when all replicas have
//! acknowledged an earlier one. A request is one message of the transfer.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Statistics of request latencies in nanoseconds. A latency is the time from the post until the root has the
/// acknowledgements of all receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTimes {
    /// Number of completed requests.
    pub count: u64,
    /// Time from the first post to the last completion, in nanoseconds.
    pub span_ns: u64,
    /// Completed requests per second over `span_ns`: the IOPS of a storage system.
    pub per_second: u64,
    /// Arithmetic mean of the latencies, in nanoseconds.
    pub mean_ns: u64,
    /// Median latency in nanoseconds. All percentiles use the nearest-rank method.
    pub p50_ns: u64,
    /// 95th percentile of the latencies, in nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile of the latencies, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile of the latencies, in nanoseconds.
    pub p999_ns: u64,
    /// Longest latency, in nanoseconds.
    pub max_ns: u64,
}

/// Latencies of the requests (messages) that one root sends. [`RequestLatencies::merge`] combines those of several
/// roots.
#[derive(Debug, Clone, Default)]
pub struct RequestLatencies {
    depth: u32,
    /// Post times of the requests (messages) in flight, in nanoseconds.
    in_flight: VecDeque<u64>,
    /// Number of requests (messages) that the root has posted so far.
    posted: u32,
    /// Time of the first post in nanoseconds; `None` before it.
    first_post: Option<u64>,
    /// Latencies of the completed requests, in nanoseconds.
    latencies: Vec<u64>,
    /// Time of the last completion in nanoseconds; 0 before the first.
    done_at: u64,
}

impl RequestLatencies {
    pub(super) fn new(depth: u32) -> RequestLatencies {
        RequestLatencies {
            depth,
            ..RequestLatencies::default()
        }
    }

    /// Whether the queue depth permits to post request number `request`. A request that was posted to one receiver may
    /// also be posted to the others.
    pub(super) fn may_post(&self, request: u32) -> bool {
        (request as usize) < self.latencies.len() + self.depth as usize
    }

    /// Records the post of request number `request`. If it was posted to another receiver before, the call has no
    /// effect.
    pub(super) fn posted(&mut self, request: u32, now: u64) {
        if request == self.posted {
            self.posted += 1;
            self.in_flight.push_back(now);
            self.first_post.get_or_insert(now);
        }
    }

    /// Records that every receiver has acknowledged the first `count` requests.
    pub(super) fn acknowledged(&mut self, count: usize, now: u64) {
        while self.latencies.len() < count {
            let Some(posted_at) = self.in_flight.pop_front() else {
                return;
            };
            self.latencies.push(now.saturating_sub(posted_at));
            self.done_at = self.done_at.max(now);
        }
    }

    /// Adds the latencies of another root's requests; both roots must use the same clock.
    pub fn merge(&mut self, other: &RequestLatencies) {
        self.latencies.extend(&other.latencies);
        self.done_at = self.done_at.max(other.done_at);
        self.first_post = self.first_post.into_iter().chain(other.first_post).min();
    }

    /// Computes the latency statistics; `None` before the first completion.
    pub fn times(&self) -> Option<RequestTimes> {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        let count = latencies.len() as u64;
        let rank = |permille: u64| {
            let rank = (count * permille).div_ceil(1_000).max(1);
            latencies.get(rank as usize - 1).copied()
        };
        let span_ns = self.done_at.saturating_sub(self.first_post?);
        let per_second = u128::from(count) * 1_000_000_000 / u128::from(span_ns.max(1));
        Some(RequestTimes {
            count,
            span_ns,
            per_second: u64::try_from(per_second).unwrap_or(u64::MAX),
            mean_ns: latencies.iter().sum::<u64>().checked_div(count)?,
            p50_ns: rank(500)?,
            p95_ns: rank(950)?,
            p99_ns: rank(990)?,
            p999_ns: rank(999)?,
            max_ns: rank(1_000)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_flight_are_limited_by_the_queue_depth() {
        let mut requests = RequestLatencies::new(2);
        assert!(requests.may_post(1) && !requests.may_post(2));
        requests.posted(0, 100);
        requests.posted(1, 100);
        requests.acknowledged(1, 160);
        assert!(requests.may_post(2) && !requests.may_post(3));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut requests = RequestLatencies::new(1_000);
        (0..1_000).for_each(|request| requests.posted(request, 0));
        (1..=1_000).for_each(|count| requests.acknowledged(count, count as u64));
        let times = requests.times().unwrap();
        assert_eq!((times.count, times.span_ns), (1_000, 1_000));
        let percentiles = [times.p50_ns, times.p95_ns, times.p99_ns, times.p999_ns];
        assert_eq!(percentiles, [500, 950, 990, 999]);
        assert_eq!((times.mean_ns, times.max_ns), (500, 1_000));
        assert_eq!(times.per_second, 1_000_000_000);
    }

    #[test]
    fn no_requests_give_no_times() {
        assert_eq!(RequestLatencies::new(1).times(), None);
    }

    #[test]
    fn second_post_of_a_request_to_another_receiver_is_the_same_request() {
        let mut requests = RequestLatencies::new(1);
        requests.posted(0, 10);
        requests.posted(0, 20);
        requests.acknowledged(0, 30);
        requests.acknowledged(1, 40);
        assert_eq!(requests.times().unwrap().max_ns, 30);
    }

    #[test]
    fn requests_of_two_roots_are_counted_together() {
        let of = |began: u64, took: u64| {
            let mut requests = RequestLatencies::new(1);
            requests.posted(0, began);
            requests.acknowledged(1, began + took);
            requests
        };
        let mut both = RequestLatencies::default();
        both.merge(&of(100, 30));
        both.merge(&of(50, 10));
        let times = both.times().unwrap();
        assert_eq!((times.count, times.span_ns), (2, 80));
        assert_eq!((times.p50_ns, times.max_ns), (10, 30));
    }
}
