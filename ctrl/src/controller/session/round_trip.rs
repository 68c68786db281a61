//! Round-trip time to a switch.

/// Smoothed round-trip time: exponentially weighted moving average (RFC 6298, section 2, with alpha 1/8).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// Average in nanoseconds.
    mean: Option<u64>,
}

impl RoundTrip {
    /// Adds a sample in nanoseconds, of a request that was not retransmitted.
    pub(super) fn measured(&mut self, ns: u64) {
        let mean = self.mean.unwrap_or(ns);
        self.mean = Some(mean - mean / 8 + ns / 8);
    }

    /// Average in nanoseconds; `None` without a sample.
    pub(super) fn ns(self) -> Option<u64> {
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_samples() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.ns(), None);
        trip.measured(800);
        assert_eq!(trip.ns(), Some(800));
        trip.measured(1_600);
        assert_eq!(trip.ns(), Some(900));
        for _ in 0..100 {
            trip.measured(1_600);
        }
        assert!(trip.ns().is_some_and(|ns| (1_590..=1_600).contains(&ns)));
    }
}
