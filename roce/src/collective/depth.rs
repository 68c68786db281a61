//! Queue depth: a root that has so many messages under way and no more, and how long each of them took.
//!
//! That is a storage client, whose WRITEs are requests of their own: it submits the next one when all replicas have acknowledged one.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// How long requests took, each from its post until the root's application saw that all receivers had acknowledged it. In nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTimes {
    /// Requests that are done.
    pub count: u64,
    /// From the first post until the last one was done.
    pub span_ns: u64,
    /// Requests per second of that time: a storage system's IOPS.
    pub per_second: u64,
    pub mean_ns: u64,
    /// The least time that half of them took no longer than: the nearest rank, as are the others.
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// What a root knows of its requests. Those of several roots are added up by [`Requests::merge`].
#[derive(Debug, Clone, Default)]
pub struct Requests {
    depth: u32,
    /// When each was posted that is not done.
    under_way: VecDeque<u64>,
    /// How many have been posted.
    posted: u32,
    /// When the first one was posted.
    began_at: Option<u64>,
    /// How long each took that is done.
    took: Vec<u64>,
    /// When the last of these was done.
    done_at: u64,
}

impl Requests {
    pub(super) fn new(depth: u32) -> Requests {
        Requests {
            depth,
            ..Requests::default()
        }
    }

    /// Whether a request may be posted now, to any of the receivers.
    pub(super) fn may_post(&self, request: u32) -> bool {
        (request as usize) < self.took.len() + self.depth as usize
    }

    /// A request is posted, to the first of the receivers or to another one.
    pub(super) fn posted(&mut self, request: u32, now: u64) {
        if request == self.posted {
            self.posted += 1;
            self.under_way.push_back(now);
            self.began_at.get_or_insert(now);
        }
    }

    /// By now every receiver has acknowledged the first `count` requests.
    pub(super) fn acknowledged(&mut self, count: usize, now: u64) {
        while self.took.len() < count {
            let Some(posted_at) = self.under_way.pop_front() else {
                return;
            };
            self.took.push(now.saturating_sub(posted_at));
            self.done_at = self.done_at.max(now);
        }
    }

    /// Adds those of another root on the same clock.
    pub fn merge(&mut self, other: &Requests) {
        self.took.extend(&other.took);
        self.done_at = self.done_at.max(other.done_at);
        self.began_at = self.began_at.into_iter().chain(other.began_at).min();
    }

    /// How long they took; `None` if none is done.
    pub fn times(&self) -> Option<RequestTimes> {
        let mut took = self.took.clone();
        took.sort_unstable();
        let count = took.len() as u64;
        let rank = |permille: u64| {
            let rank = (count * permille).div_ceil(1_000).max(1);
            took.get(rank as usize - 1).copied()
        };
        let span_ns = self.done_at.saturating_sub(self.began_at?);
        let per_second = u128::from(count) * 1_000_000_000 / u128::from(span_ns.max(1));
        Some(RequestTimes {
            count,
            span_ns,
            per_second: u64::try_from(per_second).unwrap_or(u64::MAX),
            mean_ns: took.iter().sum::<u64>().checked_div(count)?,
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
    fn as_many_are_under_way_as_the_queue_is_deep() {
        let mut requests = Requests::new(2);
        assert!(requests.may_post(1) && !requests.may_post(2));
        requests.posted(0, 100);
        requests.posted(1, 100);
        requests.acknowledged(1, 160);
        assert!(requests.may_post(2) && !requests.may_post(3));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut requests = Requests::new(1_000);
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
    fn nothing_is_said_of_no_requests() {
        assert_eq!(Requests::new(1).times(), None);
    }

    #[test]
    fn second_post_of_a_request_to_another_receiver_is_the_same_request() {
        let mut requests = Requests::new(1);
        requests.posted(0, 10);
        requests.posted(0, 20);
        requests.acknowledged(0, 30);
        requests.acknowledged(1, 40);
        assert_eq!(requests.times().unwrap().max_ns, 30);
    }

    #[test]
    fn requests_of_two_roots_are_counted_together() {
        let of = |began: u64, took: u64| {
            let mut requests = Requests::new(1);
            requests.posted(0, began);
            requests.acknowledged(1, began + took);
            requests
        };
        let mut both = Requests::default();
        both.merge(&of(100, 30));
        both.merge(&of(50, 10));
        let times = both.times().unwrap();
        assert_eq!((times.count, times.span_ns), (2, 80));
        assert_eq!((times.p50_ns, times.max_ns), (10, 30));
    }
}
