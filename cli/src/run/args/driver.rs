//! Flags of the driver: virtual time in this process, or Mininet, on one or several machines.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use alfirk_ctrl::topology::Topology;
use alfirk_roce::rc::Recovery;

use super::machines::{Machines, MachinesArgs};
use super::members::first_host_names;
use super::Args;
use crate::exit::Failure;
use crate::run::config::{Driver, GuestRdma, Guests, Scale};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Driver")]
pub(super) struct DriverArgs {
    /// Where the run takes place
    #[arg(long, value_enum, default_value_t = Driver::Virtual)]
    pub(super) driver: Driver,

    /// Number of threads that simulate switches; results do not depend on it. Runs with --pcap, --trace, --web, --debug, --kill
    /// or timed --loss use one (virtual driver)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) threads: u16,

    /// Give links on Mininet the rates, delays and queues of the topology, on a clock N times slower than real time: auto chooses N,
    /// off sets no rates and measures processors. Reports are in scaled time [default: auto; off with --guests and --hostile]
    #[arg(long, value_name = "auto|N|off", value_parser = Scale::from_str)]
    scale: Option<Scale>,

    /// Use a running network and its controller: the folder that `mn --custom mininet/alfirk.py` prints; groups are registered in
    /// band (Mininet driver)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scale", "guests", "kill", "loss", "lose", "hostile", "pcap"])]
    pub(super) attach: Option<PathBuf>,

    /// Hosts that are QEMU guests with their own kernel: all, or names (Mininet driver)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    guests: Vec<String>,

    /// RDMA stack of the guests
    #[arg(
        long,
        value_enum,
        value_name = "WHOSE",
        requires = "guests",
        default_value_t = GuestRdma::Linux
    )]
    guest_rdma: GuestRdma,

    /// Folder of the guests' kernel and image, as `make guest-image` builds it [default: guest/ beside the folder of this command]
    #[arg(long, value_name = "DIR", requires = "guests")]
    guest_image: Option<PathBuf>,

    #[command(flatten)]
    machines: MachinesArgs,
}

impl DriverArgs {
    /// Returns the machines over which the network is spread; `None` for one machine.
    pub(super) fn machines(&self, topology: &Topology) -> Result<Option<Machines>, Failure> {
        let why = match (&self.machines.placement.machines.is_empty(), self.driver) {
            (true, _) => return Ok(None),
            (false, Driver::Virtual) => {
                "the virtual driver runs in one process; add --driver mininet"
            }
            (false, Driver::Mininet) if self.attach.is_some() => {
                "a running network cannot be moved; leave out --attach"
            }
            (false, Driver::Mininet) if !self.guests.is_empty() => {
                "guests run on this machine only; leave out --guests"
            }
            (false, Driver::Mininet) => return self.machines.check(topology),
        };
        Err(Failure::bad_input(format_args!("--machines: {why}")))
    }
}

impl Args {
    /// Returns how many times slower than real time the network's clock runs.
    ///
    /// # Errors
    /// Another flag needs the clock of the machine.
    pub(super) fn scale(&self) -> Result<Scale, Failure> {
        let flags = &self.driver;
        let is_hostile = !self.faults.hostile.is_empty();
        let Some(scale) = flags.scale else {
            // By default no scale where something uses the machine's clock: guests, hostile hosts, a running network.
            let is_slow = flags.driver == Driver::Mininet
                && flags.attach.is_none()
                && flags.guests.is_empty()
                && !is_hostile;
            return Ok(if is_slow { Scale::Auto } else { Scale::Off });
        };
        let why = match scale {
            _ if flags.driver != Driver::Mininet => {
                "the virtual driver has no scale; add --driver mininet"
            }
            Scale::Off | Scale::By(NonZeroU32::MIN) => return Ok(scale),
            _ if !flags.guests.is_empty() => {
                "guests use the clocks of their kernels; add --scale 1 or off, or leave out --guests"
            }
            _ if is_hostile => {
                "hostile hosts use the clock of this machine; add --scale 1 or off, or leave out --hostile"
            }
            _ => return Ok(scale),
        };
        Err(Failure::bad_input(format_args!("--scale: {why}")))
    }

    /// Returns the hosts that are QEMU guests with their own kernel; `None` without any.
    pub(super) fn guests(&self, topology: &Topology) -> Result<Option<Guests>, Failure> {
        let flags = &self.driver;
        if flags.guests.is_empty() {
            return Ok(None);
        }
        let refuse = |why: String| Err(Failure::bad_input(format!("--guests: {why}")));
        if flags.driver != Driver::Mininet {
            return refuse("virtual hosts have no kernel; add --driver mininet".to_owned());
        }
        let is_linux = flags.guest_rdma == GuestRdma::Linux;
        if is_linux && self.group.recovery == Recovery::SelectiveRepeat {
            return refuse(
                "Linux's RDMA stack implements go-back-N only; add --guest-rdma alfirk, or leave out --recovery"
                    .to_owned(),
            );
        }
        if is_linux && !cfg!(feature = "verbs") {
            return refuse(
                "this alfirk was built without support for Linux's RDMA stack; build it with `--features verbs`, as `make interop` does, or add \
                 --guest-rdma alfirk"
                    .to_owned(),
            );
        }
        let mut hosts = Vec::new();
        for name in &flags.guests {
            match (name.as_str(), topology.host_named(name)) {
                (_, Some(host)) => hosts.push(host),
                ("all", None) => hosts.extend(topology.host_indexes()),
                (name, None) => {
                    let (topology, names) = (topology.name(), first_host_names(topology));
                    return refuse(format!(
                        "topology {topology} has no host {name}; its hosts are {names}"
                    ));
                }
            }
        }
        hosts.sort_unstable();
        hosts.dedup();
        let image = match &flags.guest_image {
            Some(folder) => folder.clone(),
            None => guest_image()?,
        };
        Ok(Some(Guests {
            hosts,
            rdma: flags.guest_rdma,
            image,
        }))
    }

    /// Prepares the flags for a comparison of both drivers: sets the driver to Mininet, and rejects flags that one of
    /// the drivers does not support, and `--scale off`.
    pub(super) fn on_both_drivers(mut self) -> Result<Args, Failure> {
        self.driver.driver = Driver::Mininet;
        let refused = [
            (
                self.driver.scale == Some(Scale::Off),
                "--scale off: without link rates the times cannot be compared; give auto or a number",
            ),
            (
                !self.driver.guests.is_empty(),
                "--guests: virtual hosts have no kernel; leave them out",
            ),
            (
                !self.faults.lose.is_empty(),
                "--lose: only the Mininet driver loses chosen packets; use --loss",
            ),
        ];
        match refused.into_iter().find(|(given, _)| *given) {
            Some((_, why)) => Err(Failure::bad_input(why)),
            None => Ok(self),
        }
    }
}

/// Default folder of the guest image: `guest/` in the target folder of a build, or under share of an installation.
fn guest_image() -> Result<PathBuf, Failure> {
    let alfirk = std::env::current_exe().map_err(|error| {
        Failure::failed(format_args!(
            "cannot find the path of this executable: {error}"
        ))
    })?;
    let prefix = alfirk.parent().and_then(Path::parent);
    let prefix = prefix.unwrap_or(Path::new("/"));
    let installed = prefix.join("share/alfirk/guest");
    Ok(match installed.is_dir() {
        true => installed,
        false => prefix.join("guest"),
    })
}
