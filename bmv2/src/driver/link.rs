//! Emulation of a port's link: loss and delay, where the kernel has no netem.
//!
//! Every port draws from a stream of its own, so what one port loses does not depend on the
//! traffic of another, and a run with the same seed and the same frames loses the same ones.

use std::{collections::VecDeque, time::Duration};

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// What a port's link does to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkOptions {
    /// Probability with which a frame is lost, in each direction, from 0 to 1.
    pub loss: f64,
    /// Added to every frame that leaves.
    pub delay: Duration,
}

/// The link of one port.
#[derive(Debug)]
pub struct Link {
    delay: u64,
    /// A frame is lost when the next draw is below this; `None` when none ever is.
    threshold: Option<u64>,
    random: ChaCha8Rng,
    /// Frames on their way out, with the time at which they arrive, in nanoseconds.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// Frames lost on purpose.
    pub lost: u64,
}

impl Link {
    /// The link of port `port` of a switch with this seed.
    pub fn new(options: LinkOptions, seed: u64, port: u32) -> Link {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(port.into());
        // 2^64 as a float; the cast saturates, so certain loss is u64::MAX.
        let threshold = (options.loss * 18_446_744_073_709_551_616.0) as u64;
        Link {
            delay: u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX),
            threshold: (threshold > 0).then_some(threshold),
            random,
            waiting: VecDeque::new(),
            lost: 0,
        }
    }

    /// Whether the next frame, in or out, is lost.
    pub fn loses(&mut self) -> bool {
        let Some(threshold) = self.threshold else {
            return false;
        };
        let lost = self.random.next_u64() < threshold || threshold == u64::MAX;
        self.lost += u64::from(lost);
        lost
    }

    /// Whether frames are held back at all.
    pub fn delays(&self) -> bool {
        self.delay > 0
    }

    /// Puts a frame on the link.
    pub fn push(&mut self, now: u64, frame: Vec<u8>) {
        self.waiting
            .push_back((now.saturating_add(self.delay), frame));
    }

    /// A frame that has arrived, if there is one.
    pub fn pop(&mut self, now: u64) -> Option<Vec<u8>> {
        if self.waiting.front()?.0 > now {
            return None;
        }
        self.waiting.pop_front().map(|(_, frame)| frame)
    }

    /// When the next frame arrives.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.waiting.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(loss: f64, seed: u64, port: u32) -> Vec<bool> {
        let options = LinkOptions {
            loss,
            ..Default::default()
        };
        let mut link = Link::new(options, seed, port);
        (0..10_000).map(|_| link.loses()).collect()
    }

    #[test]
    fn loss_follows_seed_and_port() {
        assert_eq!(losses(0.1, 1, 1), losses(0.1, 1, 1));
        assert_ne!(losses(0.1, 1, 1), losses(0.1, 2, 1));
        assert_ne!(losses(0.1, 1, 1), losses(0.1, 1, 2));
        let lost = losses(0.1, 1, 1).iter().filter(|lost| **lost).count();
        assert!((800..1200).contains(&lost), "{lost}");
        assert!(losses(0.0, 1, 1).iter().all(|lost| !lost));
        assert!(losses(1.0, 1, 1).iter().all(|lost| *lost));
    }

    #[test]
    fn frames_arrive_after_the_delay_and_in_order() {
        let options = LinkOptions {
            delay: Duration::from_millis(1),
            ..Default::default()
        };
        let mut link = Link::new(options, 0, 1);
        assert!(link.delays());
        link.push(0, vec![1]);
        link.push(10, vec![2]);
        assert_eq!(link.poll_timeout(), Some(1_000_000));
        assert_eq!(link.pop(999_999), None);
        assert_eq!(link.pop(1_000_000), Some(vec![1]));
        assert_eq!(link.pop(1_000_000), None);
        assert_eq!(link.pop(1_000_010), Some(vec![2]));
        assert_eq!(link.poll_timeout(), None);
    }
}
