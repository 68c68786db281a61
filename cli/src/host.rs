//! `alfirk host`: runs one RDMA host on a network interface, with alfirk's own reliable connections (RC) or an RDMA
//! device.
//!
//! The command runs one host ([`station`]) on the monotonic clock. An orchestrator runs transfers through a Unix socket
//! ([`protocol`]; [`client`] is the orchestrator's end). The host is our own stack on a packet socket ([`packets`]), or
//! with `--verbs` an RDMA device (`rdma.rs`).
//!
//! The kernel and our own stack share the interface without disturbing each other:
//!
//! - If the kernel does not have the host's address, it ignores the packets, and this process answers ARP. If it has the address, so
//!   that ping and iperf work, both answer ARP with the same Ethernet address, which is harmless. This process resolves its
//!   neighbours itself in both cases, so it does not depend on the kernel's cache.
//! - UDP sockets that are never read hold ports 4791 and 4790, so that the kernel does not answer RoCEv2 packets with "port
//!   unreachable". Their receive buffers are tiny, and the kernel silently drops what does not fit.

mod attack;
#[allow(dead_code)] // For runs on Mininet.
pub mod client;
mod control;
mod driver;
mod emulation;
mod interface;
mod packets;
pub mod protocol;
#[cfg(feature = "verbs")]
mod rdma;
mod station;

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use alfirk_packet_io::link::{LinkOptions, Rate};
use alfirk_packet_io::Clock;
use alfirk_roce::host::{Host, HostConfig, HostTiming};
use alfirk_roce::rc::AckTimeout;
use alfirk_roce::wire::MacAddr;
use alfirk_units::RATE;

use tracing::info;

use crate::exit::{Failure, Outcome};
use crate::run::hardware;
use emulation::HostEmulation;
use station::Station;

/// Run an RDMA host on a network interface, driven by JSON lines through a Unix socket.
///
/// The host runs RoCEv2 over a packet socket; the kernel's RDMA stack is not needed. With --verbs it uses an RDMA device
/// instead of our stack. It runs until SIGTERM, SIGINT or the request `stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo ip netns exec h1 alfirk host --interface h1-eth0 --ip 10.0.0.1/8 --control /tmp/h1.sock
  sudo alfirk host --verbs --device rxe0 --control /tmp/h1.sock")]
pub struct HostArgs {
    /// The interface to send and receive on
    #[arg(
        long,
        value_name = "IFACE",
        required_unless_present = "verbs",
        help_heading = "Interface"
    )]
    interface: Option<String>,

    /// Use an RDMA device instead of a packet socket
    #[arg(long, requires = "device", conflicts_with_all = ["interface", "ip", "mac", "gateway", "mtu", "pcap"], help_heading = "Device")]
    verbs: bool,

    /// The RDMA device, as `ibv_devices` lists it; needs --verbs
    #[arg(
        long,
        value_name = "NAME",
        requires = "verbs",
        conflicts_with = "interface",
        help_heading = "Device"
    )]
    device: Option<String>,

    /// Unix socket to serve requests on, or a character device such as a virtual machine's serial port
    #[arg(long, value_name = "PATH")]
    control: PathBuf,

    /// Name of the host in messages [default: the interface's or the device's]
    #[arg(long)]
    name: Option<String>,

    /// IPv4 address and prefix length [default: the interface's]
    #[arg(long, value_name = "ADDR/LEN", help_heading = "Interface")]
    ip: Option<Address>,

    /// Ethernet address [default: the interface's]
    #[arg(long, help_heading = "Interface")]
    mac: Option<MacAddr>,

    /// Gateway for addresses outside the prefix
    #[arg(long, value_name = "ADDR", help_heading = "Interface")]
    gateway: Option<Ipv4Addr>,

    /// Largest IP packet in bytes [default: the interface's]
    #[arg(long, value_name = "BYTES", help_heading = "Interface")]
    mtu: Option<u32>,

    /// Seed of queue pair numbers, memory keys and initial PSNs
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Default local ACK timeout of queue pairs: the exponent N of 4.096 us times 2^N; 0 disables the timeout
    /// [default: 15, and 6 with --time-scale]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=31))]
    ack_timeout: Option<u8>,

    /// Capture sent and received frames to this pcap file
    #[arg(long, value_name = "FILE", help_heading = "Interface")]
    pcap: Option<PathBuf>,

    /// Run the clock N times slower than real time; all timeouts, rates and delays are scaled
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN, conflicts_with = "verbs", help_heading = "Emulation")]
    time_scale: NonZeroU32,

    /// Limit the sending rate, counting Ethernet's preamble, FCS and gap, such as 100Gbps [default: no limit]
    #[arg(long, value_name = "RATE", conflicts_with = "verbs", value_parser = |text: &str| RATE.parse(text), help_heading = "Emulation")]
    rate: Option<u64>,

    /// Delay every sent frame by this time [default: 0]
    #[arg(long, value_name = "TIME", conflicts_with = "verbs", value_parser = alfirk_units::time, help_heading = "Emulation")]
    delay: Option<Duration>,

    /// Add the delays of a NIC and an application, as --host-model of `alfirk run` [default: none]
    #[arg(
        long,
        value_name = "MODEL",
        conflicts_with = "verbs",
        help_heading = "Emulation"
    )]
    host_model: Option<String>,
}

/// An IPv4 address with a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Address {
    ip: Ipv4Addr,
    prefix_len: u8,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let bad = || format!("`{text}` is not an address with a prefix length, such as 10.0.0.1/8");
        let (ip, len) = text.split_once('/').ok_or_else(bad)?;
        let prefix_len: u8 = len.parse().map_err(|_| bad())?;
        if prefix_len > 32 {
            return Err(bad());
        }
        Ok(Address {
            ip: ip.parse().map_err(|_| bad())?,
            prefix_len,
        })
    }
}

/// Runs the host until a signal or the request `stop`.
pub fn run(args: HostArgs) -> Outcome {
    let station = open(&args)?;
    info!("{} is {}", station.info().name, station.info().ip);
    driver::run(station, &args.control, Clock::slower(args.time_scale))
}

/// Opens the host on the interface or the RDMA device of the flags.
fn open(args: &HostArgs) -> Result<Box<dyn Station>, Failure> {
    // clap requires one of --interface and --verbs.
    let Some(interface) = &args.interface else {
        return open_device(args);
    };
    let host = Host::new(config(args, interface)?)
        .map_err(|error| Failure::bad_input(format_args!("interface {interface}: {error}")))?;
    let (clock, emulation) = (Clock::slower(args.time_scale), emulation(args)?);
    let pcap = args.pcap.as_deref();
    let station = packets::PacketStation::open(host, interface, pcap, clock, emulation)?;
    Ok(Box::new(station))
}

#[cfg(feature = "verbs")]
fn open_device(args: &HostArgs) -> Result<Box<dyn Station>, Failure> {
    let device = args.device.as_deref().unwrap_or_default();
    let ack_timeout = args
        .ack_timeout
        .map_or(HostTiming::SOFTWARE.ack_timeout, AckTimeout::new);
    let station = rdma::RdmaStation::open(device, args.name.as_deref(), ack_timeout)?;
    // An RDMA device counts a retry count of 7 as seven retries, not as no limit.
    let dead_after = std::time::Duration::from_secs(3);
    if let Some(verdict) = crate::timeout_check::Verdict::new(ack_timeout, 7, dead_after) {
        match verdict.is_enough() {
            true => tracing::info!("{}", verdict.text()),
            false => tracing::warn!("{}", verdict.text()),
        }
    }
    Ok(Box::new(station))
}

#[cfg(not(feature = "verbs"))]
fn open_device(_args: &HostArgs) -> Result<Box<dyn Station>, Failure> {
    Err(Failure::bad_input(
        "--verbs: this alfirk was built without support for RDMA devices; build it with `--features verbs`, which needs libibverbs-dev",
    ))
}

/// Creates the host configuration from the flags. Values that they do not give are those of the interface `name`.
fn config(args: &HostArgs, name: &str) -> Result<HostConfig, Failure> {
    let found = interface::read(name)
        .map_err(|error| Failure::bad_input(format_args!("interface {name}: {error}")))?;
    let address = args.ip.or(found.address).ok_or_else(|| {
        Failure::bad_input(format_args!(
            "interface {name} has no IPv4 address; give one with --ip ADDR/LEN"
        ))
    })?;
    let mut config = HostConfig::new(
        args.name.as_deref().unwrap_or(name),
        args.mac.unwrap_or(found.mac),
        address.ip,
        address.prefix_len,
        args.mtu.unwrap_or(found.mtu),
        args.seed,
    );
    config.gateway = args.gateway;
    // With a slowed clock, the timeouts of fast hardware apply.
    let usual = match args.time_scale.get() {
        1 => HostTiming::SOFTWARE,
        _ => HostTiming::FAST,
    };
    config.timing = HostTiming {
        ack_timeout: args.ack_timeout.map_or(usual.ack_timeout, AckTimeout::new),
        ..usual
    };
    Ok(config)
}

/// Creates the emulation of a NIC, a link and an application; `None` unless --rate, --delay or --host-model is given.
fn emulation(args: &HostArgs) -> Result<Option<HostEmulation>, Failure> {
    if args.rate.is_none() && args.delay.is_none() && args.host_model.is_none() {
        return Ok(None);
    }
    let free = || hardware::host_model("free");
    let model = args.host_model.as_deref();
    let model = model.map_or_else(free, hardware::host_model)?;
    let link = LinkOptions {
        rate: args.rate.map(Rate::Bits),
        on_wire: true,
        delay: args.delay.unwrap_or_default(),
        ..LinkOptions::default()
    };
    link.check()
        .map_err(|fault| Failure::bad_input(format_args!("--{fault}")))?;
    Ok(Some(HostEmulation::new(model, link)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: HostArgs,
    }

    fn parse(line: &[&str]) -> Result<HostArgs, String> {
        let line = ["host"].iter().chain(line);
        Command::try_parse_from(line)
            .map(|c| c.args)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn every_flag_is_read() {
        let args = parse(&[
            "--interface",
            "h1-eth0",
            "--control",
            "/tmp/s",
            "--name",
            "h1",
            "--ip",
            "10.0.0.1/8",
            "--mac",
            "02:00:00:00:00:01",
            "--gateway",
            "10.0.0.254",
            "--mtu",
            "4200",
            "--seed",
            "7",
            "--ack-timeout",
            "12",
            "--pcap",
            "/tmp/p",
        ])
        .unwrap();
        assert_eq!(args.interface.as_deref(), Some("h1-eth0"));
        assert_eq!(args.control, PathBuf::from("/tmp/s"));
        assert_eq!(args.name.as_deref(), Some("h1"));
        let ip = Ipv4Addr::new(10, 0, 0, 1);
        assert_eq!(args.ip, Some(Address { ip, prefix_len: 8 }));
        assert_eq!(args.mac, Some(MacAddr([2, 0, 0, 0, 0, 1])));
        assert_eq!(args.gateway, Some(Ipv4Addr::new(10, 0, 0, 254)));
        assert_eq!((args.mtu, args.seed), (Some(4200), 7));
        assert_eq!(args.ack_timeout, Some(12));
        assert_eq!(args.pcap, Some(PathBuf::from("/tmp/p")));
    }

    #[test]
    fn device_takes_the_place_of_an_interface() {
        let device = ["--verbs", "--device", "rxe0", "--control", "c"];
        let args = parse(&device).unwrap();
        assert!(args.verbs);
        assert_eq!(args.device.as_deref(), Some("rxe0"));
        let with = |more: &[&str]| parse(&[&device, more].concat());
        assert!(with(&["--interface", "i"]).is_err());
        assert!(with(&["--pcap", "f"]).is_err());
        assert!(parse(&["--control", "c"]).is_err());
        assert!(parse(&["--verbs", "--control", "c"]).is_err());
        assert!(parse(&["--interface", "i", "--device", "rxe0", "--control", "c"]).is_err());
        // This machine has no such device, or no RDMA support.
        assert!(open(&args).is_err());
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for ip in ["10.0.0.1", "10.0.0.1/33", "10.0.0/8", "10.0.0.1/x"] {
            let error = parse(&["--interface", "i", "--control", "c", "--ip", ip]).unwrap_err();
            assert!(error.contains(ip), "{error}");
        }
        assert!(parse(&["--interface", "i", "--control", "c", "--ack-timeout", "32"]).is_err());
    }

    #[test]
    fn missing_interface_is_bad_input() {
        let args = parse(&[
            "--interface",
            "no-such-if",
            "--control",
            "c",
            "--ip",
            "10.0.0.1/8",
        ])
        .unwrap();
        assert!(
            matches!(open(&args).map(drop), Err(Failure::BadInput(e)) if e.to_string().contains("no-such-if"))
        );
    }
}
