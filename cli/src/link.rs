//! `alfirk link`: shows and changes the links that a running switch emulates.

use std::time::Duration;

use alfirk_ctrl::client::control::control_client::ControlClient;
use alfirk_ctrl::client::control::SetLinkRequest;
use alfirk_ctrl::client::root_cause;
use alfirk_p4runtime::alfirk::links::v1::{
    link, links_client::LinksClient, ChangeRequest, ListRequest, Port,
};
use alfirk_packet_io::link::Rate;
use alfirk_switch::LinkChangeArgs;
use anyhow::Context;
use clap::Subcommand;
use serde_json::json;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::connection::SwitchArgs;
use crate::exit::{print, Failure, Outcome};

/// Time limit for a reply of the switch or the controller.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Show and change the links that a running switch emulates: rate, delay, jitter, loss and more.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk link show
  alfirk link set 2 --delay 5ms --loss 0.01
  alfirk link --switch 127.0.0.1:50052 set 1 3 --rate 10Mbps
  alfirk link set 2 --down")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,

    #[command(flatten)]
    switch: SwitchArgs,

    /// Print the result as one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the links of ports and their frame counters
    Show {
        /// Ports [default: all]
        #[arg(value_name = "PORT")]
        ports: Vec<u32>,
    },
    /// Change the links of ports, all or none of them; parameters that are not given stay
    Set {
        /// Ports to change
        #[arg(value_name = "PORT", required = true)]
        ports: Vec<u32>,
        #[command(flatten)]
        change: LinkChangeArgs,
    },
    /// Report to a controller that the links between two nodes are down or up, so that routes and trees follow
    Tell {
        /// Address of the controller's control service
        #[arg(long, value_name = "ADDR:PORT")]
        controller: String,
        /// The node at one end
        a: String,
        /// The node at the other end
        b: String,
        /// State of the links
        state: State,
    },
}

/// Whether the links carry traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum State {
    Up,
    Down,
}

/// Runs `alfirk link`.
pub fn run(args: &Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    if let Verb::Tell {
        controller,
        a,
        b,
        state,
    } = &args.verb
    {
        return runtime.block_on(report_state(controller, a, b, *state));
    }
    let endpoint = args.switch.endpoint()?.timeout(REPLY_TIMEOUT);
    let ports = runtime.block_on(fetch_ports(args, &endpoint))?;
    if args.json {
        let ports: Vec<_> = ports.iter().map(as_json).collect();
        return print(format_args!("{}\n", json!({ "ports": ports })));
    }
    print(as_text(&ports))
}

/// Reports the state of the links between two nodes to the controller.
async fn report_state(controller: &str, a: &str, b: &str, state: State) -> Outcome {
    let endpoint = Endpoint::from_shared(format!("http://{controller}"))
        .map_err(|error| Failure::bad_input(format_args!("--controller {controller}: {error}")))?;
    let channel = endpoint.timeout(REPLY_TIMEOUT).connect().await;
    let channel = channel.map_err(|error| {
        let why = root_cause(&error);
        Failure::failed(format_args!(
            "no reply from a controller at {controller}: {why}"
        ))
    })?;
    let request = SetLinkRequest {
        a: a.to_owned(),
        b: b.to_owned(),
        up: state == State::Up,
    };
    let reply = ControlClient::new(channel).set_link(request).await;
    reply.map(drop).map_err(|status| match status.code() {
        Code::NotFound | Code::InvalidArgument => Failure::bad_input(status.message()),
        _ => Failure::failed(format_args!("{controller}: {}", root_cause(&status))),
    })
}

/// Shows or changes links, and returns the ports with their current links.
async fn fetch_ports(args: &Args, endpoint: &Endpoint) -> Result<Vec<Port>, Failure> {
    let channel = args.switch.connect(endpoint).await?;
    let mut client = LinksClient::new(channel);
    let answer = match &args.verb {
        Verb::Show { ports } => {
            let request = ListRequest {
                ports: ports.clone(),
            };
            let answer = client.list(request).await;
            answer.map(|answer| answer.into_inner().ports)
        }
        Verb::Set { ports, change } => {
            let request = ChangeRequest {
                changes: ports.iter().map(|port| change.of_port(*port)).collect(),
            };
            let answer = client.change(request).await;
            answer.map(|answer| answer.into_inner().ports)
        }
        Verb::Tell { .. } => return Ok(Vec::new()),
    };
    answer.map_err(|status| refused(args, &status))
}

/// Converts an error that the switch returned.
fn refused(args: &Args, status: &Status) -> Failure {
    let switch = args.switch.address();
    match status.code() {
        Code::NotFound | Code::InvalidArgument => Failure::bad_input(status.message()),
        Code::Unimplemented => Failure::failed(format_args!(
            "the switch at {switch} does not emulate links; `alfirk link` needs an `alfirk switch`"
        )),
        _ => args.switch.failure(status),
    }
}

fn as_json(port: &Port) -> serde_json::Value {
    let link = port.link.unwrap_or_default();
    let counters = port.counters.unwrap_or_default();
    let (bits, packets) = match link.rate {
        Some(link::Rate::BitsPerSecond(rate)) => (Some(rate), None),
        Some(link::Rate::PacketsPerSecond(rate)) => (None, Some(rate)),
        None => (None, None),
    };
    json!({
        "port": port.number,
        "interface": port.interface,
        "interface_up": port.interface_up,
        "down": link.down,
        "bits_per_second": bits,
        "packets_per_second": packets,
        "delay_ns": link.delay_ns,
        "jitter_ns": link.jitter_ns,
        "loss": link.loss,
        "duplicate": link.duplicate,
        "reorder": link.reorder,
        "received": counters.received,
        "not_received": counters.not_received,
        "sent": counters.sent,
        "lost": counters.lost,
        "queue_full": counters.queue_full,
        "not_sent": counters.not_sent,
        "malformed": counters.malformed,
        "queued": counters.queued,
        "under_way": counters.under_way,
    })
}

/// Headings of the columns of the table.
const HEADINGS: [&str; 14] = [
    "port",
    "interface",
    "state",
    "rate",
    "delay",
    "jitter",
    "loss",
    "duplicate",
    "reorder",
    "received",
    "sent",
    "lost",
    "dropped",
    "waiting",
];

/// Formats the ports as a table with right-aligned numbers.
fn as_text(ports: &[Port]) -> String {
    let rows: Vec<[String; HEADINGS.len()]> = std::iter::once(HEADINGS.map(str::to_owned))
        .chain(ports.iter().map(row))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max();
    let widths: Vec<usize> = (0..HEADINGS.len()).filter_map(width).collect();
    let mut text = String::new();
    for row in &rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            text += &match column {
                1 | 2 => format!("{gap}{cell:<width$}"),
                _ => format!("{gap}{cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

fn row(port: &Port) -> [String; HEADINGS.len()] {
    let link = port.link.unwrap_or_default();
    let counters = port.counters.unwrap_or_default();
    let rate = link.rate.map_or("-".to_owned(), |rate| {
        let rate = match rate {
            link::Rate::BitsPerSecond(rate) => Rate::Bits(rate),
            link::Rate::PacketsPerSecond(rate) => Rate::Packets(rate),
        };
        rate.to_string()
    });
    let state = match (port.interface_up, link.down) {
        (_, true) => "cut",
        (false, false) => "down",
        (true, false) => "up",
    };
    let dropped = [
        counters.not_received,
        counters.queue_full,
        counters.not_sent,
        counters.malformed,
    ];
    let dropped: u64 = dropped.iter().sum();
    [
        port.number.to_string(),
        port.interface.clone(),
        state.to_owned(),
        rate,
        time(link.delay_ns),
        time(link.jitter_ns),
        chance(link.loss),
        chance(link.duplicate),
        chance(link.reorder),
        counters.received.to_string(),
        counters.sent.to_string(),
        counters.lost.to_string(),
        dropped.to_string(),
        (counters.queued + counters.under_way).to_string(),
    ]
}

fn chance(probability: f64) -> String {
    match probability {
        0.0 => "-".to_owned(),
        some => some.to_string(),
    }
}

fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "-".to_owned(),
        some => format!("{:?}", Duration::from_nanos(some)).replace('µ', "u"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::alfirk::links::v1::{Counters, Link};

    #[test]
    fn links_are_a_table() {
        let port = |number: u32, link: Link| Port {
            number,
            interface: format!("s1-eth{number}"),
            interface_up: number == 1,
            link: Some(link),
            counters: Some(Counters {
                received: 12,
                lost: 3,
                ..Counters::default()
            }),
        };
        let slow = Link {
            rate: Some(link::Rate::BitsPerSecond(10_000_000)),
            delay_ns: 1_500_000,
            jitter_ns: 20_000,
            loss: 0.01,
            ..Link::default()
        };
        let text = as_text(&[port(1, slow), port(12, Link::default())]);
        insta::assert_snapshot!(text, @r"
        port  interface  state    rate  delay  jitter  loss  duplicate  reorder  received  sent  lost  dropped  waiting
           1  s1-eth1    up     10Mbps  1.5ms    20us  0.01          -        -        12     0     3        0        0
          12  s1-eth12   down        -      -       -     -          -        -        12     0     3        0        0
        ");
    }
}
