//! `alfirk ctrl --web`: records the controller's actions as a trace that a page shows live.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use alfirk_ctrl::client::Journal;
use alfirk_ctrl::controller::GroupStatus;
use alfirk_sim::capture::watch;
use alfirk_view::server::{Growing, ServedTrace};
use alfirk_view::trace::{Event, MftEvent, NoteEvent, PathState, Writer};

use crate::exit::Failure;
use crate::view;

/// Size of the trace in bytes after which no more events are recorded: about a million lines.
const LIMIT: u64 = 128 << 20;

/// Writer of the page's trace.
struct Page {
    writer: Writer<Growing>,
    /// Positions of nodes in the trace's header, by name.
    nodes: BTreeMap<String, usize>,
    controller: usize,
    /// Ports of each group on each switch, as last written to the trace.
    shown: BTreeMap<(Ipv4Addr, usize), Vec<u32>>,
    /// Time of the last event; later events never get an earlier time.
    last: u64,
}

/// Serves the page in a thread of its own, and returns the journal that it shows.
///
/// # Errors
/// The topology cannot be read, or the address cannot be bound.
pub fn serve(address: SocketAddr, topology: &Path) -> Result<Box<dyn Journal>, Failure> {
    let topology = crate::topology::read(topology)?;
    let listener = view::listen(address, "--web")?;
    let at = listener.address().map_err(Failure::failed)?;
    let header = watch::header(&topology, "controller", &[]);
    let bytes = Growing::default();
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
    let controller = nodes[watch::CONTROLLER];
    Ok(Box::new(Page {
        writer: Writer::new(bytes, &header, LIMIT).map_err(Failure::failed)?,
        nodes,
        controller,
        shown: BTreeMap::new(),
        last: 0,
    }))
}

impl Page {
    fn write(&mut self, event: &Event) {
        // Writing to memory does not fail.
        let _ = self.writer.event(event);
    }

    fn time(&mut self, now: u64) -> u64 {
        self.last = self.last.max(now);
        self.last
    }
}

impl Journal for Page {
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
            .shown
            .keys()
            .filter(|key| !there.contains_key(key))
            .copied()
            .collect();
        let gone = gone.into_iter().map(|key| (key, Vec::new()));
        let changed = there
            .iter()
            .filter(|(key, ports)| self.shown.get(key) != Some(ports));
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
        self.shown = there;
    }
}
