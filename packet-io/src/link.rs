//! Emulation of a port's link where the kernel has no netem: rate, delay, jitter, loss, duplication and reordering.
//!
//! Every port has its own random stream, so its losses do not depend on the traffic of other ports. Runs with the
//! same seed and the same frames have the same losses.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use alfirk_units::{UnitError, PACKET_RATE, RATE};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use thiserror::Error;

use super::loss_filter::{Direction, LossFilter};
use crate::wire::wire_bytes;

/// Emulated properties of the link of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkOptions {
    /// Probability that a frame is lost, in each direction, from 0 to 1.
    pub loss: f64,
    /// Delay of every sent frame, added to its transmission time.
    pub delay: Duration,
    /// Maximum random time added to the delay, uniformly distributed. Frames keep their order.
    pub jitter: Duration,
    /// Probability that a sent frame is duplicated.
    pub duplicate: f64,
    /// Probability that a sent frame skips the delay, and so overtakes others.
    pub reorder: f64,
    /// Maximum rate of sent frames; `None` for no limit.
    pub rate: Option<Rate>,
    /// Whether bit rates include the Ethernet overhead of each frame, see [`wire_bytes`].
    pub on_wire: bool,
    /// Whether the link is cut: all frames are lost, in both directions.
    pub down: bool,
}

/// Reason why [`LinkOptions`] are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The probability with this name is not between 0 and 1.
    #[error("{0}: expected a probability from 0 to 1")]
    InvalidProbability(&'static str),
    /// The rate is 0 bits or packets per second.
    #[error("rate: expected at least 1")]
    ZeroRate,
    /// `reorder` is set without `delay`, so no frame can overtake another.
    #[error("reorder: needs a delay, which reordered frames skip")]
    ReorderWithoutDelay,
}

impl LinkOptions {
    /// Checks whether the options are valid.
    ///
    /// # Errors
    /// The first invalid option.
    pub fn check(&self) -> Result<(), LinkError> {
        let chances = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
        ];
        for (what, chance) in chances {
            if !(0.0..=1.0).contains(&chance) {
                return Err(LinkError::InvalidProbability(what));
            }
        }
        if matches!(self.rate, Some(Rate::Bits(0) | Rate::Packets(0))) {
            return Err(LinkError::ZeroRate);
        }
        if self.reorder > 0.0 && self.delay.is_zero() {
            return Err(LinkError::ReorderWithoutDelay);
        }
        Ok(())
    }
}

/// The rate of a link, at least one bit or packet per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Bits per second.
    Bits(u64),
    /// Packets per second, of any length.
    Packets(u64),
}

impl Rate {
    /// Transmission time of a frame of `bytes` bytes in nanoseconds.
    fn time_of(self, bytes: u64) -> u64 {
        let (units, per_second) = match self {
            Rate::Bits(rate) => (u128::from(bytes) * 8, rate),
            Rate::Packets(rate) => (1, rate),
        };
        let time = units * 1_000_000_000 / u128::from(per_second.max(1));
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

/// Formats the rate in the syntax of the command line, such as `100Mbps` or `2kpps`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Bits(rate) => RATE.show(*rate).fmt(f),
            Rate::Packets(rate) => PACKET_RATE.show(*rate).fmt(f),
        }
    }
}

/// Reason why a text is not the rate of a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The text is not a number with a unit of bits or packets per second.
    #[error("{0}; or pps, kpps, Mpps for packets")]
    Unit(UnitError),
    /// The rate is not a whole number of bits or packets per second, or too large.
    #[error(transparent)]
    Range(UnitError),
    /// The rate is 0.
    #[error("the rate must be at least 1")]
    Zero,
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        let (rate, of): (Result<u64, UnitError>, fn(u64) -> Rate) = match PACKET_RATE.has_unit(text)
        {
            true => (PACKET_RATE.parse(text), Rate::Packets),
            false => (RATE.parse(text), Rate::Bits),
        };
        match rate {
            Ok(0) => Err(RateError::Zero),
            Ok(rate) => Ok(of(rate)),
            Err(error @ UnitError::Range { .. }) => Err(RateError::Range(error)),
            Err(error) => Err(RateError::Unit(error)),
        }
    }
}

/// The emulated link of one port.
#[derive(Debug)]
pub struct Link {
    options: LinkOptions,
    /// Whether random or selected loss is the link's only effect on frames.
    plain: bool,
    /// Delay of each frame in nanoseconds.
    delay: u64,
    /// Maximum random addition to the delay, in nanoseconds.
    jitter: u64,
    loss: Chance,
    loss_filters: Vec<LossFilter>,
    duplicate: Chance,
    reorder: Chance,
    random: ChaCha8Rng,
    /// Time in nanoseconds at which the transmission of the last frame ends.
    busy_until: u64,
    /// Arrival time in nanoseconds of the last frame that was not reordered.
    last_arrival: u64,
    /// Frames in flight, by arrival time in nanoseconds and by order of sending.
    waiting: BTreeMap<(u64, u64), Vec<u8>>,
    sequence: u64,
    /// Number of frames that the link has dropped, in both directions.
    pub lost: u64,
}

/// A probability, as a threshold for 64-bit random numbers. `None` for probability 0, which consumes no random number.
#[derive(Clone, Copy, Debug)]
struct Chance(Option<u64>);

impl Chance {
    fn new(probability: f64) -> Chance {
        // 2^64 as a float; the cast saturates, so probability 1 is u64::MAX.
        let threshold = (probability * 18_446_744_073_709_551_616.0) as u64;
        Chance((threshold > 0).then_some(threshold))
    }

    fn hits(self, random: &mut ChaCha8Rng) -> bool {
        self.0
            .is_some_and(|threshold| random.next_u64() < threshold || threshold == u64::MAX)
    }
}

impl Link {
    /// Creates the emulated link of port number `port`. `seed`: random seed of the switch.
    pub fn new(options: LinkOptions, seed: u64, port: u32) -> Link {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(port.into());
        let mut link = Link {
            options,
            plain: true,
            delay: 0,
            jitter: 0,
            loss: Chance(None),
            loss_filters: Vec::new(),
            duplicate: Chance(None),
            reorder: Chance(None),
            random,
            busy_until: 0,
            last_arrival: 0,
            waiting: BTreeMap::new(),
            sequence: 0,
            lost: 0,
        };
        link.set(options, 0);
        link
    }

    /// Changes the options of the link at time `now`. Frames in flight arrive as scheduled. After a change of the rate,
    /// the next frame does not wait for the end of the last transmission.
    pub fn set(&mut self, options: LinkOptions, now: u64) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if options.rate != self.options.rate {
            self.busy_until = self.busy_until.min(now);
        }
        self.delay = nanos(options.delay);
        self.jitter = nanos(options.jitter);
        self.loss = Chance::new(options.loss);
        self.duplicate = Chance::new(options.duplicate);
        self.reorder = Chance::new(options.reorder);
        self.plain = self.delay == 0
            && self.jitter == 0
            && options.rate.is_none()
            && self.duplicate.0.is_none();
        self.options = options;
    }

    /// Returns the current options of the link.
    pub fn options(&self) -> LinkOptions {
        self.options
    }

    /// Number of frames in flight.
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Sets the rules by which selected frames are dropped.
    #[must_use]
    pub fn with_loss_filters(mut self, loss_filters: Vec<LossFilter>) -> Link {
        self.loss_filters = loss_filters;
        self
    }

    /// Decides whether a frame is lost, and counts lost ones.
    pub fn loses(&mut self, direction: Direction, frame: &[u8]) -> bool {
        let mut lost = self.options.down || self.loss.hits(&mut self.random);
        // Every rule counts every frame, so there is no early return.
        for filter in &mut self.loss_filters {
            lost |= filter.matches(direction, frame);
        }
        self.lost += u64::from(lost);
        lost
    }

    /// Whether frames may be sent without [`Link::push`]: loss is the link's only effect, and no frame is in flight.
    pub fn is_plain(&self) -> bool {
        self.plain && self.waiting.is_empty()
    }

    /// Whether the rate of the link is limited, so that packets may queue for it.
    pub fn has_rate(&self) -> bool {
        self.options.rate.is_some()
    }

    /// Whether the link can accept a frame at time `now`.
    pub fn is_idle(&self, now: u64) -> bool {
        self.busy_until <= now
    }

    /// Time in nanoseconds from which the link can accept the next frame.
    pub fn idle_at(&self) -> u64 {
        self.busy_until
    }

    /// Sends a frame that has been queued since `now`. Its transmission starts when the link is idle. A lost frame
    /// occupies the link, too.
    pub fn push(&mut self, now: u64, frame: Vec<u8>) {
        if let Some(rate) = self.options.rate {
            let start = self.busy_until.max(now);
            let bytes = match self.options.on_wire {
                true => wire_bytes(frame.len()),
                false => frame.len() as u64,
            };
            self.busy_until = start.saturating_add(rate.time_of(bytes));
        }
        if self.loses(Direction::Out, &frame) {
            return;
        }
        let sent = self.busy_until.max(now);
        if self.duplicate.hits(&mut self.random) {
            self.place(sent, frame.clone());
        }
        self.place(sent, frame);
    }

    fn place(&mut self, sent: u64, frame: Vec<u8>) {
        let arrival = if self.reorder.hits(&mut self.random) {
            sent
        } else {
            let jitter = match self.jitter {
                0 => 0,
                max => self.random.next_u64() % max.saturating_add(1),
            };
            let arrival = sent.saturating_add(self.delay).saturating_add(jitter);
            self.last_arrival = self.last_arrival.max(arrival);
            self.last_arrival
        };
        self.sequence += 1;
        self.waiting.insert((arrival, self.sequence), frame);
    }

    /// Removes and returns a frame that has arrived by `now`; `None` if there is none.
    pub fn pop(&mut self, now: u64) -> Option<Vec<u8>> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Arrival time in nanoseconds of the next frame; `None` if no frame is in flight.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn losses(loss: f64, seed: u64, port: u32) -> Vec<bool> {
        let options = LinkOptions {
            loss,
            ..Default::default()
        };
        let mut link = Link::new(options, seed, port);
        (0..10_000)
            .map(|_| link.loses(Direction::In, &[]))
            .collect()
    }

    /// Arrivals of `count` frames that are all sent at time 0.
    fn arrivals(options: LinkOptions, seed: u64, count: u8) -> Vec<(u64, u8)> {
        let mut link = Link::new(options, seed, 1);
        for i in 0..count {
            link.push(0, vec![i; 100]);
        }
        let mut arrivals = Vec::new();
        while let Some(at) = link.poll_timeout() {
            assert_eq!(link.pop(at - 1), None);
            arrivals.push((at, link.pop(at).unwrap()[0]));
        }
        arrivals
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn losses_depend_on_seed_and_port() {
        assert_eq!(losses(0.1, 1, 1), losses(0.1, 1, 1));
        assert_ne!(losses(0.1, 1, 1), losses(0.1, 2, 1));
        assert_ne!(losses(0.1, 1, 1), losses(0.1, 1, 2));
        let lost = losses(0.1, 1, 1).iter().filter(|lost| **lost).count();
        assert!((800..1200).contains(&lost), "{lost}");
        assert!(losses(0.0, 1, 1).iter().all(|lost| !lost));
        assert!(losses(1.0, 1, 1).iter().all(|lost| *lost));
    }

    #[test]
    fn a_change_does_not_affect_frames_in_flight() {
        let delayed = |ms| LinkOptions {
            delay: Duration::from_millis(ms),
            ..Default::default()
        };
        let mut link = Link::new(delayed(5), 0, 1);
        link.push(0, vec![1]);
        link.set(delayed(1), MS);
        link.push(MS, vec![2]);
        link.set(delayed(0), 2 * MS);
        assert!(!link.is_plain(), "later frames must not overtake");
        link.push(2 * MS, vec![3]);
        assert_eq!(link.in_flight(), 3);
        assert_eq!(link.pop(5 * MS - 1), None);
        let arrived: Vec<_> = std::iter::from_fn(|| link.pop(5 * MS)).collect();
        assert_eq!(arrived, [[1], [2], [3]]);
        assert!(link.is_plain());
    }

    #[test]
    fn printed_rates_parse_to_the_same_rate() {
        for rate in [
            "1bps", "1500bps", "100Mbps", "2500Mbps", "2Tbps", "999pps", "2kpps", "1500Mpps",
        ] {
            assert_eq!(Rate::from_str(rate).unwrap().to_string(), rate);
        }
        let why = |text| Rate::from_str(text).unwrap_err().to_string();
        assert!(why("5").ends_with("Tbps; or pps, kpps, Mpps for packets"));
        assert!(why("0.5pps").contains("whole number of pps"));
        assert_eq!(why("0kbps"), "the rate must be at least 1");
    }

    prop_compose! {
        fn any_link()(
            delay in prop_oneof![Just(0), 1..3000u64],
            jitter in prop_oneof![Just(0), 1..3000u64],
            rate in proptest::option::of(1u64..5000),
        ) -> LinkOptions {
            LinkOptions {
                delay: Duration::from_micros(delay),
                jitter: Duration::from_micros(jitter),
                rate: rate.map(Rate::Packets),
                ..Default::default()
            }
        }
    }

    proptest! {
        #[test]
        fn changes_of_options_keep_the_order_of_frames(
            steps in proptest::collection::vec((0..5 * MS, proptest::option::of(any_link())), 1..60),
        ) {
            let mut link = Link::new(LinkOptions::default(), 0, 1);
            let (mut now, mut arrived) = (0, Vec::new());
            for (n, (pause, change)) in steps.iter().enumerate() {
                now += pause;
                arrived.extend(std::iter::from_fn(|| link.pop(now)));
                if let Some(options) = change {
                    link.set(*options, now);
                }
                let frame = vec![n as u8];
                if link.is_plain() {
                    arrived.push(frame);
                } else {
                    link.push(now, frame);
                }
            }
            arrived.extend(std::iter::from_fn(|| link.pop(u64::MAX)));
            let sent: Vec<_> = (0..steps.len()).map(|n| vec![n as u8]).collect();
            prop_assert_eq!(arrived, sent);
        }
    }

    #[test]
    fn a_new_rate_applies_to_the_next_frame() {
        let rated = |rate| LinkOptions {
            rate,
            ..Default::default()
        };
        let mut link = Link::new(rated(Some(Rate::Packets(1))), 0, 1);
        link.push(0, vec![1]);
        assert_eq!(link.idle_at(), 1000 * MS);
        link.set(rated(Some(Rate::Packets(1000))), 10 * MS);
        assert!(link.is_idle(10 * MS));
        link.push(10 * MS, vec![2]);
        assert_eq!(link.idle_at(), 11 * MS);
        link.set(rated(None), 10 * MS);
        assert!(link.is_idle(10 * MS));
    }

    #[test]
    fn rates_on_the_wire_include_ethernet_overhead() {
        let options = LinkOptions {
            rate: Some(Rate::Bits(8_000_000_000)),
            on_wire: true,
            ..Default::default()
        };
        let mut link = Link::new(options, 0, 1);
        link.push(0, vec![0; 1000]);
        assert_eq!(link.idle_at(), 1024);
        // Padded to the minimum length of a frame.
        link.push(0, vec![0; 14]);
        assert_eq!(link.idle_at(), 1024 + 84);
    }

    #[test]
    fn a_late_push_does_not_delay_a_busy_link() {
        let options = LinkOptions {
            rate: Some(Rate::Packets(1000)),
            ..Default::default()
        };
        let mut link = Link::new(options, 0, 1);
        link.push(0, vec![1]);
        // Queued since 0, and pushed after the first frame was transmitted.
        link.push(0, vec![2]);
        assert_eq!(link.idle_at(), 2 * MS);
        link.push(5 * MS, vec![3]);
        assert_eq!(link.idle_at(), 6 * MS);
    }

    #[test]
    fn a_cut_link_loses_all_frames_until_it_is_restored() {
        let mut link = Link::new(LinkOptions::default(), 0, 1);
        let cut = LinkOptions {
            down: true,
            ..Default::default()
        };
        link.set(cut, 0);
        assert!(link.loses(Direction::In, &[]) && link.loses(Direction::Out, &[]));
        assert_eq!(link.lost, 2);
        link.set(LinkOptions::default(), 0);
        assert!(!link.loses(Direction::In, &[]));
    }

    #[test]
    fn invalid_link_options_are_reported() {
        let fault = |change: fn(&mut LinkOptions)| {
            let mut link = LinkOptions::default();
            change(&mut link);
            link.check().unwrap_err().to_string()
        };
        assert!(fault(|l| l.loss = 1.5).starts_with("loss: "));
        assert!(fault(|l| l.duplicate = f64::NAN).starts_with("duplicate: "));
        assert!(fault(|l| l.reorder = -0.1).starts_with("reorder: "));
        assert!(fault(|l| l.reorder = 0.1).contains("needs a delay"));
        assert!(fault(|l| l.rate = Some(Rate::Bits(0))).starts_with("rate: "));
        assert_eq!(LinkOptions::default().check(), Ok(()));
    }

    #[test]
    fn frames_arrive_after_the_delay_and_in_order() {
        let options = LinkOptions {
            delay: Duration::from_millis(1),
            ..Default::default()
        };
        let mut link = Link::new(options, 0, 1);
        assert!(!link.is_plain());
        link.push(0, vec![1]);
        link.push(10, vec![2]);
        assert_eq!(link.poll_timeout(), Some(1_000_000));
        assert_eq!(link.pop(999_999), None);
        assert_eq!(link.pop(1_000_000), Some(vec![1]));
        assert_eq!(link.pop(1_000_000), None);
        assert_eq!(link.pop(1_000_010), Some(vec![2]));
        assert_eq!(link.poll_timeout(), None);
    }

    #[test]
    fn jitter_spreads_frames_and_keeps_their_order() {
        let options = LinkOptions {
            delay: Duration::from_millis(1),
            jitter: Duration::from_millis(2),
            ..Default::default()
        };
        let spread = arrivals(options, 3, 100);
        assert!(spread.iter().all(|(at, _)| (MS..=3 * MS).contains(at)));
        assert!(spread.last().unwrap().0 - spread[0].0 > MS);
        assert!(spread.iter().map(|(_, i)| *i).eq(0..100));
        assert_eq!(spread, arrivals(options, 3, 100));
        assert_ne!(spread, arrivals(options, 4, 100));
    }

    #[test]
    fn some_frames_arrive_twice() {
        let options = LinkOptions {
            delay: Duration::from_millis(1),
            duplicate: 0.25,
            ..Default::default()
        };
        let twice = arrivals(options, 1, 200);
        assert!((220..280).contains(&twice.len()), "{}", twice.len());
        let mut numbers: Vec<u8> = twice.iter().map(|(_, i)| *i).collect();
        assert!(numbers.is_sorted());
        numbers.dedup();
        assert_eq!(numbers.len(), 200);
    }

    #[test]
    fn some_frames_overtake_others() {
        let options = LinkOptions {
            delay: Duration::from_millis(1),
            reorder: 0.25,
            rate: Some(Rate::Packets(100_000)),
            ..Default::default()
        };
        let frames = arrivals(options, 1, 200);
        let early = frames
            .iter()
            .filter(|(at, i)| *at < (u64::from(*i) + 1) * 10_000 + MS);
        let early = early.count();
        assert!((25..75).contains(&early), "{early}");
        assert!(!frames.iter().map(|(_, i)| *i).is_sorted());
    }

    #[test]
    fn frames_occupy_the_link_for_their_transmission_time() {
        let options = LinkOptions {
            rate: Some(Rate::Bits(8_000_000)),
            ..Default::default()
        };
        let frames = arrivals(options, 0, 3);
        assert_eq!(frames, [(100_000, 0), (200_000, 1), (300_000, 2)]);
        let mut link = Link::new(options, 0, 1);
        assert!(link.is_idle(0));
        link.push(5, vec![0; 10]);
        assert!(!link.is_idle(10_004));
        assert_eq!(link.idle_at(), 10_005);
    }
}
