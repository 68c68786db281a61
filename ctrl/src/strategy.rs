//! Strategies of a group for feedback and ICRCs, chosen at its registration.

use std::fmt;

use alfirk_roce::rc::Recovery;
use serde::{Deserialize, Serialize};

/// Where a group's minimum PSN over all paths of a switch comes from (AckPSN aggregation; `MinPsn` of `p4src`).
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

/// All choices, with what switches must know of the group's queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strategies {
    /// For feedback.
    pub min_psn: MinPsn,
    /// For data.
    pub icrc: IcrcMode,
    /// What the group's queue pairs do about losses: switches pass selective NAKs only if they repeat selectively.
    #[serde(default)]
    pub recovery: Recovery,
    /// How far the source may be ahead of what was acknowledged to it.
    #[serde(default)]
    pub window: Window,
}

/// A number of packets, 1 to 2^23 - 1: what the queue pairs of a group can have outstanding, or more. Beyond 2^23 PSNs have
/// no order. Switches drop data of a source that is further ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Window(u32);

impl Window {
    /// The widest.
    pub const MAX: Window = Window((1 << 23) - 1);

    /// One of `packets`; `None` for 0 and for 2^23 and more.
    pub fn new(packets: u32) -> Option<Window> {
        (1..=Window::MAX.0)
            .contains(&packets)
            .then_some(Window(packets))
    }

    /// One that has room for `packets`, as far as there is one, and no less than the default.
    pub fn at_least(packets: u32) -> Window {
        Window(packets.clamp(Window::default().0, Window::MAX.0))
    }

    /// Its packets.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// What a switch takes where the group's entry says nothing.
impl Default for Window {
    fn default() -> Window {
        Window(alfirk_contract::DEFAULT_WINDOW)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Window> for u32 {
    fn from(window: Window) -> u32 {
        window.0
    }
}

impl TryFrom<u32> for Window {
    type Error = WindowError;

    fn try_from(packets: u32) -> Result<Window, WindowError> {
        Window::new(packets).ok_or_else(|| WindowError(packets.to_string()))
    }
}

impl std::str::FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Window, WindowError> {
        let packets = text.parse().ok().and_then(Window::new);
        packets.ok_or_else(|| WindowError(text.to_owned()))
    }
}

/// Not a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a source's window is 1 to 8388607 packets, not {0}; give what the group's queue pairs can have outstanding")]
pub struct WindowError(pub String);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_1_to_8388607_packets() {
        for (packets, is_window) in [(0, false), (1, true), (0x7f_ffff, true), (0x80_0000, false)] {
            assert_eq!(Window::new(packets).is_some(), is_window, "{packets}");
            let parsed: Result<Window, _> = packets.to_string().parse();
            assert_eq!(parsed.is_ok(), is_window, "{packets}");
        }
        let refused = "0".parse::<Window>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "a source's window is 1 to 8388607 packets, not 0; give what the group's queue pairs can have outstanding"
        );
    }

    #[test]
    fn a_window_has_room_for_what_may_be_outstanding_and_is_never_narrower_than_the_default() {
        assert_eq!(Window::at_least(128), Window::default());
        assert_eq!(Window::at_least(100_000).get(), 100_000);
        assert_eq!(Window::at_least(u32::MAX), Window::MAX);
    }

    #[test]
    fn strategies_of_before_are_read_with_the_defaults() {
        let before = r#"{"min_psn": "walk", "icrc": "neutral"}"#;
        let read: Strategies = serde_json::from_str(before).unwrap();
        let walk = Strategies {
            min_psn: MinPsn::Walk,
            ..Strategies::default()
        };
        assert_eq!(read, walk);
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Strategies>(&text).unwrap(), read);
    }
}
