//! Random fabrics of mixed rates, delays and queues.

use std::net::Ipv4Addr;

use alfirk_ctrl::topology::{
    leaf_spine, Builder, End, FatTreeShape, Host, LinkAttributes, MacAddr, Node, Topology,
};
use alfirk_experiment::stream;

/// A sequence of random numbers from a seed.
pub struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw { seed, drawn: 0 }
    }

    fn number(&mut self) -> u64 {
        self.drawn += 1;
        stream::seed(self.seed, &format!("any fabric {}", self.drawn))
    }

    /// A whole number of `low` to `high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low + 1)
    }

    /// True with a probability of 1 / `count`.
    pub fn once_in(&mut self, count: u64) -> bool {
        self.number() % count == 0
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.within(0, all.len() as u64 - 1) as usize]
    }

    /// A number of `low` to `high`, evenly on a logarithmic scale; `low` is above 0.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let share = self.within(0, 1_000_000) as f64 / 1e6;
        let drawn = low as f64 * (high as f64 / low as f64).powf(share);
        (drawn.round() as u64).clamp(low, high)
    }
}

const MBPS: u64 = 1_000_000;
const GBPS: u64 = 1_000_000_000;

/// Rates of available ports in bit/s.
const RATES: [u64; 9] = [
    100 * MBPS,
    GBPS,
    2_500 * MBPS,
    10 * GBPS,
    25 * GBPS,
    40 * GBPS,
    100 * GBPS,
    200 * GBPS,
    400 * GBPS,
];

/// IP MTUs in bytes: of plain Ethernet, of a path MTU of 4,096, and of jumbo frames.
const MTUS: [u32; 3] = [1_500, 4_200, 9_000];

/// Distribution of rates over links.
#[derive(Clone, Copy)]
enum Rates {
    /// All the same, bit/s.
    Same(u64),
    /// Each link has one of `RATES` of `low` to `high`, bit/s.
    Mixed { low: u64, high: u64 },
    /// Each link between switches is degraded to the `slow` rate with a probability of 1 / `once_in`; all others have the `fast` rate; bit/s.
    Degraded { fast: u64, slow: u64, once_in: u64 },
    /// Hosts' links differ, switches' links have the highest rate, bit/s.
    Hosts { low: u64, high: u64 },
}

impl Rates {
    fn drawn(draw: &mut Draw) -> Rates {
        let low = draw.one_of(&RATES);
        let high = draw.one_of(&RATES);
        let (low, high) = (low.min(high), low.max(high));
        match draw.within(0, 9) {
            0 => Rates::Same(10 * MBPS),
            1 => Rates::Same(high),
            2..=4 => Rates::Mixed { low, high },
            5 | 6 => Rates::Degraded {
                fast: high,
                slow: low,
                once_in: draw.within(2, 6),
            },
            7 => Rates::Mixed {
                low: RATES[0],
                high: RATES[8],
            },
            _ => Rates::Hosts { low, high },
        }
    }

    fn of_link(self, draw: &mut Draw, is_of_host: bool) -> u64 {
        let between = |draw: &mut Draw, low, high| {
            let fitting: Vec<u64> = RATES
                .into_iter()
                .filter(|rate| (low..=high).contains(rate))
                .collect();
            draw.one_of(&fitting)
        };
        match self {
            Rates::Same(rate) => rate,
            Rates::Mixed { low, high } => between(draw, low, high),
            Rates::Degraded {
                fast,
                slow,
                once_in,
            } => match !is_of_host && draw.once_in(once_in) {
                true => slow,
                false => fast,
            },
            Rates::Hosts { low, high } => match is_of_host {
                true => between(draw, low, high),
                false => high,
            },
        }
    }
}

/// Switches and how they are joined, and the switch of each host.
struct Graph {
    switches: usize,
    links: Vec<(usize, usize)>,
    hosts: Vec<usize>,
}

impl Graph {
    fn tree(draw: &mut Draw) -> Graph {
        let switches = draw.within(2, 12) as usize;
        let links = (1..switches).map(|at| (draw.within(0, at as u64 - 1) as usize, at));
        let links = links.collect();
        Graph::with_hosts(draw, switches, links)
    }

    fn ring_with_chords(draw: &mut Draw) -> Graph {
        let switches = draw.within(3, 12) as usize;
        let mut links: Vec<_> = (0..switches).map(|at| (at, (at + 1) % switches)).collect();
        for _ in 0..draw.within(0, 3) {
            let from = draw.within(0, switches as u64 - 1) as usize;
            let to = draw.within(0, switches as u64 - 1) as usize;
            if from != to {
                links.push((from, to));
            }
        }
        Graph::with_hosts(draw, switches, links)
    }

    fn with_hosts(draw: &mut Draw, switches: usize, links: Vec<(usize, usize)>) -> Graph {
        let hosts = draw.within(2, 16);
        let hosts = (0..hosts).map(|_| draw.within(0, switches as u64 - 1) as usize);
        Graph {
            switches,
            links,
            hosts: hosts.collect(),
        }
    }

    fn topology(&self, seed: u64) -> Topology {
        let mut builder = Builder::new("any", LinkAttributes::default()).expect("a good name");
        let switches: Vec<_> = (1..=self.switches)
            .map(|number| {
                let switch = builder.switch(format!("s{number}"), number as u64);
                switch.expect("names and ids are unique")
            })
            .collect();
        let mut used = vec![0; self.switches];
        let mut port = |at: usize| {
            used[at] += 1;
            End::switch(switches[at], used[at])
        };
        for (number, &at) in (1u8..).zip(&self.hosts) {
            let host = Host {
                name: format!("h{number}"),
                ip: Ipv4Addr::new(10, 0, 0, number),
                prefix_len: 8,
                mac: MacAddr([2, 0, 0, 0, 0, number]),
            };
            let host = builder.host(host).expect("addresses are unique");
            let linked = builder.link(End::host(host), port(at));
            linked.expect("ports are unique");
        }
        for &(from, to) in &self.links {
            let linked = builder.link(port(from), port(to));
            linked.expect("ports are unique");
        }
        let built = builder.build();
        built.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"))
    }
}

/// A fabric of 2 to 12 switches and 2 to 16 hosts: a tree, a ring with chords, a leaf-spine, or a part of a fat-tree; with links of
/// 100 Mbit/s to 400 Gbit/s (or 10 Mbit/s everywhere), 100 ns to 2 ms, and queues of 32 KiB to 4 MiB.
pub fn topology(draw: &mut Draw) -> Topology {
    let seed = draw.seed;
    let plain = match draw.within(0, 4) {
        0 | 1 => Graph::tree(draw).topology(seed),
        2 => Graph::ring_with_chords(draw).topology(seed),
        3 => {
            let (leaves, spines) = (draw.within(2, 6) as u32, draw.within(1, 4) as u32);
            let hosts = draw.within(1, u64::from(16 / leaves)) as u32;
            leaf_spine(leaves, spines, hosts).expect("a good shape")
        }
        _ => {
            let edges = draw.within(1, 2) as u32;
            let shape = FatTreeShape {
                k: 4,
                pods: 2,
                edges,
            };
            shape.build().expect("a good shape")
        }
    };
    let rates = Rates::drawn(draw);
    let mtu = draw.one_of(&MTUS);
    // Long links are rare: with them only large messages are many bandwidth-delay products.
    let longest = match draw.within(0, 5) {
        0 => 2_000_000,
        1 => 100_000,
        _ => 5_000,
    };
    let shortest = draw.magnitude(100, longest);
    let (least, most) = (draw.within(15, 22), draw.within(15, 22));
    let queues = (least.min(most), least.max(most));
    with_links(&plain, |is_of_host| LinkAttributes {
        rate_bps: rates.of_link(draw, is_of_host),
        delay_ns: draw.magnitude(shortest, longest),
        mtu,
        queue_bytes: 1 << draw.within(queues.0, queues.1),
    })
}

/// The same nodes with links of other attributes. `attributes` gets whether the link is a host's.
fn with_links(plain: &Topology, mut attributes: impl FnMut(bool) -> LinkAttributes) -> Topology {
    let mut builder = Builder::new("any", LinkAttributes::default()).expect("a good name");
    for switch in plain.switches() {
        let added = builder.switch(switch.name.clone(), switch.device_id);
        added.expect("it was good before");
    }
    for host in plain.hosts() {
        builder.host(host.clone()).expect("it was good before");
    }
    for link in plain.links() {
        let [a, b] = link.ends;
        let is_of_host = [a, b].iter().any(|end| matches!(end.node, Node::Host(_)));
        let linked = builder.link_with(a, b, attributes(is_of_host));
        linked.expect("it was good before");
    }
    builder.build().expect("it was good before")
}
