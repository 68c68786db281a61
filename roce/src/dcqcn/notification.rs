//! The notification point: when a receiver notifies its sender of congestion.

/// The notification point of one queue pair.
#[derive(Debug, Clone, Default)]
pub struct NotificationPoint {
    /// When the last CNP became due.
    last: Option<u64>,
}

impl NotificationPoint {
    /// A packet with the CE mark came at `now`: whether a CNP is due. There is one at once, and then at most one per `interval`
    /// nanoseconds, and only for marks that come after it.
    pub fn marked(&mut self, now: u64, interval: u64) -> bool {
        let due = self
            .last
            .is_none_or(|last| now.saturating_sub(last) >= interval);
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_within_the_interval_bring_one_cnp() {
        let mut point = NotificationPoint::default();
        let due: Vec<u64> = (0..200_000)
            .step_by(1_000)
            .filter(|now| point.marked(*now, 50_000))
            .collect();
        assert_eq!(due, [0, 50_000, 100_000, 150_000]);
        assert!(point.marked(1_000_000, 50_000), "after silence at once");
    }
}
