//! ECN marking of packets by switches (RFC 3168), with the parameters of DCQCN: Kmin, Kmax and Pmax.

use std::fmt;
use std::str::FromStr;

use alfirk_roce::rc::PathMtu;
use alfirk_roce::wire::FRAME_OVERHEAD;
use alfirk_units::SIZE;

use crate::tables::Marking;
use crate::topology::Topology;

/// One profile, for all ports.
///
/// No packet is marked while no more than `k_min` packets wait in its queue, every one from `k_max` on; in between the
/// chance rises evenly to `p_max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnProfile {
    k_min: u32,
    k_max: u32,
    p_max: f64,
}

/// What the pipeline has bits for.
const MOST_PACKETS: u32 = (1 << 19) - 1;

/// Numbers that make no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given}: write KMIN,KMAX,PMAX: packets or bytes, not more of the first than of the second (at most {MOST_PACKETS} packets), and a probability above 0 and up to 1, as in 16,64,0.1 or 20KiB,200KiB,0.01; or one of them, from which on every packet is marked")]
pub struct BadProfile {
    given: String,
}

impl Default for EcnProfile {
    /// 16 and 64 packets, 0.1: of packets of 4 KiB a sixteenth and a quarter of a queue of 1 MiB.
    fn default() -> EcnProfile {
        EcnProfile {
            k_min: 16,
            k_max: 64,
            p_max: 0.1,
        }
    }
}

impl EcnProfile {
    /// `k_min` and `k_max` in packets, `p_max` a probability.
    pub fn new(k_min: u32, k_max: u32, p_max: f64) -> Result<EcnProfile, BadProfile> {
        let profile = EcnProfile {
            k_min,
            k_max,
            p_max,
        };
        let is_good = k_min <= k_max && k_max <= MOST_PACKETS && p_max > 0.0 && p_max <= 1.0;
        match is_good {
            true => Ok(profile),
            false => Err(BadProfile {
                given: profile.to_string(),
            }),
        }
    }

    /// The default profile where full packets carry `mtu` bytes, or the same shares of the shortest queue if that is shorter than 1 MiB: a
    /// profile that begins behind the end of a queue never marks.
    pub fn of_queues(topology: &Topology, mtu: PathMtu) -> EcnProfile {
        let usual = EcnProfile::default();
        let queues = topology.links().iter();
        let shortest = queues.map(|link| link.attributes.queue_bytes).min();
        let packets = shortest.map_or(u64::MAX, |bytes| bytes / mtu.bytes() as u64);
        let share = |of: u64, most: u32| {
            let packets = u32::try_from(packets / of).unwrap_or(u32::MAX);
            packets.clamp(1, most)
        };
        EcnProfile {
            k_min: share(16, usual.k_min),
            k_max: share(4, usual.k_max),
            ..usual
        }
    }

    /// As the pipeline takes it.
    pub fn marking(&self) -> Marking {
        let span = (self.k_max - self.k_min).max(1);
        let rise = (self.p_max * f64::from(1 << 16) / f64::from(span)).round();
        Marking {
            min: self.k_min,
            max: self.k_max,
            // A profile that is flatter than the pipeline can count marks a little too much, rather than nothing.
            rise: (rise as u32).max(1),
        }
    }
}

impl fmt::Display for EcnProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.k_min, self.k_max, self.p_max)
    }
}

/// A profile as people write it: lengths of queues in packets or in bytes.
///
/// Switches count packets. Bytes are those of full frames of one path MTU, from the Ethernet header to the ICRC, as of the `queue` of a
/// link.
#[derive(Clone, Debug, PartialEq)]
pub struct EcnThresholds {
    k_min: QueueLength,
    k_max: QueueLength,
    p_max: f64,
    given: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueLength {
    Packets(u32),
    Bytes(u64),
}

impl EcnThresholds {
    /// The profile where full packets carry `mtu` bytes. Bytes are rounded to the nearest number of packets, and to 1 at the least.
    ///
    /// # Errors
    /// [`BadProfile`], if KMIN is then above KMAX, or KMAX above what the pipeline can count.
    pub fn profile(&self, mtu: PathMtu) -> Result<EcnProfile, BadProfile> {
        let frame = (mtu.bytes() + FRAME_OVERHEAD) as u64;
        let packets = |length| match length {
            QueueLength::Packets(packets) => packets,
            QueueLength::Bytes(bytes) => {
                let packets = bytes.saturating_add(frame / 2) / frame;
                u32::try_from(packets.max(1)).unwrap_or(u32::MAX)
            }
        };
        EcnProfile::new(packets(self.k_min), packets(self.k_max), self.p_max).map_err(|_| {
            BadProfile {
                given: self.given.clone(),
            }
        })
    }
}

impl EcnThresholds {
    /// The profile where packets are as large as every link of a network lets them be.
    ///
    /// # Errors
    /// Those of [`EcnThresholds::profile`].
    pub fn profile_on(&self, topology: &Topology) -> Result<EcnProfile, BadProfile> {
        let smallest = topology.links().iter().map(|link| link.attributes.mtu);
        // Links that carry no packet at all are refused elsewhere.
        let mtu = smallest.min().and_then(|mtu| PathMtu::for_ip_mtu(mtu).ok());
        self.profile(mtu.unwrap_or(PathMtu::B256))
    }
}

impl FromStr for EcnThresholds {
    type Err = BadProfile;

    /// `KMIN,KMAX,PMAX`, or `K` alone, from which on every packet is marked.
    fn from_str(text: &str) -> Result<EcnThresholds, BadProfile> {
        let bad = || BadProfile {
            given: text.to_owned(),
        };
        let length = |text: &str| match text.parse() {
            Ok(packets) => Ok(QueueLength::Packets(packets)),
            Err(_) => SIZE.parse(text).map(QueueLength::Bytes).map_err(|_| bad()),
        };
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let (k_min, k_max, p_max) = match parts[..] {
            [k] => (length(k)?, length(k)?, 1.0),
            [k_min, k_max, p_max] => {
                let p_max = p_max.parse().map_err(|_| bad())?;
                (length(k_min)?, length(k_max)?, p_max)
            }
            _ => return Err(bad()),
        };
        let thresholds = EcnThresholds {
            k_min,
            k_max,
            p_max,
            given: text.to_owned(),
        };
        // What no packet size makes a profile is refused at once.
        thresholds.profile(PathMtu::B4096)?;
        Ok(thresholds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str, mtu: PathMtu) -> String {
        let thresholds: EcnThresholds = text.parse().unwrap();
        thresholds.profile(mtu).unwrap().to_string()
    }

    #[test]
    fn short_queues_are_marked_before_they_overflow() {
        let of = |queue: &str| {
            let yaml = format!(
                "name: two\ndefaults: {{queue: {queue}}}\nswitches: [{{name: s1, id: 1}}]\nhosts:\n\
                 - {{name: h1, ip: 10.0.0.1/8, mac: \"02:00:00:00:00:01\"}}\n\
                 - {{name: h2, ip: 10.0.0.2/8, mac: \"02:00:00:00:00:02\"}}\n\
                 links:\n- {{ends: [h1, \"s1:1\"]}}\n- {{ends: [h2, \"s1:2\"]}}\n"
            );
            let topology = Topology::from_yaml("two.yaml", &yaml).unwrap();
            EcnProfile::of_queues(&topology, PathMtu::B4096).to_string()
        };
        assert_eq!(of("1MiB"), EcnProfile::default().to_string());
        assert_eq!(of("4MiB"), EcnProfile::default().to_string());
        assert_eq!(of("128KiB"), "2,8,0.1");
        assert_eq!(of("8KiB"), "1,1,0.1");
    }

    #[test]
    fn profiles_are_read_and_written() {
        assert_eq!(profile("5, 200,0.01", PathMtu::B4096), "5,200,0.01");
        assert_eq!(profile("8,8,1", PathMtu::B1024), "8,8,1");
        assert_eq!(
            EcnProfile::new(5, 200, 0.01).unwrap().marking(),
            Marking {
                min: 5,
                max: 200,
                rise: 3
            }
        );
        for bad in [
            "",
            "1,2",
            "9,8,0.5",
            "1,2,0",
            "1,2,1.1",
            "1,2,NaN",
            "1,600000,1",
            "a,2,1",
            "40KiB,20KiB,1",
            "20Gbps",
            "4GiB",
        ] {
            let error = bad.parse::<EcnThresholds>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{bad}: write KMIN,KMAX,PMAX")),
                "{error}"
            );
        }
    }

    #[test]
    fn bytes_are_full_frames_of_the_path_mtu() {
        // Of 4,154 and of 1,082 bytes.
        assert_eq!(profile("20KiB,200KiB,0.01", PathMtu::B4096), "5,49,0.01");
        assert_eq!(profile("20KiB,200KiB,0.01", PathMtu::B1024), "19,189,0.01");
        assert_eq!(profile("1B, 9kB,1", PathMtu::B4096), "1,2,1");
        assert_eq!(profile("2,200KiB,0.5", PathMtu::B4096), "2,49,0.5");
    }

    #[test]
    fn one_length_marks_everything_from_there_on() {
        assert_eq!(profile("20KiB", PathMtu::B4096), "5,5,1");
        assert_eq!(profile("65", PathMtu::B4096), "65,65,1");
    }

    #[test]
    fn packets_and_bytes_may_cross_for_small_packets_alone() {
        let thresholds: EcnThresholds = "100KiB,50,1".parse().unwrap();
        assert!(thresholds.profile(PathMtu::B4096).is_ok());
        let error = thresholds.profile(PathMtu::B1024).unwrap_err().to_string();
        assert!(error.starts_with("100KiB,50,1: write"), "{error}");
    }
}
