//! Flags of the message: its data, RDMA verb, and division into packets, slices and messages.

use std::path::PathBuf;

use alfirk_ctrl::topology::Topology;
use alfirk_roce::collective::{Collective, TransferOp, WriteMode};
use alfirk_roce::rc::{PathMtu, MAX_MESSAGE};
use alfirk_units::SIZE;

use crate::exit::Failure;
use crate::run::input::Source;

/// Default size of a message in bytes.
const DEFAULT_SIZE: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Message")]
pub(super) struct MessageArgs {
    /// File to send
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    input: Option<PathBuf>,

    /// Bytes to send, made from the seed: 64B, 16MiB, ...; with --workload, default size of a flow [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| SIZE.parse(text))]
    pub(super) size: Option<u64>,

    /// RDMA verb that carries the message
    #[arg(long, value_enum, default_value_t)]
    pub(super) op: TransferOp,

    /// Memory regions of a WRITE to the group [default: aligned]
    #[arg(long, value_enum, value_name = "MANNER")]
    pub(super) write: Option<WriteMode>,

    /// Payload bytes per packet: 256, 512, 1024, 2048 or 4096 [default: the largest that the links carry]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,

    /// Slices for algorithms that relay, and alfirk with --write per-request: a host relays a slice while it receives the next [default:
    /// for chain, kary, double-binary-tree and RDMC 64 KiB each, at most 256; for long and spread-roll one for each member; else 1]
    #[arg(long, value_name = "N", help_heading = "Relaying", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) slices: Option<u32>,

    /// Size of a slice, in place of --slices; the last slice may be shorter. RDMC's block size
    #[arg(long, value_name = "SIZE", help_heading = "Relaying", value_parser = block, conflicts_with = "slices")]
    pub(super) block: Option<u32>,

    /// Relay only after the whole message has arrived; for algorithms that are one tree
    #[arg(long, help_heading = "Relaying")]
    pub(super) store_and_forward: bool,

    /// Receives that receivers of overlays post before they notify the sender, which waits: RDMC's ready-for-block messages. N is per
    /// receiver for RDMC's schedules, else per connection [default: RDMC 1 for blocks of 256 KiB or more, up to 4 for shorter ones; others
    /// send no notices]
    #[arg(long, value_name = "N", help_heading = "Relaying", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "receives")]
    pub(super) ready: Option<u32>,

    /// Messages into which alfirk and unicast divide the data, to measure the message rate [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) messages: Option<u32>,

    /// Receives that each receiver keeps posted; with --messages or --slices, a source that is ahead of them gets RNR NAKs [default: one
    /// for each message]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) receives: Option<u32>,

    /// Outstanding messages of the source, each a request that completes when all receivers have acknowledged it, as in storage; the
    /// report has requests per second and percentiles [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "messages", conflicts_with_all = ["fallback_below", "switch_source"])]
    pub(super) queue_depth: Option<u32>,
}

impl MessageArgs {
    /// Whether `--size` or `--input` is given, or `--op` with another verb than SEND.
    pub(super) fn is_given(&self) -> bool {
        self.size.is_some() || self.input.is_some() || self.op != TransferOp::Send
    }

    /// Returns where the data of a collective comes from: a file, the seed, or nowhere for a barrier.
    pub(super) fn source(&self, collective: Collective) -> Source {
        match (&self.input, self.size) {
            (Some(file), _) => Source::File(file.clone()),
            (None, _) if collective == Collective::Barrier => Source::Nothing,
            (None, size) => Source::Seeded(size.unwrap_or(DEFAULT_SIZE)),
        }
    }

    /// Returns the kind of memory regions for WRITEs. Rejects `--write` if the verb is SEND.
    pub(super) fn write(&self) -> Result<WriteMode, Failure> {
        if self.write.is_some() && self.op == TransferOp::Send {
            return Err(Failure::bad_input(
                "--write: a SEND has no memory regions; add --op write or --op write-imm",
            ));
        }
        Ok(self.write.unwrap_or_default())
    }

    /// Returns the payload size per packet. Rejects a `--mtu` that a link of the topology cannot carry.
    pub(super) fn path_mtu(&self, topology: &Topology) -> Result<PathMtu, Failure> {
        let links = topology.links().iter();
        let smallest = links.map(|link| link.attributes.mtu).min();
        let link_mtu = smallest.expect("a host has a link");
        let largest = PathMtu::for_ip_mtu(link_mtu).map_err(Failure::bad_input)?;
        let Some(wanted) = self.mtu else {
            return Ok(largest);
        };
        let mtu = PathMtu::try_from(wanted)
            .map_err(|error| Failure::bad_input(format_args!("--mtu: {error}")))?;
        if mtu > largest {
            return Err(Failure::bad_input(format_args!(
                "--mtu {wanted}: a link of the topology has an MTU of {link_mtu} bytes, enough for {} \
         with the headers; give a smaller one or raise `mtu` in the topology",
                largest.bytes()
            )));
        }
        Ok(mtu)
    }
}

fn block(text: &str) -> Result<u32, String> {
    match SIZE.parse(text).map_err(|error| error.to_string())? {
        0 => Err("a block has at least 1 byte".to_owned()),
        block if block > MAX_MESSAGE => Err(format!("a message holds at most {MAX_MESSAGE} bytes")),
        block => Ok(block as u32),
    }
}
