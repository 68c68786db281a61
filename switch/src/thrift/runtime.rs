//! What Thrift's requests work on, beside the switch itself.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use alfirk_thrift::standard::DevMgrPortInfo;

use alfirk_bmv2::Switch;
use alfirk_p4rt::Server;

/// Ports and their queues, which belong to the driver.
pub trait Ports {
    /// Attaches an interface; captures go to files whose names start with `pcap`, unless that is empty.
    ///
    /// # Errors
    /// When the port is taken, or the interface cannot be attached.
    fn add(&mut self, interface: &str, port: u32, pcap: &str) -> io::Result<()>;

    /// Detaches a port. False when there is none.
    fn remove(&mut self, port: u32) -> bool;

    /// All ports, by number.
    fn list(&self) -> Vec<DevMgrPortInfo>;

    /// Lets queues hold so many packets: those of one port or all, of one priority or all.
    fn set_depth(&mut self, port: Option<u32>, priority: Option<usize>, packets: usize);

    /// The same for their rates, in packets per second; 0 for as fast as the link takes them.
    fn set_rate(&mut self, port: Option<u32>, priority: Option<usize>, packets_per_second: u64);
}

/// What does not change while the switch runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where Thrift is served.
    pub address: SocketAddr,
    /// `bm_load_new_config` and `bm_swap_configs` are allowed.
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

/// The switch, as requests see it.
pub struct Runtime<'a, P> {
    pub server: &'a mut Server,
    pub ports: &'a mut P,
    pub settings: &'a Settings,
    /// The JSON text of the program, unless P4Runtime has set it.
    pub config: &'a mut Option<Arc<str>>,
    /// Nanoseconds since the switch started.
    pub now: u64,
    /// The wall clock, in nanoseconds since the Unix epoch.
    pub wall_clock: u64,
}

impl<P: Ports> Runtime<'_, P> {
    /// The switch whose tables requests mean: the one that is loaded beside the running one, if there is one.
    pub fn switch(&self) -> &Switch {
        self.server.target_switch()
    }

    /// The same, to change it.
    pub fn switch_mut(&mut self) -> &mut Switch {
        self.server.target_switch_mut()
    }
}
