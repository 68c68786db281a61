//! What a group's feedback and ICRCs cost where: choices that are made once, when it is registered.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a group's minimum PSN over all paths of a switch comes from (design: AckPSN aggregation; `MinPsn` of `p4src`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "driver", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum MinPsn {
    /// From a tournament tree in registers, in the pass of each ACK
    #[default]
    Tree,
    /// From an ACK that recirculates and looks at four paths in each pass
    ///
    /// After Cepheus, section III-D.
    Walk,
    /// From the controller, to which switches punt ACKs
    Punt,
}

/// How receivers come to find the ICRC of a group's data right (`IcrcMode` of `p4src`). That of feedback is always recomputed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "driver", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum IcrcMode {
    /// Constants cancel what the switches change, whatever the payload
    #[default]
    Neutral,
    /// The switches parse payloads and compute it anew
    Recompute,
    /// The controller computes it; leaf switches punt the copies for hosts
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
}

/// The name that flags and files have for it.
impl fmt::Display for MinPsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The name that flags and files have for it.
impl fmt::Display for IcrcMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
