//! A link: two directions, each with what happens to its frames and counters of its own.

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use super::rate::serialisation_ps;
use super::{wire_bytes, LinkError, NodeId};
use alfirk_experiment::stream::stream;

/// Bytes of an Ethernet header, which the MTU does not count.
pub(crate) const ETHERNET_HEADER: usize = 14;

/// What a link does to the frames it carries, alike in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Bits per second, counted over [`wire_bytes`]: preamble, FCS and inter-frame gap take their time.
    pub rate: u64,
    /// Propagation delay in nanoseconds.
    pub delay: u64,
    /// Largest IP packet in bytes; a longer one is dropped.
    pub mtu: usize,
    pub faults: FaultProbabilities,
}

/// How likely a link spoils a frame. All are probabilities per frame and direction, 0 by default.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultProbabilities {
    /// The frame is lost.
    pub loss: f64,
    /// The frame arrives twice, the second right behind the first.
    pub duplicate: f64,
    /// The frame is held back for up to [`FaultProbabilities::reorder_window`], so that later ones overtake it.
    pub reorder: f64,
    /// The longest time in nanoseconds that a reordered frame is held back.
    pub reorder_window: u64,
}

impl FaultProbabilities {
    /// Only losses, with probability `loss` per frame.
    pub fn lossy(loss: f64) -> Self {
        FaultProbabilities {
            loss,
            ..Self::default()
        }
    }

    fn any(&self) -> bool {
        self.loss > 0.0 || self.duplicate > 0.0 || self.reorder > 0.0
    }

    fn keep_order(&self) -> bool {
        self.duplicate == 0.0 && self.reorder == 0.0
    }
}

/// Why a frame was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The seeded loss of the link.
    Fault,
    /// The output port's queue had no room.
    QueueFull,
    /// The buffer of the port where the frame came in had no room.
    InputFull,
    /// The frame is longer than the link's MTU.
    TooLong,
    /// The link is down, or went down while the frame was on it.
    LinkDown,
}

impl DropReason {
    pub const ALL: [DropReason; 5] = [
        DropReason::Fault,
        DropReason::QueueFull,
        DropReason::InputFull,
        DropReason::TooLong,
        DropReason::LinkDown,
    ];

    /// The reason as traces and reports write it.
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::Fault => "loss",
            DropReason::QueueFull => "queue-full",
            DropReason::InputFull => "input-full",
            DropReason::TooLong => "too-long",
            DropReason::LinkDown => "link-down",
        }
    }
}

/// Lost frames of one link direction by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// What one direction of a link has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames put on the link, lost ones included.
    pub frames: u64,
    /// Their bytes, from the Ethernet header to the last byte before the FCS.
    pub bytes: u64,
    /// Their bytes with preamble, padding, FCS and inter-frame gap.
    pub wire_bytes: u64,
    /// Copies that the link itself made.
    pub duplicated: u64,
    /// Frames that the link held back.
    pub reordered: u64,
    /// Also those that the sending end refused when they came to it ([`DropReason::InputFull`]).
    pub drops: DropCounters,
    /// PAUSE frames put on the link that stop the other end.
    pub pauses: u64,
    /// Nanoseconds in which the other end had stopped this one, counted when they are over.
    pub paused_ns: u64,
}

/// Something that a direction counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    /// A frame of so many bytes is put on the link.
    Frame(u32),
    /// The link makes a copy of it, or holds it back.
    Duplicated,
    Reordered,
    Drop(DropReason),
    Pause,
    /// The other end had stopped this one for so many nanoseconds.
    Paused(u64),
}

impl LinkCounters {
    #[inline]
    pub(super) fn count(&mut self, what: Count) {
        self.change(what, 1);
    }

    /// Takes back what was counted.
    pub(super) fn discount(&mut self, what: Count) {
        self.change(what, u64::MAX);
    }

    /// Counts so many times, modulo 2^64.
    #[inline]
    fn change(&mut self, what: Count, times: u64) {
        let add = |counter: &mut u64, number: u64| {
            *counter = counter.wrapping_add(number.wrapping_mul(times));
        };
        match what {
            Count::Frame(len) => {
                add(&mut self.frames, 1);
                add(&mut self.bytes, len.into());
                add(&mut self.wire_bytes, wire_bytes(len as usize));
            }
            Count::Duplicated => add(&mut self.duplicated, 1),
            Count::Reordered => add(&mut self.reordered, 1),
            Count::Drop(reason) => add(&mut self.drops.0[reason as usize], 1),
            Count::Pause => add(&mut self.pauses, 1),
            Count::Paused(ns) => add(&mut self.paused_ns, ns),
        }
    }
}

/// One end of a link as its direction sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) node: NodeId,
    pub(super) port: u32,
}

/// The way from one end of a link to the other, with all that a frame needs which leaves there. It is its sender's: nothing else is touched when
/// a frame leaves.
pub(super) struct Direction {
    to: End,
    /// Of the link, alike in both directions: see [`LinkConfig`].
    rate: u64,
    delay: u64,
    mtu: usize,
    /// Whether the link spoils any frames, and whether it leaves their order and number alone.
    spoils: bool,
    keeps_order: bool,
    up: bool,
    /// How often it has gone down.
    epoch: u32,
    /// Bytes of the last frame with all around it, and how long it takes: most frames are as long as the one before.
    last: (u64, u64),
    /// When the transmitter is free again, in picoseconds.
    free_at_ps: u64,
    /// When the node is to be called because the transmitter is idle (ns), if it waits for that.
    awaited: Option<u64>,
    counters: LinkCounters,
    // Boxed, so that what every frame needs is close together.
    rest: Box<Rest>,
}

/// What few frames need.
struct Rest {
    name: String,
    rng: ChaCha8Rng,
    faults: FaultProbabilities,
    /// When the link has gone down (ns).
    downs: Vec<u64>,
}

impl Direction {
    /// Both directions of a link between `ends`, named "A -> B" and "B -> A": each end's own.
    pub(super) fn of_link(
        seed: u64,
        ends: [(End, String); 2],
        config: &LinkConfig,
    ) -> Result<[Direction; 2], LinkError> {
        let [(a, a_name), (b, b_name)] = ends;
        if config.rate == 0 {
            return Err(LinkError::NoRate {
                link: format!("{a_name} - {b_name}"),
            });
        }
        check(&config.faults, || format!("{a_name} - {b_name}"))?;
        let direction = |from: &str, to_name: &str, to: End| {
            let name = format!("{from} -> {to_name}");
            Direction {
                to,
                rate: config.rate,
                delay: config.delay,
                mtu: config.mtu,
                spoils: config.faults.any(),
                keeps_order: config.faults.keep_order(),
                up: true,
                epoch: 0,
                last: (0, 0),
                free_at_ps: 0,
                awaited: None,
                counters: LinkCounters::default(),
                rest: Box::new(Rest {
                    rng: stream(seed, &name),
                    name,
                    faults: config.faults,
                    downs: Vec::new(),
                }),
            }
        };
        Ok([
            direction(&a_name, &b_name, b),
            direction(&b_name, &a_name, a),
        ])
    }

    pub(super) fn name(&self) -> &str {
        &self.rest.name
    }

    pub(super) fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    pub(super) fn count(&mut self, what: Count) {
        self.counters.count(what);
    }

    /// The least number of nanoseconds from when a frame begins to leave until it is at the other end.
    pub(super) fn least_latency(&self) -> u64 {
        let shortest = serialisation_ps(wire_bytes(0), self.rate).div_ceil(1000);
        shortest.saturating_add(self.delay)
    }

    /// The other end.
    pub(super) fn to(&self) -> End {
        self.to
    }

    /// When the transmitter can take the next frame: in the nanosecond in which the last bit of one before leaves. The next one's first
    /// bit follows at once, so that a busy link loses nothing to rounding, nor waits a frame that comes at the link's rate.
    pub(super) fn idle_at(&self) -> u64 {
        self.free_at_ps / 1000
    }

    /// The node waits for that from now on: when to call it, unless it waits already.
    pub(super) fn wait(&mut self, now: u64) -> Option<u64> {
        if self.awaited.is_some() {
            return None;
        }
        self.awaited = Some(self.idle_at().max(now));
        self.awaited
    }

    /// Whether the node is to be called now; it waits no longer.
    pub(super) fn take_waiting(&mut self, now: u64) -> bool {
        self.awaited.take_if(|at| *at == now).is_some()
    }

    /// How often the link has gone down.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether a frame that left in `epoch`, on either way, is there at `at`, the link having been up all the way.
    pub(super) fn carried(&self, epoch: u32, at: u64) -> bool {
        let down = self.rest.downs.get(epoch as usize);
        down.is_none_or(|down| *down >= at)
    }

    /// Whether frames arrive in the order in which they left, and each of them once.
    pub(super) fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    pub(super) fn set_up(&mut self, up: bool, now: u64) {
        if self.up && !up {
            self.rest.downs.push(now);
            self.epoch += 1;
        }
        self.up = up;
    }

    pub(super) fn set_faults(&mut self, faults: FaultProbabilities) -> Result<(), LinkError> {
        check(&faults, || self.rest.name.clone())?;
        self.rest.faults = faults;
        (self.spoils, self.keeps_order) = (faults.any(), faults.keep_order());
        Ok(())
    }

    /// Starts to send a frame of `len` bytes at `now`; the transmitter must be idle.
    #[inline]
    pub(super) fn transmit(&mut self, len: usize, now: u64) -> Fate {
        let on_wire = wire_bytes(len);
        self.counters.count(Count::Frame(len as u32));
        if self.last.0 != on_wire {
            self.last = (on_wire, serialisation_ps(on_wire, self.rate));
        }
        let start = self.free_at_ps.max(now.saturating_mul(1000));
        let end = start.saturating_add(self.last.1);
        self.free_at_ps = end;
        self.awaited = None;

        let mut fate = if !self.up {
            Fate::Dropped(DropReason::LinkDown)
        } else if len > self.mtu + ETHERNET_HEADER {
            Fate::Dropped(DropReason::TooLong)
        } else {
            Fate::Arrives {
                at: end.div_ceil(1000).saturating_add(self.delay),
                copy_at: None,
                is_held: false,
            }
        };
        if self.spoils {
            fate = self.spoil(fate);
        }
        if let Fate::Dropped(reason) = fate {
            self.counters.count(Count::Drop(reason));
        }
        fate
    }

    /// Draws this frame's faults. Each frame takes the same four numbers whatever happens to it.
    fn spoil(&mut self, fate: Fate) -> Fate {
        let (rest, counters) = (&mut *self.rest, &mut self.counters);
        let [loss, duplicate, reorder, hold] = [(); 4].map(|()| rest.rng.next_u64());
        let Fate::Arrives { at, .. } = fate else {
            return fate;
        };
        let faults = &rest.faults;
        if hits(faults.loss, loss) {
            return Fate::Dropped(DropReason::Fault);
        }
        let mut at = at;
        let is_held = hits(faults.reorder, reorder);
        if is_held {
            counters.count(Count::Reordered);
            at = at.saturating_add(hold % faults.reorder_window.saturating_add(1).max(1));
        }
        let copy_at = hits(faults.duplicate, duplicate).then(|| {
            counters.count(Count::Duplicated);
            at
        });
        Fate::Arrives {
            at,
            copy_at,
            is_held,
        }
    }
}

/// When a frame's copies arrive: none, one or two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Dropped(DropReason),
    Arrives {
        at: u64,
        /// When the link's own copy arrives, if it makes one.
        copy_at: Option<u64>,
        /// Whether the link holds it back.
        is_held: bool,
    },
}

/// Whether an event of probability `p` happens on this draw.
fn hits(p: f64, draw: u64) -> bool {
    // 53 bits are what an f64 holds exactly, so the comparison is the same everywhere.
    ((draw >> 11) as f64) < p * (1u64 << 53) as f64
}

fn check(faults: &FaultProbabilities, link: impl Fn() -> String) -> Result<(), LinkError> {
    for (what, p) in [
        ("loss", faults.loss),
        ("duplicate", faults.duplicate),
        ("reorder", faults.reorder),
    ] {
        if !(0.0..=1.0).contains(&p) {
            return Err(LinkError::NotAProbability {
                link: link(),
                what,
                value: p.to_string(),
            });
        }
    }
    Ok(())
}
