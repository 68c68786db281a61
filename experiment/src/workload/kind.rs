//! Kinds of workloads, and their text form such as `hpl:grid=8x8,panel=1MiB`.

mod hpl;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rand_core::Rng;

use alfirk_ctrl::topology::HostIndex;
use alfirk_roce::collective::Algorithm;
use alfirk_units::{SIZE, TIME};

use super::{Flow, FlowAlgorithm, Phase, Workload};
use crate::stream::stream;
pub use hpl::HplLengths;

/// A kind of application whose communication a workload imitates, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// High-performance Linpack on a grid of `rows` x `columns` hosts. In each epoch, the panel is broadcast in all rows of the
    /// grid in parallel, then the matrix rows to swap in all columns. The source rotates over the members of a row or column.
    Hpl {
        /// Number of rows of the grid.
        rows: u32,
        /// Number of columns of the grid.
        columns: u32,
        /// Number of epochs, each with one panel.
        epochs: u32,
        /// Message lengths of each epoch.
        lengths: HplLengths,
        /// Algorithm of the row swaps, if the algorithm under comparison uses no multicast group of the fabric.
        swap_by: Algorithm,
        /// Computing speed of a host in 10^9 floating-point operations per second; `None` if computation takes no time.
        gflops: Option<u32>,
    },
    /// Broadcasts in many groups in parallel, with random members.
    Groups {
        /// Number of groups.
        count: u32,
        /// Number of members of each group, at least 2.
        size: u32,
        /// Size of each message in bytes.
        bytes: u64,
    },
    /// Clients of replicated storage with a fixed queue depth, writing to random replicas.
    Storage {
        /// Number of clients, each with a group of its own.
        clients: u32,
        /// Number of replicas of each client's data.
        replicas: u32,
        /// Size of a request in bytes.
        io: u64,
        /// Maximum number of outstanding requests of a client.
        depth: u32,
        /// Number of requests of each client.
        requests: u32,
    },
    /// Parameter servers that send their share of a model, in buckets, to all workers in parallel.
    Training {
        /// Number of parameter servers.
        servers: u32,
        /// Number of workers.
        workers: u32,
        /// Size of the model's parameters in bytes.
        parameters: u64,
        /// Number of messages into which a server divides its share.
        buckets: u32,
    },
    /// Unicasts from many senders to the last host at the same time.
    Incast {
        /// Number of senders.
        senders: u32,
        /// Size of each message in bytes.
        bytes: u64,
    },
    /// Unicasts from `count` hosts, each to another one: a part of a random permutation.
    Pairs {
        /// Number of senders.
        count: u32,
        /// Size of each message in bytes.
        bytes: u64,
    },
    /// A broadcast to a group of random members, and two later unicasts among them: from the second member to the third, and from
    /// the fourth to the fifth.
    Fairness {
        /// Number of members of the group.
        members: u32,
        /// Size of the broadcast in bytes.
        bytes: u64,
        /// Size of each unicast in bytes.
        unicast: u64,
        /// Start of the first unicast, in nanoseconds after the start of the phase.
        second: u64,
        /// Start of the second unicast, in nanoseconds after the start of the phase.
        third: u64,
    },
    /// Broadcasts and unicasts of `bytes` bytes in parallel over one bottleneck. Each flow has a source of its own,
    /// from the first hosts on.
    Shared {
        /// Number of broadcasts, each in a group of its own.
        groups: u32,
        /// Number of members of each group.
        size: u32,
        /// Number of unicasts.
        unicasts: u32,
        /// Size of each message in bytes.
        bytes: u64,
        /// Interval in nanoseconds between the starts of two successive flows. Broadcasts and unicasts alternate.
        apart: u64,
        /// Position of the bottleneck in the network.
        meet: BottleneckSide,
    },
}

/// Position of the bottleneck that the flows of [`Kind::Shared`] use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BottleneckSide {
    /// At the sources: receivers are drawn from the hosts that are not sources.
    Sources,
    /// At the last host, which receives every flow.
    Receiver,
}

impl BottleneckSide {
    const ALL: [BottleneckSide; 2] = [BottleneckSide::Sources, BottleneckSide::Receiver];

    fn name(self) -> &'static str {
        match self {
            BottleneckSide::Sources => "sources",
            BottleneckSide::Receiver => "receiver",
        }
    }

    /// Draws `count` receivers for the source with number `source`; with [`BottleneckSide::Receiver`], the last host is one of
    /// them.
    fn receivers(
        self,
        hosts: &[HostIndex],
        count: usize,
        seed: u64,
        source: usize,
    ) -> Vec<HostIndex> {
        let name = format!("shared {source}");
        match (self, hosts) {
            (BottleneckSide::Receiver, [others @ .., last]) => {
                let others = draw_hosts(others, count - 1, seed, &name);
                [*last].into_iter().chain(others).collect()
            }
            _ => draw_hosts(hosts, count, seed, &name),
        }
    }
}

/// Reason why a text is not a valid workload, or why the topology cannot run it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// The name of the kind is unknown. Holds the name, and the list of all names.
    #[error("there is no workload `{0}`; there are {1}")]
    Unknown(String, String),
    /// The kind does not have this key.
    #[error("{kind} has no key `{key}`; its keys are {keys}")]
    Key {
        /// Name of the kind.
        kind: &'static str,
        /// The unknown key.
        key: String,
        /// The kind's keys.
        keys: String,
    },
    /// A parameter has no value; holds its text.
    #[error("`{0}` is not of the form KEY=VALUE")]
    NoValue(String),
    /// A key is given twice.
    #[error("{kind} has `{key}` twice")]
    Twice {
        /// Name of the kind.
        kind: &'static str,
        /// The repeated key.
        key: String,
    },
    /// A required key is missing.
    #[error("{kind} needs {key}, such as {key}={example}")]
    Missing {
        /// Name of the kind.
        kind: &'static str,
        /// The missing key.
        key: &'static str,
        /// An example of its value.
        example: &'static str,
    },
    /// A value is malformed or out of range.
    #[error("{key}={value}: {why}")]
    Value {
        /// Key of the invalid value.
        key: &'static str,
        /// Text of the invalid value.
        value: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// The lengths of HPL's messages are given twice: by the order of a matrix, and directly.
    #[error("hpl takes either n and nb or panel and swap")]
    Lengths,
    /// HPL has a computing speed, but no matrix, so the number of operations is unknown.
    #[error("hpl: gflops needs n and nb, which determine the number of operations")]
    NoMatrix,
    /// The topology has too few hosts.
    #[error("{what} needs {needs} hosts, and the topology has {has}")]
    Hosts {
        /// Text of the workload on the command line.
        what: String,
        /// Number of hosts that the workload needs.
        needs: u64,
        /// Number of hosts of the topology.
        has: usize,
    },
}

/// Syntax of one kind of workload: its name, its keys, and an example value for each key.
struct Syntax {
    name: &'static str,
    keys: &'static [(&'static str, &'static str)],
}

const KINDS: [Syntax; 8] = [
    Syntax {
        name: "hpl",
        keys: &[
            ("grid", "8x8"),
            ("panel", "1MiB"),
            ("swap", "1MiB"),
            ("n", "16384"),
            ("nb", "128"),
            ("epochs", "4"),
            ("swap-by", "long"),
            ("gflops", "1000"),
        ],
    },
    Syntax {
        name: "groups",
        keys: &[("count", "16"), ("size", "8"), ("bytes", "1MiB")],
    },
    Syntax {
        name: "storage",
        keys: &[
            ("clients", "1"),
            ("replicas", "3"),
            ("io", "8KiB"),
            ("depth", "16"),
            ("requests", "1000"),
        ],
    },
    Syntax {
        name: "training",
        keys: &[
            ("servers", "1"),
            ("workers", "8"),
            ("parameters", "64MiB"),
            ("buckets", "16"),
        ],
    },
    Syntax {
        name: "incast",
        keys: &[("senders", "8"), ("bytes", "1MiB")],
    },
    Syntax {
        name: "pairs",
        keys: &[("count", "8"), ("bytes", "1MiB")],
    },
    Syntax {
        name: "fairness",
        keys: &[
            ("members", "16"),
            ("bytes", "256MiB"),
            ("unicast", "64MiB"),
            ("second", "5ms"),
            ("third", "20ms"),
        ],
    },
    Syntax {
        name: "shared",
        keys: &[
            ("groups", "2"),
            ("size", "4"),
            ("unicasts", "2"),
            ("bytes", "16MiB"),
            ("apart", "1ms"),
            ("meet", "sources"),
        ],
    },
];

impl Syntax {
    /// Returns an example of the kind's text form, with all its keys.
    fn example(&self) -> String {
        let keys = self
            .keys
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        format!("{}:{}", self.name, keys.collect::<Vec<_>>().join(","))
    }
}

impl Kind {
    /// Returns an example of the text form of each kind, with all its keys.
    pub fn examples() -> impl Iterator<Item = String> {
        KINDS.iter().map(Syntax::example)
    }

    /// Generates the flows on `hosts`; random choices are drawn from `seed`.
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
                gflops,
            } => hpl::workload(hosts, (rows, columns), epochs, lengths, swap_by, gflops),
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
                let members = draw_hosts(hosts, members as usize, seed, "fairness");
                let later = |from: usize, after| Flow {
                    after,
                    ..pair_flow((members[from], members[from + 1]), unicast)
                };
                let unicasts = [later(1, second), later(3, third)];
                let broadcast = Flow {
                    members,
                    bytes,
                    by: FlowAlgorithm::Compared,
                    messages: None,
                    depth: None,
                    after: 0,
                };
                let flows = [broadcast].into_iter().chain(unicasts);
                one_phase("fairness", flows.collect())
            }
            Kind::Shared {
                groups,
                size,
                unicasts,
                bytes,
                apart,
                meet,
            } => {
                let (sources, others) = hosts.split_at((groups + unicasts) as usize);
                let flow = |(source, &from): (usize, &HostIndex)| {
                    let is_group = source < groups as usize;
                    let receivers = if is_group { size as usize - 1 } else { 1 };
                    let receivers = meet.receivers(others, receivers, seed, source);
                    let by = match is_group {
                        true => FlowAlgorithm::Compared,
                        false => FlowAlgorithm::Always(Algorithm::Unicast),
                    };
                    Flow {
                        members: [from].into_iter().chain(receivers).collect(),
                        bytes,
                        by,
                        messages: None,
                        depth: None,
                        after: apart * start_interval(source as u32, groups, unicasts),
                    }
                };
                let flows = sources.iter().enumerate().map(flow);
                one_phase("shared", flows.collect())
            }
            Kind::Pairs { count, bytes } => {
                let around = draw_hosts(hosts, hosts.len(), seed, "pairs");
                let next = around.iter().cycle().skip(1);
                let pairs = around.iter().zip(next).take(count as usize);
                let flows = pairs.map(|(from, to)| pair_flow((*from, *to), bytes));
                one_phase("pairs", flows.collect())
            }
        })
    }

    /// Number of hosts that the workload needs.
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
            Kind::Shared {
                groups,
                size,
                unicasts,
                ..
            } => u64::from(groups) + u64::from(unicasts) + u64::from(size) - 1,
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
            let replicas = draw_hosts(
                &others,
                replicas as usize,
                seed,
                &format!("client {client}"),
            );
            Flow {
                members: [source].into_iter().chain(replicas).collect(),
                bytes: io * u64::from(requests),
                by: FlowAlgorithm::Compared,
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
            by: FlowAlgorithm::Compared,
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
            computing: 0,
        }],
        interval: None,
    }
}

fn pair_flow((from, to): (HostIndex, HostIndex), bytes: u64) -> Flow {
    Flow {
        members: vec![from, to],
        bytes,
        by: FlowAlgorithm::Always(Algorithm::Unicast),
        messages: None,
        depth: None,
        after: 0,
    }
}

fn groups(hosts: &[HostIndex], count: u32, size: u32, bytes: u64, seed: u64) -> Workload {
    let flow = |group: u32| Flow {
        members: draw_hosts(hosts, size as usize, seed, &format!("group {group}")),
        bytes,
        by: FlowAlgorithm::Compared,
        messages: None,
        depth: None,
        after: 0,
    };
    one_phase("groups", (0..count).map(flow).collect())
}

/// Number of intervals before the source with number `source` starts. Groups and unicasts alternate until one of them
/// is used up. The first `groups` sources have groups.
fn start_interval(source: u32, groups: u32, unicasts: u32) -> u64 {
    let (number, others) = match source < groups {
        true => (source, unicasts.min(source)),
        false => (source - groups, groups.min(source - groups + 1)),
    };
    u64::from(number + others)
}

/// Draws `count` of `hosts`, in random order, from the random stream `name` (Fisher-Yates shuffle).
fn draw_hosts(hosts: &[HostIndex], count: usize, seed: u64, name: &str) -> Vec<HostIndex> {
    let mut rng = stream(seed, name);
    let mut left = hosts.to_vec();
    for place in 0..count.min(left.len()) {
        let other = place + (rng.next_u64() % (left.len() - place) as u64) as usize;
        left.swap(place, other);
    }
    left.truncate(count);
    left
}

/// Values of the keys of a workload's text form.
struct Values {
    kind: &'static str,
    given: BTreeMap<&'static str, String>,
}

impl Values {
    fn read(words: &Syntax, text: &str) -> Result<Values, KindError> {
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
            _ => Err(value_error(key, value, "give a number from 1 to 1000000")),
        }
    }

    fn size(&self, key: &'static str, default: u64) -> Result<u64, KindError> {
        let Some(value) = self.given.get(key) else {
            return Ok(default);
        };
        match SIZE.parse(value) {
            Ok(0) => Err(value_error(key, value, "give a size above 0")),
            Ok(size) => Ok(size),
            Err(error) => Err(value_error(key, value, error)),
        }
    }

    fn meet(&self) -> Result<BottleneckSide, KindError> {
        let Some(value) = self.given.get("meet") else {
            return Ok(BottleneckSide::Sources);
        };
        let mut all = BottleneckSide::ALL.into_iter();
        let meet = all.find(|meet| meet.name() == value);
        meet.ok_or_else(|| value_error("meet", value, "expected sources or receiver"))
    }

    fn time(&self, key: &'static str, default: u64) -> Result<u64, KindError> {
        let Some(value) = self.given.get(key) else {
            return Ok(default);
        };
        let time = TIME.parse(value);
        time.map_err(|error| value_error(key, value, error))
    }
}

fn value_error(key: &'static str, value: &str, why: impl fmt::Display) -> KindError {
    KindError::Value {
        key,
        value: value.to_owned(),
        why: why.to_string(),
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Kind, KindError> {
        Kind::read(text, 1 << 20)
    }
}

impl Kind {
    /// Parses a kind; `bytes` is the default size of flows of hpl, groups, incast, pairs and shared.
    ///
    /// # Errors
    /// The text is not a workload.
    pub fn read(text: &str, bytes: u64) -> Result<Kind, KindError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(words) = KINDS.iter().find(|words| words.name == name.trim()) else {
            let names: Vec<&str> = KINDS.iter().map(|words| words.name).collect();
            return Err(KindError::Unknown(name.to_owned(), names.join(", ")));
        };
        let values = Values::read(words, rest)?;
        const MIB: u64 = 1 << 20;
        Ok(match words.name {
            "hpl" => hpl::read(&values, bytes)?,
            "groups" => Kind::Groups {
                count: values.number("count", 16)?,
                size: at_least("size", values.number("size", 8)?, 2)?,
                bytes: values.size("bytes", bytes)?,
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
                bytes: values.size("bytes", bytes)?,
            },
            "fairness" => Kind::Fairness {
                members: at_least("members", values.number("members", 16)?, 5)?,
                bytes: values.size("bytes", 256 * MIB)?,
                unicast: values.size("unicast", 64 * MIB)?,
                second: values.time("second", 5_000_000)?,
                third: values.time("third", 20_000_000)?,
            },
            "shared" => Kind::Shared {
                groups: values.number("groups", 2)?,
                size: at_least("size", values.number("size", 4)?, 2)?,
                unicasts: values.number("unicasts", 2)?,
                bytes: values.size("bytes", bytes)?,
                apart: values.time("apart", 0)?,
                meet: values.meet()?,
            },
            _ => Kind::Pairs {
                count: values.number("count", 8)?,
                bytes: values.size("bytes", bytes)?,
            },
        })
    }
}

fn at_least(key: &'static str, number: u32, least: u32) -> Result<u32, KindError> {
    match number < least {
        true => Err(value_error(
            key,
            &number.to_string(),
            format!("give at least {least}"),
        )),
        false => Ok(number),
    }
}

impl fmt::Display for Kind {
    /// The text form that [`Kind::read`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: &u64| SIZE.show(*bytes);
        match self {
            Kind::Hpl {
                rows,
                columns,
                epochs,
                lengths,
                swap_by,
                gflops,
            } => {
                write!(f, "hpl:grid={rows}x{columns},")?;
                match lengths {
                    HplLengths::Fixed { panel, swap } => {
                        write!(f, "panel={},swap={}", size(panel), size(swap))?;
                    }
                    HplLengths::Matrix { n, nb } => write!(f, "n={n},nb={nb}")?,
                }
                write!(f, ",epochs={epochs},swap-by={swap_by}")?;
                match gflops {
                    Some(gflops) => write!(f, ",gflops={gflops}"),
                    None => Ok(()),
                }
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
                TIME.show(*second),
                TIME.show(*third)
            ),
            Kind::Shared {
                groups,
                size: members,
                unicasts,
                bytes,
                apart,
                meet,
            } => write!(
                f,
                "shared:groups={groups},size={members},unicasts={unicasts},bytes={},apart={},meet={}",
                size(bytes),
                TIME.show(*apart),
                meet.name()
            ),
        }
    }
}

#[cfg(test)]
mod tests;
