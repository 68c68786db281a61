//! Priority-based flow control of one port (IEEE 802.1Q, clause 36): state of the paused side, and PAUSE frames.

use alfirk_packet_io::frame::SplitFrame;
use alfirk_roce::host::Packet;
use alfirk_roce::wire::pause::{self, QUANTUM_BITS};
use alfirk_roce::wire::{ethernet, ipv4, MacAddr};

use crate::engine::{Context, Frame};

/// Pause time in a PAUSE frame, in quanta of 512 bit times: the maximum. The other end resumes after this time unless
/// another PAUSE frame arrives.
const QUANTA: u16 = u16::MAX;

/// Length of a PAUSE frame: the minimum frame without FCS.
const FRAME_LEN: usize = 60;

/// Classification of a received frame for flow control: a PAUSE frame, or a packet with its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    Pause(pause::Repr),
    /// A packet of the given class, 0 to 7.
    Packet(u8),
}

/// A frame that flow control can classify and that can be created from bytes.
pub(super) trait ClassifiedFrame: Frame + From<Vec<u8>> {
    /// Classifies a frame. The class of an IPv4 packet is the upper three bits of its DSCP; other packets have class 0.
    fn read(&self) -> Arrival;
}

impl ClassifiedFrame for Vec<u8> {
    fn read(&self) -> Arrival {
        read(self)
    }
}

impl ClassifiedFrame for Packet {
    fn read(&self) -> Arrival {
        match self {
            Packet::Bytes(frame) => read_split(frame),
            Packet::Rc(frame) => Arrival::Packet(class(frame.outer.ipv4.tos)),
        }
    }
}

fn read_split(frame: &SplitFrame) -> Arrival {
    let head = frame.head();
    let is_whole = frame.tail().is_none();
    let ip = ethernet::View::new_checked(head).ok().filter(|_| !is_whole);
    let ip = ip.filter(|eth| eth.ethertype() == ethernet::ETHERTYPE_IPV4);
    let behind = frame.len() - head.len();
    let ip = ip.map(|eth| eth.payload());
    match ip.and_then(|ip| ipv4::Repr::parse_front(ip, ip.len() + behind)) {
        Some(ip) => Arrival::Packet(class(ip.tos)),
        None => read(&frame.bytes()),
    }
}

fn read(frame: &[u8]) -> Arrival {
    let Ok(eth) = ethernet::View::new_checked(frame) else {
        return Arrival::Packet(0);
    };
    match eth.ethertype() {
        pause::ETHERTYPE => match pause::View::new_checked(eth.payload()) {
            Ok(view) => Arrival::Pause(pause::Repr::parse(&view)),
            Err(_) => Arrival::Packet(0),
        },
        ethernet::ETHERTYPE_IPV4 => {
            let ip = ipv4::View::new_checked(eth.payload());
            Arrival::Packet(ip.map_or(0, |ip| class(ip.tos())))
        }
        _ => Arrival::Packet(0),
    }
}

fn class(tos: u8) -> u8 {
    tos >> (ipv4::DSCP_SHIFT + 3)
}

/// Builds a PAUSE frame that stops (`stops`) or resumes a class. `source`: MAC address of the sender.
pub(super) fn frame(source: MacAddr, class: u8, stops: bool) -> Vec<u8> {
    let mut frame = vec![0; FRAME_LEN];
    ethernet::Repr {
        destination: pause::DESTINATION,
        source,
        ethertype: pause::ETHERTYPE,
    }
    .emit(&mut frame);
    let quanta = if stops { QUANTA } else { 0 };
    pause::Repr::of_class(class, quanta).emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}

/// Duration in nanoseconds of `quanta` pause quanta on a link with this rate.
fn pause_ns(quanta: u16, bits_per_second: u64) -> u64 {
    let bits = u128::from(quanta) * u128::from(QUANTUM_BITS);
    let ns = (bits * 1_000_000_000).div_ceil(u128::from(bits_per_second));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Interval in nanoseconds at which a PAUSE frame is sent again, so that the pause does not expire.
pub(super) fn refresh_interval(bits_per_second: u64) -> u64 {
    (pause_ns(QUANTA, bits_per_second) / 2).max(1)
}

/// The traffic classes that the other end of a link has stopped.
#[derive(Debug, Default)]
pub(super) struct StoppedClasses {
    /// End of the pause of each class in nanoseconds.
    until: [u64; 8],
    /// Time in nanoseconds since which at least one class has been stopped; `None` if all classes may send.
    since: Option<u64>,
}

impl StoppedClasses {
    /// Applies a received PAUSE frame. If all classes may send afterwards, returns for how many nanoseconds any of them
    /// was stopped.
    pub(super) fn apply(
        &mut self,
        pause: &pause::Repr,
        bits_per_second: u64,
        now: u64,
    ) -> Option<u64> {
        for (until, quanta) in self.until.iter_mut().zip(pause.quanta) {
            if let Some(quanta) = quanta {
                *until = now.saturating_add(pause_ns(quanta, bits_per_second));
            }
        }
        if self.is_any(now) && self.since.is_none() {
            self.since = Some(now);
        }
        self.expire(now)
    }

    pub(super) fn is_stopped(&self, class: u8, now: u64) -> bool {
        self.until
            .get(usize::from(class))
            .is_some_and(|until| *until > now)
    }

    /// If all pauses have expired, returns for how many nanoseconds any class was stopped. Returns each stop only once.
    pub(super) fn expire(&mut self, now: u64) -> Option<u64> {
        match self.is_any(now) {
            true => None,
            false => self.since.take().map(|since| now - since),
        }
    }

    /// Time in nanoseconds at which the next pause expires; `None` if no class is stopped.
    pub(super) fn poll_timeout(&self, now: u64) -> Option<u64> {
        let future = self.until.iter().copied().filter(|until| *until > now);
        // A pause that has just expired is not reported yet.
        future.min().or(self.since.map(|_| now))
    }

    fn is_any(&self, now: u64) -> bool {
        self.until.iter().any(|until| *until > now)
    }
}

/// Send queue of a NIC that obeys PAUSE frames. It is a single queue, so a stopped frame blocks later frames.
#[derive(Debug)]
pub(super) struct PausableQueue<F> {
    bits_per_second: u64,
    stopped: StoppedClasses,
    waiting: Option<F>,
}

impl<F: ClassifiedFrame> PausableQueue<F> {
    /// Creates the send queue of a NIC, not stopped, on a link with this rate.
    pub(super) fn new(bits_per_second: u64) -> PausableQueue<F> {
        PausableQueue {
            bits_per_second,
            stopped: StoppedClasses::default(),
            waiting: None,
        }
    }

    /// Applies a received frame if it is a PAUSE frame, and counts a stop that has ended. Returns false, without
    /// effect, for other frames.
    pub(super) fn apply_if_pause<M>(
        &mut self,
        port: u32,
        frame: &F,
        ctx: &mut Context<'_, M, F>,
    ) -> bool {
        let Arrival::Pause(pause) = frame.read() else {
            return false;
        };
        let now = ctx.now();
        let over = self.stopped.apply(&pause, self.bits_per_second, now);
        ctx.count_paused(port, over.unwrap_or(0));
        true
    }

    /// Adds the duration of an expired stop to the port's pause time. Must be called at [`PausableQueue::poll_timeout`],
    /// even while the link is busy.
    pub(super) fn handle_timeout<M>(&mut self, port: u32, ctx: &mut Context<'_, M, F>) {
        let over = self.stopped.expire(ctx.now());
        ctx.count_paused(port, over.unwrap_or(0));
    }

    /// Returns the next frame for an idle link: the frame that was stopped, or else the result of `next`. `None` if
    /// there is no frame, or its class is stopped.
    pub(super) fn next(&mut self, next: impl FnOnce() -> Option<F>, now: u64) -> Option<F> {
        let frame = self.waiting.take().or_else(next)?;
        match frame.read() {
            Arrival::Packet(class) if self.stopped.is_stopped(class, now) => {
                self.waiting = Some(frame);
                None
            }
            _ => Some(frame),
        }
    }

    /// Time in nanoseconds at which [`PausableQueue::handle_timeout`] must be called, because a frame may be sent again;
    /// `None` if no class is stopped.
    pub(super) fn poll_timeout(&self, now: u64) -> Option<u64> {
        self.stopped.poll_timeout(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 100_000_000_000;

    #[test]
    fn pause_frames_are_classified() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        for (stops, quanta) in [(true, QUANTA), (false, 0)] {
            let repr = pause::Repr::of_class(3, quanta);
            assert_eq!(read(&frame(mac, 3, stops)), Arrival::Pause(repr));
        }
        assert_eq!(read(&[0; 60]), Arrival::Packet(0));
        assert_eq!(read(&[]), Arrival::Packet(0));
    }

    #[test]
    fn a_pause_ends_by_a_second_frame_or_expires() {
        let mut stopped = StoppedClasses::default();
        let stop = pause::Repr::of_class(3, 1_000);
        assert_eq!(stopped.apply(&stop, RATE, 100), None);
        // 1,000 quanta of 512 bits take 5,120 ns at 100 Gbit/s.
        assert_eq!(stopped.poll_timeout(100), Some(100 + 5_120));
        assert!(stopped.is_stopped(3, 5_219) && !stopped.is_stopped(2, 5_219));
        assert_eq!(stopped.apply(&stop, RATE, 1_100), None);
        assert!(stopped.is_stopped(3, 5_220));
        let go_on = pause::Repr::of_class(3, 0);
        assert_eq!(stopped.apply(&go_on, RATE, 2_000), Some(1_900));
        assert!(!stopped.is_stopped(3, 2_000));
        assert_eq!(stopped.apply(&go_on, RATE, 2_001), None);

        stopped.apply(&stop, RATE, 3_000);
        assert_eq!(stopped.expire(3_000 + 5_119), None);
        assert_eq!(stopped.expire(3_000 + 5_120), Some(5_120));
        assert_eq!(stopped.poll_timeout(9_000), None);
    }
}
