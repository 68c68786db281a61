//! Files and arguments of `alfirk ctrl`, read and checked.

use std::path::{Path, PathBuf};

use alfirk_p4runtime::p4::config::v1::P4Info;
use alfirk_p4runtime::{json, text, Message};

use crate::controller::RestoreError;
use crate::topology::{self, GeneratorSpecError, SwitchIndex, Topology, TopologyError};

/// Error of an input file or argument of `alfirk ctrl`, or of its state file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file does not exist or cannot be read.
    #[error("cannot read {what} {}: {error}", path.display())]
    Unreadable {
        /// Kind of file for the message, such as `topology file`.
        what: &'static str,
        /// Path of the file that cannot be used.
        path: PathBuf,
        /// Cause of the error.
        error: std::io::Error,
    },
    /// The topology file is invalid.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A generator specification such as `fat-tree:4` is invalid.
    #[error(transparent)]
    GeneratorSpec(#[from] GeneratorSpecError),
    /// The file is not valid P4Info in the format that its extension states.
    #[error("{}: {reason}", path.display())]
    P4Info {
        /// Path of the file that cannot be used.
        path: PathBuf,
        /// Cause of the error.
        reason: String,
    },
    /// The device configuration is not JSON.
    #[error("{} is not BMv2 JSON: {reason}; give the file that `alfirk p4c -o` wrote", path.display())]
    DeviceConfig {
        /// Path of the file that cannot be used.
        path: PathBuf,
        /// Cause of the error.
        reason: String,
    },
    /// A file cannot be written.
    #[error("cannot write {what} {}: {error}", path.display())]
    Unwritable {
        /// Kind of file for the message, such as `state file`.
        what: &'static str,
        /// Path of the file that cannot be used.
        path: PathBuf,
        /// Cause of the error.
        error: std::io::Error,
    },
    /// The groups in the state file cannot be restored.
    #[error("{}: {error}", path.display())]
    State {
        /// Path of the file that cannot be used.
        path: PathBuf,
        /// Cause of the error.
        error: RestoreError,
    },
    /// A `--switch` argument or a line of the `--switches` file is not `NAME=HOST:PORT`.
    #[error("{place}: `{text}` is not NAME=HOST:PORT, such as s1=127.0.0.1:9559")]
    SwitchAddress {
        /// Source of the text: the option, or the file and line.
        place: String,
        /// The invalid text, as in the option or file.
        text: String,
    },
    /// The named switch is not in the topology.
    #[error("{place}: the topology has no switch `{name}`")]
    UnknownSwitch {
        /// Source of the text: the option, or the file and line.
        place: String,
        /// Name of the switch.
        name: String,
    },
    /// A switch has more than one address.
    #[error("{place}: switch {name} already has an address; give one")]
    SwitchTwice {
        /// Source of the text: the option, or the file and line.
        place: String,
        /// Name of the switch.
        name: String,
    },
    /// Switches of the topology have no address.
    #[error("no address for switch {}; give each with --switch NAME=HOST:PORT or in a --switches file", names.join(", "))]
    NoAddress {
        /// Names of the switches without an address.
        names: Vec<String>,
    },
}

/// P4Runtime server of one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchAddress {
    /// Index of the switch in the topology.
    pub switch: SwitchIndex,
    /// Address of the switch's P4Runtime server, `HOST:PORT`.
    pub address: String,
}

/// State file (`--state`): stores the groups as JSON, so that a restarted controller can restore them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// Creates a state file with this path. The file need not exist yet, but its folder must.
    pub fn new(path: impl Into<PathBuf>) -> StateFile {
        StateFile(path.into())
    }

    /// Content of the file; `None` if it does not exist.
    pub(super) fn read(&self) -> Result<Option<String>, FileError> {
        match std::fs::read_to_string(&self.0) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FileError::Unreadable {
                what: "state file",
                path: self.0.clone(),
                error,
            }),
        }
    }

    /// Replaces the file atomically, so that readers get either the old or the new text.
    pub(super) fn write(&self, text: &str) -> Result<(), FileError> {
        let mut beside = self.0.clone().into_os_string();
        beside.push(".new");
        let written =
            std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &self.0));
        written.map_err(|error| FileError::Unwritable {
            what: "state file",
            path: self.0.clone(),
            error,
        })
    }

    pub(super) fn unusable(&self, error: &RestoreError) -> FileError {
        FileError::State {
            path: self.0.clone(),
            error: error.clone(),
        }
    }
}

pub(super) fn read_topology(path: &Path) -> Result<Topology, FileError> {
    let name = path.display().to_string();
    if topology::is_generator_spec(&name) {
        return Ok(topology::generate(&name)?);
    }
    let text = read(path, "topology file")?;
    let text = String::from_utf8_lossy(&text);
    Ok(Topology::from_yaml(&name, &text)?)
}

/// Reads P4Info: JSON from `.json`, binary protobuf from `.bin` or `.pb`, otherwise text format.
pub(super) fn read_p4info(path: &Path) -> Result<P4Info, FileError> {
    let bytes = read(path, "P4Info file")?;
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    let p4info = match extension {
        "bin" | "pb" => P4Info::decode(bytes.as_slice()).map_err(|e| e.to_string()),
        "json" => json::parse(&String::from_utf8_lossy(&bytes)).map_err(|e| e.to_string()),
        _ => text::parse(&String::from_utf8_lossy(&bytes)).map_err(|e| e.to_string()),
    };
    p4info.map_err(|reason| FileError::P4Info {
        path: path.to_owned(),
        reason,
    })
}

/// Reads BMv2 JSON. Only its syntax is checked; the switch validates the content.
pub(super) fn read_device_config(path: &Path) -> Result<Vec<u8>, FileError> {
    let bytes = read(path, "device config")?;
    match serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(FileError::DeviceConfig {
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// Collects the addresses of all switches from `--switch` options and the lines of a `--switches` file.
pub(super) fn switch_addresses(
    topology: &Topology,
    options: &[String],
    file: Option<&Path>,
) -> Result<Vec<SwitchAddress>, FileError> {
    let mut lines: Vec<(String, String)> = options
        .iter()
        .map(|text| ("--switch".to_owned(), text.clone()))
        .collect();
    if let Some(path) = file {
        let bytes = read(path, "switches file")?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if !line.is_empty() {
                lines.push((format!("{}:{number}", path.display()), line.to_owned()));
            }
        }
    }

    let mut found = vec![None; topology.switches().len()];
    for (place, text) in lines {
        let parts = text.split_once('=').map(|(n, a)| (n.trim(), a.trim()));
        let Some((name, address)) = parts.filter(|(_, address)| is_address(address)) else {
            return Err(FileError::SwitchAddress { place, text });
        };
        let Some(switch) = topology.switch_named(name) else {
            let name = name.to_owned();
            return Err(FileError::UnknownSwitch { place, name });
        };
        if found[switch.0].replace(address.to_owned()).is_some() {
            let name = name.to_owned();
            return Err(FileError::SwitchTwice { place, name });
        }
    }
    let missing = topology.switches().iter().zip(&found);
    let names: Vec<String> = missing
        .filter(|(_, address)| address.is_none())
        .map(|(switch, _)| switch.name.clone())
        .collect();
    if !names.is_empty() {
        return Err(FileError::NoAddress { names });
    }
    Ok(topology
        .switch_indexes()
        .zip(found.into_iter().flatten())
        .map(|(switch, address)| SwitchAddress { switch, address })
        .collect())
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(|error| FileError::Unreadable {
        what,
        path: path.to_owned(),
        error,
    })
}
