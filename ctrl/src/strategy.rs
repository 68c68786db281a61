//! Strategies of a group for feedback and ICRCs, chosen at its registration.

use std::fmt;

use alfirk_roce::rc::Recovery;
use serde::{Deserialize, Serialize};

/// Method by which a switch finds the minimum acknowledged PSN over all paths of a group (`MinPsn` of `p4src`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "driver", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum MinPsn {
    /// A tournament tree in registers, updated in one pass of each ACK
    #[default]
    Tree,
    /// Recirculation: the ACK reads four paths in each pass
    ///
    /// After Cepheus, section III-D.
    Walk,
    /// The controller computes the minimum; switches pass (punt) ACKs to it
    Punt,
}

/// Method that keeps the ICRC of a group's data valid after rewrites (`IcrcMode` of `p4src`). Switches always recompute the
/// ICRC of feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "driver", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum IcrcMode {
    /// Switches change two other header fields by XOR constants, so that the ICRC stays the same for any payload
    #[default]
    Neutral,
    /// Switches parse the payload and recompute the ICRC
    Recompute,
    /// The controller recomputes the ICRC; leaf switches pass (punt) each copy for a host to it
    Punt,
}

/// Strategies of one group, and the parameters of its queue pairs that switches need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strategies {
    /// Method that finds the minimum of the PSNs that the group's paths have acknowledged.
    pub min_psn: MinPsn,
    /// Method that keeps the ICRC of data valid.
    pub icrc: IcrcMode,
    /// Loss recovery of the group's queue pairs. Switches forward selective NAKs only with selective repeat.
    #[serde(default)]
    pub recovery: Recovery,
    /// Maximum distance in packets of the source beyond the PSN last acknowledged to it.
    #[serde(default)]
    pub window: Window,
}

/// An option of a group whose value only a program with the optional parts of v1model's data plane supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionalStrategy {
    /// Name of the option, as the flag of `alfirk run` without its dashes.
    pub option: &'static str,
    /// The value of the group.
    pub wanted: String,
    /// The value that every program supports.
    pub only: String,
}

impl Strategies {
    /// Returns the first option whose value needs the optional parts (`p4src/v1model/features.p4`); `None` if every
    /// program supports all of them.
    pub fn optional_strategy(&self) -> Option<OptionalStrategy> {
        let only = Strategies::default();
        let options = [
            (
                "min-psn",
                self.min_psn.to_string(),
                only.min_psn.to_string(),
            ),
            ("icrc", self.icrc.to_string(), only.icrc.to_string()),
            (
                "recovery",
                self.recovery.to_string(),
                only.recovery.to_string(),
            ),
        ];
        let mut options = options.into_iter();
        let (option, wanted, only) = options.find(|(_, wanted, only)| wanted != only)?;
        Some(OptionalStrategy {
            option,
            wanted,
            only,
        })
    }
}

/// Window of a source in packets, 1 to 2^23 - 1: at least the packets that its queue pair may have outstanding.
///
/// Switches drop data that is further ahead of the last acknowledged PSN. PSNs 2^23 or more apart have no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Window(u32);

impl Window {
    /// The largest window, 2^23 - 1 packets.
    pub const MAX: Window = Window((1 << 23) - 1);

    /// Creates a window of `packets` packets; `None` for 0, and for 2^23 or more.
    pub fn new(packets: u32) -> Option<Window> {
        (1..=Window::MAX.0)
            .contains(&packets)
            .then_some(Window(packets))
    }

    /// Creates a window of `packets` packets, clamped to the range from the default to [`Window::MAX`].
    pub fn at_least(packets: u32) -> Window {
        Window(packets.clamp(Window::default().0, Window::MAX.0))
    }

    /// Number of packets.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Window that switches use if their group entries have no window parameter.
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

/// Error: the text or number is not a window of 1 to 2^23 - 1 packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the window of a source is 1 to 8388607 packets, not {0}; give the maximum of outstanding packets of its queue pair")]
pub struct WindowError(pub String);

impl MinPsn {
    /// Value of the strategy in the pipeline's table entry.
    pub fn number(self) -> u8 {
        let number = match self {
            MinPsn::Tree => alfirk_contract::MinPsn::Tree,
            MinPsn::Walk => alfirk_contract::MinPsn::Walk,
            MinPsn::Punt => alfirk_contract::MinPsn::Punt,
        };
        number as u8
    }

    /// Strategy with this value in the pipeline's table entry; `None` for an unknown value.
    pub fn from_number(number: u64) -> Option<MinPsn> {
        let mut all = [MinPsn::Tree, MinPsn::Walk, MinPsn::Punt].into_iter();
        all.find(|strategy| u64::from(strategy.number()) == number)
    }
}

impl IcrcMode {
    /// Value of the strategy in the pipeline's table entry.
    pub fn number(self) -> u8 {
        let number = match self {
            IcrcMode::Neutral => alfirk_contract::IcrcMode::Neutral,
            IcrcMode::Recompute => alfirk_contract::IcrcMode::Recompute,
            IcrcMode::Punt => alfirk_contract::IcrcMode::Punt,
        };
        number as u8
    }

    /// Strategy with this value in the pipeline's table entry; `None` for an unknown value.
    pub fn from_number(number: u64) -> Option<IcrcMode> {
        let mut all = [IcrcMode::Neutral, IcrcMode::Recompute, IcrcMode::Punt].into_iter();
        all.find(|mode| u64::from(mode.number()) == number)
    }
}

/// Writes the name of the strategy in command-line options and files.
impl fmt::Display for MinPsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Writes the name of the strategy in command-line options and files.
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
            "the window of a source is 1 to 8388607 packets, not 0; give the maximum of outstanding packets of its queue pair"
        );
    }

    #[test]
    fn at_least_clamps_the_window_between_default_and_maximum() {
        assert_eq!(Window::at_least(128), Window::default());
        assert_eq!(Window::at_least(100_000).get(), 100_000);
        assert_eq!(Window::at_least(u32::MAX), Window::MAX);
    }

    #[test]
    fn fields_missing_in_older_files_get_defaults() {
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
