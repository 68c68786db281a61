//! Options of `alfirk link set`, which changes links while the switch runs.

use std::str::FromStr;

use alfirk_p4runtime::alfirk::links::v1::{link_change, LinkChange};
use alfirk_packet_io::link::Rate;
use alfirk_units::TIME;
use clap::Args;

use super::link_args::parse_probability;

/// Changes to a link; options that are not given do not change.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Changes")]
#[group(required = true, multiple = true)]
pub struct LinkChangeArgs {
    /// Loss probability of frames, in each direction.
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    loss: Option<f64>,

    /// Delay of sent frames, such as 500us.
    #[arg(long, value_name = "TIME", value_parser = |text: &str| TIME.parse(text))]
    delay: Option<u64>,

    /// Maximum random addition to the delay; frames keep their order.
    #[arg(long, value_name = "TIME", value_parser = |text: &str| TIME.parse(text))]
    jitter: Option<u64>,

    /// Probability that a frame is sent twice.
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    duplicate: Option<f64>,

    /// Probability that a frame is sent without the delay, and so overtakes others.
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    reorder: Option<f64>,

    /// Rate limit of sent frames, such as 100Mbps or 2kpps; `none` removes it.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<link_change::Rate>,

    /// Take the link down: all frames are lost, and groups that watch the port exclude it.
    #[arg(long)]
    down: bool,

    /// Bring the link up.
    #[arg(long, conflicts_with = "down")]
    up: bool,
}

impl LinkChangeArgs {
    /// Returns the change as a request for one port.
    pub fn of_port(&self, port: u32) -> LinkChange {
        LinkChange {
            port,
            loss: self.loss,
            duplicate: self.duplicate,
            reorder: self.reorder,
            delay_ns: self.delay,
            jitter_ns: self.jitter,
            rate: self.rate,
            down: (self.down || self.up).then_some(self.down),
        }
    }
}

fn parse_rate(text: &str) -> Result<link_change::Rate, String> {
    if text == "none" {
        return Ok(link_change::Rate::Unlimited(true));
    }
    Ok(
        match Rate::from_str(text).map_err(|error| error.to_string())? {
            Rate::Bits(rate) => link_change::Rate::BitsPerSecond(rate),
            Rate::Packets(rate) => link_change::Rate::PacketsPerSecond(rate),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        change: LinkChangeArgs,
    }

    fn parse(line: &str) -> Result<LinkChange, String> {
        let words = std::iter::once("set").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(cli.change.of_port(3))
    }

    #[test]
    fn omitted_options_do_not_change() {
        let change = parse("--delay 1.5ms --rate 2kpps").unwrap();
        let wanted = LinkChange {
            port: 3,
            delay_ns: Some(1_500_000),
            rate: Some(link_change::Rate::PacketsPerSecond(2000)),
            ..LinkChange::default()
        };
        assert_eq!(change, wanted);
        assert_eq!(parse("--up").unwrap().down, Some(false));
        assert_eq!(parse("--down").unwrap().down, Some(true));
        let none = parse("--rate none").unwrap().rate;
        assert_eq!(none, Some(link_change::Rate::Unlimited(true)));
    }

    #[test]
    fn errors_name_the_option() {
        let why = |line: &str| parse(line).unwrap_err();
        assert!(why("").contains("--delay"), "something is to change");
        assert!(why("--up --down").contains("cannot be used with"));
        assert!(why("--loss 2").contains("from 0 to 1"));
        assert!(why("--rate 5").contains("unit"));
        assert!(why("--delay 1000000000000s").contains("below 2^64"));
    }
}
