//! A fabric of switches in virtual time, which run the program of the page.

use std::sync::Arc;

use alfirk_bmv2::trace::{PacketTree, TraceEvent};
use alfirk_compiler::driver::{CompileOptions, Session as Compilation};
use alfirk_ctrl::controller::ControllerConfig;
use alfirk_ctrl::topology::Topology;
use alfirk_experiment::{run_algorithm, Job};
use alfirk_roce::collective::Algorithm;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network, TracedPacket};
use alfirk_sim::VirtualFabric;

use crate::compile::Prepared;
use crate::engine::FabricSpec;
use crate::files::{Document, Library, Loader};
use crate::frame::{describe, dissect};
use crate::limits;
use crate::run::{Executed, Run, Sent};

/// The packets of all switches of a run.
pub(crate) struct FabricRun {
    /// The result of the transfer, in one line.
    pub summary: String,
    /// The switches: name, and packets in the order of their arrival.
    pub switches: Vec<(String, Vec<TracedPacket>)>,
}

/// Broadcasts a message to a group, by the aggregation of feedback in the switches.
///
/// # Errors
/// The reason why there is no run, in one line.
pub(crate) fn run(
    options: CompileOptions,
    document: &Document,
    library: &Library,
    spec: &FabricSpec,
) -> Result<FabricRun, String> {
    let path = &spec.topology;
    let text = library.text(path).filter(|_| is_topology(path));
    let text = text.ok_or_else(|| format!("there is no topology `{path}`"))?;
    let topology = Topology::from_yaml(path, text).map_err(|error| error.to_string())?;
    let hosts = topology.hosts().len();
    if spec.group < 2 || spec.group > hosts {
        let group = spec.group;
        return Err(format!(
            "a group of {group} hosts: this topology has 2 to {hosts}"
        ));
    }
    if spec.bytes == 0 || spec.bytes > limits::MESSAGE_BYTES {
        let limit = limits::MESSAGE_BYTES >> 10;
        return Err(format!("the message has 1 byte to {limit} KiB"));
    }
    if !(0.0..=0.2).contains(&spec.loss) {
        return Err("the probability of a loss is 0 to 0.2".to_owned());
    }
    let loader = Loader { document, library };
    let mut compilation = Compilation::new(options);
    let elaborated = compilation.elaborated(&loader);
    let elaborated = elaborated.map_err(|error| error.to_string())?;
    let compiled = elaborated.and_then(|program| {
        let p4info = compilation.p4info(&program)?;
        Ok((p4info, compilation.json(&program)?))
    });
    let (p4info, json) = compiled.map_err(|_| "the program has errors".to_owned())?;
    let controller = ControllerConfig::new(p4info, json.to_text().into_bytes());
    let network = Network::build_traced(
        &topology,
        controller,
        Model::default(),
        FaultProbabilities::lossy(spec.loss),
        spec.seed,
        limits::SWITCH_PACKETS,
    )
    .map_err(|error| {
        format!("the controller cannot use this program; fabrics need one with the tables of p4src: {error}")
    })?;
    let mut fabric = VirtualFabric::bring_up(network).map_err(|error| error.to_string())?;
    let data: Arc<[u8]> = (0..spec.bytes).map(|at| at as u8).collect();
    let members = topology.host_indexes().take(spec.group).collect();
    let job = Job {
        seed: spec.seed,
        ..Job::new(members, data)
    };
    let row = run_algorithm(&mut fabric, &topology, &job, Algorithm::Alfirk, &mut |_| {});
    let row = row.map_err(|error| error.to_string())?;
    let verified = match row.given_up {
        Some(reason) => reason,
        None => format!(
            "{} of {} receivers hold the message",
            row.receivers_verified, row.receivers
        ),
    };
    let summary = format!("{verified} after {}", time(row.completion_ns));
    let indexes = topology.switch_indexes().zip(topology.switches());
    let switches = indexes.map(|(index, switch)| {
        let packets = fabric.network().take_packet_traces(index);
        (switch.name.clone(), packets)
    });
    Ok(FabricRun {
        summary,
        switches: switches.collect(),
    })
}

/// Paths of the topologies in the library.
pub(crate) fn topologies(library: &Library) -> Vec<String> {
    let all = library.paths().filter(|path| is_topology(path));
    all.map(str::to_owned).collect()
}

fn is_topology(path: &str) -> bool {
    path.starts_with("/topologies/") && path.ends_with(".yaml")
}

/// Shows the packets of one switch as those of a test.
pub(crate) fn shown(packets: &[TracedPacket], prepared: &Prepared) -> Run {
    let mut steps_left = limits::TRACE_STEPS;
    let executed = packets.iter().enumerate().map(|(number, packet)| {
        let steps = steps(&packet.trace);
        let is_kept = steps <= steps_left;
        steps_left = steps_left.saturating_sub(steps);
        let mut trace = is_kept.then(|| packet.trace.clone());
        let way = trace.as_mut().map(|tree| prepared.ways.follow(tree));
        let mut left = Vec::new();
        collect_ports(&packet.trace, &mut left);
        let sent = Sent {
            port: packet.port,
            frame: describe(
                &packet.frame,
                &dissect(&packet.frame, prepared.program.as_ref()),
            ),
            outputs: Vec::new(),
            left: Some(left),
            omitted_outputs: 0,
            trace,
            way: way.unwrap_or_default(),
        };
        Executed {
            line: number + 1,
            at: Some(time(packet.time)),
            error: None,
            sent: Some(sent),
        }
    });
    Run {
        executed: executed.collect(),
        has_checks: false,
        failures: Vec::new(),
        states: prepared.states.clone(),
        messages: prepared.messages.clone(),
    }
}

fn steps(tree: &PacketTree) -> usize {
    tree.steps.len() + tree.copies.iter().map(steps).sum::<usize>()
}

/// Collects the ports by which a packet and its copies have left.
fn collect_ports(tree: &PacketTree, ports: &mut Vec<u32>) {
    for step in &tree.steps {
        if let TraceEvent::Out { port, .. } = step {
            ports.push(*port);
        }
    }
    for copy in &tree.copies {
        collect_ports(copy, ports);
    }
}

/// A time as text.
fn time(nanoseconds: u64) -> String {
    format!("{:.3} us", nanoseconds as f64 / 1e3)
}
