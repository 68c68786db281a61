//! What applications ask for, as words: `hpl:grid=8x8,panel=1MiB`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rand_core::Rng;

use alfirk_ctrl::topology::{units, HostIndex};
use alfirk_roce::collective::Algorithm;

use super::{By, Flow, Phase, Workload};
use crate::stream::stream;

/// Bytes of one matrix element of HPL.
const DOUBLE: u64 = 8;

/// The communication of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// High-performance Linpack on a grid of `rows` x `columns` hosts, row by row. In each epoch the panel is broadcast in every row at a
    /// time, then the rows to swap in every column, by the next member each time.
    Hpl {
        rows: u32,
        columns: u32,
        epochs: u32,
        lengths: HplLengths,
        /// What swaps rows where no group of the fabric does.
        swap_by: Algorithm,
    },
    /// Broadcasts in many groups at a time, whose members are drawn.
    Groups { count: u32, size: u32, bytes: u64 },
    /// Clients of replicated storage, each with so many requests under way, to replicas that are drawn.
    Storage {
        clients: u32,
        replicas: u32,
        io: u64,
        depth: u32,
        requests: u32,
    },
    /// Parameter servers that send their share of a model, in buckets, to all workers at a time.
    Training {
        servers: u32,
        workers: u32,
        parameters: u64,
        buckets: u32,
    },
    /// Many senders to one host, the last one.
    Incast { senders: u32, bytes: u64 },
    /// Each of so many hosts sends to another one: a part of a random permutation.
    Pairs { count: u32, bytes: u64 },
    /// A broadcast to the members of a group, which are drawn, and on its way two unicasts among them, one after the other: the second
    /// member sends to the third from `second` on, and the fourth to the fifth from `third` on, both in nanoseconds.
    Fairness {
        members: u32,
        bytes: u64,
        unicast: u64,
        second: u64,
        third: u64,
    },
}

/// How long HPL's messages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HplLengths {
    /// In bytes, in all epochs.
    Fixed { panel: u64, swap: u64 },
    /// As HPL has them for a matrix of order `n` in blocks of `nb`; they shrink from epoch to epoch.
    Matrix { n: u64, nb: u64 },
}

impl HplLengths {
    /// Bytes of an epoch's panel and of the rows that a column swaps.
    ///
    /// HPL sends in one piece the rows of the panel that a process holds, the factored block, its pivots, and one word
    /// (`HPL_pdpanel_init`: `L2`, `L1`, `DPIV`, `DINFO`); a column of processes passes on the `nb` pivot rows of what it holds of the rest
    /// (`HPL_pdlaswp01T`: `U`). Of the rows of processes the one that holds the factored block has so many rows less; here it is as
    /// the others.
    fn in_epoch(self, epoch: u32, rows: u32, columns: u32) -> (u64, u64) {
        match self {
            HplLengths::Fixed { panel, swap } => (panel, swap),
            HplLengths::Matrix { n, nb } => {
                let left = n.saturating_sub(u64::from(epoch) * nb);
                let width = nb.min(left);
                let below = left.saturating_sub(width);
                let mine = left.div_ceil(rows.into());
                let panel = mine * width + width * width + width + 1;
                let swap = width * below.div_ceil(columns.into());
                (panel * DOUBLE, swap * DOUBLE)
            }
        }
    }
}

/// Words that are no workload, or one that the fabric has no hosts for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    #[error("there is no workload `{0}`; there are {1}")]
    Unknown(String, String),
    #[error("{kind} knows no `{key}`; it knows {keys}")]
    Key {
        kind: &'static str,
        key: String,
        keys: String,
    },
    #[error("`{0}` is no KEY=VALUE")]
    NoValue(String),
    #[error("{kind} has `{key}` twice")]
    Twice { kind: &'static str, key: String },
    #[error("{kind} needs {key}, such as {key}={example}")]
    Missing {
        kind: &'static str,
        key: &'static str,
        example: &'static str,
    },
    #[error("{key}={value}: {why}")]
    Value {
        key: &'static str,
        value: String,
        why: String,
    },
    #[error("hpl takes either n and nb or panel and swap")]
    Lengths,
    #[error("{what} needs {needs} hosts, and the topology has {has}")]
    Hosts {
        what: String,
        needs: u64,
        has: usize,
    },
}

/// A kind's name, its keys, and an example of all.
struct Words {
    name: &'static str,
    keys: &'static [(&'static str, &'static str)],
}

const KINDS: [Words; 7] = [
    Words {
        name: "hpl",
        keys: &[
            ("grid", "8x8"),
            ("panel", "1MiB"),
            ("swap", "1MiB"),
            ("n", "16384"),
            ("nb", "128"),
            ("epochs", "4"),
            ("swap-by", "long"),
        ],
    },
    Words {
        name: "groups",
        keys: &[("count", "16"), ("size", "8"), ("bytes", "1MiB")],
    },
    Words {
        name: "storage",
        keys: &[
            ("clients", "1"),
            ("replicas", "3"),
            ("io", "8KiB"),
            ("depth", "16"),
            ("requests", "1000"),
        ],
    },
    Words {
        name: "training",
        keys: &[
            ("servers", "1"),
            ("workers", "8"),
            ("parameters", "64MiB"),
            ("buckets", "16"),
        ],
    },
    Words {
        name: "incast",
        keys: &[("senders", "8"), ("bytes", "1MiB")],
    },
    Words {
        name: "pairs",
        keys: &[("count", "8"), ("bytes", "1MiB")],
    },
    Words {
        name: "fairness",
        keys: &[
            ("members", "16"),
            ("bytes", "256MiB"),
            ("unicast", "64MiB"),
            ("second", "5ms"),
            ("third", "20ms"),
        ],
    },
];

impl Words {
    /// A whole example.
    fn example(&self) -> String {
        let keys = self
            .keys
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        format!("{}:{}", self.name, keys.collect::<Vec<_>>().join(","))
    }
}

impl Kind {
    /// An example of each kind with all its keys.
    pub fn examples() -> impl Iterator<Item = String> {
        KINDS.iter().map(Words::example)
    }

    /// The flows on `hosts`; what is drawn is drawn from `seed`.
    ///
    /// # Errors
    /// [`KindError::Hosts`].
    pub fn workload(&self, hosts: &[HostIndex], seed: u64) -> Result<Workload, KindError> {
        let needs = self.needs();
        if needs > hosts.len() as u64 {
            return Err(KindError::Hosts {
                what: self.to_string(),
                needs,
                has: hosts.len(),
            });
        }
        Ok(match *self {
            Kind::Hpl {
                rows,
                columns,
                epochs,
                lengths,
                swap_by,
            } => hpl(hosts, (rows, columns), epochs, lengths, swap_by),
            Kind::Groups { count, size, bytes } => groups(hosts, count, size, bytes, seed),
            Kind::Storage { .. } => self.storage(hosts, seed),
            Kind::Training { .. } => self.training(hosts),
            Kind::Incast { senders, bytes } => {
                let to = hosts[hosts.len() - 1];
                let pairs = hosts[..senders as usize].iter().map(|from| (*from, to));
                one_phase("incast", pairs.map(|pair| pair_flow(pair, bytes)).collect())
            }
            Kind::Fairness {
                members,
                bytes,
                unicast,
                second,
                third,
            } => {
                let members = drawn(hosts, members as usize, seed, "fairness");
                let later = |from: usize, after| Flow {
                    after,
                    ..pair_flow((members[from], members[from + 1]), unicast)
                };
                let unicasts = [later(1, second), later(3, third)];
                let broadcast = Flow {
                    members,
                    bytes,
                    by: By::Compared,
                    messages: None,
                    depth: None,
                    after: 0,
                };
                let flows = [broadcast].into_iter().chain(unicasts);
                one_phase("fairness", flows.collect())
            }
            Kind::Pairs { count, bytes } => {
                let around = drawn(hosts, hosts.len(), seed, "pairs");
                let next = around.iter().cycle().skip(1);
                let pairs = around.iter().zip(next).take(count as usize);
                let flows = pairs.map(|(from, to)| pair_flow((*from, *to), bytes));
                one_phase("pairs", flows.collect())
            }
        })
    }

    /// How many hosts it takes.
    fn needs(&self) -> u64 {
        match *self {
            Kind::Hpl { rows, columns, .. } => u64::from(rows) * u64::from(columns),
            Kind::Groups { size, .. } => size.into(),
            Kind::Storage {
                clients, replicas, ..
            } => u64::from(clients.max(replicas + 1)),
            Kind::Training {
                servers, workers, ..
            } => u64::from(servers) + u64::from(workers),
            Kind::Incast { senders, .. } => u64::from(senders) + 1,
            Kind::Pairs { count, .. } => u64::from(count.max(2)),
            Kind::Fairness { members, .. } => members.into(),
        }
    }

    fn storage(&self, hosts: &[HostIndex], seed: u64) -> Workload {
        let Kind::Storage {
            clients,
            replicas,
            io,
            depth,
            requests,
        } = *self
        else {
            return Workload::default();
        };
        let flow = |client: usize| {
            let source = hosts[client];
            let others: Vec<HostIndex> = hosts.iter().copied().filter(|h| *h != source).collect();
            let replicas = drawn(
                &others,
                replicas as usize,
                seed,
                &format!("client {client}"),
            );
            Flow {
                members: [source].into_iter().chain(replicas).collect(),
                bytes: io * u64::from(requests),
                by: By::Compared,
                messages: Some(requests),
                depth: Some(depth),
                after: 0,
            }
        };
        one_phase("write", (0..clients as usize).map(flow).collect())
    }

    fn training(&self, hosts: &[HostIndex]) -> Workload {
        let Kind::Training {
            servers,
            workers,
            parameters,
            buckets,
        } = *self
        else {
            return Workload::default();
        };
        let (from, to) = hosts.split_at(servers as usize);
        let workers = &to[..workers as usize];
        let flows = from.iter().map(|server| Flow {
            members: [server].into_iter().chain(workers).copied().collect(),
            bytes: parameters.div_ceil(servers.into()),
            by: By::Compared,
            messages: Some(buckets),
            depth: None,
            after: 0,
        });
        one_phase("parameters", flows.collect())
    }
}

fn one_phase(name: &str, flows: Vec<Flow>) -> Workload {
    Workload {
        phases: vec![Phase {
            name: name.to_owned(),
            flows,
            background: Vec::new(),
        }],
        interval: None,
    }
}

fn pair_flow((from, to): (HostIndex, HostIndex), bytes: u64) -> Flow {
    Flow {
        members: vec![from, to],
        bytes,
        by: By::Always(Algorithm::Unicast),
        messages: None,
        depth: None,
        after: 0,
    }
}

fn hpl(
    hosts: &[HostIndex],
    (rows, columns): (u32, u32),
    epochs: u32,
    lengths: HplLengths,
    swap_by: Algorithm,
) -> Workload {
    let (p, q) = (rows as usize, columns as usize);
    let at = |row: usize, column: usize| hosts[row * q + column];
    let broadcast = |members: Vec<HostIndex>, first: usize, bytes, by| {
        let mut members = members;
        members.rotate_left(first);
        Flow {
            members,
            bytes,
            by,
            messages: None,
            depth: None,
            after: 0,
        }
    };
    let mut phases = Vec::new();
    for epoch in 0..epochs {
        let (panel, swap) = lengths.in_epoch(epoch, rows, columns);
        let number = match epochs {
            1 => String::new(),
            _ => format!(" {}", epoch + 1),
        };
        let in_rows = (0..p).map(|row| {
            let members = (0..q).map(|column| at(row, column)).collect();
            broadcast(members, epoch as usize % q, panel, By::Compared)
        });
        let in_columns = (0..q).map(|column| {
            let members = (0..p).map(|row| at(row, column)).collect();
            broadcast(members, epoch as usize % p, swap, By::ComparedOr(swap_by))
        });
        let both = [
            ("PB", q, panel, in_rows.collect::<Vec<_>>()),
            ("RS", p, swap, in_columns.collect()),
        ];
        for (name, size, bytes, flows) in both {
            // A grid of one row or column has nobody to tell.
            if size > 1 && bytes > 0 {
                phases.push(Phase {
                    name: format!("{name}{number}"),
                    flows,
                    background: Vec::new(),
                });
            }
        }
    }
    Workload {
        phases,
        interval: None,
    }
}

fn groups(hosts: &[HostIndex], count: u32, size: u32, bytes: u64, seed: u64) -> Workload {
    let flow = |group: u32| Flow {
        members: drawn(hosts, size as usize, seed, &format!("group {group}")),
        bytes,
        by: By::Compared,
        messages: None,
        depth: None,
        after: 0,
    };
    one_phase("groups", (0..count).map(flow).collect())
}

/// So many of `hosts`, in an order that is drawn (Fisher and Yates).
fn drawn(hosts: &[HostIndex], count: usize, seed: u64, name: &str) -> Vec<HostIndex> {
    let mut rng = stream(seed, name);
    let mut left = hosts.to_vec();
    for place in 0..count.min(left.len()) {
        let other = place + (rng.next_u64() % (left.len() - place) as u64) as usize;
        left.swap(place, other);
    }
    left.truncate(count);
    left
}

/// The values of a kind's keys as they are written.
struct Values {
    kind: &'static str,
    given: BTreeMap<&'static str, String>,
}

impl Values {
    fn read(words: &Words, text: &str) -> Result<Values, KindError> {
        let kind = words.name;
        let mut given = BTreeMap::new();
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| KindError::NoValue(pair.to_owned()))?;
            let key = key.trim();
            let Some((known, _)) = words.keys.iter().find(|(name, _)| *name == key) else {
                let keys: Vec<&str> = words.keys.iter().map(|(name, _)| *name).collect();
                return Err(KindError::Key {
                    kind,
                    key: key.to_owned(),
                    keys: keys.join(", "),
                });
            };
            if given.insert(*known, value.trim().to_owned()).is_some() {
                let key = key.to_owned();
                return Err(KindError::Twice { kind, key });
            }
        }
        Ok(Values { kind, given })
    }

    fn has(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    fn number(&self, key: &'static str, default: u32) -> Result<u32, KindError> {
        let Some(value) = self.given.get(key) else {
            return Ok(default);
        };
        match value.parse() {
            Ok(number @ 1..=1_000_000) => Ok(number),
            _ => Err(bad(key, value, "give a number from 1 to 1000000")),
        }
    }

    fn size(&self, key: &'static str, default: u64) -> Result<u64, KindError> {
        let Some(value) = self.given.get(key) else {
            return Ok(default);
        };
        match units::SIZE.parse(value) {
            Ok(0) => Err(bad(key, value, "there must be something to send")),
            Ok(size) => Ok(size),
            Err(error) => Err(bad(key, value, error)),
        }
    }

    fn time(&self, key: &'static str, default: u64) -> Result<u64, KindError> {
        let Some(value) = self.given.get(key) else {
            return Ok(default);
        };
        let time = units::DELAY.parse(value);
        time.map_err(|error| bad(key, value, error))
    }
}

fn bad(key: &'static str, value: &str, why: impl fmt::Display) -> KindError {
    KindError::Value {
        key,
        value: value.to_owned(),
        why: why.to_string(),
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Kind, KindError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(words) = KINDS.iter().find(|words| words.name == name.trim()) else {
            let names: Vec<&str> = KINDS.iter().map(|words| words.name).collect();
            return Err(KindError::Unknown(name.to_owned(), names.join(", ")));
        };
        let values = Values::read(words, rest)?;
        const MIB: u64 = 1 << 20;
        Ok(match words.name {
            "hpl" => read_hpl(&values)?,
            "groups" => Kind::Groups {
                count: values.number("count", 16)?,
                size: at_least("size", values.number("size", 8)?, 2)?,
                bytes: values.size("bytes", MIB)?,
            },
            "storage" => Kind::Storage {
                clients: values.number("clients", 1)?,
                replicas: values.number("replicas", 3)?,
                io: values.size("io", 8 << 10)?,
                depth: values.number("depth", 16)?,
                requests: values.number("requests", 1_000)?,
            },
            "training" => Kind::Training {
                servers: values.number("servers", 1)?,
                workers: values.number("workers", 8)?,
                parameters: values.size("parameters", 64 * MIB)?,
                buckets: values.number("buckets", 16)?,
            },
            "incast" => Kind::Incast {
                senders: values.number("senders", 8)?,
                bytes: values.size("bytes", MIB)?,
            },
            "fairness" => Kind::Fairness {
                members: at_least("members", values.number("members", 16)?, 5)?,
                bytes: values.size("bytes", 256 * MIB)?,
                unicast: values.size("unicast", 64 * MIB)?,
                second: values.time("second", 5_000_000)?,
                third: values.time("third", 20_000_000)?,
            },
            _ => Kind::Pairs {
                count: values.number("count", 8)?,
                bytes: values.size("bytes", MIB)?,
            },
        })
    }
}

fn at_least(key: &'static str, number: u32, least: u32) -> Result<u32, KindError> {
    match number < least {
        true => Err(bad(
            key,
            &number.to_string(),
            format!("{least} at the least"),
        )),
        false => Ok(number),
    }
}

fn read_hpl(values: &Values) -> Result<Kind, KindError> {
    let kind = values.kind;
    let Some(grid) = values.given.get("grid") else {
        return Err(KindError::Missing {
            kind,
            key: "grid",
            example: "8x8",
        });
    };
    let sides = grid.split_once('x').map(|(p, q)| (p.parse(), q.parse()));
    let Some((Ok(rows @ 1..=65_536), Ok(columns @ 1..=65_536))) = sides else {
        return Err(bad("grid", grid, "give rows and columns, as 8x8"));
    };
    let fixed = values.has("panel") || values.has("swap");
    let lengths = match (values.has("n"), values.has("nb")) {
        (false, false) => {
            let panel = values.size("panel", 1 << 20)?;
            let swap = values.size("swap", panel)?;
            HplLengths::Fixed { panel, swap }
        }
        (true, true) if !fixed => HplLengths::Matrix {
            n: values.number("n", 1)?.into(),
            nb: values.number("nb", 1)?.into(),
        },
        _ => return Err(KindError::Lengths),
    };
    let swap_by = match values.given.get("swap-by") {
        None => Algorithm::Long,
        Some(name) => name.parse().map_err(|why| bad("swap-by", name, why))?,
    };
    Ok(Kind::Hpl {
        rows,
        columns,
        epochs: values.number("epochs", 1)?,
        lengths,
        swap_by,
    })
}

impl fmt::Display for Kind {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: &u64| units::SIZE.show(*bytes);
        match self {
            Kind::Hpl {
                rows,
                columns,
                epochs,
                lengths,
                swap_by,
            } => {
                write!(f, "hpl:grid={rows}x{columns},")?;
                match lengths {
                    HplLengths::Fixed { panel, swap } => {
                        write!(f, "panel={},swap={}", size(panel), size(swap))?;
                    }
                    HplLengths::Matrix { n, nb } => write!(f, "n={n},nb={nb}")?,
                }
                write!(f, ",epochs={epochs},swap-by={swap_by}")
            }
            Kind::Groups {
                count,
                size: members,
                bytes,
            } => write!(f, "groups:count={count},size={members},bytes={}", size(bytes)),
            Kind::Storage {
                clients,
                replicas,
                io,
                depth,
                requests,
            } => write!(
                f,
                "storage:clients={clients},replicas={replicas},io={},depth={depth},requests={requests}",
                size(io)
            ),
            Kind::Training {
                servers,
                workers,
                parameters,
                buckets,
            } => write!(
                f,
                "training:servers={servers},workers={workers},parameters={},buckets={buckets}",
                size(parameters)
            ),
            Kind::Incast { senders, bytes } => {
                write!(f, "incast:senders={senders},bytes={}", size(bytes))
            }
            Kind::Pairs { count, bytes } => write!(f, "pairs:count={count},bytes={}", size(bytes)),
            Kind::Fairness {
                members,
                bytes,
                unicast,
                second,
                third,
            } => write!(
                f,
                "fairness:members={members},bytes={},unicast={},second={},third={}",
                size(bytes),
                size(unicast),
                units::DELAY.show(*second),
                units::DELAY.show(*third)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: usize) -> Vec<HostIndex> {
        (0..count).map(HostIndex).collect()
    }

    fn kind(text: &str) -> Kind {
        text.parse().unwrap()
    }

    fn members(workload: &Workload, phase: usize) -> Vec<Vec<usize>> {
        let flows = workload.phases[phase].flows.iter();
        flows
            .map(|flow| flow.members.iter().map(|host| host.0).collect())
            .collect()
    }

    #[test]
    fn hpl_broadcasts_in_rows_and_then_in_columns() {
        let workload = kind("hpl:grid=2x3,panel=3KiB,swap=1KiB,epochs=2")
            .workload(&hosts(6), 1)
            .unwrap();
        let names: Vec<&str> = workload.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["PB 1", "RS 1", "PB 2", "RS 2"]);
        assert_eq!(members(&workload, 0), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(members(&workload, 1), [[0, 3], [1, 4], [2, 5]]);
        // The next process column has the next panel.
        assert_eq!(members(&workload, 2), [[1, 2, 0], [4, 5, 3]]);
        assert_eq!(members(&workload, 3), [[3, 0], [4, 1], [5, 2]]);
        assert_eq!(workload.bytes(), 2 * (2 * 3_072 + 3 * 1_024));
        let by = workload.phases[1].flows[0].by;
        assert_eq!(by.algorithm(Algorithm::Alfirk), Algorithm::Alfirk);
        assert_eq!(by.algorithm(Algorithm::Chain), Algorithm::Long);
    }

    #[test]
    fn grid_of_one_row_has_nothing_to_swap() {
        let workload = kind("hpl:grid=1x4").workload(&hosts(4), 1).unwrap();
        assert_eq!(workload.phases.len(), 1);
        assert_eq!(workload.phases[0].name, "PB");
    }

    #[test]
    fn messages_of_hpl_shrink_with_the_matrix() {
        let lengths = HplLengths::Matrix { n: 1_000, nb: 100 };
        let first = lengths.in_epoch(0, 2, 4);
        // The first panel that HPL of hpcc 1.5 sends on such a grid, as traced.
        assert_eq!(first.0, 480_808);
        assert_eq!(first, (8 * (500 * 100 + 100 * 100 + 101), 8 * 100 * 225));
        let last = lengths.in_epoch(9, 2, 4);
        assert_eq!(last, (8 * (50 * 100 + 100 * 100 + 101), 0));
        assert_eq!(lengths.in_epoch(10, 2, 4).1, 0);
    }

    #[test]
    fn groups_are_drawn_without_repetition_and_alike_for_a_seed() {
        let kind = kind("groups:count=40,size=7,bytes=64B");
        let workload = kind.workload(&hosts(16), 3).unwrap();
        for members in members(&workload, 0) {
            let mut sorted = members.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 7);
            assert!(sorted.iter().all(|host| *host < 16));
        }
        assert_eq!(kind.workload(&hosts(16), 3).unwrap(), workload);
        assert_ne!(kind.workload(&hosts(16), 4).unwrap(), workload);
    }

    #[test]
    fn storage_clients_have_requests_of_the_size_asked_for() {
        let workload = kind("storage:clients=3,replicas=2,io=4KiB,requests=10,depth=2")
            .workload(&hosts(4), 1)
            .unwrap();
        assert_eq!(workload.flows().count(), 3);
        for (client, flow) in workload.flows().enumerate() {
            assert_eq!((flow.members[0].0, flow.members.len()), (client, 3));
            assert_eq!(
                (flow.bytes, flow.messages, flow.depth),
                (40_960, Some(10), Some(2))
            );
        }
    }

    #[test]
    fn every_server_sends_its_share_to_every_worker() {
        let workload = kind("training:servers=2,workers=3,parameters=1MiB,buckets=4")
            .workload(&hosts(8), 1)
            .unwrap();
        assert_eq!(members(&workload, 0), [[0, 2, 3, 4], [1, 2, 3, 4]]);
        assert_eq!(workload.bytes(), 1 << 20);
    }

    #[test]
    fn pairs_are_a_part_of_a_permutation() {
        let workload = kind("pairs:count=5").workload(&hosts(5), 1).unwrap();
        let pairs = members(&workload, 0);
        for side in [0, 1] {
            let mut ends: Vec<usize> = pairs.iter().map(|pair| pair[side]).collect();
            ends.sort_unstable();
            assert_eq!(ends, [0, 1, 2, 3, 4]);
        }
        assert!(pairs.iter().all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn background_loads_every_phase() {
        let mut workload = kind("hpl:grid=2x2").workload(&hosts(5), 1).unwrap();
        let incast = kind("incast:senders=4").workload(&hosts(5), 1).unwrap();
        workload.load(&incast);
        assert!(workload
            .phases
            .iter()
            .all(|phase| phase.background.len() == 4));
        assert_eq!(workload.hosts().len(), 5);
    }

    #[test]
    fn every_kind_reads_what_it_writes() {
        for example in Kind::examples() {
            let text = example.replace(",n=16384,nb=128", "");
            let read = kind(&text);
            assert_eq!(kind(&read.to_string()), read, "{text}");
        }
        let matrix = kind("hpl:grid=4x8,n=16384,nb=128");
        assert_eq!(kind(&matrix.to_string()), matrix);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = [
            ("hlp:grid=2x2", "there is no workload `hlp`; there are hpl, groups, storage, training, incast, pairs, fairness"),
            ("hpl", "hpl needs grid, such as grid=8x8"),
            ("hpl:grid=8", "grid=8: give rows and columns, as 8x8"),
            ("hpl:grid=0x3", "grid=0x3: give rows and columns, as 8x8"),
            ("hpl:grid=2x2,n=100", "hpl takes either n and nb or panel and swap"),
            ("hpl:grid=2x2,n=100,nb=10,panel=1B", "hpl takes either n and nb or panel and swap"),
            ("groups:members=3", "groups knows no `members`; it knows count, size, bytes"),
            ("groups:size=3,size=4", "groups has `size` twice"),
            ("groups:size", "`size` is no KEY=VALUE"),
            ("groups:size=1", "size=1: 2 at the least"),
            ("groups:count=0", "count=0: give a number from 1 to 1000000"),
            ("groups:bytes=0B", "bytes=0B: there must be something to send"),
        ];
        for (text, why) in refused {
            assert_eq!(text.parse::<Kind>().unwrap_err().to_string(), why);
        }
        let few = kind("training:servers=2,workers=3").workload(&hosts(4), 1);
        assert_eq!(
            few.unwrap_err().to_string(),
            "training:servers=2,workers=3,parameters=64MiB,buckets=16 needs 5 hosts, and the topology has 4"
        );
    }
}
