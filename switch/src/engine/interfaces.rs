//! Handling of kernel events about interfaces: up, down, removed, added, or another queueing discipline.

use alfirk_packet_io::{interface_index, LinkChange, LinkWatch};
use tracing::{info, warn};

use super::{Engine, Port};

impl Engine {
    pub(super) fn handle_link_changes(&mut self) {
        self.wait_for_send_thread();
        let Some(events) = self.watch.receive() else {
            warn!("events of interfaces were lost; all interfaces are checked again");
            for port in self.ports.values_mut().filter(|p| p.file.is_none()) {
                if let Ok(index) = interface_index(&port.interface) {
                    port.interface_added(index, &self.poller);
                    request_state(&self.watch, index);
                }
            }
            return;
        };
        for item in events {
            match item {
                LinkChange::Present {
                    name,
                    index,
                    running,
                    discipline,
                } => {
                    let of_name = |p: &&mut Port| p.file.is_none() && p.interface == name;
                    let Some(port) = self.ports.values_mut().find(of_name) else {
                        continue;
                    };
                    if port.socket.is_none() || port.index != index {
                        port.interface_added(index, &self.poller);
                    }
                    if let Some(discipline) = discipline {
                        port.set_discipline(discipline);
                    }
                    if let Some(socket) = &port.socket {
                        socket.frame_sender().configure(port.send_socket);
                    }
                    let running = running && port.socket.is_some();
                    if port.running != running {
                        port.running = running;
                        let state = if running { "up" } else { "down" };
                        info!(port = port.number, interface = name, "interface is {state}");
                        self.server.set_port(port.number, port.is_up());
                    }
                }
                LinkChange::Removed { name, index } => {
                    let gone = |p: &&mut Port| p.interface == name && p.index == index;
                    if let Some(port) = self.ports.values_mut().find(gone) {
                        warn!(
                            port = port.number,
                            interface = name,
                            "interface was removed; waiting until it exists again"
                        );
                        port.interface_removed();
                        port.running = false;
                        self.server.set_port(port.number, false);
                    }
                }
                LinkChange::Disciplines { index } => {
                    if self.ports.values().any(|port| port.index == index) {
                        request_state(&self.watch, index);
                    }
                }
            }
        }
        let now = self.now();
        self.drain(now);
    }
}

fn request_state(watch: &LinkWatch, index: u32) {
    if let Err(error) = watch.request(index) {
        warn!("cannot query the state of interface {index}: {error}");
    }
}
