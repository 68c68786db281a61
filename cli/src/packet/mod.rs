//! `alfirk packet`: builds, dissects, compares, sends and sniffs packets, by the crate `scapy-rs`.

mod input;
mod live;
mod output;

use std::path::PathBuf;

use clap::Subcommand;
use scapy::random::Packets;
use scapy::{diff_frames, protocols, Filter, Mask};

use crate::exit::{print, Failure, Outcome};
use input::{Headers, Input};
use output::{Form, Output};

/// Build, dissect, compare, send and sniff packets, as in scapy.
///
/// A packet is an expression, hexadecimal digits, or a capture (pcap, pcapng). In an expression, layers stack with `/`; fields without a
/// value are computed: lengths, checksums, protocol numbers, padding, ICRC. `alfirk packet layers` lists layers and fields.
///
/// Exit codes: 0 success; 1 packets differ, or an interface cannot send or receive; 2 wrong usage or bad input.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  alfirk packet craft 'Ether()/IP(dst="10.0.0.2")/UDP(dport=4791)/BTH(psn=7)/Raw("abc")/ICRC()'
  alfirk packet dissect capture.pcap --filter 'BTH.opcode == ACKNOWLEDGE'
  alfirk packet diff sent.pcap received.pcap --ignore IP.ttl --ignore IP.chksum
  sudo alfirk packet sniff -i h1-eth0 --filter 'IP.dst in 10.0.0.0/8' --count 3"#)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Craft(CraftArgs),
    Dissect(DissectArgs),
    Diff(DiffArgs),
    Send(live::SendArgs),
    Sniff(live::SniffArgs),
    Random(RandomArgs),
    Layers(LayersArgs),
}

/// Build a packet from an expression.
///
/// A layer is its name with the values of fields in parentheses: numbers, text in quotes, bytes (b"\x00"), lists and tuples. Text in
/// the place of a layer is a payload; "x"*100 repeats it. Prints hexadecimal digits, unless another form is chosen.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  alfirk packet craft 'IP(dst="10.0.0.2", ttl=1)/TCP(flags="S", options=[("MSS", 1460)])' --show
  alfirk packet craft 'Ether()/IP(dst="10.0.0.2", chksum=0xdead)/UDP()/"abc"' --write wrong.pcap
  alfirk packet craft --p4 mine.p4 'ethernet(etherType=0x1212)/myTunnel(dst_id=2)/"abc"' --hexdump"#)]
struct CraftArgs {
    /// The expression
    #[arg(value_name = "EXPRESSION")]
    expression: String,

    #[command(flatten)]
    headers: Headers,

    #[command(flatten)]
    form: Form,

    /// Write the packet to a capture: pcapng if the name ends in .pcapng, else pcap
    #[arg(long, short = 'w', value_name = "FILE", help_heading = "Output")]
    write: Option<PathBuf>,
}

/// Show the layers and fields of packets.
///
/// Prints all fields, unless another form is chosen.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  alfirk packet dissect ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000002
  alfirk packet dissect capture.pcapng --filter 'UDP.dport == 4791' --summary
  alfirk packet dissect capture.pcap --recompute --write repaired.pcap"#)]
struct DissectArgs {
    /// Packets: captures, hexadecimal digits or expressions; - reads standard input
    #[arg(value_name = "PACKETS", required = true)]
    inputs: Vec<String>,

    #[command(flatten)]
    headers: Headers,

    /// Select packets by a condition, such as 'IP.ttl < 5 and not UDP.dport == 53'
    #[arg(long, short = 'f', value_name = "CONDITION")]
    filter: Option<String>,

    /// Stop after this many selected packets
    #[arg(long, short = 'c', value_name = "N")]
    count: Option<usize>,

    /// Compute lengths, checksums and ICRC again
    #[arg(long)]
    recompute: bool,

    #[command(flatten)]
    form: Form,

    /// Write the selected packets to a capture instead
    #[arg(long, short = 'w', value_name = "FILE", help_heading = "Output")]
    write: Option<PathBuf>,
}

/// Compare packets field by field.
///
/// Prints one line for each field that differs, and exits with 1. Captures are compared packet by packet, in their order.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  alfirk packet diff 'IP(ttl=64)/UDP()' 'IP(ttl=63)/UDP()' --ignore IP.chksum
  alfirk packet diff expected.pcap received.pcap --mask ffffffffffff000000000000"#)]
struct DiffArgs {
    /// Expected packets: a capture, hexadecimal digits or an expression
    #[arg(value_name = "EXPECTED")]
    expected: String,

    /// Received packets, likewise
    #[arg(value_name = "RECEIVED")]
    received: String,

    #[command(flatten)]
    headers: Headers,

    /// Compare only these bits: hexadecimal digits from the first byte on; bits after its end are compared
    #[arg(long, value_name = "HEX")]
    mask: Option<String>,

    /// Ignore a field, as LAYER.FIELD, or all fields of a LAYER
    #[arg(long, value_name = "FIELD")]
    ignore: Vec<String>,

    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Write random packets, for tests of switches and parsers.
///
/// They are well-formed stacks of layers with random fields. Equal seeds have equal packets. Prints hexadecimal digits, unless another form is
/// chosen.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  alfirk packet random --count 1000 --seed 7 --write random.pcap")]
struct RandomArgs {
    /// Number of packets
    #[arg(long, short = 'c', value_name = "N", default_value_t = 1)]
    count: usize,

    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    form: Form,

    /// Write the packets to a capture instead
    #[arg(long, short = 'w', value_name = "FILE", help_heading = "Output")]
    write: Option<PathBuf>,
}

/// List the layers, or the fields of one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk packet layers
  alfirk packet layers BTH")]
struct LayersArgs {
    /// Name of a layer
    #[arg(value_name = "LAYER")]
    layer: Option<String>,

    #[command(flatten)]
    headers: Headers,
}

/// Runs `alfirk packet`.
pub fn run(args: &Args) -> Outcome {
    match &args.action {
        Action::Craft(args) => craft(args),
        Action::Dissect(args) => dissect(args),
        Action::Diff(args) => diff(args),
        Action::Send(args) => live::send(args),
        Action::Sniff(args) => live::sniff(args),
        Action::Random(args) => random(args),
        Action::Layers(args) => layers(args),
    }
}

fn craft(args: &CraftArgs) -> Outcome {
    let headers = args.headers.load()?;
    let packet = headers.parse(&args.expression)?;
    let built = packet.built().map_err(Failure::bad_input)?;
    let bytes = built.build().map_err(Failure::bad_input)?;
    let mut output = Output::new(args.form.or(output::Shape::Hex), args.write.as_deref())?;
    output.packet(now(), &bytes, &built)?;
    output.finish()
}

fn dissect(args: &DissectArgs) -> Outcome {
    let headers = args.headers.load()?;
    let filter = filter(args.filter.as_deref(), &headers)?;
    let mut output = Output::new(args.form.or(output::Shape::Show), args.write.as_deref())?;
    let mut left = args.count.unwrap_or(usize::MAX);
    for input in &args.inputs {
        for frame in headers.frames(input)? {
            if left == 0 {
                return output.finish();
            }
            let mut packet = headers.dissect(&frame.bytes);
            if filter
                .as_ref()
                .is_some_and(|filter| !filter.matches(&packet))
            {
                continue;
            }
            left -= 1;
            let mut bytes = frame.bytes;
            if args.recompute {
                packet.clear_computed();
                bytes = packet.build().map_err(Failure::failed)?;
                packet = headers.dissect(&bytes);
            }
            output.packet(frame.at, &bytes, &packet)?;
        }
    }
    output.finish()
}

fn diff(args: &DiffArgs) -> Outcome {
    let headers = args.headers.load()?;
    let mut mask = Mask::ignoring(args.ignore.iter().map(String::as_str));
    for entry in &args.ignore {
        headers.check_field(entry)?;
    }
    if let Some(text) = &args.mask {
        let bits = scapy::unhex(text);
        mask.bits = bits.map_err(|error| Failure::bad_input(format_args!("--mask: {error}")))?;
    }
    let expected = headers.frames(&args.expected)?;
    let received = headers.frames(&args.received)?;
    let mut lines = Vec::new();
    let mut found = Vec::new();
    let several = expected.len() > 1 || received.len() > 1;
    for (number, (left, right)) in expected.iter().zip(&received).enumerate() {
        let differences = if args.headers.is_program() {
            let dissected = [left, right].map(|frame| headers.dissect(&frame.bytes));
            scapy::diff(&dissected[0], &dissected[1], &mask)
        } else if headers.begins_with_ethernet(&args.expected) {
            diff_frames(&left.bytes, &right.bytes, &mask)
        } else {
            let packets = [&args.expected, &args.received].map(|text| headers.built(text));
            let [left, right] = packets;
            scapy::diff(&left?, &right?, &mask)
        };
        for difference in differences {
            let prefix = match several {
                true => format!("packet {}: ", number + 1),
                false => String::new(),
            };
            lines.push(format!("{prefix}{difference}\n"));
            found.push(output::difference(number + 1, &difference));
        }
    }
    if expected.len() != received.len() {
        let (expected, received) = (expected.len(), received.len());
        lines.push(format!(
            "expected {expected} packets, received {received}\n"
        ));
    }
    let is_equal = lines.is_empty();
    if args.json {
        let result = serde_json::json!({
            "equal": is_equal,
            "expected_packets": expected.len(),
            "received_packets": received.len(),
            "differences": found,
        });
        print(format_args!("{result}\n"))?;
    } else {
        print(lines.concat())?;
    }
    match is_equal {
        true => Ok(()),
        false => Err(Failure::AlreadyReported(1)),
    }
}

fn random(args: &RandomArgs) -> Outcome {
    let mut output = Output::new(args.form.or(output::Shape::Hex), args.write.as_deref())?;
    for (number, packet) in Packets::new(args.seed).take(args.count).enumerate() {
        let built = packet.built().map_err(Failure::failed)?;
        let bytes = built.build().map_err(Failure::failed)?;
        // A microsecond between packets: the file depends on the seed only.
        output.packet(number as u64 * 1000, &bytes, &built)?;
    }
    output.finish()
}

fn layers(args: &LayersArgs) -> Outcome {
    let headers = args.headers.load()?;
    let all = || {
        let own = headers.protocols().iter().map(|protocol| &**protocol);
        own.chain(protocols::ALL)
    };
    let Some(name) = &args.layer else {
        let names = all().map(|protocol| {
            let aliases = protocol.aliases.iter().map(|alias| format!(", {alias}"));
            format!("{}{}\n", protocol.name, aliases.collect::<String>())
        });
        return print(names.collect::<String>());
    };
    let protocol = headers.protocol(name)?;
    let mut text = String::new();
    let default = scapy::Layer::new(protocol.clone());
    for field in protocol.fields.iter() {
        let width = match field.width {
            0 => "variable".to_owned(),
            1 => "1 bit".to_owned(),
            bits => format!("{bits} bits"),
        };
        let value = match field.is_computed {
            true => "computed".to_owned(),
            false => field
                .text(default.header())
                .unwrap_or_else(|| "-".to_owned()),
        };
        text += &format!("{:<20} {width:<10} {value}\n", field.name);
    }
    print(text)
}

fn filter(text: Option<&str>, headers: &Input) -> Result<Option<Filter>, Failure> {
    let parsed = text.map(|text| Filter::parse_with(text, headers.protocols()));
    parsed
        .transpose()
        .map_err(|error| Failure::bad_input(format_args!("--filter: {error}")))
}

/// Nanoseconds since the Unix epoch.
fn now() -> u64 {
    alfirk_packet_io::wall_clock()
}
