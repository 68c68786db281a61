//! ECN marking of packets by switches (RFC 3168), with the parameters of DCQCN: Kmin, Kmax and Pmax.

use std::fmt;
use std::str::FromStr;

use alfirk_roce::rc::PathMtu;
use alfirk_roce::wire::FRAME_OVERHEAD;
use alfirk_units::SIZE;

use crate::tables::Marking;
use crate::topology::Topology;

/// ECN marking profile of all ports: marking probability by queue length.
///
/// The probability is 0 up to a queue length of `k_min` packets, and 1 from `k_max` packets on. In between it rises linearly
/// from 0 to `p_max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnProfile {
    k_min: u32,
    k_max: u32,
    p_max: f64,
}

/// Maximum of Kmin and Kmax in packets: the parameters of the pipeline's action have 19 bits.
const MAX_PACKETS: u32 = (1 << 19) - 1;

/// Error: the text or numbers are not a valid ECN profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given}: write KMIN,KMAX,PMAX: two queue lengths in packets or bytes, KMIN not above KMAX (at most {MAX_PACKETS} packets), and a probability above 0 and up to 1, such as 16,64,0.1 or 20KiB,200KiB,0.01; or a single length, from which on every packet is marked")]
pub struct InvalidEcnProfile {
    given: String,
}

impl Default for EcnProfile {
    /// Kmin 16 packets, Kmax 64 packets, Pmax 0.1. With packets of 4 KiB these are 1/16 and 1/4 of a queue of 1 MiB.
    fn default() -> EcnProfile {
        EcnProfile {
            k_min: 16,
            k_max: 64,
            p_max: 0.1,
        }
    }
}

impl EcnProfile {
    /// Creates a profile; `k_min` and `k_max` in packets, `p_max` a probability above 0 and up to 1.
    pub fn new(k_min: u32, k_max: u32, p_max: f64) -> Result<EcnProfile, InvalidEcnProfile> {
        let profile = EcnProfile {
            k_min,
            k_max,
            p_max,
        };
        let is_good = k_min <= k_max && k_max <= MAX_PACKETS && p_max > 0.0 && p_max <= 1.0;
        match is_good {
            true => Ok(profile),
            false => Err(InvalidEcnProfile {
                given: profile.to_string(),
            }),
        }
    }

    /// The default profile, scaled down for short queues: Kmin and Kmax are at most 1/16 and 1/4 of the shortest queue of the
    /// network, in packets of `mtu` bytes. A threshold beyond the end of a queue would never mark.
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

    /// Converts the profile to the parameters of the pipeline's table.
    pub fn marking(&self) -> Marking {
        let span = (self.k_max - self.k_min).max(1);
        let rise = (self.p_max * f64::from(1 << 16) / f64::from(span)).round();
        Marking {
            min: self.k_min,
            max: self.k_max,
            // The slope has a resolution of 2^-16. A smaller slope is rounded up, so that some packets are marked.
            rise: (rise as u32).max(1),
        }
    }
}

impl fmt::Display for EcnProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.k_min, self.k_max, self.p_max)
    }
}

/// ECN thresholds of the command line (`--ecn`), as queue lengths in packets or bytes.
///
/// Switches count packets, so bytes are converted: one packet is a full frame of the path MTU, from the Ethernet header to
/// the ICRC, as in the `queue` of a link.
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
    /// Converts the thresholds to packets for this path MTU. Bytes are rounded to the nearest number of packets, at least 1.
    ///
    /// # Errors
    /// [`InvalidEcnProfile`] if, in packets, KMIN is above KMAX, or KMAX is above 2^19 - 1.
    pub fn profile(&self, mtu: PathMtu) -> Result<EcnProfile, InvalidEcnProfile> {
        let frame = (mtu.bytes() + FRAME_OVERHEAD) as u64;
        let packets = |length| match length {
            QueueLength::Packets(packets) => packets,
            QueueLength::Bytes(bytes) => {
                let packets = bytes.saturating_add(frame / 2) / frame;
                u32::try_from(packets.max(1)).unwrap_or(u32::MAX)
            }
        };
        EcnProfile::new(packets(self.k_min), packets(self.k_max), self.p_max).map_err(|_| {
            InvalidEcnProfile {
                given: self.given.clone(),
            }
        })
    }
}

impl EcnThresholds {
    /// Converts the thresholds to packets for the largest path MTU that all links of a network carry.
    ///
    /// # Errors
    /// Those of [`EcnThresholds::profile`].
    pub fn profile_on(&self, topology: &Topology) -> Result<EcnProfile, InvalidEcnProfile> {
        let smallest = topology.links().iter().map(|link| link.attributes.mtu);
        // An MTU below the smallest path MTU is rejected when a job is checked.
        let mtu = smallest.min().and_then(|mtu| PathMtu::for_ip_mtu(mtu).ok());
        self.profile(mtu.unwrap_or(PathMtu::B256))
    }
}

impl FromStr for EcnThresholds {
    type Err = InvalidEcnProfile;

    /// Parses `KMIN,KMAX,PMAX`, or a single length from which on every packet is marked.
    fn from_str(text: &str) -> Result<EcnThresholds, InvalidEcnProfile> {
        let bad = || InvalidEcnProfile {
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
        // Reject thresholds that are invalid for every path MTU.
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
    fn thresholds_are_scaled_down_for_short_queues() {
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
    fn profiles_are_parsed_and_displayed() {
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
        // The frames have 4,154 and 1,082 bytes.
        assert_eq!(profile("20KiB,200KiB,0.01", PathMtu::B4096), "5,49,0.01");
        assert_eq!(profile("20KiB,200KiB,0.01", PathMtu::B1024), "19,189,0.01");
        assert_eq!(profile("1B, 9kB,1", PathMtu::B4096), "1,2,1");
        assert_eq!(profile("2,200KiB,0.5", PathMtu::B4096), "2,49,0.5");
    }

    #[test]
    fn a_single_length_marks_every_packet_from_there_on() {
        assert_eq!(profile("20KiB", PathMtu::B4096), "5,5,1");
        assert_eq!(profile("65", PathMtu::B4096), "65,65,1");
    }

    #[test]
    fn thresholds_in_mixed_units_are_checked_for_each_mtu() {
        let thresholds: EcnThresholds = "100KiB,50,1".parse().unwrap();
        assert!(thresholds.profile(PathMtu::B4096).is_ok());
        let error = thresholds.profile(PathMtu::B1024).unwrap_err().to_string();
        assert!(error.starts_with("100KiB,50,1: write"), "{error}");
    }
}
