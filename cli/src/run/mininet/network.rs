//! The Mininet network: a Python process that builds it, says when it stands, and takes it down.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use alfirk_experiment::FabricError;
use alfirk_sim::network::Model;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::load::Counters;
use crate::exit::Failure;
use crate::host::client::HostClient;
use crate::run::config::Config;
use crate::run::mininet::work_dir::WorkDir;
use crate::run::{hardware, name, processors};

/// How long the network may take to be taken down.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Where a program that has a network writes what there is, in its folder: hosts, switches and interfaces as in the line of readiness.
const NETWORK_FILE: &str = "network.json";

/// The file of the message that a source sends.
pub const MESSAGE: &str = "message";

/// A network, or the part of one that is on a machine, as it can be sent there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// The whole topology, as YAML.
    pub topology: String,
    pub seed: u64,
    /// Of every link, in each direction.
    pub loss: f64,
    /// The clock on which links have rates; without, they have none.
    pub clock: Option<ClockSpec>,
    /// `SWITCH:RULE`, as `alfirk switch --port-drop` has rules.
    pub port_drops: Vec<String>,
    /// Where captures go; none without.
    pub pcap: Option<PathBuf>,
    pub guests: Option<GuestSpec>,
    /// What of it is on this machine; all of it without.
    pub part: Option<PartSpec>,
}

/// A slow clock, and what things cost on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClockSpec {
    pub scale: NonZeroU32,
    /// As `--host-model` has it.
    pub host_model: String,
    /// Nanoseconds.
    pub pipeline_latency: u64,
}

/// Hosts that are guests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestSpec {
    pub names: Vec<String>,
    pub rdma: String,
    pub image: PathBuf,
}

/// What a machine has of a network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartSpec {
    /// Its address towards the other machines.
    pub address: Ipv4Addr,
    /// Names of switches and hosts.
    pub nodes: Vec<String>,
    /// Its ends of links to other machines.
    pub links: Vec<CrossingLink>,
    /// The UDP port of VXLAN.
    pub port: u16,
    /// Whether its kernel has VXLAN.
    pub kernel: bool,
    /// Whether datagrams may be fragmented.
    pub fragments: bool,
}

/// One end of a link to another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossingLink {
    /// Its place in the topology.
    pub link: usize,
    /// The number of its VXLAN segment.
    pub vni: u32,
    /// The address of the other machine.
    pub remote: Ipv4Addr,
    /// The largest IP packet on it.
    pub mtu: u32,
}

impl NetworkSpec {
    /// All of the network that is asked for.
    pub fn new(config: &Config, scale: Option<NonZeroU32>) -> NetworkSpec {
        let model =
            || hardware::show(config.model).unwrap_or_else(|| Model::DEFAULT_NAME.to_owned());
        NetworkSpec {
            topology: config.topology.to_yaml(),
            seed: config.job.seed,
            loss: config.loss.everywhere,
            clock: scale.map(|scale| ClockSpec {
                scale,
                host_model: model(),
                pipeline_latency: config.model.pipeline_latency,
            }),
            port_drops: config.lose.iter().map(|lost| lost.rule()).collect(),
            pcap: config.pcap.clone(),
            guests: config.guests.as_ref().map(|guests| GuestSpec {
                names: (guests.hosts.iter())
                    .map(|&host| config.topology.host(host).name.clone())
                    .collect(),
                rdma: name(guests.rdma),
                image: guests.image.clone(),
            }),
            part: None,
        }
    }
}

/// What a fabric needs of the network that it is on, be that on one machine or on several.
pub trait Network: Send {
    /// Readable when the network has something to say.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;
    /// Takes what it says before it is ready; true once it is. To be called when one of these is readable.
    fn take_ready(&mut self) -> Result<bool, FabricError>;
    /// Finds out whether it has broken, when one of these is readable.
    fn check(&mut self) -> Result<(), FabricError>;
    /// Where its parts are reached.
    fn addresses(&self) -> &Addresses;
    /// A line to a host.
    fn connect(&self, host: &str) -> Result<HostClient, Failure>;
    /// Ends the process of a host or switch at once.
    fn kill(&mut self, node: &str) -> Result<(), FabricError>;
    /// Takes an interface of a switch down.
    fn cut(&mut self, switch: &str, interface: &str) -> Result<(), FabricError>;
    /// Takes it up again.
    fn mend(&mut self, switch: &str, interface: &str) -> Result<(), FabricError>;
    /// The machine of a host, by a number.
    fn machine_of(&self, host: &str) -> usize;
    /// Puts a message where hosts of that machine read it from.
    fn store(&mut self, machine: usize, bytes: &[u8]) -> Result<PathBuf, FabricError>;
    /// Frames that interfaces of switches (by switch and name) have sent, and that these have received.
    fn packets(
        &mut self,
        sent: &[(&str, &str)],
        received: &[(&str, &str)],
    ) -> Result<u64, FabricError>;
    /// What each machine has counted for its processes, with the number of its processors.
    fn counters(&mut self) -> Result<Vec<(Counters, usize)>, FabricError>;
    /// Processors of all machines together.
    fn processors(&self) -> usize;
}

impl Network for MininetNetwork {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.as_fd()]
    }

    fn take_ready(&mut self) -> Result<bool, FabricError> {
        MininetNetwork::take_ready(self)
    }

    fn check(&mut self) -> Result<(), FabricError> {
        MininetNetwork::check(self)
    }

    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn connect(&self, host: &str) -> Result<HostClient, Failure> {
        let socket = self.addresses.hosts.get(host).ok_or_else(|| {
            Failure::failed(format_args!(
                "the Mininet process did not start host {host}"
            ))
        })?;
        Ok(HostClient::connect(host, socket)?)
    }

    fn kill(&mut self, node: &str) -> Result<(), FabricError> {
        MininetNetwork::kill(self, node)
    }

    fn cut(&mut self, _: &str, interface: &str) -> Result<(), FabricError> {
        MininetNetwork::cut(self, interface)
    }

    fn mend(&mut self, _: &str, interface: &str) -> Result<(), FabricError> {
        MininetNetwork::mend(self, interface)
    }

    fn machine_of(&self, _: &str) -> usize {
        0
    }

    fn store(&mut self, _: usize, bytes: &[u8]) -> Result<PathBuf, FabricError> {
        let file = self.file(MESSAGE);
        match fs::write(&file, bytes) {
            Ok(()) => Ok(file),
            Err(error) => {
                let file = file.display();
                Err(FabricError::Broken(format!("cannot write {file}: {error}")))
            }
        }
    }

    fn packets(
        &mut self,
        sent: &[(&str, &str)],
        received: &[(&str, &str)],
    ) -> Result<u64, FabricError> {
        let count = |interfaces: &[(&str, &str)], counter| {
            count_packets(interfaces.iter().map(|(_, name)| *name), counter)
        };
        Ok(count(sent, InterfaceCounter::SentPackets)
            + count(received, InterfaceCounter::ReceivedPackets))
    }

    fn counters(&mut self) -> Result<Vec<(Counters, usize)>, FabricError> {
        let counters = Counters::read(&self.addresses.processes);
        Ok(vec![(counters, processors())])
    }

    fn processors(&self) -> usize {
        processors()
    }
}

/// A counter of a network interface in the namespace of the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceCounter {
    ReceivedPackets,
    SentPackets,
}

/// The sum of a counter of interfaces in the namespace of the calling thread; those that are gone count nothing.
pub fn count_packets<'n>(
    interfaces: impl IntoIterator<Item = &'n str>,
    counter: InterfaceCounter,
) -> u64 {
    // /sys shows the interfaces of the namespace in which it was mounted.
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    count_in(&text, interfaces, counter)
}

/// The same by the text of `/proc/net/dev`: two lines of titles, and then a line for each interface with 8 numbers about what it has
/// received and 8 about what it has sent, packets in the second place of each.
fn count_in<'n>(
    text: &str,
    interfaces: impl IntoIterator<Item = &'n str>,
    counter: InterfaceCounter,
) -> u64 {
    let place = match counter {
        InterfaceCounter::ReceivedPackets => 1,
        InterfaceCounter::SentPackets => 9,
    };
    let counters = text.lines().skip(2).filter_map(|line| {
        let (name, numbers) = line.rsplit_once(':')?;
        let number = numbers.split_whitespace().nth(place)?;
        Some((name.trim(), number.parse::<u64>().ok()?))
    });
    let counters: BTreeMap<&str, u64> = counters.collect();
    let names = interfaces.into_iter();
    names.filter_map(|name| counters.get(name)).sum()
}

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
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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
    /// Starts to build the network; it is there when [`MininetNetwork::take_ready`] says so.
    pub fn start(spec: &NetworkSpec) -> Result<MininetNetwork, Failure> {
        MininetNetwork::start_with(spec, |_| spec.pcap.clone())
    }

    /// The same, with captures where `captures` says, given the folder of the run.
    pub fn start_with(
        spec: &NetworkSpec,
        captures: impl FnOnce(&Path) -> Option<PathBuf>,
    ) -> Result<MininetNetwork, Failure> {
        let work = WorkDir::new()?;
        let write = |name: &str, content: &str| {
            let path = work.path().join(name);
            let put =
                |error| Failure::failed(format_args!("cannot write {}: {error}", path.display()));
            fs::write(&path, content).map_err(put)?;
            Ok::<PathBuf, Failure>(path)
        };
        let topology = write("topology.yaml", &spec.topology)?;
        let log = File::create(write("mininet.log", "")?)
            .map_err(|error| Failure::failed(format_args!("cannot write mininet.log: {error}")))?;

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
            .args(["--seed", &spec.seed.to_string()])
            .env("PYTHONPATH", python_path(&alfirk)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        if spec.loss > 0.0 {
            command.args(["--loss", &spec.loss.to_string()]);
        }
        if let Some(clock) = &spec.clock {
            command
                .args(["--time-scale", &clock.scale.to_string()])
                .args(["--host-model", &clock.host_model])
                .args(["--pipeline-latency", &clock.pipeline_latency.to_string()]);
        }
        for rule in &spec.port_drops {
            command.arg("--port-drop").arg(rule);
        }
        if let Some(folder) = captures(work.path()) {
            command.arg("--pcap").arg(folder);
        }
        if let Some(part) = &spec.part {
            let text = serde_json::to_string(part).expect("it has no strange keys");
            command.arg("--part").arg(write("part.json", &text)?);
        }
        if let Some(guests) = &spec.guests {
            command
                .args(["--guests", &guests.names.join(",")])
                .args(["--guest-rdma", &guests.rdma])
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

    /// The process that builds and holds the network, if that is not another program's.
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The folder of the run.
    pub fn folder(&self) -> &Path {
        self.work.path()
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
    fn drop(&mut self) {
        self.take_down();
    }
}

impl MininetNetwork {
    /// Takes the network down and waits until it is gone. Its files stay.
    pub fn take_down(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + STOP_LIMIT;
        let mut pause = Duration::from_millis(1);
        let Some(child) = &mut self.child else {
            return;
        };
        // While it builds, it does not read.
        if let Ok(None) = child.try_wait() {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        }
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
    fn packets_of_named_interfaces_are_summed() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n \
            s1-eth1: 100 3 0 0 0 0 0 0 200 5 0 0 0 0 0 0\n s1-eth2:100 30 0 0 0 0 0 0 200 50 0 0 0 0 0 0\n    \
            lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
        let both = ["s1-eth1", "s1-eth2", "gone"];
        assert_eq!(count_in(text, both, InterfaceCounter::ReceivedPackets), 33);
        assert_eq!(count_in(text, both, InterfaceCounter::SentPackets), 55);
        assert_eq!(
            count_in(text, ["s1-eth1"], InterfaceCounter::SentPackets),
            5
        );
    }

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
