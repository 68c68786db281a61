//! What is sent, by which verb, and in which parts.

use std::path::PathBuf;

use alfirk_ctrl::topology::Topology;
use alfirk_roce::collective::{Collective, TransferOp, WriteMode};
use alfirk_roce::rc::{PathMtu, MAX_MESSAGE};
use alfirk_units::SIZE;

use crate::exit::Failure;
use crate::run::input::Source;

/// Bytes of a message where nothing is said.
const USUAL: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Message")]
pub(super) struct MessageArgs {
    /// Send this file
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    input: Option<PathBuf>,

    /// Send so many bytes made from the seed: 64B, 16MiB, ...; with --workload, of each flow whose length it does not state [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| SIZE.parse(text))]
    pub(super) size: Option<u64>,

    /// The verb that carries the message
    #[arg(long, value_enum, default_value_t)]
    pub(super) op: TransferOp,

    /// How one WRITE to the group fits the memory of each receiver [default: aligned]
    #[arg(long, value_enum, value_name = "MANNER")]
    pub(super) write: Option<WriteMode>,

    /// Payload bytes per packet: 256, 512, 1024, 2048 or 4096 [default: the largest that the links carry]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,

    /// Messages into which algorithms that relay cut the data, so that a host can pass one on while the next one comes, and
    /// alfirk with --write per-request [default: chain, kary, double-binary-tree and RDMC's 64 KiB each, at most 256; long and
    /// spread-roll one for each member; the others one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) slices: Option<u32>,

    /// Length of these messages instead, of which only the last one may be shorter: RDMC's block size
    #[arg(long, value_name = "SIZE", value_parser = block, conflicts_with = "slices")]
    pub(super) block: Option<u32>,

    /// Have members that relay pass nothing on before they hold everything; for algorithms that are one tree
    #[arg(long)]
    pub(super) store_and_forward: bool,

    /// Have receivers of overlays post N receives and send the sender of each a notice, for which it waits: RDMC's ready-for-block
    /// messages. By RDMC's schedules they are for the next N blocks whoever sends them, by others N per connection [default: 1 for blocks
    /// of 256 KiB or more and up to 4 for shorter ones with RDMC, and no notice for others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "receives")]
    pub(super) ready: Option<u32>,

    /// Messages into which alfirk and unicast cut the data, to see how many go in a second [default: one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) messages: Option<u32>,

    /// Receives that each receiver keeps posted; a source that gets ahead of that, with --messages or --slices, receives
    /// RNR NAKs [default: one for each message]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) receives: Option<u32>,

    /// How many of these messages the source has under way, each a request of its own that is over when all receivers have
    /// acknowledged it: a storage client's queue depth; the report has requests per second and percentiles [default: all at once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "messages", conflicts_with_all = ["fallback_below", "switch_source"])]
    pub(super) queue_depth: Option<u32>,
}

impl MessageArgs {
    /// Whether anything about a message is said.
    pub(super) fn is_given(&self) -> bool {
        self.size.is_some() || self.input.is_some() || self.op != TransferOp::Send
    }

    /// Where the bytes of a collective come from.
    pub(super) fn source(&self, collective: Collective) -> Source {
        match (&self.input, self.size) {
            (Some(file), _) => Source::File(file.clone()),
            (None, _) if collective == Collective::Barrier => Source::Nothing,
            (None, size) => Source::Seeded(size.unwrap_or(USUAL)),
        }
    }

    /// How WRITEs fit the receivers' memory, if there are WRITEs.
    pub(super) fn write(&self) -> Result<WriteMode, Failure> {
        if self.write.is_some() && self.op == TransferOp::Send {
            return Err(Failure::bad_input(
                "--write: SEND needs no memory regions; add --op write or --op write-imm",
            ));
        }
        Ok(self.write.unwrap_or_default())
    }

    /// What every link carries: packets may pass any of them on their way.
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
                "--mtu {wanted}: a link of the topology carries IP packets of {link_mtu} bytes, enough for {} \
                 with the headers; give a smaller one or raise `mtu` in the topology",
                largest.bytes()
            )));
        }
        Ok(mtu)
    }
}

fn block(text: &str) -> Result<u32, String> {
    match SIZE.parse(text).map_err(|error| error.to_string())? {
        0 => Err("a block has 1 byte at the least".to_owned()),
        block if block > MAX_MESSAGE => Err(format!("a message holds at most {MAX_MESSAGE} bytes")),
        block => Ok(block as u32),
    }
}
