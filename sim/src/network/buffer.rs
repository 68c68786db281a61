//! Packet buffer of a switch, accounted by ingress port, with thresholds and headroom for PFC.
//!
//! A packet is charged to its ingress port when its last bit has arrived, before the pipeline. The charge is released
//! when the last of its copies has left, because copies charge the bytes of their packet. A switch has either one shared
//! buffer or one per port. A packet of the lossless class that exceeds the threshold is stored in the port's headroom.
//! The port is then paused until its headroom is empty and its use is below the threshold.

use alfirk_ctrl::topology::{LinkAttributes, Pfc, SharedBuffer};

use crate::engine::PortMap;

/// Occupancy of a switch's packet buffer, and the ports that it pauses.
#[derive(Debug)]
pub(super) struct Buffer {
    shared: Option<SharedBuffer>,
    /// Size in bytes of the buffer that all ports share, without headroom.
    size: u64,
    used: u64,
    pfc: Option<Pfc>,
    inputs: PortMap<Input, 0>,
    /// Number of paused ports.
    paused: usize,
    /// Ports whose pause has begun or ended since the last call of [`Buffer::changed`], in order.
    changed: Vec<u32>,
}

/// Occupancy of the buffer by packets that one port has received.
#[derive(Debug)]
struct Input {
    /// Size of the port's own buffer in bytes, without headroom; unused with a shared buffer.
    size: u64,
    headroom: u64,
    /// Number of bytes by which the use must fall below the threshold before a pause ends. Used if the configuration
    /// has no `xon`.
    hysteresis: u64,
    /// Bytes in use for packets from this port, without headroom.
    used: u64,
    /// Bytes in use for packets of the lossless class from this port, without headroom.
    lossless: u64,
    in_headroom: u64,
    is_paused: bool,
}

/// The bytes that one packet occupies in the buffer of its ingress port, until its last copy has left.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) port: u32,
    pub(super) class: u8,
    len: u64,
    in_headroom: bool,
}

/// Error: the packet does not fit into the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BufferFull;

impl Buffer {
    /// Creates an empty buffer for ports with these links. Without a shared buffer, each port has a buffer of its
    /// link's `queue` bytes.
    pub(super) fn new(
        shared: Option<SharedBuffer>,
        pfc: Option<Pfc>,
        links: impl IntoIterator<Item = (u32, LinkAttributes)>,
    ) -> Buffer {
        let mut inputs = PortMap::new();
        let mut headrooms = 0;
        for (port, link) in links {
            let headroom = pfc.map_or(0, |pfc| pfc.headroom(&link));
            headrooms += headroom;
            let input = Input {
                size: link.queue_bytes.saturating_sub(headroom),
                headroom,
                hysteresis: 2 * u64::from(link.mtu),
                used: 0,
                lossless: 0,
                in_headroom: 0,
                is_paused: false,
            };
            inputs.add(port, input);
        }
        Buffer {
            shared,
            size: shared.map_or(0, |shared| shared.bytes.saturating_sub(headrooms)),
            used: 0,
            pfc,
            inputs,
            paused: 0,
            changed: Vec::new(),
        }
    }

    /// Charges a packet of `len` bytes and class `class` to its ingress port.
    pub(super) fn charge(
        &mut self,
        port: u32,
        class: u8,
        len: usize,
    ) -> Result<Charge, BufferFull> {
        let len = len as u64;
        let is_lossless = self.pfc.is_some_and(|pfc| pfc.class == class);
        let free = self.size - self.used;
        let threshold = self.threshold(port);
        let is_shared = self.shared.is_some();
        let input = self.inputs.get_mut(port).ok_or(BufferFull)?;
        let fits = match is_shared {
            true => len <= free,
            false => input.used + len <= input.size,
        };
        let mut in_headroom = false;
        if fits && !(is_lossless && input.lossless + len > threshold) {
            input.used += len;
            input.lossless += if is_lossless { len } else { 0 };
            self.used += if is_shared { len } else { 0 };
        } else if is_lossless {
            if !input.is_paused {
                input.is_paused = true;
                self.paused += 1;
                self.changed.push(port);
            }
            if input.in_headroom + len > input.headroom {
                return Err(BufferFull);
            }
            input.in_headroom += len;
            in_headroom = true;
        } else {
            return Err(BufferFull);
        }
        Ok(Charge {
            port,
            class,
            len,
            in_headroom,
        })
    }

    /// Releases the charge of a packet whose last copy has left.
    pub(super) fn release(&mut self, charge: Charge) {
        let is_lossless = self.is_lossless(charge.class);
        let is_shared = self.shared.is_some();
        let Some(input) = self.inputs.get_mut(charge.port) else {
            return;
        };
        if charge.in_headroom {
            input.in_headroom -= charge.len;
        } else {
            input.used -= charge.len;
            input.lossless -= if is_lossless { charge.len } else { 0 };
            self.used -= if is_shared { charge.len } else { 0 };
        }
        if self.paused > 0 {
            self.end_pauses();
        }
    }

    /// Ends the pause of each port whose use is far enough below its threshold. The threshold depends on the free space
    /// of the buffer.
    fn end_pauses(&mut self) {
        let xon = self.pfc.and_then(|pfc| pfc.xon);
        let ports: Vec<(u32, u64)> = self
            .inputs
            .iter()
            .filter(|(_, input)| input.is_paused && input.in_headroom == 0)
            .map(|(port, _)| (port, self.threshold(port)))
            .collect();
        for (port, threshold) in ports {
            let input = self.inputs.get_mut(port).expect("found just now");
            let may_resume = match xon {
                Some(xon) => input.lossless <= xon,
                None => input.lossless == 0 || input.lossless + input.hysteresis <= threshold,
            };
            if may_resume {
                input.is_paused = false;
                self.paused -= 1;
                self.changed.push(port);
            }
        }
    }

    /// Number of bytes of the lossless class, without headroom, above which the port is paused. It changes with the
    /// free space of a shared buffer.
    fn threshold(&self, port: u32) -> u64 {
        let stated = self.pfc.and_then(|pfc| pfc.xoff);
        stated.unwrap_or_else(|| match self.shared {
            Some(shared) => shared.alpha.of(self.size - self.used),
            None => self.inputs.get(port).map_or(0, |input| input.size),
        })
    }

    /// Current limit in bytes for the queue of a class at an output port; `None` if the buffer does not limit the
    /// queue.
    pub(super) fn queue_limit(&self, class: u8) -> Option<u64> {
        let shared = self.shared.filter(|_| !self.is_lossless(class))?;
        Some(shared.alpha.of(self.size - self.used))
    }

    pub(super) fn is_lossless(&self, class: u8) -> bool {
        self.pfc.is_some_and(|pfc| pfc.class == class)
    }

    /// Returns the ports whose pause has begun or ended since the last call.
    pub(super) fn changed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Whether the neighbour at the port must stop sending.
    pub(super) fn is_paused(&self, port: u32) -> bool {
        self.inputs.get(port).is_some_and(|input| input.is_paused)
    }
}

#[cfg(test)]
mod tests {
    use alfirk_ctrl::topology::Alpha;
    use proptest::prelude::*;

    use super::*;

    const FRAME: usize = 1_000;

    fn link() -> LinkAttributes {
        LinkAttributes {
            mtu: 1_000,
            queue_bytes: 10_000,
            ..LinkAttributes::default()
        }
    }

    /// A buffer with two ports, which charge `bytes` and have 5,000 bytes of headroom each.
    fn shared(bytes: u64, alpha: &str, pfc: Pfc) -> Buffer {
        let shared = SharedBuffer {
            bytes: bytes + 10_000,
            alpha: alpha.parse().unwrap(),
        };
        let pfc = Pfc {
            headroom: Some(5_000),
            ..pfc
        };
        Buffer::new(Some(shared), Some(pfc), [(1, link()), (2, link())])
    }

    /// Charges lossless frames to a port until the port is paused.
    fn fill(buffer: &mut Buffer, port: u32) -> Vec<Charge> {
        let mut charges = Vec::new();
        while !buffer.is_paused(port) {
            charges.push(buffer.charge(port, 3, FRAME).unwrap());
        }
        charges
    }

    #[test]
    fn threshold_is_alpha_times_the_free_space() {
        let mut buffer = shared(12_000, "1", Pfc::default());
        // Six frames occupy half of the buffer. The seventh finds 6,000 bytes free and 6,000 used, and goes to the
        // headroom.
        assert_eq!(fill(&mut buffer, 1).len(), 7);
        assert_eq!(buffer.changed(), [1]);
        // The other port finds half of the buffer free.
        assert_eq!(fill(&mut buffer, 2).len(), 4);
        let mut buffer = shared(12_000, "1/2", Pfc::default());
        assert_eq!(fill(&mut buffer, 1).len(), 5);
    }

    #[test]
    fn port_resumes_when_its_headroom_is_empty_and_it_is_below_xon() {
        let pfc = Pfc {
            xoff: Some(4_000),
            xon: Some(2_000),
            ..Pfc::default()
        };
        let mut buffer = shared(12_000, "1", pfc);
        let mut charges = fill(&mut buffer, 1);
        assert_eq!(charges.len(), 5);
        let in_headroom = charges.pop().unwrap();
        for _ in 0..3 {
            buffer.release(charges.pop().unwrap());
        }
        assert!(buffer.is_paused(1), "one frame is in the headroom");
        buffer.release(in_headroom);
        assert!(!buffer.is_paused(1));
        assert_eq!(buffer.changed(), [1, 1]);
    }

    #[test]
    fn other_classes_are_dropped_where_the_lossless_one_is_paused() {
        let mut buffer = shared(4_000, "8", Pfc::default());
        for _ in 0..4 {
            buffer.charge(1, 0, FRAME).unwrap();
        }
        assert_eq!(buffer.charge(2, 0, FRAME), Err(BufferFull));
        assert!(buffer.charge(2, 3, FRAME).is_ok(), "the headroom is empty");
        assert!(buffer.is_paused(2) && !buffer.is_paused(1));
        assert_eq!(buffer.queue_limit(0), Some(0));
        assert_eq!(buffer.queue_limit(3), None);
    }

    #[test]
    fn buffers_per_port_are_independent() {
        let mut buffer = Buffer::new(None, None, [(1, link()), (2, link())]);
        for _ in 0..10 {
            buffer.charge(1, 3, FRAME).unwrap();
        }
        assert_eq!(buffer.charge(1, 3, FRAME), Err(BufferFull));
        assert!(buffer.charge(2, 3, FRAME).is_ok());
    }

    #[test]
    fn a_large_alpha_is_bounded_by_the_buffer() {
        let mut buffer = shared(4_000, "4000000000", Pfc::default());
        assert_eq!(Alpha::ONE.of(7), 7);
        assert_eq!(fill(&mut buffer, 1).len(), 5);
    }

    proptest! {
        #[test]
        fn charges_and_releases_balance(
            acts in proptest::collection::vec((1..3u32, 0..8u8, 1..3_000usize, any::<u16>()), 1..300),
            alpha in 1..9u32,
            is_shared in any::<bool>(),
        ) {
            let pool = SharedBuffer { bytes: 40_000, alpha: alpha.to_string().parse().unwrap() };
            let pfc = Pfc { headroom: Some(5_000), ..Pfc::default() };
            let pool = is_shared.then_some(pool);
            let mut buffer = Buffer::new(pool, Some(pfc), [(1, link()), (2, link())]);
            let mut charges: Vec<Charge> = Vec::new();
            for (port, class, len, choice) in acts {
                match choice % 2 {
                    0 => charges.extend(buffer.charge(port, class, len)),
                    _ if charges.is_empty() => {}
                    _ => {
                        let one = charges.swap_remove(usize::from(choice) % charges.len());
                        buffer.release(one);
                    }
                }
                let held: u64 = charges.iter().filter(|s| !s.in_headroom).map(|s| s.len).sum();
                prop_assert!(!is_shared || held == buffer.used && held <= buffer.size);
                for (port, input) in buffer.inputs.iter() {
                    let of = charges.iter().filter(|s| s.port == port && s.in_headroom);
                    prop_assert_eq!(of.map(|s| s.len).sum::<u64>(), input.in_headroom);
                    prop_assert!(input.in_headroom == 0 || input.is_paused);
                }
            }
            for charge in charges {
                buffer.release(charge);
            }
            prop_assert_eq!(buffer.used, 0);
            prop_assert_eq!(buffer.paused, 0, "an empty buffer pauses no sender");
        }
    }
}
