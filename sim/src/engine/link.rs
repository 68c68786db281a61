//! Links between ports. Each link has two directions, each with random faults and counters of its own.

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use super::rate::serialisation_ps;
use super::{wire_bytes, LinkError, NodeId};
use alfirk_experiment::stream::stream;
use alfirk_roce::steady::StateVisitor;

/// Length of an Ethernet header in bytes, which the MTU does not include.
pub(crate) const ETHERNET_HEADER: usize = 14;

/// Parameters of a link, the same for both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Rate in bits per second of the bytes on the wire ([`wire_bytes`]), which include preamble, FCS and inter-frame
    /// gap.
    pub rate: u64,
    /// Propagation delay in nanoseconds.
    pub delay: u64,
    /// Maximum length of an IP packet in bytes; frames with longer packets are dropped.
    pub mtu: usize,
    /// Probabilities of random faults.
    pub faults: FaultProbabilities,
}

/// Probabilities of a link's random faults, per frame and direction; 0 by default.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultProbabilities {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that a frame arrives twice. The copy follows the frame directly.
    pub duplicate: f64,
    /// Probability that a frame is delayed by up to [`FaultProbabilities::reorder_window`], so that later frames
    /// overtake it.
    pub reorder: f64,
    /// Maximum additional delay of a reordered frame, in nanoseconds.
    pub reorder_window: u64,
}

impl FaultProbabilities {
    /// Creates faults that are losses only, with probability `loss` per frame.
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

/// Reason why a frame is lost or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// Random loss on the link.
    Fault,
    /// The queue of the switch's output port was full.
    QueueFull,
    /// The buffer of the switch's input port was full.
    InputFull,
    /// The frame is longer than the link's MTU.
    TooLong,
    /// The link is down, or went down while the frame was on it.
    LinkDown,
}

impl DropReason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [DropReason; 5] = [
        DropReason::Fault,
        DropReason::QueueFull,
        DropReason::InputFull,
        DropReason::TooLong,
        DropReason::LinkDown,
    ];

    /// Name of the reason, as in traces and reports.
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

/// Number of frames lost in one direction of a link, for each reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    /// Number of frames that were lost for `reason`.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Number of frames that were lost for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Counters of one direction of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames transmitted, including lost ones.
    pub frames: u64,
    /// Bytes of the frames transmitted, from the Ethernet header to the last byte before the FCS.
    pub bytes: u64,
    /// Bytes of the frames transmitted on the wire: with padding, FCS, preamble and inter-frame gap.
    pub wire_bytes: u64,
    /// Number of frames that the link has duplicated.
    pub duplicated: u64,
    /// Number of frames that the link has delayed for reordering.
    pub reordered: u64,
    /// Number of frames lost, by reason. Includes frames that the sending node dropped on reception
    /// ([`DropReason::InputFull`]).
    pub drops: DropCounters,
    /// Number of transmitted PAUSE frames that stop the other end.
    pub pauses: u64,
    /// Nanoseconds for which this direction was paused by the other end, counted at the end of each pause.
    pub paused_ns: u64,
}

/// One update of the counters of a link direction.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    /// A frame of this length in bytes was transmitted.
    Frame(u32),
    /// The link has duplicated a frame.
    Duplicated,
    /// The link has delayed a frame for reordering.
    Reordered,
    Drop(DropReason),
    Pause,
    /// A pause by the other end has ended, after this number of nanoseconds.
    Paused(u64),
}

impl LinkCounters {
    /// Applies an update to the counters.
    #[inline]
    pub(super) fn count(&mut self, what: Count) {
        self.change(what, 1);
    }

    /// Reverts an update of the counters.
    pub(super) fn revert_count(&mut self, what: Count) {
        self.change(what, u64::MAX);
    }

    /// Adds `times` times the update to the counters, modulo 2^64. So `times` = 2^64 - 1 reverts the update.
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

/// One end of a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) node: NodeId,
    pub(super) port: u32,
}

/// One direction of a link, owned by the sending node. Transmission of a frame accesses no other state.
pub(super) struct Direction {
    to: End,
    /// Rate of the link in bits per second; see [`LinkConfig`].
    rate: u64,
    delay: u64,
    mtu: usize,
    /// Whether any fault has a probability above 0.
    has_faults: bool,
    /// Whether the link neither reorders nor duplicates frames.
    keeps_order: bool,
    up: bool,
    /// Number of times that the link has gone down so far.
    outages: u32,
    /// Length on the wire in bytes and transmission time in picoseconds of the last frame. Cached, because most frames
    /// have the same length.
    last: (u64, u64),
    /// Time at which the transmitter becomes idle, in picoseconds.
    free_at_ps: u64,
    /// Time in nanoseconds of the [`super::Node::on_idle`] call that the node has requested; `None` without a request.
    awaited: Option<u64>,
    counters: LinkCounters,
    // Boxed, so that the fields that every frame uses are close together in memory.
    rest: Box<RareFields>,
}

/// Fields of [`Direction`] that few frames use.
struct RareFields {
    name: String,
    /// Seed of the run, from which the stream of random faults is derived.
    seed: u64,
    /// Stream of random faults; `None` before the first frame on a link with faults. Most links have none, and a large
    /// fabric has thousands of links.
    rng: Option<Box<ChaCha8Rng>>,
    faults: FaultProbabilities,
    /// Times in nanoseconds at which the link went down.
    outage_times: Vec<u64>,
}

impl Direction {
    /// Creates both directions of a link between `ends`. The directions are named "A -> B" and "B -> A".
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
                has_faults: config.faults.any(),
                keeps_order: config.faults.keep_order(),
                up: true,
                outages: 0,
                last: (0, 0),
                free_at_ps: 0,
                awaited: None,
                counters: LinkCounters::default(),
                rest: Box::new(RareFields {
                    name,
                    seed,
                    rng: None,
                    faults: config.faults,
                    outage_times: Vec::new(),
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

    /// Time in picoseconds from `now`, in nanoseconds, until the transmitter is idle; `None` on a link with random faults.
    pub(super) fn phase(&self, now: u64) -> Option<u64> {
        let phase = self.free_at_ps.saturating_sub(now.saturating_mul(1_000));
        (!self.has_faults).then_some(phase)
    }

    /// Visits the state of the direction.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let Direction {
            to: _,
            rate: _,
            delay: _,
            mtu: _,
            has_faults,
            keeps_order: _,
            up,
            outages,
            last: _,
            free_at_ps,
            awaited,
            counters,
            rest: _,
        } = self;
        visitor.same((*up).into());
        visitor.same((*outages).into());
        if *has_faults {
            // Each frame draws random numbers.
            visitor.same(counters.frames);
        }
        *free_at_ps = visitor.free_ps(*free_at_ps);
        *awaited = visitor.optional_time(*awaited);
        let LinkCounters {
            frames,
            bytes,
            wire_bytes,
            duplicated,
            reordered,
            drops,
            pauses,
            paused_ns,
        } = counters;
        visitor.counts([frames, bytes, wire_bytes, duplicated, reordered]);
        visitor.counts(&mut drops.0);
        visitor.counts([pauses, paused_ns]);
    }

    /// Minimum latency of a frame in nanoseconds, from the start of transmission to the arrival of its last bit.
    pub(super) fn least_latency(&self) -> u64 {
        let shortest = serialisation_ps(wire_bytes(0), self.rate).div_ceil(1000);
        shortest.saturating_add(self.delay)
    }

    /// The end of the link that receives the frames.
    pub(super) fn to(&self) -> End {
        self.to
    }

    /// Time in nanoseconds at which the transmitter accepts the next frame, which is when the last bit of the previous
    /// frame leaves. The first bit of the next frame follows directly, so rounding neither wastes capacity nor delays
    /// frames that arrive at the link's rate.
    pub(super) fn idle_at(&self) -> u64 {
        self.free_at_ps / 1000
    }

    /// Records that the node waits for an idle transmitter. Returns the time at which the node must be called; `None`
    /// if it waits already.
    pub(super) fn wait(&mut self, now: u64) -> Option<u64> {
        if self.awaited.is_some() {
            return None;
        }
        self.awaited = Some(self.idle_at().max(now));
        self.awaited
    }

    /// Whether the node must be called now, because it waits for an idle transmitter and the transmitter is idle.
    /// Clears the request.
    pub(super) fn take_waiting(&mut self, now: u64) -> bool {
        self.awaited.take_if(|at| *at == now).is_some()
    }

    /// Number of times that the link has gone down so far.
    pub(super) fn outages(&self) -> u32 {
        self.outages
    }

    /// Whether a frame that departed after `outages` outages arrives at time `at`, because the link has not gone down
    /// since. Both directions give the same result.
    pub(super) fn survives_outages(&self, outages: u32, at: u64) -> bool {
        let down = self.rest.outage_times.get(outages as usize);
        down.is_none_or(|down| *down >= at)
    }

    /// Whether the link neither reorders nor duplicates frames.
    pub(super) fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    pub(super) fn set_up(&mut self, up: bool, now: u64) {
        if self.up && !up {
            self.rest.outage_times.push(now);
            self.outages += 1;
        }
        self.up = up;
    }

    pub(super) fn set_faults(&mut self, faults: FaultProbabilities) -> Result<(), LinkError> {
        check(&faults, || self.rest.name.clone())?;
        self.rest.faults = faults;
        (self.has_faults, self.keeps_order) = (faults.any(), faults.keep_order());
        Ok(())
    }

    /// Starts the transmission of a frame of `len` bytes at time `now`. Returns the frame's arrival time, or the reason
    /// of its loss. The transmitter must be idle.
    #[inline]
    pub(super) fn transmit(&mut self, len: usize, now: u64) -> TransmitResult {
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
            TransmitResult::Dropped(DropReason::LinkDown)
        } else if len > self.mtu + ETHERNET_HEADER {
            TransmitResult::Dropped(DropReason::TooLong)
        } else {
            TransmitResult::Arrives {
                at: end.div_ceil(1000).saturating_add(self.delay),
                copy_at: None,
                is_reordered: false,
            }
        };
        if self.has_faults {
            fate = self.draw_faults(fate);
        }
        if let TransmitResult::Dropped(reason) = fate {
            self.counters.count(Count::Drop(reason));
        }
        fate
    }

    /// Applies the link's random faults to the fate of a frame. Each frame consumes four random numbers, whatever its
    /// faults are.
    fn draw_faults(&mut self, fate: TransmitResult) -> TransmitResult {
        let (rest, counters) = (&mut *self.rest, &mut self.counters);
        let rng = rest
            .rng
            .get_or_insert_with(|| Box::new(stream(rest.seed, &rest.name)));
        let [loss, duplicate, reorder, hold] = [(); 4].map(|()| rng.next_u64());
        let TransmitResult::Arrives { at, .. } = fate else {
            return fate;
        };
        let faults = &rest.faults;
        if hits(faults.loss, loss) {
            return TransmitResult::Dropped(DropReason::Fault);
        }
        let mut at = at;
        let is_reordered = hits(faults.reorder, reorder);
        if is_reordered {
            counters.count(Count::Reordered);
            at = at.saturating_add(hold % faults.reorder_window.saturating_add(1).max(1));
        }
        let copy_at = hits(faults.duplicate, duplicate).then(|| {
            counters.count(Count::Duplicated);
            at
        });
        TransmitResult::Arrives {
            at,
            copy_at,
            is_reordered,
        }
    }
}

/// Result of the transmission of a frame: lost, or arrives once, or twice if it is duplicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransmitResult {
    Dropped(DropReason),
    Arrives {
        at: u64,
        /// Arrival time of the duplicate in nanoseconds; `None` if the frame is not duplicated.
        copy_at: Option<u64>,
        /// Whether the link delays the frame for reordering.
        is_reordered: bool,
    },
}

/// Whether an event of probability `p` occurs, as decided by the random number `draw`.
fn hits(p: f64, draw: u64) -> bool {
    // An f64 represents 53-bit integers exactly, so the comparison gives the same result on all platforms.
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
