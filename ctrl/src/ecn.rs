//! When switches mark packets as having met congestion (RFC 3168), by the profile of DCQCN: Kmin, Kmax and Pmax.

use std::fmt;
use std::str::FromStr;

use crate::tables::Marking;

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
#[error("{given}: write KMIN,KMAX,PMAX: packets, not more of the first than of the second (at most {MOST_PACKETS}), and a probability above 0 and up to 1, as in 16,64,0.1")]
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

impl FromStr for EcnProfile {
    type Err = BadProfile;

    fn from_str(text: &str) -> Result<EcnProfile, BadProfile> {
        let bad = || BadProfile {
            given: text.to_owned(),
        };
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let [k_min, k_max, p_max] = parts[..] else {
            return Err(bad());
        };
        let packets = |text: &str| text.parse().map_err(|_| bad());
        let p_max = p_max.parse().map_err(|_| bad())?;
        EcnProfile::new(packets(k_min)?, packets(k_max)?, p_max).map_err(|_| bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_and_written() {
        let profile: EcnProfile = "5, 200,0.01".parse().unwrap();
        assert_eq!(profile.to_string(), "5,200,0.01");
        assert_eq!(
            profile.marking(),
            Marking {
                min: 5,
                max: 200,
                rise: 3
            }
        );
        assert_eq!("8,8,1".parse::<EcnProfile>().unwrap().marking().min, 8);
        for bad in [
            "",
            "1,2",
            "9,8,0.5",
            "1,2,0",
            "1,2,1.1",
            "1,2,NaN",
            "1,600000,1",
            "a,2,1",
        ] {
            let error = bad.parse::<EcnProfile>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{bad}: write KMIN,KMAX,PMAX")),
                "{error}"
            );
        }
    }
}
