//! `alfirk ctrl --web`: records the controller's actions as a trace that a page shows live.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use alfirk_ctrl::client::Journal;
use alfirk_ctrl::controller::GroupStatus;
use alfirk_sim::capture::page_trace;
use alfirk_view::server::{GrowingBytes, ServedTrace};
use alfirk_view::trace::{Event, MftEvent, NoteEvent, PathState, Writer};

use crate::exit::Failure;
use crate::view;

/// Size of the trace in bytes after which no more events are recorded: about a million lines.
const MAX_TRACE_LEN: u64 = 128 << 20;

/// Journal of the controller that writes a trace, which a web page replays.
struct PageJournal {
    writer: Writer<GrowingBytes>,
    /// Positions of nodes in the trace's header, by name.
    nodes: BTreeMap<String, usize>,
    /// Position of the controller in the header's list of nodes.
    controller: usize,
    /// Ports last written to the trace, by group address and the switch's position in the header.
    last_ports: BTreeMap<(Ipv4Addr, usize), Vec<u32>>,
    /// Time of the last written event in nanoseconds. Times of events never decrease.
    last_time: u64,
}

/// Starts an HTTP server for the page in a thread of its own. Returns the journal whose records the page shows.
///
/// # Errors
/// The topology cannot be read, or the address cannot be bound.
pub fn serve(address: SocketAddr, topology: &Path) -> Result<Box<dyn Journal>, Failure> {
    let topology = crate::topology::read(topology)?;
    let listener = view::listen(address, "--web")?;
    let at = listener.address().map_err(Failure::failed)?;
    let header = page_trace::header(&topology, "controller", &[]);
    let bytes = GrowingBytes::default();
    let trace = ServedTrace {
        name: format!("controller of {}", topology.name()),
        bytes: bytes.clone(),
        is_live: true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::failed)?;
    std::thread::spawn(move || {
        let served = runtime.block_on(listener.serve(vec![trace], std::future::pending()));
        if let Err(error) = served {
            tracing::error!("the page's server failed: {error}");
        }
    });
    // stdout is for programs that wait until the controller is ready.
    let _ = writeln!(io::stderr(), "alfirk: http://{at}/ shows the controller");
    let numbers = header.nodes.iter().enumerate();
    let nodes: BTreeMap<String, usize> = numbers
        .map(|(number, node)| (node.name.clone(), number))
        .collect();
    let controller = nodes[page_trace::CONTROLLER];
    Ok(Box::new(PageJournal {
        writer: Writer::new(bytes, &header, MAX_TRACE_LEN).map_err(Failure::failed)?,
        nodes,
        controller,
        last_ports: BTreeMap::new(),
        last_time: 0,
    }))
}

impl PageJournal {
    fn write(&mut self, event: &Event) {
        // Writing to memory does not fail.
        let _ = self.writer.event(event);
    }

    /// The time for an event at `now`: never before that of the last event.
    fn time(&mut self, now: u64) -> u64 {
        self.last_time = self.last_time.max(now);
        self.last_time
    }
}

impl Journal for PageJournal {
    fn note(&mut self, now: u64, text: String) {
        let t = self.time(now);
        let n = self.controller;
        self.write(&Event::Note(NoteEvent { t, n, text }));
    }

    fn groups(&mut self, now: u64, groups: &[GroupStatus]) {
        let t = self.time(now);
        let mut there = BTreeMap::new();
        for group in groups {
            for part in &group.switches {
                if let Some(&n) = self.nodes.get(&part.switch) {
                    there.insert((group.mcst_id, n), part.ports.clone());
                }
            }
        }
        let gone: Vec<_> = self
            .last_ports
            .keys()
            .filter(|key| !there.contains_key(key))
            .copied()
            .collect();
        let gone = gone.into_iter().map(|key| (key, Vec::new()));
        let changed = there
            .iter()
            .filter(|(key, ports)| self.last_ports.get(key) != Some(ports));
        let changed: Vec<_> = changed.map(|(key, ports)| (*key, ports.clone())).collect();
        for ((group, n), ports) in gone.chain(changed) {
            let event = MftEvent {
                t,
                n,
                group,
                count: ports.len(),
                paths: (0..)
                    .zip(ports)
                    .map(|(path, port)| PathState {
                        path,
                        port,
                        ack: None,
                    })
                    .collect(),
                feedback: None,
            };
            self.write(&Event::Mft(event));
        }
        self.last_ports = there;
    }
}
