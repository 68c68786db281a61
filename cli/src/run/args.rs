//! The flags of `alfirk run`, and the checked configuration they become.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use alfirk_ctrl::ecn::EcnProfile;
use alfirk_ctrl::strategy::{IcrcMode, MinPsn, Strategies};
use alfirk_ctrl::topology::{self, HostIndex, Node, Topology};
use alfirk_ctrl::tree::{Planner, Policy};
use alfirk_experiment::{Congestion, Kill, Registration, SafeguardConfig, Victim};
use alfirk_roce::collective::{Algorithm, Collective, Schedule, TransferOp, WriteMode};
use alfirk_roce::rc::{PathMtu, Recovery, MAX_MESSAGE};
use alfirk_roce::wire::Psn;
use alfirk_sim::network::Model;
use alfirk_units::{RATE, SIZE, TIME};
use clap::ValueEnum;

use super::config::{Config, Driver, GuestRdma, Guests, Scale};
use super::hardware::{ModelArgs, SwitchArgs};
use super::input::Source;
use super::losses::{find_link, Losses};
use super::machines::{Machines, MachinesArgs};
use super::quantity::{quantity, share};
use super::rates::RateArgs;
use super::workload::WorkloadArgs;
use crate::exit::Failure;
use crate::program::Target;

/// Send one message from one host to a group of hosts, by several algorithms, and compare them.
///
/// Builds the fabric, compiles the P4 program, loads it into every switch, registers the group, sends the
/// message from one host to all the others over RC queue pairs, and checks the SHA-256 of what each of them got.
/// By default all of it runs in this process in virtual time, on the compiled pipelines and with real packets,
/// and a run with a seed gives the same output to the byte.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk run --topology topologies/fat-tree-k4.yaml --group 16 --size 16MiB
  alfirk run --topology topologies/testbed.yaml --size 64B --algorithms alfirk,chain --json
  alfirk run --size 4MiB --algorithms all
  alfirk run --collective barrier
  alfirk run --size 16MiB --algorithms rdmc-binomial-pipeline,kary:4 --block 256KiB
  alfirk run --size 16MiB --buffer 2MiB --pfc --host-model copy-rate=80Gbps
  alfirk run --loss 0.001 --seed 7 --pcap /tmp/pcaps --trace /tmp/trace.txt
  alfirk run --size 16MiB --op write --write uniform --switch-source 3 --loss 0.001
  alfirk run --size 16MiB --registration mrp --kill h7@200us --kill c1@400us
  alfirk run --size 64MiB --fallback-below 50% --fallback chain --loss h3-p1e2:0.3@500us-3ms
  sudo alfirk run --driver mininet --topology topologies/testbed.yaml --size 1MiB
  sudo alfirk run --driver mininet --topology topologies/testbed.yaml --size 1MiB --guests h2,h3
  alfirk run --driver mininet --machines root@a,root@b,root@c --size 16MiB")]
pub struct Args {
    /// The network, as YAML, or what `alfirk topology` makes: fat-tree:16, fat-tree:64,pods=16, leaf-spine:4,2,4, n-tree:8,3, mesh:8, testbed
    /// [default: a fat-tree with k = 4: 16 hosts, 20 switches]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Hosts in the group, the source included [default: all]
    #[arg(long, value_name = "N")]
    group: Option<usize>,

    /// The hosts that receive, by names or addresses, in place of --group
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', conflicts_with_all = ["group", "rotate"])]
    to: Vec<String>,

    /// The host that sends [default: the first one of the topology]
    #[arg(long, value_name = "HOST")]
    source: Option<String>,

    /// Send this file
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    input: Option<PathBuf>,

    /// Send so many bytes made from the seed: 64B, 16MiB, ...; with --workload, of each flow whose length it does not state [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,

    /// What to compare, in this order, or all; --list-algorithms names them [default: alfirk,chain,binomial,unicast; with
    /// --queue-depth alfirk,unicast; with --kill or --switch-source alfirk alone]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    algorithms: Vec<String>,

    /// What is to be brought about: a broadcast from the source to all, a scatter of its pieces, an allgather of everybody's
    /// piece (the message in as many pieces as there are members), or a barrier, which has no message
    #[arg(long, value_enum, default_value_t = Kind::Broadcast)]
    collective: Kind,

    /// Print the algorithms, what each does and where it is described, and run nothing
    #[arg(long)]
    pub(super) list_algorithms: bool,

    /// How the source's message travels
    #[arg(long, value_enum, default_value_t = Op::Send)]
    op: Op,

    /// How one WRITE to the group fits the memory of each receiver [default: aligned]
    #[arg(long, value_enum, value_name = "MANNER")]
    write: Option<Write>,

    /// How switches find the minimum PSN of the group's feedback
    #[arg(long, value_enum, value_name = "HOW", default_value_t = MinPsnArg::Tree)]
    min_psn: MinPsnArg,

    /// How the group's tree chooses among ports of equal cost: reuse-least-loaded, cyclic (on m-port n-trees) or spanning
    #[arg(long, value_name = "POLICY", default_value_t)]
    tree_policy: Policy,

    /// How the ICRC of the group's data is kept right; that of feedback is always recomputed
    #[arg(long, value_enum, value_name = "HOW", default_value_t = IcrcArg::Neutral)]
    icrc: IcrcArg,

    /// What slows queue pairs down when switches mark packets
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Control::None)]
    congestion: Control,

    /// What a lost packet costs: what queue pairs do at both ends, for the group and for the connections of overlays
    #[arg(long, value_enum, value_name = "HOW", default_value_t = RecoveryArg::GoBackN)]
    recovery: RecoveryArg,

    /// Have switches mark packets by the length of their queue: none up to KMIN packets, all from KMAX on, and in between
    /// with a probability that rises to PMAX [default: with --congestion dcqcn 16,64,0.1]
    #[arg(long, value_name = "KMIN,KMAX,PMAX")]
    ecn: Option<String>,

    /// Change the source N times: alfirk sends the message in N + 1 parts, each from the next member, on the same
    /// queue pairs and group; other algorithms send it whole from the first [default: 0]
    #[arg(long, value_name = "N")]
    switch_source: Option<u32>,

    /// Start the next source when all others hold a part, though the last one may still wait for its ACKs
    #[arg(long, requires = "switch_source")]
    switch_early: bool,

    /// Payload bytes per packet: 256, 512, 1024, 2048 or 4096 [default: the largest that the links carry]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,

    /// Messages into which algorithms that relay cut the data, so that a host can pass one on while the next one comes, and
    /// alfirk with --write per-request [default: chain, kary, double-binary-tree and RDMC's 64 KiB each, at most 256; long and
    /// spread-roll one for each member; the others one]
    #[arg(long, value_name = "N")]
    slices: Option<u32>,

    /// Length of these messages instead, of which only the last one may be shorter: RDMC's block size
    #[arg(long, value_name = "SIZE", conflicts_with = "slices")]
    block: Option<String>,

    /// Have members that relay pass nothing on before they hold everything; for algorithms that are one tree
    #[arg(long)]
    store_and_forward: bool,

    /// Have receivers of overlays post N receives per connection and tell the sender, which waits for that: RDMC's
    /// ready-for-block messages [default: 4 for RDMC's algorithms, and no word for others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "receives")]
    ready: Option<u32>,

    /// Count ranks on from the source around, as MPI libraries do for a root that is not rank 0; else the other hosts follow
    /// in the order of the topology
    #[arg(long)]
    rotate: bool,

    /// Messages into which alfirk and unicast cut the data, to see how many go in a second [default: one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    messages: Option<u32>,

    /// Receives that each receiver keeps posted; a source that gets ahead of that, with --messages or --slices, hears
    /// RNR NAKs [default: one for each message]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    receives: Option<u32>,

    /// How many of these messages the source has under way, each a request of its own that is over when all receivers have
    /// acknowledged it: a storage client's queue depth; the report has requests per second and percentiles [default: all at once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "messages", conflicts_with_all = ["fallback_below", "switch_source"])]
    queue_depth: Option<u32>,

    /// Probability that a link loses a frame, in each direction, feedback included: P for every link, core:P for those of
    /// the core's switches instead, NODE-NODE:P@FROM-TO for one of them from one time after the post to another (without -TO for
    /// good); on Mininet that P is 1 [default: 0]
    #[arg(
        long,
        value_name = "P",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    loss: Vec<String>,

    /// Lose chosen packets at the port of a host's switch, such as h2:from:ack:1, the first ACK that comes from h2, or
    /// h2:to:data:3-5 (Mininet driver)
    #[arg(
        long,
        value_name = "HOST:from|to:data|ack|nak|rnr:N[-M]",
        value_delimiter = ','
    )]
    lose: Vec<String>,

    /// The first PSN of the group's data [default: drawn from the seed]
    #[arg(long, value_name = "PSN", value_parser = clap::value_parser!(u32).range(..1 << 24))]
    initial_psn: Option<u32>,

    /// How the group is registered
    #[arg(long, value_enum, default_value_t = How::Api)]
    registration: How,

    /// What runs when the fabric has no room for the group: chain, binomial, unicast, kary:K, a ring, or none to fail
    #[arg(long, value_name = "ALGORITHM", default_value = "binomial")]
    fallback: String,

    /// Give the group up for the fallback, too, when its goodput is under this share of what is normal, and try it again later, as
    /// well as a group that the fabric had no room for; 50% without a SHARE [default: never]
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "50%")]
    fallback_below: Option<String>,

    /// Over which time goodput is measured: two windows in a row that are too low give the group up [default: 250us, and 500ms
    /// with --scale off]
    #[arg(long, value_name = "TIME", requires = "fallback_below")]
    fallback_window: Option<String>,

    /// When to try the group again; twice as late after each failure, up to 64 times [default: 8 windows]
    #[arg(long, value_name = "TIME", requires = "fallback_below")]
    fallback_retry: Option<String>,

    /// The goodput that is normal at least [default: the slowest link's, on Mininet and for what handles packets one by one
    /// (punt, per-request) that of the best window]
    #[arg(long, value_name = "RATE", requires = "fallback_below")]
    normal_goodput: Option<String>,

    /// Break a host, a switch, or a link (NODE-NODE) so long after the post; alfirk heals, binomial-ack takes dead hosts out, and RDMC's
    /// groups close and go on without them
    #[arg(long, value_name = "NODE@TIME", value_delimiter = ',')]
    kill: Vec<String>,

    /// Have a member send random data, ACKs, NAKs, CNPs, READs and registrations to the group, beside what its queue pair
    /// sends, as fast as its link takes them, and on Mininet, where links have no rate then, as many as it receives; nobody
    /// waits for it
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    hostile: Vec<String>,

    /// How long what does not answer is waited for until the group goes on without it [default: 20ms, and 3s
    /// with --scale off]
    #[arg(long, value_name = "TIME")]
    dead_after: Option<String>,

    /// Decides everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// What carries the packets
    #[arg(long, value_enum, default_value_t = Driver::Virtual)]
    driver: Driver,

    /// Give links on Mininet the rates, delays and queues of the topology, and hosts and switches the costs of the model, on a clock
    /// that is N times slower than real time; reports are in its time, as those of the virtual driver. auto chooses N by this
    /// machine; off gives links no rates, so that processors are what is measured [default: auto; off with --guests
    /// and --hostile]
    #[arg(long, value_name = "auto|N|off", value_parser = Scale::from_str)]
    scale: Option<Scale>,

    /// Use a network that stands already, with its controller, in place of building one: the folder that
    /// `mn --custom mininet/alfirk.py` names; groups are registered in band (Mininet driver)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scale", "guests", "kill", "loss", "lose", "hostile", "pcap"])]
    attach: Option<PathBuf>,

    /// Hosts that are QEMU guests with a kernel of their own: all, or their names (Mininet driver)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    guests: Vec<String>,

    /// Whose RDMA stack guests use
    #[arg(
        long,
        value_enum,
        value_name = "WHOSE",
        requires = "guests",
        default_value_t = GuestRdma::Linux
    )]
    guest_rdma: GuestRdma,

    /// What guests boot, as `make guest-image` builds it [default: guest/ beside the folder of this command]
    #[arg(long, value_name = "DIR", requires = "guests")]
    guest_image: Option<PathBuf>,

    #[command(flatten)]
    machines: MachinesArgs,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// Capture what each host sends and receives, into this folder
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,

    /// Write what happens on every link to this file (virtual driver): one line for every frame, or, by the name's end, a capture of
    /// all ports for Wireshark (.pcapng), a timeline for Perfetto and Chrome (.json) or what `alfirk view` shows (.jsonl)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// After the run, serve a page that plays it (virtual driver), as `alfirk view` does, until a signal
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = crate::view::ADDRESS)]
    web: Option<SocketAddr>,

    /// What the switches are; tna and t2na find minima by the tree, with neutral ICRCs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,

    /// Compile this P4 program instead of the built-in one of the target
    #[arg(long, value_name = "FILE")]
    pub(super) p4src: Option<PathBuf>,

    /// Give up on a transfer that takes longer than this, in the driver's time
    #[arg(long, value_name = "TIME", default_value = "60s")]
    time_limit: String,

    #[command(flatten)]
    pub(super) workload: WorkloadArgs,

    #[command(flatten)]
    rates: RateArgs,

    #[command(flatten)]
    switches: SwitchArgs,

    #[command(flatten)]
    pub(super) model: ModelArgs,
}

/// How the message travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Op {
    /// SEND into receive buffers
    Send,
    /// WRITE to an address, then an empty SEND that tells the receiver
    Write,
    /// WRITE with immediate data
    WriteImm,
}

/// Who has what before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The source has the message, then all members
    Broadcast,
    /// The source has the message, then each member its piece
    Scatter,
    /// Each member has its piece, then all have the message
    Allgather,
    /// Nobody goes on before everybody has come
    Barrier,
}

/// How the group is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// Through the controller's service
    Api,
    /// In band: the source sends registration packets, which the switches hand to their agents
    Mrp,
}

/// How a WRITE to the group becomes one to each receiver's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Write {
    /// Regions aligned to a power of two, registered with the group once; switches turn address and key
    Aligned,
    /// The same address and key at every receiver; switches turn nothing
    Uniform,
    /// Any region for each WRITE; the source tells the switches by one packet of 16 bytes per receiver
    PerRequest,
}

/// Where the minimum PSN over a switch's paths comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MinPsnArg {
    /// From a tournament tree in registers, in the pass of each ACK
    Tree,
    /// From an ACK that recirculates and looks at four paths in each pass
    Walk,
    /// From the controller, to which switches hand ACKs
    Punt,
}

/// Who sees to it that receivers find the ICRC right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IcrcArg {
    /// Constants that cancel what the switches change, whatever the payload
    Neutral,
    /// The switches, which parse payloads and compute it anew
    Recompute,
    /// The controller, to which leaf switches hand the copies for hosts
    Punt,
}

/// Congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Control {
    /// Nothing: as fast as ports and windows let them
    None,
    /// DCQCN: at most one CNP per 50 us and queue pair; rates from 10 Mbit/s to that of the host's link
    Dcqcn,
}

/// What queue pairs do about losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RecoveryArg {
    /// The sender sends all again that follows a lost packet, as RDMA NICs and Linux do
    GoBackN,
    /// The sender sends again what is lost, as IRN does (SIGCOMM 2018); receivers keep the rest and report each loss by a NAK
    /// of their own, which switches pass on once
    SelectiveRepeat,
}

impl Args {
    /// Reads the topology and checks everything that can be checked before anything is built or the message is read.
    pub fn check(self) -> Result<Config, Failure> {
        let topology = match &self.topology {
            Some(file) => crate::topology::read(file)?,
            None => topology::fat_tree(4).expect("4 is a good k"),
        };
        let topology = self.switches.apply(self.rates.apply(topology)?)?;
        let alone = !self.kill.is_empty()
            || !self.hostile.is_empty()
            || self.switch_source.is_some_and(|n| n > 0);
        let collective = self.collective()?;
        let algorithms = match (self.algorithms.is_empty(), !alone, collective) {
            (true, true, Collective::Broadcast)
                if self.queue_depth.is_some() || self.workload.counts_requests() =>
            {
                vec![Algorithm::Alfirk, Algorithm::Unicast]
            }
            (true, true, Collective::Broadcast) => Algorithm::USUAL.to_vec(),
            (true, true, _) => collective.algorithms().collect(),
            (true, false, _) => vec![Algorithm::Alfirk],
            (false, ..) => algorithms(&self.algorithms, collective)?,
        };
        Planner::new(self.tree_policy, &topology)
            .map_err(|why| Failure::bad_input(format_args!("--tree-policy: {why}")))?;
        let workload = self
            .workload
            .check(&topology, self.size.as_deref(), self.seed)?;
        let members = match &workload {
            Some(asked) => asked.workload.hosts(),
            None if self.to.is_empty() => {
                members(&topology, self.source.as_deref(), self.group, self.rotate)?
            }
            None => receivers(&topology, self.source.as_deref(), &self.to)?,
        };
        if self.attach.is_some() && self.driver != Driver::Mininet {
            return Err(Failure::bad_input(
                "--attach: only networks of processes stand by themselves; add --driver mininet",
            ));
        }
        if workload.is_some() && self.driver == Driver::Mininet {
            return Err(Failure::bad_input(
                "--workload: hosts on Mininet take part in one transfer at a time; use the virtual driver",
            ));
        }
        // Those of `all` that cannot be here are left out; what is asked for by name is refused.
        let algorithms = match self.algorithms.iter().any(|name| name.trim() == ALL) {
            true => algorithms
                .into_iter()
                .filter(|a| self.misfit(*a, &topology, &members).is_none())
                .collect(),
            false => algorithms,
        };
        let misfit = algorithms
            .iter()
            .find_map(|a| self.misfit(*a, &topology, &members));
        if let Some(why) = misfit {
            return Err(Failure::bad_input(why));
        }
        let kills = self.kills(&topology, &algorithms, members[0])?;
        let hostiles = self.hostiles(&topology, &algorithms, &members)?;
        let registration = match self.registration {
            How::Api => Registration::Service,
            How::Mrp => Registration::InBand,
        };
        // The controller listens where only the other program knows.
        let registration = match self.attach {
            Some(_) => Registration::InBand,
            None => registration,
        };
        let fallback = fallback(&self.fallback)?;
        let scale = self.scale()?;
        // Whether times are those of fast equipment.
        let is_fast = self.driver == Driver::Virtual || scale != Scale::Off;
        let dead_after = match &self.dead_after {
            Some(text) => quantity("--dead-after", text, &TIME)?,
            None if is_fast => 20_000_000,
            None => 3_000_000_000,
        };
        let mtu = path_mtu(&topology, self.mtu)?;
        let losses = Losses::parse(&self.loss, &topology, self.driver)?;
        let safeguard = self.safeguard(&topology, &algorithms, fallback, mtu)?;
        if self.slices == Some(0) {
            return Err(Failure::bad_input("--slices 0: at least 1 is needed"));
        }
        if self.write.is_some() && self.op == Op::Send {
            return Err(Failure::bad_input(
                "--write: SEND needs no memory regions; add --op write or --op write-imm",
            ));
        }
        self.check_switches(&algorithms)?;
        self.check_target(&topology)?;
        if self.trace.is_some() && self.driver == Driver::Mininet {
            return Err(Failure::bad_input(
                "--trace: only the virtual driver sees every frame; use --pcap with --driver mininet",
            ));
        }
        if self.web.is_some() && self.driver == Driver::Mininet {
            return Err(Failure::bad_input(
                "--web: only the virtual driver sees every frame; alfirk ctrl --web shows the controller of a network",
            ));
        }
        let model = self.model.check()?;
        if self.driver == Driver::Mininet {
            if !topology.switching().is_default() {
                return Err(Failure::bad_input(
                    "queueing, shared buffers and PFC are for the virtual driver: BMv2 has its own queues; leave out the flags, and switch: in the topology",
                ));
            }
            if model != Model::default() && scale == Scale::Off {
                return Err(Failure::bad_input(
                    "what hosts cost can be chosen for the virtual driver and with --scale: else they cost on Mininet what they cost",
                ));
            }
        }
        let guests = self.guests(&topology)?;
        let machines = self.machines(&topology)?;
        let recovery = match self.recovery {
            RecoveryArg::GoBackN => Recovery::GoBackN,
            RecoveryArg::SelectiveRepeat => Recovery::SelectiveRepeat,
        };
        let lose = self.lose(&topology)?;
        let source = match (&self.input, &self.size) {
            (Some(file), _) => Source::File(file.clone()),
            (None, _) if collective == Collective::Barrier || workload.is_some() => Source::Nothing,
            (None, size) => {
                let size = size.as_deref().unwrap_or("1MiB");
                Source::Seeded(quantity("--size", size, &SIZE)?)
            }
        };
        Ok(Config {
            members,
            source,
            algorithms,
            collective,
            op: match self.op {
                Op::Send => TransferOp::Send,
                Op::Write => TransferOp::Write,
                Op::WriteImm => TransferOp::WriteImm,
            },
            write: match self.write {
                None | Some(Write::Aligned) => WriteMode::Aligned,
                Some(Write::Uniform) => WriteMode::Uniform,
                Some(Write::PerRequest) => WriteMode::PerRequest,
            },
            strategies: Strategies {
                min_psn: match self.min_psn {
                    MinPsnArg::Tree => MinPsn::Tree,
                    MinPsnArg::Walk => MinPsn::Walk,
                    MinPsnArg::Punt => MinPsn::Punt,
                },
                icrc: match self.icrc {
                    IcrcArg::Neutral => IcrcMode::Neutral,
                    IcrcArg::Recompute => IcrcMode::Recompute,
                    IcrcArg::Punt => IcrcMode::Punt,
                },
            },
            tree_policy: self.tree_policy,
            congestion: match self.congestion {
                Control::None => Congestion::None,
                Control::Dcqcn => Congestion::Dcqcn,
            },
            recovery,
            ecn: self.ecn()?,
            switch_source: self.switch_source.unwrap_or(0),
            switch_early: self.switch_early,
            mtu,
            slices: self.slices,
            messages: self.messages,
            block: self.block()?,
            store_and_forward: self.store_and_forward,
            ready: self.ready,
            receives: self.receives,
            queue_depth: self.queue_depth,
            lose,
            initial_psn: self.initial_psn.map(Psn::new),
            loss: losses.everywhere,
            core_loss: losses.core,
            outages: losses.outages,
            outage_names: losses.names,
            rates: self.rates.names(),
            registration,
            fallback,
            safeguard,
            kills,
            hostiles,
            dead_after,
            seed: self.seed,
            driver: self.driver,
            scale,
            attach: self.attach,
            guests,
            machines,
            json: self.json,
            pcap: self.pcap,
            trace: self.trace,
            web: self.web,
            p4src: self.p4src,
            time_limit: quantity("--time-limit", &self.time_limit, &TIME)?,
            workload,
            model,
            topology,
        })
    }
}

impl Args {
    /// Refuses what the data plane for Tofino does not have.
    fn check_target(&self, topology: &Topology) -> Result<(), Failure> {
        if self.target == Target::V1model {
            return Ok(());
        }
        let reserved = self.target.recirculation_ports();
        let name = match self.target {
            Target::T2na => "t2na",
            _ => "tna",
        };
        for index in topology.switch_indexes() {
            let mut neighbours = topology.neighbours(index).iter();
            if let Some(there) = neighbours.find(|there| reserved.contains(&there.port)) {
                return Err(Failure::bad_input(format_args!(
                    "--target {name}: switch {} has a link at port {}, and packets that leave by ports {} to {} of this chip come into its ingress again; give the link another port",
                    topology.switch(index).name,
                    there.port,
                    reserved.start,
                    reserved.end - 1,
                )));
            }
        }
        let refused = [
            (self.min_psn != MinPsnArg::Tree, "--min-psn", "tree"),
            (self.icrc != IcrcArg::Neutral, "--icrc", "neutral"),
            (
                self.recovery == RecoveryArg::SelectiveRepeat,
                "--recovery",
                "go-back-n",
            ),
        ];
        match refused.iter().find(|(is_other, ..)| *is_other) {
            None => Ok(()),
            Some((_, flag, only)) => Err(Failure::bad_input(format_args!(
                "{flag}: the data plane for Tofino (--target {name}) has {only} only"
            ))),
        }
    }
}

impl Args {
    fn ecn(&self) -> Result<Option<EcnProfile>, Failure> {
        match (&self.ecn, self.congestion) {
            (Some(text), _) => match text.parse() {
                Ok(profile) => Ok(Some(profile)),
                Err(error) => Err(Failure::bad_input(format_args!("--ecn {error}"))),
            },
            (None, Control::Dcqcn) => Ok(Some(EcnProfile::default())),
            (None, Control::None) => Ok(None),
        }
    }

    /// Why an algorithm cannot run here, and what would do.
    fn misfit(
        &self,
        algorithm: Algorithm,
        topology: &Topology,
        members: &[HostIndex],
    ) -> Option<String> {
        let racks = members.iter().map(|host| topology.attachment(*host).0);
        if algorithm.needs_racks() && racks.collect::<BTreeSet<_>>().len() < 2 {
            return Some(format!(
                "--algorithms {algorithm}: all members are at one leaf switch, so there is but one rack; use \
                 {}, or a topology with more",
                Algorithm::Rdmc(Schedule::BinomialPipeline)
            ));
        }
        if self.store_and_forward && algorithm.relays() && !algorithm.is_one_tree() {
            return Some(format!(
                "--store-and-forward: {algorithm} passes parts of the data on by different ways, so nobody can wait until \
                 it holds everything; leave one of the two out"
            ));
        }
        let counts = !algorithm.relays() && !algorithm.needs_datagrams();
        let wanted = self.workload.counts_requests() || self.queue_depth.is_some();
        if wanted && !counts {
            return Some(format!(
                "--algorithms {algorithm}: it has members that pass data on or acknowledge it among themselves, so the source \
                 does not know when a request is over; use alfirk and unicast"
            ));
        }
        if self.workload.is_given() && algorithm.needs_datagrams() {
            return Some(format!(
                "--workload: {algorithm} has one group of datagrams for all its members; leave it out"
            ));
        }
        self.misfit_of_datagrams(algorithm)
    }

    /// Why datagrams cannot be sent like that, and what would do.
    fn misfit_of_datagrams(&self, algorithm: Algorithm) -> Option<String> {
        if !algorithm.needs_datagrams() {
            return None;
        }
        let either = "leave one of the two out";
        let refused = [
            (
                self.op != Op::Send,
                "--op",
                "sends datagrams, which know no WRITE; use --op send",
            ),
            (
                self.receives.is_some(),
                "--receives",
                "has as many receives posted as a root may have datagrams under way",
            ),
            (
                self.ready.is_some(),
                "--ready",
                "sends datagrams to everybody, who are not asked before",
            ),
            (
                self.congestion == Control::Dcqcn,
                "--congestion",
                "sends datagrams, whose rate nobody controls",
            ),
            (
                self.registration == How::Mrp,
                "--registration",
                "sends to a group that hosts join through the control service; use --registration api",
            ),
        ];
        let (_, flag, why) = refused.into_iter().find(|(given, _, _)| *given)?;
        Some(match why.contains("; use") {
            true => format!("{flag}: {algorithm} {why}"),
            false => format!("{flag}: {algorithm} {why}; {either}"),
        })
    }

    /// What is to be brought about, if the other flags go with it.
    fn collective(&self) -> Result<Collective, Failure> {
        let collective = match self.collective {
            Kind::Broadcast => return Ok(Collective::Broadcast),
            Kind::Scatter => Collective::Scatter,
            Kind::Allgather => Collective::Allgather,
            Kind::Barrier => Collective::Barrier,
        };
        let refused = [
            (self.switch_source.is_some(), "--switch-source"),
            (self.fallback_below.is_some(), "--fallback-below"),
            (!self.kill.is_empty(), "--kill"),
            (!self.hostile.is_empty(), "--hostile"),
            (self.slices.is_some(), "--slices"),
            (self.block.is_some(), "--block"),
            (self.messages.is_some(), "--messages"),
            (self.receives.is_some(), "--receives"),
            (self.queue_depth.is_some(), "--queue-depth"),
            (self.ready.is_some(), "--ready"),
            (self.store_and_forward, "--store-and-forward"),
        ];
        if let Some((_, flag)) = refused.into_iter().find(|(given, _)| *given) {
            return Err(Failure::bad_input(format_args!(
                "--collective {collective}: {flag} is for broadcasts; leave it out"
            )));
        }
        let has_message = self.size.is_some() || self.input.is_some() || self.op != Op::Send;
        if collective == Collective::Barrier && has_message {
            return Err(Failure::bad_input(
                "--collective barrier: it has no message; leave --size, --input and --op out",
            ));
        }
        Ok(collective)
    }

    fn block(&self) -> Result<Option<u32>, Failure> {
        let Some(text) = &self.block else {
            return Ok(None);
        };
        match quantity("--block", text, &SIZE)? {
            0 => Err(Failure::bad_input(
                "--block 0: a block has 1 byte at the least",
            )),
            block if block > MAX_MESSAGE => Err(Failure::bad_input(format_args!(
                "--block {text}: a message holds at most {MAX_MESSAGE} bytes"
            ))),
            block => Ok(Some(block as u32)),
        }
    }

    fn check_switches(&self, algorithms: &[Algorithm]) -> Result<(), Failure> {
        const MOST: u32 = 10_000;
        let switches = self.switch_source.unwrap_or(0);
        let refused = if switches == 0 {
            return Ok(());
        } else if switches > MOST {
            format!("--switch-source {switches}: at most {MOST} changes")
        } else if !algorithms.contains(&Algorithm::Alfirk) {
            "--switch-source: only a group of the fabric changes its source; add alfirk to --algorithms".to_string()
        } else if !self.kill.is_empty() {
            "--switch-source: what --kill does to a source's turn is not defined; give one of the two".to_string()
        } else if self.switch_early && self.write == Some(Write::PerRequest) {
            "--switch-early: a leaf switch knows one region per receiver, so with --write per-request a source \
             must wait for the acknowledgements of the one before"
                .to_string()
        } else {
            return Ok(());
        };
        Err(Failure::bad_input(refused))
    }

    /// What both drivers can do; the scale is never off.
    pub fn for_both_drivers(mut self) -> Result<Config, Failure> {
        self.driver = Driver::Mininet;
        let refuse = |why: &str| Err(Failure::bad_input(why));
        if self.scale == Some(Scale::Off) {
            return refuse(
                "--scale off: without rates there is nothing to compare; give auto or a number",
            );
        }
        if !self.guests.is_empty() {
            return refuse("--guests: virtual hosts have no kernel; leave them out");
        }
        if !self.lose.is_empty() {
            return refuse(
                "--lose: only switches that run by themselves lose chosen packets; use --loss",
            );
        }
        self.check()
    }

    /// The clock of the network, and why it cannot be a slow one.
    fn scale(&self) -> Result<Scale, Failure> {
        let Some(scale) = self.scale else {
            // Guests, hostile hosts and networks that stand go by this machine's clock.
            let is_slow = self.driver == Driver::Mininet
                && self.attach.is_none()
                && self.guests.is_empty()
                && self.hostile.is_empty();
            return Ok(if is_slow { Scale::Auto } else { Scale::Off });
        };
        let refuse = |why: &str| Err(Failure::bad_input(format_args!("--scale: {why}")));
        match scale {
            _ if self.driver != Driver::Mininet => {
                refuse("virtual time needs no scale; add --driver mininet")
            }
            Scale::Off => Ok(scale),
            _ if !self.guests.is_empty() => {
                refuse("the clocks of guests are those of their kernels; add --scale off, or leave out --guests")
            }
            _ if !self.hostile.is_empty() => {
                refuse("hostile hosts go by the clock of this machine; add --scale off, or leave out --hostile")
            }
            _ => Ok(scale),
        }
    }

    fn lose(&self, topology: &Topology) -> Result<Vec<super::lose::Lost>, Failure> {
        if !self.lose.is_empty() && self.driver != Driver::Mininet {
            return Err(Failure::bad_input(
                "--lose: only switches that run by themselves lose chosen packets; add --driver mininet, or use --loss",
            ));
        }
        let read = |text: &String| {
            super::lose::Lost::read(topology, text)
                .map_err(|why| Failure::bad_input(format_args!("--lose {text}: {why}")))
        };
        self.lose.iter().map(read).collect()
    }

    fn guests(&self, topology: &Topology) -> Result<Option<Guests>, Failure> {
        if self.guests.is_empty() {
            return Ok(None);
        }
        let refuse = |why: String| Err(Failure::bad_input(format!("--guests: {why}")));
        if self.driver != Driver::Mininet {
            return refuse("virtual hosts have no kernel; add --driver mininet".to_owned());
        }
        let is_linux = self.guest_rdma == GuestRdma::Linux;
        if is_linux && self.recovery == RecoveryArg::SelectiveRepeat {
            return refuse(
                "Linux's RDMA knows go-back-N only; add --guest-rdma alfirk, or leave out --recovery"
                    .to_owned(),
            );
        }
        if is_linux && !cfg!(feature = "verbs") {
            return refuse(
                "this alfirk cannot use Linux's RDMA; build it with `--features verbs`, as `make interop` does, or add \
                 --guest-rdma alfirk"
                    .to_owned(),
            );
        }
        let mut hosts = Vec::new();
        for name in &self.guests {
            match (name.as_str(), topology.host_named(name)) {
                (_, Some(host)) => hosts.push(host),
                ("all", None) => hosts.extend(topology.host_indexes()),
                (name, None) => {
                    let (topology, names) = (topology.name(), some_names(topology));
                    return refuse(format!(
                        "topology {topology} has no host {name}; its hosts are {names}"
                    ));
                }
            }
        }
        hosts.sort_unstable();
        hosts.dedup();
        let image = match &self.guest_image {
            Some(folder) => folder.clone(),
            None => guest_image()?,
        };
        Ok(Some(Guests {
            hosts,
            rdma: self.guest_rdma,
            image,
        }))
    }

    /// The machines, if there are several.
    fn machines(&self, topology: &Topology) -> Result<Option<Machines>, Failure> {
        let why = match (&self.machines.machines.is_empty(), self.driver) {
            (true, _) => return Ok(None),
            (false, Driver::Virtual) => "virtual time is in one process; add --driver mininet",
            (false, Driver::Mininet) if self.attach.is_some() => {
                "a network that stands already is where it is; leave out --attach"
            }
            (false, Driver::Mininet) if !self.guests.is_empty() => {
                "guests need their image on this machine; leave out --guests"
            }
            (false, Driver::Mininet) => return self.machines.check(topology),
        };
        Err(Failure::bad_input(format_args!("--machines: {why}")))
    }

    /// What watches the group, if anything does.
    fn safeguard(
        &self,
        topology: &Topology,
        algorithms: &[Algorithm],
        fallback: Option<Algorithm>,
        mtu: PathMtu,
    ) -> Result<Option<SafeguardConfig>, Failure> {
        let Some(text) = &self.fallback_below else {
            return Ok(None);
        };
        let below = share("--fallback-below", text)?;
        let why = if fallback.is_none() {
            "with --fallback none there is nothing to fall back to"
        } else if !algorithms.contains(&Algorithm::Alfirk) {
            "only a group of the fabric is given up; add alfirk to --algorithms"
        } else if self.switch_source.is_some_and(|n| n > 0) {
            "an overlay has one source; leave --switch-source out"
        } else if !self.kill.is_empty() {
            "an overlay does not survive a death; leave --kill out"
        } else {
            ""
        };
        if !why.is_empty() {
            return Err(Failure::bad_input(format_args!("--fallback-below: {why}")));
        }
        let is_fast = self.driver == Driver::Virtual || self.scale()? != Scale::Off;
        let window = match &self.fallback_window {
            Some(text) => quantity("--fallback-window", text, &TIME)?,
            None if is_fast => 250_000,
            None => 500_000_000,
        };
        if window == 0 {
            return Err(Failure::bad_input(
                "--fallback-window 0: some time must pass",
            ));
        }
        let config = SafeguardConfig::new(window);
        let retry = match &self.fallback_retry {
            Some(text) => quantity("--fallback-retry", text, &TIME)?,
            None => config.retry,
        };
        let at_once = self.min_psn == MinPsnArg::Tree
            && self.icrc == IcrcArg::Neutral
            && self.write != Some(Write::PerRequest);
        let expected_bps = match (&self.normal_goodput, self.driver) {
            (Some(text), _) => Some(quantity("--normal-goodput", text, &RATE)? as f64),
            (None, Driver::Virtual) if at_once => {
                let rates = topology.links().iter().map(|l| l.attributes.rate_bps);
                // Headers, preamble and gap take about 90 bytes of each packet.
                let payload = mtu.bytes() as f64;
                let slowest = rates.min().unwrap_or(0) as f64;
                Some(slowest * payload / (payload + 90.0))
            }
            (None, _) => None,
        };
        Ok(Some(SafeguardConfig {
            below,
            retry,
            expected_bps,
            ..config
        }))
    }

    fn hostiles(
        &self,
        topology: &Topology,
        algorithms: &[Algorithm],
        members: &[HostIndex],
    ) -> Result<Vec<HostIndex>, Failure> {
        let Some(first) = self.hostile.first() else {
            return Ok(Vec::new());
        };
        let refuse =
            |name: &str, why: String| Failure::bad_input(format_args!("--hostile {name}: {why}"));
        if let Some(algorithm) = algorithms.iter().find(|a| !a.needs_group()) {
            return Err(refuse(
                first,
                format!("{algorithm} has no group to be hostile to; use --algorithms alfirk"),
            ));
        }
        let named = self.hostile.iter().map(|name| {
            let host = match topology.node_named(name) {
                Some(Node::Host(host)) => host,
                _ => return Err(refuse(name, "the topology has no such host".to_owned())),
            };
            match members.iter().position(|&member| member == host) {
                Some(0) => Err(refuse(
                    name,
                    "it is the source, to which the others must listen".to_owned(),
                )),
                Some(_) => Ok(host),
                None => Err(refuse(name, "it is no member of the group".to_owned())),
            }
        });
        named.collect()
    }

    fn kills(
        &self,
        topology: &Topology,
        algorithms: &[Algorithm],
        source: HostIndex,
    ) -> Result<Vec<Kill>, Failure> {
        if self.kill.is_empty() {
            return Ok(Vec::new());
        }
        let survives = |a: &&Algorithm| {
            a.needs_group() || a.needs_datagrams() || matches!(a, Algorithm::Rdmc(_))
        };
        if let Some(algorithm) = algorithms.iter().find(|a| !survives(a)) {
            return Err(Failure::bad_input(format_args!(
                "--kill: {algorithm} does not survive a death; use alfirk, binomial-ack, or RDMC's schedules"
            )));
        }
        let kills = self.kill.iter();
        let kills = kills.map(|text| kill(topology, source, text));
        let kills = kills.collect::<Result<Vec<Kill>, Failure>>()?;
        let is_host = |kill: &&Kill| matches!(kill.victim, Victim::Host(_));
        if let (Some(algorithm), Some(kill)) = (
            algorithms.iter().find(|a| !a.needs_group()),
            kills.iter().find(|kill| !is_host(kill)),
        ) {
            return Err(Failure::bad_input(format_args!(
                "--kill {}: {algorithm} goes on without hosts, but not around switches and links; use --algorithms alfirk",
                kill.name
            )));
        }
        if let (Driver::Mininet, [one, other, ..], [kill, ..]) =
            (self.driver, algorithms, &kills[..])
        {
            return Err(Failure::bad_input(format_args!(
                "--kill {}: on Mininet the dead stay dead for what comes next; run {one} and {other} one by one",
                kill.name
            )));
        }
        Ok(kills)
    }
}

/// Beside the folder that holds this command: in the target folder of a build, and under share where it is installed.
fn guest_image() -> Result<PathBuf, Failure> {
    let alfirk = std::env::current_exe()
        .map_err(|error| Failure::failed(format_args!("cannot find my own file: {error}")))?;
    let prefix = alfirk.parent().and_then(Path::parent);
    let prefix = prefix.unwrap_or(Path::new("/"));
    let installed = prefix.join("share/alfirk/guest");
    Ok(match installed.is_dir() {
        true => installed,
        false => prefix.join("guest"),
    })
}

/// `h3@20us`, `s1@1ms`, `s1-s2@50us`.
fn kill(topology: &Topology, source: HostIndex, text: &str) -> Result<Kill, Failure> {
    let refuse = |why: String| Err(Failure::bad_input(format_args!("--kill {text}: {why}")));
    let Some((name, time)) = text.rsplit_once('@') else {
        return refuse(
            "write it as NODE@TIME, as h3@20us, or NODE-NODE@TIME for a link".to_owned(),
        );
    };
    let after = quantity("--kill", time, &TIME)?;
    let victim = match (topology.node_named(name), name.split_once('-')) {
        (Some(Node::Host(host)), _) if host == source => {
            return refuse(format!(
                "{name} is the source, without which nothing is left to do"
            ));
        }
        (Some(Node::Host(host)), _) => Victim::Host(host),
        (Some(Node::Switch(switch)), _) => Victim::Switch(switch),
        (None, Some((a, b))) => match find_link(topology, a, b) {
            Some(link) => Victim::Link(link),
            None => return refuse(format!("the topology has no link between {a} and {b}")),
        },
        (None, None) => return refuse(format!("the topology has no host or switch {name}")),
    };
    let name = name.to_owned();
    Ok(Kill {
        victim,
        name,
        after,
    })
}

fn fallback(name: &str) -> Result<Option<Algorithm>, Failure> {
    if name == "none" {
        return Ok(None);
    }
    let algorithm: Algorithm = name
        .parse()
        .map_err(|error| Failure::bad_input(format_args!("--fallback: {error}")))?;
    let why = match (algorithm.needs_group(), algorithm.keeps_order()) {
        (true, _) => "it needs a group itself",
        (_, false) => "slices come in no order, so nobody can go on from where the group was",
        (false, true) => return Ok(Some(algorithm)),
    };
    Err(Failure::bad_input(format_args!(
        "--fallback {algorithm}: {why}; use chain, binomial, unicast, kary:K, a ring or none"
    )))
}

/// The word for all algorithms.
const ALL: &str = "all";

fn algorithms(names: &[String], collective: Collective) -> Result<Vec<Algorithm>, Failure> {
    if names.iter().any(|name| name.trim() == ALL) {
        return match names {
            [_] => Ok(collective.algorithms().collect()),
            _ => Err(Failure::bad_input(
                "--algorithms: `all` stands alone; leave the other names out",
            )),
        };
    }
    let mut algorithms = Vec::new();
    for name in names {
        let algorithm: Algorithm = name
            .trim()
            .parse()
            .map_err(|error| Failure::bad_input(format_args!("--algorithms: {error}")))?;
        if !algorithm.does(collective) {
            let others: Vec<String> = collective.algorithms().map(|a| a.to_string()).collect();
            return Err(Failure::bad_input(format_args!(
                "--algorithms {algorithm}: it makes no {collective}; use {}",
                others.join(", ")
            )));
        }
        if algorithms.contains(&algorithm) {
            return Err(Failure::bad_input(format_args!(
                "--algorithms: {algorithm} stands there twice"
            )));
        }
        algorithms.push(algorithm);
    }
    Ok(algorithms)
}

/// The group: the source, then the first other hosts of the topology.
fn members(
    topology: &Topology,
    source: Option<&str>,
    group: Option<usize>,
    rotate: bool,
) -> Result<Vec<HostIndex>, Failure> {
    let hosts = topology.hosts().len();
    let source = match source {
        None => HostIndex(0),
        Some(name) => topology.host_named(name).ok_or_else(|| {
            Failure::bad_input(format_args!(
                "--source {name}: topology {} has no host of that name; its hosts are {}",
                topology.name(),
                some_names(topology)
            ))
        })?,
    };
    let group = group.unwrap_or(hosts);
    if group < 2 {
        return Err(Failure::bad_input(format_args!(
            "--group {group}: a group needs the source and at least one receiver, so 2 or more"
        )));
    }
    if group > hosts {
        return Err(Failure::bad_input(format_args!(
            "--group {group}: topology {} has only {hosts} hosts",
            topology.name()
        )));
    }
    if rotate {
        let around = (0..group).map(|rank| HostIndex((source.0 + rank) % hosts));
        return Ok(around.collect());
    }
    let others = topology.host_indexes().filter(|&host| host != source);
    Ok(std::iter::once(source).chain(others).take(group).collect())
}

/// The group: the source, then these hosts.
fn receivers(
    topology: &Topology,
    source: Option<&str>,
    names: &[String],
) -> Result<Vec<HostIndex>, Failure> {
    let mut all = members(topology, source, None, false)?;
    all.truncate(1);
    for name in names {
        let by_address = || topology.host_with_ip(name.parse().ok()?);
        let host = topology.host_named(name).or_else(by_address);
        let host = host.ok_or_else(|| {
            Failure::bad_input(format_args!(
                "--to {name}: topology {} has no such host; its hosts are {}",
                topology.name(),
                some_names(topology)
            ))
        })?;
        if all.contains(&host) {
            return Err(Failure::bad_input(format_args!(
                "--to {name}: it is the source, or stands there twice"
            )));
        }
        all.push(host);
    }
    Ok(all)
}

/// The first names, for a message.
fn some_names(topology: &Topology) -> String {
    const SHOWN: usize = 8;
    let names: Vec<&str> = topology.hosts().iter().map(|h| h.name.as_str()).collect();
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{}, ... ({all} in all)", names[..SHOWN].join(", ")),
    }
}

/// What every link carries: packets may pass any of them on their way.
fn path_mtu(topology: &Topology, wanted: Option<u32>) -> Result<PathMtu, Failure> {
    let smallest = topology
        .links()
        .iter()
        .map(|link| link.attributes.mtu)
        .min();
    let link_mtu = smallest.expect("a host has a link");
    let largest = PathMtu::for_ip_mtu(link_mtu).map_err(Failure::bad_input)?;
    let Some(wanted) = wanted else {
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
