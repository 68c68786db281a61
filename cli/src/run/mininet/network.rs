//! The Mininet network: a Python process that builds it, says when it stands, and takes it down.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use alfirk_experiment::FabricError;
use alfirk_sim::network::Model;
use serde::Deserialize;

use crate::exit::Failure;
use crate::run::config::Config;
use crate::run::hardware;
use crate::run::mininet::work_dir::WorkDir;

/// How long the network may take to be taken down.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Where a program that has a network writes what there is, in its folder: hosts, switches and interfaces as in the line of readiness.
const NETWORK_FILE: &str = "network.json";

/// A line that the Python side prints.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line {
    /// Everything answers.
    Ready(Addresses),
    /// Something could not start, or has died.
    Failed {
        what: String,
        #[serde(default)]
        hint: String,
    },
}

/// Where the parts of the network are reached.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Addresses {
    /// The P4Runtime server of each switch, "127.0.0.1:50001".
    pub switches: BTreeMap<String, String>,
    /// The control socket of each host.
    pub hosts: BTreeMap<String, PathBuf>,
    /// The network interface behind each port of each switch; ports are text, as keys of JSON objects are.
    #[serde(default)]
    pub interfaces: BTreeMap<String, BTreeMap<String, String>>,
    /// The processes of switches and hosts.
    #[serde(default)]
    pub processes: Vec<u32>,
}

/// A network that stands until it is stopped or dropped.
pub struct MininetNetwork {
    pub addresses: Addresses,
    /// The process that builds it; none if that is another program's.
    child: Option<Child>,
    /// The network stands as long as this is open.
    stdin: Option<ChildStdin>,
    stdout: File,
    /// What keeps that open where nobody writes to it.
    _silent: Option<OwnedFd>,
    /// What has been read of a line.
    input: Vec<u8>,
    work: WorkDir,
}

impl MininetNetwork {
    /// Starts to build the network; [`MininetNetwork::wait_ready`] waits for it.
    pub fn start(config: &Config, scale: Option<NonZeroU32>) -> Result<MininetNetwork, Failure> {
        let work = WorkDir::new()?;
        let topology = work.path().join("topology.yaml");
        let put =
            |error| Failure::failed(format_args!("cannot write {}: {error}", topology.display()));
        fs::write(&topology, config.topology.to_yaml()).map_err(put)?;
        let log = File::create(work.path().join("mininet.log")).map_err(put)?;

        let python = crate::doctor::python();
        let alfirk = std::env::current_exe()
            .map_err(|error| Failure::failed(format_args!("cannot find my own file: {error}")))?;
        let mut command = Command::new(&python);
        command
            .args(["-B", "-m", "alfirk_mininet", "serve"])
            .arg("--topology")
            .arg(&topology)
            .arg("--alfirk")
            .arg(&alfirk)
            .arg("--workdir")
            .arg(work.path())
            .args(["--seed", &config.seed.to_string()])
            .env("PYTHONPATH", python_path(&alfirk)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        if config.loss > 0.0 {
            command.args(["--loss", &config.loss.to_string()]);
        }
        if let Some(scale) = scale {
            let model = hardware::show(config.model);
            let model = model.unwrap_or_else(|| Model::DEFAULT_NAME.to_owned());
            let pipeline = config.model.pipeline_latency.to_string();
            command
                .args(["--time-scale", &scale.to_string()])
                .args(["--host-model", &model])
                .args(["--pipeline-latency", &pipeline]);
        }
        for lost in &config.lose {
            command.arg("--port-drop").arg(lost.rule());
        }
        if let Some(folder) = &config.pcap {
            command.arg("--pcap").arg(folder);
        }
        if let Some(guests) = &config.guests {
            let names = guests.hosts.iter();
            let names: Vec<&str> = names
                .map(|&host| config.topology.host(host).name.as_str())
                .collect();
            command
                .args(["--guests", &names.join(",")])
                .args(["--guest-rdma", guests.rdma.name()])
                .arg("--guest-image")
                .arg(&guests.image);
        }
        let mut child = command.spawn().map_err(|error| {
            Failure::failed(format_args!(
                "cannot start {}: {error}; set PYTHON to a Python that has Mininet",
                python.to_string_lossy()
            ))
        })?;
        Ok(MininetNetwork {
            addresses: Addresses::default(),
            stdin: child.stdin.take(),
            stdout: OwnedFd::from(child.stdout.take().expect("it is piped")).into(),
            _silent: None,
            child: Some(child),
            input: Vec::new(),
            work,
        })
    }

    /// A network that another program has, and keeps as long as it likes; `folder` is where it has written what there is.
    pub fn attach(folder: &Path) -> Result<MininetNetwork, Failure> {
        let file = folder.join(NETWORK_FILE);
        let bad = |why: &dyn Display| {
            let file = file.display();
            Failure::bad_input(format_args!(
                "--attach: {file}: {why}; give the folder that `mn --custom mininet/alfirk.py` names"
            ))
        };
        let text = fs::read_to_string(&file).map_err(|error| bad(&error))?;
        let addresses = serde_json::from_str(&text).map_err(|error| bad(&error))?;
        let (reader, writer) = nix::unistd::pipe()
            .map_err(|error| Failure::failed(format_args!("cannot make a pipe: {error}")))?;
        Ok(MininetNetwork {
            addresses,
            child: None,
            stdin: None,
            stdout: reader.into(),
            _silent: Some(writer),
            input: Vec::new(),
            work: WorkDir::new()?,
        })
    }

    /// Takes the readiness line; true when it has come. To be called when the network's output is readable.
    pub fn take_ready(&mut self) -> Result<bool, FabricError> {
        match self.read_line()? {
            None => Ok(false),
            Some(Line::Ready(addresses)) => {
                self.addresses = addresses;
                Ok(true)
            }
            Some(Line::Failed { what, hint }) => Err(FabricError::Broken(said(&what, &hint))),
        }
    }

    /// Finds out whether the network has broken, when its output is readable.
    pub fn check(&mut self) -> Result<(), FabricError> {
        match self.read_line()? {
            None => Ok(()),
            Some(Line::Failed { what, hint }) => Err(FabricError::Broken(said(&what, &hint))),
            Some(Line::Ready(_)) => Err(FabricError::Broken(
                "the Mininet process said twice that it is ready".to_string(),
            )),
        }
    }

    /// Ends the process of a host or switch at once.
    pub fn kill(&mut self, node: &str) -> Result<(), FabricError> {
        self.ask(&serde_json::json!({ "kill": node }))
    }

    /// Takes an interface of a switch down.
    pub fn cut(&mut self, interface: &str) -> Result<(), FabricError> {
        self.ask(&serde_json::json!({ "cut": interface }))
    }

    /// Takes an interface of a switch up again.
    pub fn mend(&mut self, interface: &str) -> Result<(), FabricError> {
        self.ask(&serde_json::json!({ "mend": interface }))
    }

    fn ask(&mut self, request: &serde_json::Value) -> Result<(), FabricError> {
        let told = match &mut self.stdin {
            Some(stdin) => writeln!(stdin, "{request}").and_then(|()| stdin.flush()),
            None => Ok(()),
        };
        told.map_err(|error| {
            FabricError::Broken(format!("the Mininet process does not listen: {error}"))
        })
    }

    /// A file in the folder of the run, which is gone when the network is.
    pub fn file(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// Reads once, and gives the line if that completed one.
    fn read_line(&mut self) -> Result<Option<Line>, FabricError> {
        let mut chunk = [0; 4096];
        let count = self.stdout.read(&mut chunk).unwrap_or(0);
        if count == 0 {
            return Err(FabricError::Broken(format!(
                "the Mininet process has ended{}",
                self.last_words()
            )));
        }
        self.input.extend_from_slice(&chunk[..count]);
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let line = serde_json::from_slice(&line).map_err(|_| {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            FabricError::Broken(format!(
                "the Mininet process said something unexpected: {text}"
            ))
        })?;
        Ok(Some(line))
    }

    /// The end of the Python side's log.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.file("mininet.log")).unwrap_or_default();
        match log.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!("; it said last: {line}"),
            None => String::new(),
        }
    }
}

impl AsFd for MininetNetwork {
    /// Readable when there is a line, or the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stdout.as_fd()
    }
}

impl Drop for MininetNetwork {
    /// Takes the network down and waits until it is gone.
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + STOP_LIMIT;
        let mut pause = Duration::from_millis(1);
        let Some(child) = &mut self.child else {
            return;
        };
        while let Ok(None) = child.try_wait() {
            if Instant::now() > deadline {
                tracing::warn!(
                    "Mininet did not take the network down within {} s; `make clean` removes what is left",
                    STOP_LIMIT.as_secs()
                );
                // Nothing gentler is left; an error means that it has ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

fn said(what: &str, hint: &str) -> String {
    if hint.is_empty() {
        what.to_string()
    } else {
        format!("{what}; {hint}")
    }
}

/// `PYTHONPATH` with the folder that holds `alfirk_mininet`: where `make install` put it, or the source tree.
fn python_path(alfirk: &Path) -> Result<OsString, Failure> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    if let Some(prefix) = alfirk.parent().and_then(Path::parent) {
        candidates.push(prefix.join("share/alfirk/mininet"));
    }
    candidates.extend(alfirk.ancestors().map(|folder| folder.join("mininet")));
    candidates.push("mininet".into());
    let given = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let given: Vec<PathBuf> = std::env::split_paths(&given)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    let found = given
        .iter()
        .chain(&candidates)
        .find(|folder| folder.join("alfirk_mininet/__main__.py").is_file())
        .ok_or_else(|| {
            Failure::failed(
                "cannot find the Python package alfirk_mininet; run from the source tree, or `make install`, \
                 or set PYTHONPATH",
            )
        })?;
    let absolute = std::path::absolute(found).unwrap_or_else(|_| found.clone());
    let paths = std::iter::once(absolute).chain(given);
    std::env::join_paths(paths)
        .map_err(|error| Failure::failed(format_args!("PYTHONPATH: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_python_side_are_understood() {
        let ready = r#"{"event": "ready", "switches": {"s1": "127.0.0.1:58565"}, "hosts": {"h1": "/tmp/x/h1.sock"},
            "interfaces": {"s1": {"1": "s1-eth1"}}}"#;
        let Line::Ready(addresses) = serde_json::from_str(ready).unwrap() else {
            panic!("not ready");
        };
        assert_eq!(addresses.switches["s1"], "127.0.0.1:58565");
        assert_eq!(addresses.hosts["h1"], Path::new("/tmp/x/h1.sock"));
        assert_eq!(addresses.interfaces["s1"]["1"], "s1-eth1");

        let failed =
            r#"{"event": "failed", "what": "switch s1 ended with 1", "hint": "it said: x"}"#;
        let Line::Failed { what, hint } = serde_json::from_str(failed).unwrap() else {
            panic!("not failed");
        };
        assert_eq!(said(&what, &hint), "switch s1 ended with 1; it said: x");
    }
}
