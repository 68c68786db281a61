//! `alfirk packet send` and `alfirk packet sniff`: packets on network interfaces.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use scapy::live::{self, LiveError, Receiver, Sender};

use super::input::Headers;
use super::output::{Form, Output, Shape};
use crate::exit::{print, Failure, Outcome};

/// Send packets on an interface.
///
/// Needs root, or the capability CAP_NET_RAW.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  sudo alfirk packet send -i veth0 'Ether()/IP(dst="10.0.0.2")/UDP(dport=9)/"abc"' --count 10 --interval 100ms
  sudo alfirk packet send -i veth0 capture.pcap
  sudo alfirk packet send -i veth0 'Ether()/ARP(pdst="10.0.0.2", psrc="10.0.0.1")' --reply 1s"#)]
pub struct SendArgs {
    /// Packets: a capture, hexadecimal digits or an expression; - reads standard input
    #[arg(value_name = "PACKETS")]
    packets: String,

    /// Name of the interface
    #[arg(long, short = 'i', value_name = "IFACE")]
    interface: String,

    #[command(flatten)]
    headers: Headers,

    /// Number of times that the packets are sent
    #[arg(long, short = 'c', value_name = "N", default_value_t = 1)]
    count: usize,

    /// Time between two packets
    #[arg(long, value_name = "TIME", value_parser = alfirk_units::time, default_value = "0ns")]
    interval: Duration,

    /// Wait for a reply to the packet, at most this long, and print it; exit with 1 if there is none
    #[arg(long, value_name = "TIME", value_parser = alfirk_units::time, conflicts_with_all = ["count", "interval"])]
    reply: Option<Duration>,
}

/// Show the packets of an interface.
///
/// Needs root, or the capability CAP_NET_RAW. Packets that this machine sends are shown, too. It ends after --count packets or
/// --timeout, or by Ctrl-C. Prints one line for each packet, unless another form is chosen.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  sudo alfirk packet sniff -i veth0
  sudo alfirk packet sniff -i h1-eth0 --filter 'BTH.opcode == ACKNOWLEDGE and AETH.syndrome >= 0x60' --show
  sudo alfirk packet sniff -i veth0 --count 100 --timeout 5s --write capture.pcapng"#)]
pub struct SniffArgs {
    /// Name of the interface
    #[arg(long, short = 'i', value_name = "IFACE")]
    interface: String,

    #[command(flatten)]
    headers: Headers,

    /// Select packets by a condition, such as 'IP.ttl < 5 and not UDP.dport == 53'
    #[arg(long, short = 'f', value_name = "CONDITION")]
    filter: Option<String>,

    /// Stop after this many selected packets
    #[arg(long, short = 'c', value_name = "N")]
    count: Option<usize>,

    /// Stop after this time
    #[arg(long, short = 't', value_name = "TIME", value_parser = alfirk_units::time)]
    timeout: Option<Duration>,

    #[command(flatten)]
    form: Form,

    /// Write the selected packets to a capture instead
    #[arg(long, short = 'w', value_name = "FILE", help_heading = "Output")]
    write: Option<PathBuf>,
}

/// Runs `alfirk packet send`.
pub fn send(args: &SendArgs) -> Outcome {
    let input = args.headers.load()?;
    let frames = input.frames(&args.packets)?;
    if let Some(limit) = args.reply {
        let [frame] = frames.as_slice() else {
            return Err(Failure::bad_input(format_args!(
                "--reply: expected one packet, found {}",
                frames.len()
            )));
        };
        let packet = input.dissect(&frame.bytes);
        let reply = live::srp1(&packet, &args.interface, limit).map_err(failure)?;
        return match reply {
            Some(reply) => print(reply.show()),
            None => Err(Failure::failed(format_args!(
                "no reply within {} ms",
                limit.as_millis()
            ))),
        };
    }
    let mut sender = Sender::open(&args.interface).map_err(failure)?;
    let mut is_first = true;
    for _ in 0..args.count {
        for frame in &frames {
            if !is_first && !args.interval.is_zero() {
                std::thread::sleep(args.interval);
            }
            is_first = false;
            sender.send(&frame.bytes).map_err(failure)?;
        }
    }
    Ok(())
}

/// Runs `alfirk packet sniff`.
pub fn sniff(args: &SniffArgs) -> Outcome {
    let input = args.headers.load()?;
    let filter = super::filter(args.filter.as_deref(), &input)?;
    let mut receiver = Receiver::open(&args.interface).map_err(failure)?;
    let mut output = Output::new(args.form.or(Shape::Summary), args.write.as_deref())?;
    let until = args.timeout.map(|limit| Instant::now() + limit);
    let mut left = args.count.unwrap_or(usize::MAX);
    while left > 0 {
        let Some(frame) = receiver.receive(until).map_err(failure)? else {
            break;
        };
        let packet = input.dissect(&frame);
        if filter.as_ref().is_none_or(|filter| filter.matches(&packet)) {
            left -= 1;
            output.packet(super::now(), &frame, &packet)?;
            // A reader of the pipe sees each packet when it arrives.
            output.flush()?;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
    }
    output.finish()
}

/// A name that does not exist is bad input; an interface that does not work is a failure.
fn failure(error: LiveError) -> Failure {
    match error {
        LiveError::NoInterface(_) | LiveError::Field(_) => Failure::bad_input(error),
        LiveError::Open { .. } | LiveError::Io { .. } => Failure::failed(error),
    }
}
