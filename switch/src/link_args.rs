//! The options of emulated links: each for all ports, or as `--port-...` for one.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use alfirk_packet_io::link::{LinkError, LinkOptions, Rate};
use alfirk_packet_io::loss_filter::LossFilter;
use clap::Args;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Links")]
pub struct LinkArgs {
    /// Lose frames on every port with this probability, in each direction.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_probability)]
    loss: f64,

    /// Delay frames that leave any port, such as 500us.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = alfirk_units::time)]
    delay: Duration,

    /// Add up to this to the delay, at random; frames keep their order.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = alfirk_units::time)]
    jitter: Duration,

    /// Send frames twice with this probability.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_probability)]
    duplicate: f64,

    /// Let frames overtake with this probability: they leave without the delay.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_probability)]
    reorder: f64,

    /// Let frames leave no faster, such as 100Mbps or 2kpps; what comes faster is queued.
    #[arg(long, value_name = "RATE", value_parser = Rate::from_str)]
    rate: Option<Rate>,

    /// Count in rates of bits what Ethernet adds to each frame: padding, FCS, preamble and gap, as topology files do.
    #[arg(long)]
    rate_on_wire: bool,

    /// Packets that wait in each queue of a port with a rate, or behind a queueing discipline of its interface.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub queue_depth: usize,

    /// Lose frames on one port. Repeatable, as are all of these.
    #[arg(long, value_name = "PORT=P", value_parser = |s: &str| of_port(s, parse_probability))]
    port_loss: Vec<(u32, f64)>,

    /// Delay frames that leave one port, such as 2=1ms.
    #[arg(long, value_name = "PORT=TIME", value_parser = |s: &str| of_port(s, alfirk_units::time))]
    port_delay: Vec<(u32, Duration)>,

    /// --jitter for one port.
    #[arg(long, value_name = "PORT=TIME", value_parser = |s: &str| of_port(s, alfirk_units::time))]
    port_jitter: Vec<(u32, Duration)>,

    /// --duplicate for one port.
    #[arg(long, value_name = "PORT=P", value_parser = |s: &str| of_port(s, parse_probability))]
    port_duplicate: Vec<(u32, f64)>,

    /// --reorder for one port.
    #[arg(long, value_name = "PORT=P", value_parser = |s: &str| of_port(s, parse_probability))]
    port_reorder: Vec<(u32, f64)>,

    /// --rate for one port, such as 2=100Mbps.
    #[arg(long, value_name = "PORT=RATE", value_parser = |s: &str| of_port(s, Rate::from_str))]
    port_rate: Vec<(u32, Rate)>,

    /// How much waits for the link of one port with a rate, such as 2=1MiB, in place of --queue-depth packets.
    #[arg(long, value_name = "PORT=SIZE", value_parser = |s: &str| of_port(s, |size| alfirk_units::SIZE.parse(size)))]
    pub port_queue: Vec<(u32, u64)>,

    /// Lose chosen frames of one port: `2=in,1-3,42=11` are the first three that come in on port 2 with a byte 0x11 at offset 42 of
    /// the frame; `54=60/e0` looks at some bits of a byte only.
    #[arg(long, value_name = "PORT=in|out,N[-M][,OFFSET=HEX[/MASK]]...",
        value_parser = |s: &str| of_port(s, LossFilter::from_str))]
    pub port_drop: Vec<(u32, LossFilter)>,
}

impl LinkArgs {
    /// The link of ports without options of their own, and those of all others.
    ///
    /// # Errors
    /// Options that make no sense together.
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
                    "--reorder: without a --delay there is nothing to overtake".to_owned()
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
        .map_err(|_| format!("{port:?} is no port number"))?;
    let value = parse(value).map_err(|error| error.to_string())?;
    Ok((port, value))
}
