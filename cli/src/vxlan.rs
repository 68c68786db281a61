//! `alfirk vxlan`: links that end on another machine.
//!
//! Does in a process what the kernel's VXLAN interfaces do, with the same bytes on the way, for kernels that have none. [`underlay`] is
//! the way between the machines, [`forwarder`] what carries frames.

mod forwarder;
mod underlay;

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use alfirk_roce::wire::vxlan;

use crate::exit::{Failure, Outcome};

pub(crate) use underlay::check_mtu;

/// Carry the frames of interfaces to other machines and back, as VXLAN (RFC 7348).
///
/// Each link is a segment of its own with one other machine at its far end, where the kernel's VXLAN or this command ends it; a frame
/// of another machine or segment is dropped. Runs until a signal. Needs root. `alfirk run --machines` starts it by itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk vxlan --local 192.0.2.1 --link 7@veth7=192.0.2.2 --link 8@veth8=192.0.2.3
  ip link add veth8b type vxlan id 8 remote 192.0.2.1 local 192.0.2.3 dstport 4789     # the far end, where the kernel has VXLAN")]
pub struct Args {
    /// This machine's address towards the others
    #[arg(long, value_name = "ADDR")]
    local: Ipv4Addr,

    /// The UDP port of VXLAN, the same on all machines
    #[arg(long, value_name = "PORT", default_value_t = vxlan::PORT)]
    port: u16,

    /// A link: the number of its segment (VNI), the interface whose frames it carries, and the address of the machine at its far
    /// end; may be given many times
    #[arg(long = "link", value_name = "VNI@INTERFACE=ADDR", required = true)]
    links: Vec<LinkSpec>,

    /// Let IP cut datagrams that are too long for the way, which VXLAN asks not to do, rather than refuse to start
    #[arg(long)]
    fragments: bool,
}

/// One link, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpec {
    /// The number of its segment.
    pub vni: u32,
    /// The interface whose frames it carries.
    pub interface: String,
    /// The machine at the far end.
    pub remote: Ipv4Addr,
}

impl FromStr for LinkSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<LinkSpec, String> {
        let form = "write it as VNI@INTERFACE=ADDR, such as 7@veth7=192.0.2.2";
        let (vni, rest) = text.split_once('@').ok_or(form)?;
        let (interface, remote) = rest.split_once('=').ok_or(form)?;
        let vni = vni.parse().ok().filter(|vni| *vni <= vxlan::MAX_VNI);
        let vni = vni.ok_or_else(|| format!("a VNI is a number from 0 to {}", vxlan::MAX_VNI))?;
        let remote = remote.parse().map_err(|_| {
            format!("`{remote}` is no IPv4 address: the machine at the far end has one")
        })?;
        if interface.is_empty() {
            return Err(form.to_owned());
        }
        Ok(LinkSpec {
            vni,
            interface: interface.to_owned(),
            remote,
        })
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}={}", self.vni, self.interface, self.remote)
    }
}

pub fn run(args: &Args) -> Outcome {
    let mut links = args.links.clone();
    links.sort_by_key(|link| link.vni);
    if let Some(pair) = links.windows(2).find(|pair| pair[0].vni == pair[1].vni) {
        return Err(Failure::bad_input(format_args!(
            "--link {}: the VNI {} is that of another link, too; each has its own",
            pair[1], pair[0].vni
        )));
    }
    forwarder::run(args.local, args.port, &links, args.fragments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read() {
        let link: LinkSpec = "7@vx7=192.0.2.2".parse().unwrap();
        assert_eq!((link.vni, &*link.interface), (7, "vx7"));
        assert_eq!(link.to_string(), "7@vx7=192.0.2.2");
        for (wrong, why) in [
            ("7", "VNI@INTERFACE=ADDR"),
            ("7@vx7", "VNI@INTERFACE=ADDR"),
            ("7@=192.0.2.2", "VNI@INTERFACE=ADDR"),
            ("x@vx7=192.0.2.2", "from 0 to 16777215"),
            ("16777216@vx7=192.0.2.2", "from 0 to 16777215"),
            ("7@vx7=b", "`b` is no IPv4 address"),
        ] {
            let said = wrong.parse::<LinkSpec>().unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_vni_is_given_once() {
        let twice = ["1@a=192.0.2.2", "1@b=192.0.2.3"];
        let args = Args {
            local: Ipv4Addr::LOCALHOST,
            port: vxlan::PORT,
            links: twice.map(|link| link.parse().unwrap()).to_vec(),
            fragments: false,
        };
        let Err(Failure::BadInput(why)) = run(&args) else {
            panic!("it ran")
        };
        assert!(why.to_string().contains("--link 1@b=192.0.2.3"), "{why}");
    }
}
