//! Starts and controls a Mininet network through a Python process, which builds the network, reports when it is ready,
//! and removes it.

use std::collections::BTreeMap;
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
use alfirk_json_lines::{Lines, MAX_LINE};
use alfirk_sim::network::Model;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::load::Counters;
use crate::exit::Failure;
use crate::host::client::HostClient;
use crate::python::Package;
use crate::run::config::Config;
use crate::run::mininet::work_dir::WorkDir;
use crate::run::{hardware, name, processors};

/// Time limit for the Python process to remove the network.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Name of the file in which another program describes its network for `--attach`, in the form of [`Addresses`].
const NETWORK_FILE: &str = "network.json";

/// The Python package that builds the network.
const MININET: Package = Package {
    folder: "mininet",
    name: "alfirk_mininet",
};

/// Name of the file with the message that a source sends.
pub const MESSAGE: &str = "message";

/// Description of a network to be built, or of one machine's part of it, which is sent to the machine as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// The whole topology, as YAML.
    pub topology: String,
    pub seed: u64,
    /// Loss probability of every link, in each direction.
    pub loss: f64,
    /// Slowed clock of the network, with rates and delays of links; `None` for links without rates and delays.
    pub clock: Option<ClockSpec>,
    /// Drop rules as `SWITCH:RULE`, with RULE as for `alfirk switch --port-drop`.
    pub port_drops: Vec<String>,
    /// Folder of captures; `None` without captures.
    pub pcap: Option<PathBuf>,
    pub guests: Option<GuestSpec>,
    /// Part of the network that one machine builds; `None` for the whole network.
    pub part: Option<PartSpec>,
}

/// The slowed clock of a network, and the delays of hosts and switches on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClockSpec {
    pub scale: NonZeroU32,
    /// Host model, as a value of `--host-model`.
    pub host_model: String,
    /// Pipeline latency of switches in nanoseconds.
    pub pipeline_latency: u64,
}

/// The hosts that are QEMU guests with their own kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestSpec {
    pub names: Vec<String>,
    pub rdma: String,
    pub image: PathBuf,
}

/// One machine's part of a network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartSpec {
    /// Address at which the other machines reach this one.
    pub address: Ipv4Addr,
    /// Names of the machine's switches and hosts.
    pub nodes: Vec<String>,
    /// Local ends of links to other machines.
    pub links: Vec<CrossingLink>,
    /// UDP port of the VXLAN links between machines.
    pub port: u16,
    /// Whether the machine's kernel supports VXLAN interfaces; otherwise `alfirk vxlan` carries the links.
    pub kernel: bool,
    /// Whether IP may fragment VXLAN datagrams that exceed the MTU between machines.
    pub fragments: bool,
}

/// One end of a link to another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossingLink {
    /// Index of the link in the topology.
    pub link: usize,
    /// VXLAN segment number.
    pub vni: u32,
    /// Address of the other machine.
    pub remote: Ipv4Addr,
    /// MTU of the link in bytes.
    pub mtu: u32,
}

impl NetworkSpec {
    /// Creates the specification of the whole network. `scale`: how many times slower than real time the network's clock
    /// runs. `None`: the clock is real time, and links have neither rates nor delays.
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
            port_drops: config
                .loss_rules
                .iter()
                .map(|lost| lost.switch_rule())
                .collect(),
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

/// A network of switch and host processes, on one machine or several, which the run controls.
pub trait Network: Send {
    /// Descriptors that are readable when the network has output.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;
    /// Processes output of the network while it is being built; returns true once it is ready. Called when one of `fds`
    /// is readable.
    fn take_ready(&mut self) -> Result<bool, FabricError>;
    /// Returns an error if the network has failed. Called when one of `fds` is readable.
    fn check(&mut self) -> Result<(), FabricError>;
    /// Addresses of the switches and hosts: P4Runtime servers, control sockets and interfaces.
    fn addresses(&self) -> &Addresses;
    /// Connects to the control socket of a host.
    fn connect(&self, host: &str) -> Result<HostClient, Failure>;
    /// Kills the process of a host or switch.
    fn kill(&mut self, node: &str) -> Result<(), FabricError>;
    /// Takes an interface of a switch down, which cuts the link.
    fn cut(&mut self, switch: &str, interface: &str) -> Result<(), FabricError>;
    /// Brings an interface of a switch up again.
    fn restore(&mut self, switch: &str, interface: &str) -> Result<(), FabricError>;
    /// Number of the machine on which a host runs, from 0.
    fn machine_of(&self, host: &str) -> usize;
    /// Stores a message in a file on a machine, for the hosts there. Returns the path of the file.
    fn store(&mut self, machine: usize, bytes: &[u8]) -> Result<PathBuf, FabricError>;
    /// Counts the frames that the interfaces in `sent` have sent, plus those that the interfaces in `received` have
    /// received. An interface is given as the names of its switch and of itself.
    fn packets(
        &mut self,
        sent: &[(&str, &str)],
        received: &[(&str, &str)],
    ) -> Result<u64, FabricError>;
    /// Reads the processor counters of each machine for the network's processes, with the machine's number of
    /// processors.
    fn counters(&mut self) -> Result<Vec<(Counters, usize)>, FabricError>;
    /// Number of processors of all machines of the network together.
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

    fn restore(&mut self, _: &str, interface: &str) -> Result<(), FabricError> {
        MininetNetwork::restore(self, interface)
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

/// Sums a counter of interfaces in the namespace of the calling thread; missing interfaces count 0.
pub fn count_packets<'n>(
    interfaces: impl IntoIterator<Item = &'n str>,
    counter: InterfaceCounter,
) -> u64 {
    // /sys shows the interfaces of the namespace in which it was mounted, so it cannot be used.
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    count_in(&text, interfaces, counter)
}

/// Sums a counter in the text of `/proc/net/dev`: two header lines, then a line for each interface with 8 receive counters and 8 send
/// counters; packets are the second of each.
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

/// A line that the Python process prints to stdout.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line {
    /// The network is built, and all its processes have started.
    Ready(Addresses),
    /// A process of the network could not start, or has ended unexpectedly.
    Failed {
        what: String,
        #[serde(default)]
        hint: String,
    },
}

/// Addresses at which the switches and hosts of a network can be reached.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Addresses {
    /// P4Runtime server of each switch, such as "127.0.0.1:50001".
    pub switches: BTreeMap<String, String>,
    /// Control socket of each host.
    pub hosts: BTreeMap<String, PathBuf>,
    /// Names of network interfaces, by name of the switch and number of its port. The number is text, because keys of
    /// JSON objects are.
    #[serde(default)]
    pub interfaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Process numbers of all switches and hosts.
    #[serde(default)]
    pub processes: Vec<u32>,
}

/// A Mininet network on this machine; dropping the value removes the network.
pub struct MininetNetwork {
    pub addresses: Addresses,
    /// The Python process that builds and holds the network; `None` for a network of another program.
    child: Option<Child>,
    /// Standard input of the process. The process removes the network when it is closed.
    stdin: Option<ChildStdin>,
    stdout: File,
    /// For a network of another program: write end of a pipe whose read end is `stdout`, so that `stdout` never has
    /// data.
    _silent: Option<OwnedFd>,
    /// Bytes read from `stdout` that are not a complete line yet.
    input: Lines,
    work: WorkDir,
}

impl MininetNetwork {
    /// Starts to build the network; [`MininetNetwork::take_ready`] reports when it is ready.
    pub fn start(spec: &NetworkSpec) -> Result<MininetNetwork, Failure> {
        MininetNetwork::start_with(spec, |_| spec.pcap.clone())
    }

    /// Starts to build the network. `captures` returns the folder of captures, given the folder of the run.
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
        let alfirk = std::env::current_exe().map_err(|error| {
            Failure::failed(format_args!(
                "cannot find the path of this executable: {error}"
            ))
        })?;
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
            .env("PYTHONPATH", crate::python::path(&alfirk, &[MININET])?)
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
            let text = serde_json::to_string(part).expect("it serializes to JSON");
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
            input: Lines::new(MAX_LINE),
            work,
        })
    }

    /// Attaches to a running network of another program; `folder` contains its description ([`NETWORK_FILE`]).
    pub fn attach(folder: &Path) -> Result<MininetNetwork, Failure> {
        let file = folder.join(NETWORK_FILE);
        let bad = |why: &dyn Display| {
            let file = file.display();
            Failure::bad_input(format_args!(
                "--attach: {file}: {why}; give the folder that `mn --custom mininet/alfirk.py` prints"
            ))
        };
        let text = fs::read_to_string(&file).map_err(|error| bad(&error))?;
        let addresses = serde_json::from_str(&text).map_err(|error| bad(&error))?;
        let (reader, writer) = nix::unistd::pipe()
            .map_err(|error| Failure::failed(format_args!("cannot create a pipe: {error}")))?;
        Ok(MininetNetwork {
            addresses,
            child: None,
            stdin: None,
            stdout: reader.into(),
            _silent: Some(writer),
            input: Lines::new(MAX_LINE),
            work: WorkDir::new()?,
        })
    }

    /// Reads the line in which the process reports that the network is ready. Returns true when it has arrived. Called
    /// when the network's output is readable.
    pub fn take_ready(&mut self) -> Result<bool, FabricError> {
        match self.read_line()? {
            None => Ok(false),
            Some(Line::Ready(addresses)) => {
                self.addresses = addresses;
                Ok(true)
            }
            Some(Line::Failed { what, hint }) => Err(FabricError::Broken(with_hint(&what, &hint))),
        }
    }

    /// Returns an error if the network has failed. Called when the network's output is readable.
    pub fn check(&mut self) -> Result<(), FabricError> {
        match self.read_line()? {
            None => Ok(()),
            Some(Line::Failed { what, hint }) => Err(FabricError::Broken(with_hint(&what, &hint))),
            Some(Line::Ready(_)) => Err(FabricError::Broken(
                "the Mininet process reported twice that it is ready".to_string(),
            )),
        }
    }

    /// Kills the process of a host or switch.
    pub fn kill(&mut self, node: &str) -> Result<(), FabricError> {
        self.send(&serde_json::json!({ "kill": node }))
    }

    /// Takes an interface of a switch down.
    pub fn cut(&mut self, interface: &str) -> Result<(), FabricError> {
        self.send(&serde_json::json!({ "cut": interface }))
    }

    /// Brings an interface of a switch up again.
    pub fn restore(&mut self, interface: &str) -> Result<(), FabricError> {
        self.send(&serde_json::json!({ "restore": interface }))
    }

    fn send(&mut self, request: &serde_json::Value) -> Result<(), FabricError> {
        let sent = match &mut self.stdin {
            Some(stdin) => writeln!(stdin, "{request}").and_then(|()| stdin.flush()),
            None => Ok(()),
        };
        sent.map_err(|error| {
            FabricError::Broken(format!(
                "cannot send a request to the Mininet process: {error}"
            ))
        })
    }

    /// Number of the Python process; `None` for a network of another program.
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Folder of the run, with the files of its processes.
    pub fn folder(&self) -> &Path {
        self.work.path()
    }

    /// Path of a file in the folder of the run, which is removed with the network.
    pub fn file(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// Reads once from the process's output; returns the line if it is complete.
    fn read_line(&mut self) -> Result<Option<Line>, FabricError> {
        let mut chunk = [0; 4096];
        let count = self.stdout.read(&mut chunk).unwrap_or(0);
        if count == 0 {
            return Err(FabricError::Broken(format!(
                "the Mininet process ended{}",
                self.last_log_line()
            )));
        }
        self.input.push(&chunk[..count]);
        let broken = |why: &dyn std::fmt::Display| {
            FabricError::Broken(format!("unexpected output of the Mininet process: {why}"))
        };
        let Some(line) = self.input.next_line().map_err(|error| broken(&error))? else {
            return Ok(None);
        };
        let line = serde_json::from_slice(&line).map_err(|_| {
            let text = String::from_utf8_lossy(&line);
            broken(&text.trim())
        })?;
        Ok(Some(line))
    }

    /// Last line of the Python process's log, as the end of a message; empty if the log is empty.
    fn last_log_line(&self) -> String {
        let log = fs::read_to_string(self.file("mininet.log")).unwrap_or_default();
        match log.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!("; last line of its log: {line}"),
            None => String::new(),
        }
    }
}

impl AsFd for MininetNetwork {
    /// Descriptor that is readable when a line is available, or the process has ended.
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
    /// Removes the network and waits until the Python process has ended. The files of the run stay.
    pub fn take_down(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + STOP_LIMIT;
        let mut pause = Duration::from_millis(1);
        let Some(child) = &mut self.child else {
            return;
        };
        // It does not read its input while it builds.
        if let Ok(None) = child.try_wait() {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        }
        while let Ok(None) = child.try_wait() {
            if Instant::now() > deadline {
                tracing::warn!(
                    "Mininet did not remove the network within {} s; `make clean` removes the remains",
                    STOP_LIMIT.as_secs()
                );
                // An error means that the process has ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

/// Appends a hint to a message, if there is one.
fn with_hint(what: &str, hint: &str) -> String {
    if hint.is_empty() {
        what.to_string()
    } else {
        format!("{what}; {hint}")
    }
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
    fn lines_of_the_python_process_are_parsed() {
        let ready = r#"{"event": "ready", "switches": {"s1": "127.0.0.1:58565"}, "hosts": {"h1": "/tmp/x/h1.sock"},
            "interfaces": {"s1": {"1": "s1-eth1"}}}"#;
        let Line::Ready(addresses) = serde_json::from_str(ready).unwrap() else {
            panic!("not ready");
        };
        assert_eq!(addresses.switches["s1"], "127.0.0.1:58565");
        assert_eq!(addresses.hosts["h1"], Path::new("/tmp/x/h1.sock"));
        assert_eq!(addresses.interfaces["s1"]["1"], "s1-eth1");

        let failed =
            r#"{"event": "failed", "what": "switch s1 ended with 1", "hint": "it with_hint: x"}"#;
        let Line::Failed { what, hint } = serde_json::from_str(failed).unwrap() else {
            panic!("not failed");
        };
        assert_eq!(
            with_hint(&what, &hint),
            "switch s1 ended with 1; it with_hint: x"
        );
    }
}
