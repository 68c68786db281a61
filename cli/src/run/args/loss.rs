//! Parses `--loss`: `0.001` is a loss probability for every link, `s1-h3:0.2@1ms-5ms` one for a link during a time.

use alfirk_ctrl::topology::{LinkIndex, Topology};
use alfirk_experiment::LossInterval;

use super::quantity::span;
use crate::exit::Failure;
use crate::run::config::Driver;

/// Value in place of a link that selects all links of core switches.
const CORE: &str = "core";

/// Losses that `--loss` requests, parsed and checked.
#[derive(Debug, Default)]
pub struct Losses {
    /// Loss probability of every link, for the whole run.
    pub everywhere: f64,
    /// Loss probability of links of core switches; `None` if it is that of `everywhere`.
    pub core: Option<f64>,
    /// Losses of single links, each during a limited time.
    pub outages: Vec<LossInterval>,
    /// Values of `--loss` for core links and single links, as given on the command line, for the report.
    pub names: Vec<String>,
}

impl Losses {
    /// Parses the values of `--loss`.
    pub fn parse(texts: &[String], topology: &Topology, driver: Driver) -> Result<Losses, Failure> {
        let mut losses = Losses::default();
        let mut has_all = false;
        for text in texts {
            let refuse = |why: &str| Failure::bad_input(format_args!("--loss {text}: {why}"));
            let Some((link, rest)) = text.split_once(':') else {
                losses.everywhere = text
                    .parse()
                    .ok()
                    .filter(|p| (0.0..1.0).contains(p))
                    .ok_or_else(|| {
                        refuse(
                            "a probability from 0 up to, but not including, 1 is expected, or a link with its own, \
                             as s1-h3:0.2@1ms-5ms",
                        )
                    })?;
                if std::mem::replace(&mut has_all, true) {
                    return Err(refuse("a probability for every link is already given"));
                }
                continue;
            };
            if link == CORE {
                if driver == Driver::Mininet {
                    return Err(refuse(
                        "Mininet loses by chance on every link alike; write P alone",
                    ));
                }
                let loss = rest.parse().ok().filter(|p| (0.0..1.0).contains(p));
                losses.core = loss;
                if loss.is_none() {
                    return Err(refuse(
                        "a probability from 0 up to, but not including, 1 is expected after the colon",
                    ));
                }
                losses.names.push(text.clone());
                continue;
            }
            let ends = link.split_once('-');
            let link = ends.and_then(|(a, b)| find_link(topology, a, b));
            let link = link.ok_or_else(|| refuse("the topology has no such link"))?;
            let (loss, time) = rest.split_once('@').unwrap_or((rest, "0s"));
            let loss: f64 = loss
                .parse()
                .ok()
                .filter(|p| (0.0..=1.0).contains(p))
                .ok_or_else(|| refuse("a probability from 0 to 1 is expected after the colon"))?;
            if driver == Driver::Mininet && loss < 1.0 {
                return Err(refuse(
                    "on Mininet a timed loss has probability 1: write :1",
                ));
            }
            let (from, until) = span("--loss", time, refuse)?;
            losses.outages.push(LossInterval {
                link,
                loss,
                from,
                until,
            });
            losses.names.push(text.clone());
        }
        Ok(losses)
    }
}

/// Finds the first link between two nodes, by their names; `None` without one.
pub fn find_link(topology: &Topology, a: &str, b: &str) -> Option<LinkIndex> {
    let ends = topology.node_named(a).zip(topology.node_named(b));
    ends.and_then(|(a, b)| topology.links_between(a, b).next())
}

#[cfg(test)]
mod tests {
    use alfirk_ctrl::topology::testbed;

    use super::*;

    fn parse(text: &str) -> Result<Losses, Failure> {
        Losses::parse(&[text.to_string()], &testbed(), Driver::Virtual)
    }

    #[test]
    fn link_and_time_are_parsed() {
        let losses = parse("s1-h3:0.2@1ms-5ms").unwrap();
        let outage = &losses.outages[0];
        assert_eq!(outage.loss, 0.2);
        assert_eq!((outage.from, outage.until), (1_000_000, Some(5_000_000)));
        let losses = parse("core:0.5").unwrap();
        assert_eq!((losses.everywhere, losses.core), (0.0, Some(0.5)));
        let losses = parse("h3-s1:1").unwrap();
        assert_eq!((losses.outages[0].from, losses.outages[0].until), (0, None));
        assert_eq!(parse("0.25").unwrap().everywhere, 0.25);
    }

    #[test]
    fn malformed_losses_are_rejected() {
        for text in [
            "1",
            "-0.1",
            "much",
            "h1-h2:0.1",
            "s1-h3:2",
            "s1-h3:0.1@5ms-1ms",
            "s1:0.1",
            "core:1",
            "core:0.1@1ms",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let both = ["0.1".to_string(), "0.2".to_string()];
        assert!(Losses::parse(&both, &testbed(), Driver::Virtual).is_err());
        let some = ["s1-h3:0.1".to_string()];
        assert!(Losses::parse(&some, &testbed(), Driver::Mininet).is_err());
    }
}
