//! `alfirk vxlan`: connects network interfaces to other machines over VXLAN.
//!
//! Replaces the kernel's VXLAN interfaces, with the same packets, on kernels without them. [`underlay`] is the UDP path
//! between the machines; [`forwarder`] carries frames.

mod forwarder;
mod underlay;

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use alfirk_roce::wire::vxlan;

use crate::exit::{Failure, Outcome};

pub(crate) use underlay::check_mtu;

/// Connect interfaces to other machines over VXLAN (RFC 7348), on kernels without VXLAN interfaces.
///
/// Each link is a segment of its own, which ends at one other machine, in the kernel's VXLAN or in this command. Frames of other
/// machines or segments are dropped. Runs until a signal. Needs root. `alfirk run --machines` starts it where needed.
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

    /// A link: its segment number (VNI), the local interface, and the address of the other machine; repeatable
    #[arg(long = "link", value_name = "VNI@INTERFACE=ADDR", required = true)]
    links: Vec<LinkSpec>,

    /// Let IP fragment datagrams that exceed the path's MTU, against RFC 7348, instead of failing at the start
    #[arg(long)]
    fragments: bool,
}

/// One link to another machine, as `--link` gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpec {
    /// Segment number, 0 to 2^24 - 1.
    pub vni: u32,
    /// Name of the local interface at this end of the link.
    pub interface: String,
    /// Address of the machine at the other end.
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
            format!("`{remote}` is not an IPv4 address; give that of the other machine")
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

/// Runs `alfirk vxlan` until it is stopped.
pub fn run(args: &Args) -> Outcome {
    let mut links = args.links.clone();
    links.sort_by_key(|link| link.vni);
    if let Some(pair) = links.windows(2).find(|pair| pair[0].vni == pair[1].vni) {
        return Err(Failure::bad_input(format_args!(
            "--link {}: VNI {} is given twice; each link needs its own",
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
            ("7@vx7=b", "`b` is not an IPv4 address"),
        ] {
            let error = wrong.parse::<LinkSpec>().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
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
