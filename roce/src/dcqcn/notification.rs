//! The notification point: decides when a receiver sends a congestion notification packet (CNP).

/// DCQCN's notification point of one queue pair: decides when the receiver sends a congestion notification packet
/// (CNP).
#[derive(Debug, Clone, Default)]
pub struct NotificationPoint {
    /// Time of the last CNP in nanoseconds; `None` before the first.
    last: Option<u64>,
}

impl NotificationPoint {
    /// Handles a packet with the CE mark, received at `now`. Returns whether a CNP is due: for the first mark, then at
    /// most once per `interval` nanoseconds.
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
        assert!(point.marked(1_000_000, 50_000), "at once after a pause");
    }
}
