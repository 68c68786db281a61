//! What a group's feedback and ICRCs cost where: choices that are made once, when it is registered.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a group's minimum PSN over all paths is found (design: AckPSN aggregation; `MinPsn` of `p4src`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MinPsn {
    /// By a tournament tree in registers, in the pass of each ACK.
    #[default]
    Tree,
    /// By an ACK that recirculates from path to path (Cepheus, section III-D).
    Walk,
    /// By the controller, to which ACKs are punted.
    Punt,
}

/// How the ICRC of a group's data is kept right (`IcrcMode` of `p4src`). Feedback is always recomputed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IcrcMode {
    /// By constants that cancel the rewriting, whatever the payload.
    #[default]
    Neutral,
    /// By the pipeline, which parses the payload.
    Recompute,
    /// By the controller, to which copies for hosts are punted.
    Punt,
}

/// Both choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Strategies {
    /// For feedback.
    pub min_psn: MinPsn,
    /// For data.
    pub icrc: IcrcMode,
}

/// A name that stands for no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is none of {known}")]
pub struct UnknownStrategy {
    given: String,
    known: &'static str,
}

impl MinPsn {
    /// As the pipeline numbers it.
    pub fn number(self) -> u8 {
        let number = match self {
            MinPsn::Tree => alfirk_contract::MinPsn::Tree,
            MinPsn::Walk => alfirk_contract::MinPsn::Walk,
            MinPsn::Punt => alfirk_contract::MinPsn::Punt,
        };
        number as u8
    }

    /// The other way round.
    pub fn from_number(number: u64) -> Option<MinPsn> {
        let mut all = [MinPsn::Tree, MinPsn::Walk, MinPsn::Punt].into_iter();
        all.find(|strategy| u64::from(strategy.number()) == number)
    }

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            MinPsn::Tree => "tree",
            MinPsn::Walk => "walk",
            MinPsn::Punt => "punt",
        }
    }
}

impl IcrcMode {
    /// As the pipeline numbers it.
    pub fn number(self) -> u8 {
        let number = match self {
            IcrcMode::Neutral => alfirk_contract::IcrcMode::Neutral,
            IcrcMode::Recompute => alfirk_contract::IcrcMode::Recompute,
            IcrcMode::Punt => alfirk_contract::IcrcMode::Punt,
        };
        number as u8
    }

    /// The other way round.
    pub fn from_number(number: u64) -> Option<IcrcMode> {
        let mut all = [IcrcMode::Neutral, IcrcMode::Recompute, IcrcMode::Punt].into_iter();
        all.find(|mode| u64::from(mode.number()) == number)
    }

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            IcrcMode::Neutral => "neutral",
            IcrcMode::Recompute => "recompute",
            IcrcMode::Punt => "punt",
        }
    }
}

impl fmt::Display for MinPsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for IcrcMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MinPsn {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<MinPsn, UnknownStrategy> {
        match text {
            "tree" => Ok(MinPsn::Tree),
            "walk" => Ok(MinPsn::Walk),
            "punt" => Ok(MinPsn::Punt),
            _ => Err(UnknownStrategy {
                given: text.to_owned(),
                known: "tree, walk, punt",
            }),
        }
    }
}

impl FromStr for IcrcMode {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<IcrcMode, UnknownStrategy> {
        match text {
            "neutral" => Ok(IcrcMode::Neutral),
            "recompute" => Ok(IcrcMode::Recompute),
            "punt" => Ok(IcrcMode::Punt),
            _ => Err(UnknownStrategy {
                given: text.to_owned(),
                known: "neutral, recompute, punt",
            }),
        }
    }
}
