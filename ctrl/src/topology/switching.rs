//! Queueing, buffering and flow control of switches.
//!
//! The simulator implements these parameters. Real switches and BMv2 in Mininet have their own.

use std::fmt;
use std::str::FromStr;

use alfirk_units::SIZE;

use super::LinkAttributes;

/// Bytes of an Ethernet frame around its IP packet: addresses, type and frame check sequence.
pub(super) const ETHERNET_BYTES: u64 = 18;

/// Bytes that a PAUSE frame takes on the wire: the shortest frame, preamble and gap.
const PAUSE_WIRE_BYTES: u64 = 64 + 20;

/// How every switch of a topology handles packets between its pipelines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switching {
    pub queueing: Queueing,
    /// One buffer for all ports of a switch; without it each port has the private queue of its link.
    pub buffer: Option<SharedBuffer>,
    /// Priority-based flow control (IEEE 802.1Q, clause 36).
    pub pfc: Option<Pfc>,
}

/// Where packets wait for their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queueing {
    /// Behind the switch's fabric, in a queue of the output port.
    #[default]
    Output,
    /// Before it, in one queue of the input port: the first packet blocks those behind it until all of its copies
    /// have left.
    Input { speedup: u32 },
    /// Before it, in a queue of the input port for each output port.
    Voq { speedup: u32 },
}

impl Queueing {
    /// The packets of one input port that may cross at the same time; without a limit at output queues.
    pub fn speedup(self) -> Option<u32> {
        match self {
            Queueing::Output => None,
            Queueing::Input { speedup } | Queueing::Voq { speedup } => Some(speedup),
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Queueing::Output => "output",
            Queueing::Input { .. } => "input",
            Queueing::Voq { .. } => "voq",
        }
    }

    /// By its word; `None` for another word.
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
    /// Bytes of frames in all, headroom of PFC included.
    pub bytes: u64,
    /// A queue may be as long as alpha times what is free.
    pub alpha: Alpha,
}

/// A positive number as a fraction: `1`, `8`, `1/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha {
    numerator: u32,
    denominator: u32,
}

impl Alpha {
    /// A queue may take all that is free.
    pub const ONE: Alpha = Alpha {
        numerator: 1,
        denominator: 1,
    };

    /// That many times `free`, rounded down.
    pub fn of(self, free: u64) -> u64 {
        let product = u128::from(free) * u128::from(self.numerator);
        u64::try_from(product / u128::from(self.denominator)).unwrap_or(u64::MAX)
    }
}

/// Text that is no [`Alpha`].
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
    /// The lossless class, 0 to 7: that of the DSCP's upper three bits. Hosts send RoCE packets with its class
    /// selector.
    pub class: u8,
    /// Bytes from one input port at which its link is paused; without it alpha times what is free, or at input queues
    /// all but the headroom.
    pub xoff: Option<u64>,
    /// Bytes at which it goes on; without it two full frames below the threshold.
    pub xon: Option<u64>,
    /// Bytes of each input port for what still comes when it has sent a PAUSE; without it as the link needs,
    /// [`Pfc::headroom`].
    pub headroom: Option<u64>,
}

impl Pfc {
    /// The class that operators usually give to RoCE.
    pub const USUAL_CLASS: u8 = 3;

    /// The DSCP of the lossless class: its class selector (RFC 2474, 4.2.2).
    pub fn dscp(&self) -> u8 {
        self.class << 3
    }

    /// Bytes that may still come over a link after the frame that made the receiver pause it: that frame, the frame
    /// behind which the PAUSE waits, the PAUSE, what the cable holds in both directions, and the frame that the
    /// sender has begun (IEEE 802.1Q, annex N).
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

/// Bytes of the longest frame of a link.
pub(super) fn full_frame(link: &LinkAttributes) -> u64 {
    u64::from(link.mtu) + ETHERNET_BYTES
}

/// Why switches cannot work so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchingProblem {
    #[error("queueing: `{0}` is not known; use output, input or voq")]
    Queueing(String),
    #[error("speedup: an input port that lets {0} packets cross is none; use 1 or more")]
    Speedup(u32),
    #[error("speedup: output queues take every packet at once; leave it out, or use queueing: input or voq")]
    SpeedupOfOutput,
    #[error(transparent)]
    Alpha(#[from] BadAlpha),
    #[error("alpha is a part of a shared buffer; give buffer, too")]
    AlphaAlone,
    #[error("buffer: input queues have the private buffer of their link (its queue); leave it out, or use queueing: output")]
    BufferOfInput,
    #[error("pfc: class {0} is out of range; use 0 to 7")]
    Class(u8),
    #[error("pfc: xon is given without xoff; give both or neither")]
    XonAlone,
    #[error("pfc: xon ({}) is above xoff ({}); the link would never rest", SIZE.show(*xon), SIZE.show(*xoff))]
    XonAboveXoff { xon: u64, xoff: u64 },
    #[error("port {end}: a headroom of {} holds no frame of an MTU of {mtu}; use {least} bytes or more", SIZE.show(*headroom))]
    Headroom {
        end: String,
        headroom: u64,
        mtu: u32,
        least: u64,
    },
    #[error("switch {switch}: a buffer of {} is too small: {} are headroom of PFC, and each of {ports} ports needs a full frame; use {} or more", SIZE.show(*bytes), SIZE.show(*headroom), SIZE.show(*least))]
    BufferTooSmall {
        switch: String,
        bytes: u64,
        headroom: u64,
        ports: usize,
        least: u64,
    },
    #[error("port {end}: a queue of {} is too small for an input buffer with {} of headroom; use {} or more", SIZE.show(*queue), SIZE.show(*headroom), SIZE.show(*least))]
    InputTooSmall {
        end: String,
        queue: u64,
        headroom: u64,
        least: u64,
    },
}

impl Switching {
    /// Whether nothing is stated: switches as they are without a word.
    pub fn is_default(&self) -> bool {
        *self == Switching::default()
    }

    /// What can be said without the switches.
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

    /// The shared buffer of a switch whose ports have these links: as stated, or with PFC at output queues as much as
    /// the private queues and the headroom together; `None` if each port has its own.
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

    /// What can be said of one switch: `ports` are the names of its ends and their links.
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

/// As the topology file writes it.
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
