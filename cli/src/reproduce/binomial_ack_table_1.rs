//! Measures table 1 of Mansoor and Meehan, "Reliable Multicast Protocol Using Infiniband Remote Direct Memory Access".

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::ControllerConfig;
use alfirk_ctrl::topology::{Builder, End, Host, HostIndex, LinkAttributes, MacAddr, Topology};
use alfirk_experiment::{run_algorithm, stream, Job};
use alfirk_roce::binomial_ack::{ConnectionLifetime, HEADER_LEN};
use alfirk_roce::collective::Algorithm;
use alfirk_roce::rc::PathMtu;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::{Broadcast, DatagramGroup, VirtualFabric};
use serde_json::{json, Value};

use crate::exit::Failure;
use crate::program::{compile_program, CompiledProgram, Target};

const SEED: u64 = 1;
const MTU: PathMtu = PathMtu::B2048;
/// Message size that fills one datagram together with the protocol's header, as in the paper.
const MESSAGE_LEN: usize = MTU.bytes() - HEADER_LEN;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
/// Time limit of one broadcast in virtual nanoseconds.
const TIME_LIMIT: u64 = 1_000_000_000;

/// The paper's table: number of nodes, then the times in microseconds of MPI_Bcast and of the paper's protocol.
const PAPER: [(usize, f64, f64); 6] = [
    (7, 2.3919, 1.4510),
    (6, 2.2550, 1.4459),
    (5, 2.2098, 1.4682),
    (4, 2.1962, 1.0930),
    (3, 2.1158, 1.0768),
    (2, 2.0298, 0.6692),
];

/// Tried assumptions about the delays of hosts and switch, which the paper does not state.
const CASES: [Case; 5] = [
    Case {
        what: "hosts and switch of the table above",
        is_free: false,
        mpi_extra_ns: 0,
    },
    Case {
        what: "the same, and MPI takes 1 us more for each message that it receives",
        is_free: false,
        mpi_extra_ns: 1_000,
    },
    Case {
        what: "the same, and MPI takes 4 us more",
        is_free: false,
        mpi_extra_ns: 4_000,
    },
    Case {
        what: "hosts and switch that cost nothing: only links take time",
        is_free: true,
        mpi_extra_ns: 0,
    },
    Case {
        what: "the same, and MPI takes 1.5 us for each message that it receives",
        is_free: true,
        mpi_extra_ns: 1_500,
    },
];

/// One set of assumptions about delays.
struct Case {
    what: &'static str,
    /// Whether hosts, network cards and switch have no delay.
    is_free: bool,
    /// Nanoseconds that MPI spends on each received message, in addition to those of any receiver.
    mpi_extra_ns: u64,
}

impl Case {
    /// Delays of hosts and switch for the paper's protocol.
    fn model(&self) -> Model {
        let model = Model::default();
        match self.is_free {
            true => Model {
                post_delay: 0,
                nic_delay: 0,
                completion_delay: 0,
                pipeline_latency: 0,
                ..model
            },
            false => model,
        }
    }

    /// Delays of hosts and switch for MPI.
    fn mpi_model(&self) -> Model {
        let own = self.model();
        Model {
            completion_delay: own.completion_delay + self.mpi_extra_ns,
            ..own
        }
    }
}

/// A row of the table: measured times for one number of nodes, in nanoseconds.
struct Row {
    nodes: usize,
    mpi: u64,
    /// Acknowledged multicast over connections that are made anew for each message.
    per_packet: Broadcast,
    /// Acknowledged multicast over connections that exist already.
    retained: Broadcast,
}

/// The measured rows for each set of assumptions, in the order of [`CASES`].
pub struct Table(Vec<Vec<Row>>);

/// Measures the whole table.
///
/// # Errors
/// A run failed.
pub fn measure_all() -> Result<Table, Failure> {
    let program = compile_program(Target::default(), None)?;
    let rows = |case: &Case| {
        let rows = PAPER.iter();
        let rows = rows.map(|(nodes, _, _)| measure(&program, *nodes, case));
        rows.collect::<Result<Vec<Row>, Failure>>()
    };
    Ok(Table(CASES.iter().map(rows).collect::<Result<_, _>>()?))
}

impl Table {
    /// Formats the table as JSON.
    pub fn json(&self) -> Value {
        let rows = self.0[0].iter().zip(PAPER).map(|(row, (_, mpi, own))| {
            json!({
                "nodes": row.nodes,
                "mpi_ns": row.mpi,
                "multicast_ns": row.retained.delivered,
                "new_connections_ns": row.per_packet.completed,
                "retained_connections_ns": row.retained.completed,
                "paper": { "mpi_us": mpi, "binomial_tree_ack_us": own },
            })
        });
        let rows: Vec<Value> = rows.collect();
        let cases = self.0.iter().zip(&CASES).map(|(rows, case)| {
            let rows = rows.iter().map(|row| {
                json!({
                    "nodes": row.nodes,
                    "mpi_ns": row.mpi,
                    "retained_connections_ns": row.retained.completed,
                })
            });
            json!({ "what": case.what, "rows": rows.collect::<Vec<_>>() })
        });
        let cases: Vec<Value> = cases.collect();
        json!({ "message_bytes": MESSAGE_LEN, "seed": SEED, "rows": rows, "cases": cases })
    }

    /// Formats the table as text, with the paper's numbers.
    pub fn text(&self) -> String {
        let less = |mpi: f64, own: f64| 100.0 * (mpi - own) / mpi;
        let mut out = format!(
            "{MESSAGE_LEN} bytes in one datagram of {} bytes, one switch, 40 Gbit/s, virtual time, microseconds.\n\
             MPI: by a binomial tree of connections, until the last node has the message, without acknowledgement.\n\
             Multicast: until the last node has it; and until the sender has all acknowledgements, over\n\
             connections that are made anew each time, as in the paper's measurement, or retained, as it plans.\n\
             In brackets, how much less time than MPI.\n\n\
             nodes     MPI   multicast, at the last node    acknowledged, new      and retained        paper: MPI  acknowledged\n",
            MTU.bytes()
        );
        let us = |ns: u64| ns as f64 / 1e3;
        for (row, (_, paper_mpi, paper_own)) in self.0[0].iter().zip(PAPER) {
            let mpi = us(row.mpi);
            let own = |ns: u64| format!("{:7.3} ({:+7.1} %)", us(ns), less(mpi, us(ns)));
            let _ = writeln!(
                out,
                "{:5} {mpi:7.3}           {}  {}  {}     {paper_mpi:.4}  {paper_own:.4} ({:+5.1} %)",
                row.nodes,
                own(row.retained.delivered),
                own(row.per_packet.completed),
                own(row.retained.completed),
                less(paper_mpi, paper_own),
            );
        }
        out.push_str(
            "\nWhat would have to be true for the paper's claim: MPI, acknowledged over retained connections, and how much less time that is.\n\n",
        );
        for (rows, case) in self.0.iter().zip(&CASES) {
            let _ = writeln!(out, "{}", case.what);
            for row in rows {
                let (mpi, own) = (us(row.mpi), us(row.retained.completed));
                let _ = writeln!(
                    out,
                    "{:5} {mpi:7.3}  {own:7.3} ({:+7.1} %)",
                    row.nodes,
                    less(mpi, own)
                );
            }
        }
        out.push_str(CONCLUSION);
        out
    }
}

/// Paragraph after the table: conclusions from the paper's own numbers.
const CONCLUSION: &str = "
The paper's times cannot all be those of single broadcasts on its network. At 40 Gbit/s 2,048 bytes last 0.41 us, so each level of a tree
that forwards them adds that and what hosts take: three levels at least 1.2 us. The paper's MPI adds 0.36 us from 2 nodes to 7. And in 0.67
us with 2 nodes the message would have to cross two links (0.82 us through a switch that stores it) and an acknowledgement come back,
over a connection made for it. The claim comes out where MPI spends more on each message than a round trip takes, as above.
";

/// Measures one row: MPI, and acknowledged multicast with new and with retained connections.
fn measure(program: &CompiledProgram, nodes: usize, case: &Case) -> Result<Row, Failure> {
    let topology = star(nodes);
    let data: Arc<[u8]> = stream::bytes(SEED, "message", MESSAGE_LEN).into();
    let members: Vec<HostIndex> = topology.host_indexes().collect();
    let job = Job {
        mtu: MTU,
        slices: Some(1),
        ..Job::new(members.clone(), Arc::clone(&data))
    };
    let mut fabric = bring_up(program, &topology, case.mpi_model())?;
    let mpi = run_algorithm(
        &mut fabric,
        &topology,
        &job,
        Algorithm::Binomial,
        &mut |_| {},
    );
    let acknowledged = |connections| -> Result<Broadcast, Failure> {
        let mut fabric = bring_up(program, &topology, case.model())?;
        let mut group = DatagramGroup::new(GROUP, MTU, connections, &fabric);
        for host in &members {
            group.join(&mut fabric, *host).map_err(Failure::failed)?;
        }
        let mut broadcast = || {
            let done = group.broadcast(&mut fabric, members[0], &data, TIME_LIMIT);
            // Remaining work must not overlap with the next broadcast.
            let later = fabric.network().now() + TIME_LIMIT;
            fabric.network().run_until(later);
            done.map_err(Failure::failed)
        };
        // The first broadcast resolves link-layer addresses, and establishes the connections that are retained.
        broadcast()?;
        broadcast()
    };
    Ok(Row {
        nodes,
        mpi: mpi.map_err(Failure::failed)?.completion_ns,
        per_packet: acknowledged(ConnectionLifetime::PerPacket)?,
        retained: acknowledged(ConnectionLifetime::Retained)?,
    })
}

fn bring_up(
    program: &CompiledProgram,
    topology: &Topology,
    model: Model,
) -> Result<VirtualFabric, Failure> {
    let config = ControllerConfig::new(program.p4info.clone(), program.device_config.clone());
    let faults = FaultProbabilities::default();
    let network = Network::build(topology, config, model, faults, SEED);
    VirtualFabric::bring_up(network.map_err(Failure::failed)?).map_err(Failure::failed)
}

/// Topology of the paper's cluster: hosts on one switch, with links of 40 Gbit/s.
fn star(hosts: usize) -> Topology {
    const GOOD: &str = "names and addresses are unique";
    let attributes = LinkAttributes {
        rate_bps: 40_000_000_000,
        ..LinkAttributes::default()
    };
    let mut builder = Builder::new("star", attributes).expect(GOOD);
    let switch = builder.switch("s1", 1).expect(GOOD);
    for (port, n) in (1u32..).zip((1u8..).take(hosts)) {
        let host = builder.host(Host {
            name: format!("h{n}"),
            ip: [10, 0, 0, n].into(),
            prefix_len: 8,
            mac: MacAddr([2, 0, 0, 0, 0, n]),
        });
        let ends = (End::host(host.expect(GOOD)), End::switch(switch, port));
        builder.link(ends.0, ends.1).expect(GOOD);
    }
    builder.build().expect(GOOD)
}
