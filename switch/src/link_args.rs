//! Command line options of emulated links: each for all ports, or as `--port-...` for one port.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use alfirk_packet_io::link::{LinkError, LinkOptions, Rate};
use alfirk_packet_io::loss_filter::LossFilter;
use clap::Args;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Links")]
pub struct LinkArgs {
    /// Loss probability of frames on every port, in each direction.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_probability)]
    loss: f64,

    /// Delay of frames sent on any port, such as 500us.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = alfirk_units::time)]
    delay: Duration,

    /// Maximum random addition to the delay; frames keep their order.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = alfirk_units::time)]
    jitter: Duration,

    /// Probability that a frame is sent twice.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_probability)]
    duplicate: f64,

    /// Probability that a frame is sent without the delay, and so overtakes others.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_probability)]
    reorder: f64,

    /// Rate limit of sent frames, such as 100Mbps or 2kpps; excess frames are queued.
    #[arg(long, value_name = "RATE", value_parser = Rate::from_str)]
    rate: Option<Rate>,

    /// Count Ethernet's padding, FCS, preamble and gap in bit rates, as topology files do.
    #[arg(long)]
    rate_on_wire: bool,

    /// Packets in each queue of a port with a rate, or with a queueing discipline on its interface.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub queue_depth: usize,

    /// --loss for one port. All flags of this group are repeatable.
    #[arg(long, value_name = "PORT=P", value_parser = |s: &str| of_port(s, parse_probability), help_heading = "Links of one port")]
    port_loss: Vec<(u32, f64)>,

    /// --delay for one port, such as 2=1ms.
    #[arg(long, value_name = "PORT=TIME", value_parser = |s: &str| of_port(s, alfirk_units::time), help_heading = "Links of one port")]
    port_delay: Vec<(u32, Duration)>,

    /// --jitter for one port.
    #[arg(long, value_name = "PORT=TIME", value_parser = |s: &str| of_port(s, alfirk_units::time), help_heading = "Links of one port")]
    port_jitter: Vec<(u32, Duration)>,

    /// --duplicate for one port.
    #[arg(long, value_name = "PORT=P", value_parser = |s: &str| of_port(s, parse_probability), help_heading = "Links of one port")]
    port_duplicate: Vec<(u32, f64)>,

    /// --reorder for one port.
    #[arg(long, value_name = "PORT=P", value_parser = |s: &str| of_port(s, parse_probability), help_heading = "Links of one port")]
    port_reorder: Vec<(u32, f64)>,

    /// --rate for one port, such as 2=100Mbps.
    #[arg(long, value_name = "PORT=RATE", value_parser = |s: &str| of_port(s, Rate::from_str), help_heading = "Links of one port")]
    port_rate: Vec<(u32, Rate)>,

    /// Size of the queue of one port with a rate, such as 2=1MiB, in place of --queue-depth packets.
    #[arg(long, value_name = "PORT=SIZE", value_parser = |s: &str| of_port(s, |size| alfirk_units::SIZE.parse(size)), help_heading = "Links of one port")]
    pub port_queue: Vec<(u32, u64)>,

    /// Lose chosen frames of one port: `2=in,1-3,42=11` are the first three frames received on port 2 with the byte 0x11 at
    /// offset 42; `54=60/e0` compares the masked bits of a byte.
    #[arg(long, value_name = "PORT=in|out,N[-M][,OFFSET=HEX[/MASK]]...",
        value_parser = |s: &str| of_port(s, LossFilter::from_str), help_heading = "Links of one port")]
    pub port_drop: Vec<(u32, LossFilter)>,
}

impl LinkArgs {
    /// Returns the link options for all ports, and the link options of each port that has its own.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn links(&self) -> Result<(LinkOptions, BTreeMap<u32, LinkOptions>), String> {
        let default = LinkOptions {
            loss: self.loss,
            delay: self.delay,
            jitter: self.jitter,
            duplicate: self.duplicate,
            reorder: self.reorder,
            rate: self.rate,
            on_wire: self.rate_on_wire,
            down: false,
        };
        let mut links = BTreeMap::new();
        fn set<T: Copy>(
            links: &mut BTreeMap<u32, LinkOptions>,
            default: LinkOptions,
            given: &[(u32, T)],
            set: impl Fn(&mut LinkOptions, T),
        ) {
            for (port, value) in given {
                set(links.entry(*port).or_insert(default), *value);
            }
        }
        set(&mut links, default, &self.port_loss, |l, v| l.loss = v);
        set(&mut links, default, &self.port_delay, |l, v| l.delay = v);
        set(&mut links, default, &self.port_jitter, |l, v| l.jitter = v);
        set(&mut links, default, &self.port_duplicate, |l, v| {
            l.duplicate = v;
        });
        set(&mut links, default, &self.port_reorder, |l, v| {
            l.reorder = v;
        });
        set(&mut links, default, &self.port_rate, |l, v| {
            l.rate = Some(v);
        });
        for link in links.values().chain([&default]) {
            link.check().map_err(|fault| match fault {
                LinkError::ReorderWithoutDelay => {
                    "--reorder: has no effect without --delay; add --delay TIME".to_owned()
                }
                fault => format!("--{fault}"),
            })?;
        }
        Ok((default, links))
    }
}

pub fn parse_probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err("expected a probability from 0 to 1".into()),
    }
}

fn of_port<T, E: ToString>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<(u32, T), String> {
    let (port, value) = text
        .split_once('=')
        .ok_or("expected PORT=VALUE, such as 1=0.001")?;
    let port = port
        .parse()
        .map_err(|_| format!("{port:?} is not a port number"))?;
    let value = parse(value).map_err(|error| error.to_string())?;
    Ok((port, value))
}
