//! Queueing, buffering and flow control of switches.
//!
//! The simulator implements these parameters. Real switches and BMv2 in Mininet have their own.

use std::fmt;
use std::str::FromStr;

use alfirk_units::SIZE;

use super::LinkAttributes;

/// Bytes of an Ethernet frame around its IP packet: addresses, type and frame check sequence.
pub(super) const ETHERNET_BYTES: u64 = 18;

/// Bytes of a PAUSE frame on the wire: a frame of minimum size, preamble and interframe gap.
const PAUSE_WIRE_BYTES: u64 = 64 + 20;

/// Queueing, buffers and flow control of every switch of a topology, between its ingress and egress pipelines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switching {
    /// Where packets wait in a switch: before or after the crossbar.
    pub queueing: Queueing,
    /// Buffer shared by all ports of a switch; `None` if each port has the private queue of its link.
    pub buffer: Option<SharedBuffer>,
    /// Priority-based flow control (IEEE 802.1Q, clause 36); `None` if switches send no PAUSE frames.
    pub pfc: Option<Pfc>,
}

/// Queueing discipline: position of the queues relative to the switch's crossbar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queueing {
    /// Output queueing: one queue per output port, after the crossbar.
    #[default]
    Output,
    /// Input queueing: one queue per input port, before the crossbar. A packet blocks those behind it until all of its copies
    /// have crossed (head-of-line blocking).
    Input {
        /// Number of packets of one input port that may cross at the same time, 1 or more.
        speedup: u32,
    },
    /// Virtual output queueing: one queue per input and output port, before the crossbar.
    Voq {
        /// Number of packets of one input port that may cross at the same time, 1 or more.
        speedup: u32,
    },
}

impl Queueing {
    /// Number of packets of one input port that may cross at the same time; `None` for output queueing, which has no limit.
    pub fn speedup(self) -> Option<u32> {
        match self {
            Queueing::Output => None,
            Queueing::Input { speedup } | Queueing::Voq { speedup } => Some(speedup),
        }
    }

    /// Name in topology files: `output`, `input` or `voq`.
    pub fn name(self) -> &'static str {
        match self {
            Queueing::Output => "output",
            Queueing::Input { .. } => "input",
            Queueing::Voq { .. } => "voq",
        }
    }

    /// Discipline by its name in topology files; `None` for an unknown name.
    pub fn named(name: &str, speedup: u32) -> Option<Queueing> {
        match name {
            "output" => Some(Queueing::Output),
            "input" => Some(Queueing::Input { speedup }),
            "voq" => Some(Queueing::Voq { speedup }),
            _ => None,
        }
    }
}

/// A buffer that the ports of a switch share by dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on
/// Networking 6(2), 1998).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// Size of the buffer in bytes of frames, including the headroom of PFC.
    pub bytes: u64,
    /// Factor of the dynamic threshold: a queue may have at most alpha times the free bytes of the buffer.
    pub alpha: Alpha,
}

/// Factor of a dynamic threshold, a positive fraction: `1`, `8`, `1/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha {
    numerator: u32,
    denominator: u32,
}

impl Alpha {
    /// Factor 1: a queue may be as long as the free space of the buffer.
    pub const ONE: Alpha = Alpha {
        numerator: 1,
        denominator: 1,
    };

    /// Multiplies `free` bytes by the factor, rounded down.
    pub fn of(self, free: u64) -> u64 {
        let product = u128::from(free) * u128::from(self.numerator);
        u64::try_from(product / u128::from(self.denominator)).unwrap_or(u64::MAX)
    }
}

/// Error: the text is not a factor of dynamic thresholds such as `8` or `1/4`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("alpha: `{0}` is not a number above 0; write it as 1, 8 or 1/4")]
pub struct BadAlpha(pub String);

impl FromStr for Alpha {
    type Err = BadAlpha;

    fn from_str(text: &str) -> Result<Alpha, BadAlpha> {
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        let number = |text: &str| text.trim().parse().ok().filter(|number: &u32| *number > 0);
        match (number(numerator), number(denominator)) {
            (Some(numerator), Some(denominator)) => Ok(Alpha {
                numerator,
                denominator,
            }),
            _ => Err(BadAlpha(text.to_owned())),
        }
    }
}

impl fmt::Display for Alpha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

/// Priority-based flow control of one lossless class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// The lossless class, 0 to 7: the upper three bits of a packet's DSCP. Hosts send RoCE packets with its class selector.
    pub class: u8,
    /// Buffered bytes of one input port at which its link is paused. `None`: alpha times the free bytes with a shared buffer, or
    /// the whole queue except the headroom with input queues.
    pub xoff: Option<u64>,
    /// Buffered bytes at which the link is resumed. `None`: two full frames below the pause threshold.
    pub xon: Option<u64>,
    /// Bytes reserved per input port for packets that arrive after a PAUSE was sent. `None`: computed for the link by
    /// [`Pfc::headroom`].
    pub headroom: Option<u64>,
}

impl Pfc {
    /// The class usually assigned to RoCE.
    pub const USUAL_CLASS: u8 = 3;

    /// The DSCP of the lossless class: its class selector (RFC 2474, 4.2.2).
    pub fn dscp(&self) -> u8 {
        self.class << 3
    }

    /// Headroom in bytes: as configured, or the bytes that may arrive after the threshold is reached (IEEE 802.1Q, annex N).
    ///
    /// These are the frame that reached the threshold, the frame in transmission before the PAUSE, the PAUSE itself, the bytes on
    /// the cable in both directions, and the frame that the sender is transmitting.
    pub fn headroom(&self, link: &LinkAttributes) -> u64 {
        let frame = full_frame(link);
        let cable = u128::from(link.delay_ns) * u128::from(link.rate_bps);
        let both_ways = u64::try_from((2 * cable).div_ceil(8 * 1_000_000_000));
        let needed = both_ways
            .unwrap_or(u64::MAX)
            .saturating_add(3 * frame + PAUSE_WIRE_BYTES);
        self.headroom.unwrap_or(needed)
    }
}

impl Default for Pfc {
    fn default() -> Pfc {
        Pfc {
            class: Pfc::USUAL_CLASS,
            xoff: None,
            xon: None,
            headroom: None,
        }
    }
}

/// Size in bytes of a full frame of a link: MTU and Ethernet header and trailer.
pub(super) fn full_frame(link: &LinkAttributes) -> u64 {
    u64::from(link.mtu) + ETHERNET_BYTES
}

/// Error: the parameters of queueing, buffers or flow control are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchingProblem {
    /// The name of the queueing discipline is not `output`, `input` or `voq`.
    #[error("queueing: `{0}` is not known; use output, input or voq")]
    Queueing(String),
    /// The speedup is 0.
    #[error("speedup: {0} is out of range; use 1 or more")]
    Speedup(u32),
    /// A speedup is given with output queueing, which has no such limit.
    #[error("speedup: not applicable to output queues; remove it, or use queueing: input or voq")]
    SpeedupOfOutput,
    /// The factor of the shared buffer is not a positive number.
    #[error(transparent)]
    Alpha(#[from] BadAlpha),
    /// The factor `alpha` is given without a shared buffer.
    #[error("alpha: applies only to a shared buffer; give buffer, too")]
    AlphaAlone,
    /// A shared buffer is given with input queues, which use the private queues of links.
    #[error("buffer: not applicable to input queues, which use the queue of their link; remove it, or use queueing: output")]
    BufferOfInput,
    /// The lossless class of PFC is not 0 to 7.
    #[error("pfc: class {0} is out of range; use 0 to 7")]
    Class(u8),
    /// The resume threshold is given without the pause threshold.
    #[error("pfc: xon is given without xoff; give both or neither")]
    XonAlone,
    /// The resume threshold is above the pause threshold.
    #[error("pfc: xon ({}) is above xoff ({}); use an xon of at most xoff", SIZE.show(*xon), SIZE.show(*xoff))]
    XonAboveXoff {
        /// Resume threshold in bytes.
        xon: u64,
        /// Pause threshold in bytes.
        xoff: u64,
    },
    /// The headroom of a port is smaller than a full frame.
    #[error("port {end}: a headroom of {} is smaller than a frame of MTU {mtu}; use {least} bytes or more", SIZE.show(*headroom))]
    Headroom {
        /// The port, as `switch:port`.
        end: String,
        /// Headroom in bytes.
        headroom: u64,
        /// MTU of the link in bytes.
        mtu: u32,
        /// Minimum headroom in bytes.
        least: u64,
    },
    /// The shared buffer is smaller than the headroom and one full frame per port.
    #[error("switch {switch}: a buffer of {} is too small: {} are headroom of PFC, and each of {ports} ports needs a full frame; use {} or more", SIZE.show(*bytes), SIZE.show(*headroom), SIZE.show(*least))]
    BufferTooSmall {
        /// Name of the switch.
        switch: String,
        /// Size of its shared buffer in bytes.
        bytes: u64,
        /// Headroom of all its ports in bytes.
        headroom: u64,
        /// Number of its ports.
        ports: usize,
        /// Minimum size in bytes.
        least: u64,
    },
    /// The queue of an input port is smaller than its headroom and one full frame.
    #[error("port {end}: a queue of {} is too small for an input buffer with {} of headroom; use {} or more", SIZE.show(*queue), SIZE.show(*headroom), SIZE.show(*least))]
    InputTooSmall {
        /// The port, as `switch:port`.
        end: String,
        /// Length of its input queue in bytes.
        queue: u64,
        /// Required headroom in bytes.
        headroom: u64,
        /// Minimum length of the queue in bytes.
        least: u64,
    },
}

impl Switching {
    /// Whether all parameters have their defaults.
    pub fn is_default(&self) -> bool {
        *self == Switching::default()
    }

    /// Checks the parameters that do not depend on switches and links.
    pub(super) fn check(&self) -> Result<(), SwitchingProblem> {
        if self.queueing.speedup() == Some(0) {
            return Err(SwitchingProblem::Speedup(0));
        }
        if self.queueing != Queueing::Output && self.buffer.is_some() {
            return Err(SwitchingProblem::BufferOfInput);
        }
        let Some(pfc) = &self.pfc else {
            return Ok(());
        };
        match (pfc.class, pfc.xoff, pfc.xon) {
            (8.., ..) => Err(SwitchingProblem::Class(pfc.class)),
            (_, None, Some(_)) => Err(SwitchingProblem::XonAlone),
            (_, Some(xoff), Some(xon)) if xon > xoff => {
                Err(SwitchingProblem::XonAboveXoff { xon, xoff })
            }
            _ => Ok(()),
        }
    }

    /// The shared buffer of a switch with these links: as configured, or with PFC and output queues the sum of all private queues
    /// and headrooms. `None` if each port has its own queue.
    pub fn buffer_of<'a>(
        &self,
        links: impl Iterator<Item = &'a LinkAttributes>,
    ) -> Option<SharedBuffer> {
        let pfc = match (self.queueing, self.buffer, self.pfc) {
            (Queueing::Output, None, Some(pfc)) => pfc,
            (_, buffer, _) => return buffer,
        };
        let each = links.map(|link| link.queue_bytes.saturating_add(pfc.headroom(link)));
        Some(SharedBuffer {
            bytes: each.fold(0, u64::saturating_add),
            alpha: Alpha::ONE,
        })
    }

    /// Checks the sizes for one switch. `ports`: name (`switch:port`) and link attributes of each port.
    pub(super) fn check_switch(
        &self,
        name: &str,
        ports: &[(String, LinkAttributes)],
    ) -> Result<(), SwitchingProblem> {
        let headroom = |link| self.pfc.map_or(0, |pfc| pfc.headroom(link));
        for (end, link) in ports.iter().filter(|_| self.pfc.is_some()) {
            if headroom(link) < full_frame(link) {
                return Err(SwitchingProblem::Headroom {
                    end: end.clone(),
                    headroom: headroom(link),
                    mtu: link.mtu,
                    least: full_frame(link),
                });
            }
        }
        if let Some(buffer) = self.buffer {
            let links = || ports.iter().map(|(_, link)| link);
            let headroom = links().map(headroom).fold(0, u64::saturating_add);
            let frames: u64 = links().map(full_frame).sum();
            let least = headroom.saturating_add(frames);
            if buffer.bytes < least {
                return Err(SwitchingProblem::BufferTooSmall {
                    switch: name.to_owned(),
                    bytes: buffer.bytes,
                    headroom,
                    ports: ports.len(),
                    least,
                });
            }
        }
        if self.queueing == Queueing::Output {
            return Ok(());
        }
        for (end, link) in ports {
            let headroom = headroom(link);
            let least = headroom.saturating_add(full_frame(link));
            if link.queue_bytes < least {
                return Err(SwitchingProblem::InputTooSmall {
                    end: end.clone(),
                    queue: link.queue_bytes,
                    headroom,
                    least,
                });
            }
        }
        Ok(())
    }
}

/// Writes the parameters in the form of topology files.
impl fmt::Display for Switching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{queueing: {}", self.queueing.name())?;
        if let Some(speedup) = self.queueing.speedup() {
            write!(f, ", speedup: {speedup}")?;
        }
        if let Some(SharedBuffer { bytes, alpha }) = self.buffer {
            write!(f, ", buffer: {}, alpha: {alpha}", SIZE.show(bytes))?;
        }
        if let Some(pfc) = &self.pfc {
            write!(f, ", pfc: {{class: {}", pfc.class)?;
            let sizes = [
                ("xoff", pfc.xoff),
                ("xon", pfc.xon),
                ("headroom", pfc.headroom),
            ];
            for (name, size) in sizes {
                if let Some(size) = size {
                    write!(f, ", {name}: {}", SIZE.show(size))?;
                }
            }
            f.write_str("}")?;
        }
        f.write_str("}")
    }
}
