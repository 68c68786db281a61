//! Thrift requests about the ports and queues of the event loop.

use std::{collections::BTreeMap, io, path::Path};

use alfirk_packet_io::{wall_clock, LinkWatch, Poller};
use alfirk_thrift::standard::DevMgrPortInfo;
use tracing::info;

use super::{commands::ENTITIES_PER_TURN, Engine, Port, PortDefaults, PortSetup};
use crate::thrift::{self, LongRequest, Ports, Runtime, Started};

/// The ports of the event loop, as Thrift requests access them.
struct EnginePorts<'a> {
    ports: &'a mut BTreeMap<u32, Port>,
    poller: &'a Poller,
    watch: &'a LinkWatch,
    defaults: &'a mut PortDefaults,
    /// Ports that were added (true) or removed (false), to be reported to the server.
    port_changes: Vec<(u32, bool)>,
}

impl Engine {
    /// Executes a Thrift request, or starts a long one.
    pub(super) fn start_thrift(&mut self, request: thrift::Request, now: u64) -> Started {
        self.with_runtime(now, |runtime| runtime.start(request))
    }

    /// Continues a long request. Returns the response once the request is complete, else `None`.
    pub(super) fn continue_thrift(
        &mut self,
        long: &mut LongRequest,
        now: u64,
    ) -> Option<thrift::Response> {
        self.with_runtime(now, |runtime| {
            runtime.continue_request(long, ENTITIES_PER_TURN)
        })
    }

    fn with_runtime<T>(
        &mut self,
        now: u64,
        f: impl FnOnce(&mut Runtime<'_, EnginePorts<'_>>) -> T,
    ) -> T {
        let mut ports = EnginePorts {
            ports: &mut self.ports,
            poller: &self.poller,
            watch: &self.watch,
            defaults: &mut self.defaults,
            port_changes: Vec::new(),
        };
        let mut runtime = Runtime {
            server: &mut self.server,
            ports: &mut ports,
            settings: &self.thrift,
            config: &mut self.config,
            now,
            wall_clock: wall_clock(),
        };
        let result = f(&mut runtime);
        for (port, is_up) in ports.port_changes {
            self.server.set_port(port, is_up);
        }
        result
    }
}

impl Ports for EnginePorts<'_> {
    fn add(&mut self, interface: &str, port: u32, pcap: &str) -> io::Result<()> {
        let taken = |why: String| Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        if self.ports.contains_key(&port) {
            return taken(format!("port {port} has an interface already"));
        }
        if self.ports.values().any(|p| p.interface == interface) {
            return taken(format!("interface {interface} is on another port already"));
        }
        if self.defaults.reserved.contains(&port) {
            return taken(format!("port {port} is the drop port or the CPU port"));
        }
        let mut new_port = Port::open(
            PortSetup {
                number: port,
                interface,
                link: self.defaults.link,
                loss_filters: Vec::new(),
                priority_queues: self.defaults.priority_queues,
                queue_depth: self.defaults.queue_depth,
                queue_bytes: None,
                ring: self.defaults.ring,
                send_socket: self.defaults.send_socket,
                seed: self.defaults.seed,
                pcap: (!pcap.is_empty()).then_some(Path::new(pcap)),
            },
            self.poller,
        )?;
        self.watch.request(new_port.index)?;
        new_port.queues.set_rate(None, self.defaults.queue_rate);
        info!(port, interface, "port attached");
        self.ports.insert(port, new_port);
        self.port_changes.push((port, true));
        Ok(())
    }

    fn remove(&mut self, port: u32) -> bool {
        let removed = self.ports.remove(&port).is_some();
        if removed {
            info!(port, "port detached");
            self.port_changes.push((port, false));
        }
        removed
    }

    fn list(&self) -> Vec<DevMgrPortInfo> {
        let ports = self.ports.iter().map(|(&number, port)| DevMgrPortInfo {
            port_num: number as i32,
            iface_name: port.interface.clone(),
            is_up: port.is_up(),
            extra: BTreeMap::new(),
        });
        ports.collect()
    }

    fn set_depth(&mut self, port: Option<u32>, priority: Option<usize>, packets: usize) {
        if port.is_none() {
            self.defaults.queue_depth = packets;
        }
        for port in self.selected_ports(port) {
            port.queues.set_depth(priority, packets);
        }
    }

    fn set_rate(&mut self, port: Option<u32>, priority: Option<usize>, packets_per_second: u64) {
        if port.is_none() {
            self.defaults.queue_rate = packets_per_second;
        }
        for port in self.selected_ports(port) {
            port.queues.set_rate(priority, packets_per_second);
        }
    }
}

impl EnginePorts<'_> {
    /// Returns the port with this number, or all ports if it is `None`.
    fn selected_ports(&mut self, port: Option<u32>) -> impl Iterator<Item = &mut Port> {
        let ports = self.ports.iter_mut();
        let selected = ports.filter(move |(number, _)| port.is_none_or(|port| port == **number));
        selected.map(|(_, port)| port)
    }
}
