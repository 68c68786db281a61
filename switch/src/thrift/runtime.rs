//! The state that Thrift requests read and change: the switch, its ports and the server's settings.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use alfirk_thrift::standard::DevMgrPortInfo;

use alfirk_bmv2::Switch;
use alfirk_p4rt::{Server, SwitchWriter};

/// Operations on ports and their queues, which the driver implements.
pub trait Ports {
    /// Attaches an interface. Captures go to files whose names start with `pcap`, unless that is empty.
    ///
    /// # Errors
    /// When the port number is in use, or the interface cannot be attached.
    fn add(&mut self, interface: &str, port: u32, pcap: &str) -> io::Result<()>;

    /// Detaches a port. Returns false when there is no such port.
    fn remove(&mut self, port: u32) -> bool;

    /// Lists all ports, by number.
    fn list(&self) -> Vec<DevMgrPortInfo>;

    /// Sets the depth of queues in packets: of one port or all, of one priority or all.
    fn set_depth(&mut self, port: Option<u32>, priority: Option<usize>, packets: usize);

    /// Sets the rate of queues in packets per second; 0 for no limit.
    fn set_rate(&mut self, port: Option<u32>, priority: Option<usize>, packets_per_second: u64);
}

/// Settings of the Thrift server, which are constant while the switch runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Listening address of the Thrift server.
    pub address: SocketAddr,
    /// Whether `bm_load_new_config` and `bm_swap_configs` are allowed.
    pub may_swap: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            address: (Ipv4Addr::LOCALHOST, alfirk_thrift::DEFAULT_PORT).into(),
            may_swap: false,
        }
    }
}

/// The switch, its ports and the settings of the Thrift server, as one Thrift request accesses them.
pub struct Runtime<'a, P> {
    /// P4Runtime server, which contains the switch.
    pub server: &'a mut Server,
    /// Ports of the driver.
    pub ports: &'a mut P,
    /// Settings of the Thrift server.
    pub settings: &'a Settings,
    /// JSON text of the program; `None` if P4Runtime has loaded the program, because P4Runtime stores its own copy of
    /// the text.
    pub config: &'a mut Option<Arc<str>>,
    /// Time since the switch started, in nanoseconds.
    pub now: u64,
    /// Wall-clock time in nanoseconds since the Unix epoch.
    pub wall_clock: u64,
}

impl<P: Ports> Runtime<'_, P> {
    /// Returns the switch that requests refer to: the one that `bm_load_new_config` created, until it is swapped
    /// in, else the running one.
    pub fn switch(&self) -> &Switch {
        self.server.target_switch()
    }

    /// Returns the switch that requests refer to ([`Runtime::switch`]), for changes.
    pub fn switch_mut(&mut self) -> SwitchWriter<'_> {
        self.server.target_switch_mut()
    }
}
