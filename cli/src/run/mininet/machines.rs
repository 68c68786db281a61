//! Controls a network over several machines. An [agent](crate::machine) on each machine builds and runs a part of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use alfirk_ctrl::topology::{Node, Topology};
use alfirk_experiment::{FabricError, MachineSummary};
use alfirk_json_lines::{Lines, MAX_LINE};

use super::load::Counters;
use super::network::{Addresses, CrossingLink, Network, NetworkSpec, PartSpec, MESSAGE};
use super::scale::MachineCapacity;
use super::work_dir::WorkDir;
use crate::exit::Failure;
use crate::host::client::HostClient;
use crate::machine::protocol::{Hello, Request, Response};
use crate::machine::trunk::{Trunk, CONTROL, FILES, FIRST_HOST};
use crate::run::machines::{Machines, LOCAL};

/// Time limit of a machine's first response.
const HELLO_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a machine's later responses.
const RESPONSE_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for a machine to remove its part of the network and send captures; longer than the limit of the removal
/// alone.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// A network on several machines, with a connection to the agent on each.
pub struct MachinesNetwork {
    machines: Vec<Machine>,
    /// Addresses of the switches on all machines. Control sockets of hosts are streams of the connections, so they have
    /// no paths.
    addresses: Addresses,
    /// Number of the machine on which each switch and host runs, by its name.
    machine_numbers: BTreeMap<String, usize>,
    /// Names of hosts in the order of the topology.
    hosts: Vec<String>,
    /// Number of links between machines.
    links: usize,
    /// Folder for the captures of all machines; `None` without captures.
    captures: Option<PathBuf>,
}

/// Connection to the agent on one machine, through a remote shell.
struct Machine {
    name: String,
    child: Child,
    trunk: Trunk,
    control: UnixStream,
    files: UnixStream,
    /// Bytes received from the machine that are not a complete line yet.
    input: Lines,
    hello: Hello,
    address: Ipv4Addr,
    nodes: Vec<Node>,
    is_ready: bool,
    /// File with the error output of the remote shell.
    errors: PathBuf,
    /// Folder that contains the file `errors`; the last user of it removes it.
    _work: std::sync::Arc<WorkDir>,
}

impl MachinesNetwork {
    /// Connects to the machines, and checks that they meet the requirements of a network.
    ///
    /// # Errors
    /// A machine cannot be reached or lacks a requirement; the message names it and a remedy.
    pub fn connect(config: &Machines) -> Result<MachinesNetwork, Failure> {
        let work = std::sync::Arc::new(WorkDir::new()?);
        // In parallel, as each connection takes time.
        let started = config.machines.iter().enumerate().map(|(number, machine)| {
            let errors = work.path().join(format!("machine-{number}.log"));
            let failed = |error: io::Error| {
                Failure::failed(format_args!("machine {}: {error}", machine.name))
            };
            let log = File::create(&errors).map_err(failed)?;
            let mut command = command(config, &machine.name)?;
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(log)
                // Ctrl-C must reach this command only, which then removes the network.
                .process_group(0);
            let mut child = command.spawn().map_err(|error| {
                let program = command.get_program().to_string_lossy();
                Failure::failed(format_args!("cannot start {program}: {error}"))
            })?;
            let input = OwnedFd::from(child.stdout.take().expect("it is piped"));
            let output = child.stdin.take().expect("it is piped");
            // Opened before the first frame can arrive.
            let trunk = Trunk::over(File::from(input), output).map_err(failed)?;
            Ok(Machine {
                name: machine.name.clone(),
                control: trunk.open(CONTROL).map_err(failed)?,
                files: trunk.open(FILES).map_err(failed)?,
                trunk,
                child,
                input: Lines::new(MAX_LINE),
                hello: Hello::default(),
                address: machine.address.unwrap_or(Ipv4Addr::UNSPECIFIED),
                nodes: config.placement.nodes_of(number).collect(),
                is_ready: false,
                errors,
                _work: std::sync::Arc::clone(&work),
            })
        });
        let mut machines = started.collect::<Result<Vec<Machine>, Failure>>()?;
        let deadline = Instant::now() + HELLO_LIMIT;
        for machine in &mut machines {
            machine.wait_for_hello(deadline, &config.alfirk)?;
        }
        let client = machines.iter().find_map(|machine| machine.hello.client);
        for (machine, named) in machines.iter_mut().zip(&config.machines) {
            let seen = match machine.name.as_str() {
                // The address that the other machines have for this one.
                LOCAL => client,
                _ => machine.hello.address,
            };
            machine.address = named.address.or(seen).ok_or_else(|| {
                let name = &machine.name;
                Failure::bad_input(format_args!(
                    "machine {name}: its IPv4 address for the other machines is unknown; write --machines {name}=ADDR"
                ))
            })?;
        }
        Ok(MachinesNetwork {
            machines,
            addresses: Addresses::default(),
            machine_numbers: BTreeMap::new(),
            hosts: Vec::new(),
            links: 0,
            captures: None,
        })
    }

    /// Number of processors and wake-up latency of the machines. Several machines with the same kernel count once.
    pub fn capacity(&self) -> MachineCapacity {
        let kernels = self.machines.iter().map(|machine| &machine.hello);
        let kernels: BTreeMap<&str, &Hello> = kernels.map(|h| (h.boot.as_str(), h)).collect();
        let wake = kernels.values().map(|hello| hello.wake_ns);
        MachineCapacity {
            processors: kernels.values().map(|hello| hello.processors).sum(),
            wake: wake.fold(0.0, f64::max),
        }
    }

    /// Requests every machine to build its part of the network.
    pub fn start(
        &mut self,
        config: &Machines,
        topology: &Topology,
        spec: &NetworkSpec,
    ) -> Result<(), Failure> {
        let crossing: Vec<_> = config.placement.crossing(topology).collect();
        self.links = crossing.len();
        self.captures.clone_from(&spec.pcap);
        self.hosts = topology.hosts().iter().map(|h| h.name.clone()).collect();
        let addresses: Vec<Ipv4Addr> = self.machines.iter().map(|m| m.address).collect();
        for (number, machine) in self.machines.iter_mut().enumerate() {
            let links = crossing.iter().filter_map(|(link, ends)| {
                let other = match *ends {
                    [here, there] if here == number => there,
                    [there, here] if here == number => there,
                    _ => return None,
                };
                Some(CrossingLink {
                    link: link.0,
                    // VXLAN segment numbers start at 1.
                    vni: link.0 as u32 + 1,
                    remote: addresses[other],
                    mtu: topology.link(*link).attributes.mtu,
                })
            });
            let names = machine.nodes.iter().map(|node| topology.name_of(*node));
            let names: Vec<String> = names.map(str::to_owned).collect();
            for name in &names {
                self.machine_numbers.insert(name.clone(), number);
            }
            let part = PartSpec {
                address: machine.address,
                nodes: names,
                links: links.collect(),
                port: config.vxlan_port,
                kernel: machine.hello.kernel_vxlan,
                fragments: config.fragments,
            };
            let network = NetworkSpec {
                part: Some(part),
                ..spec.clone()
            };
            let network = Box::new(network);
            machine
                .request(&Request::Start { network })
                .map_err(Failure::failed)?;
        }
        Ok(())
    }

    /// Summaries of the machines for the report, and the number of links between machines.
    pub fn summaries(&self) -> (Vec<MachineSummary>, usize) {
        let machines = self.machines.iter().map(|machine| {
            let switches = machine.nodes.iter();
            let switches = switches.filter(|node| matches!(node, Node::Switch(_)));
            let switches = switches.count();
            MachineSummary {
                name: machine.name.clone(),
                address: machine.address.to_string(),
                switches,
                hosts: machine.nodes.len() - switches,
                vxlan: match machine.hello.kernel_vxlan {
                    true => "kernel".to_owned(),
                    false => "alfirk".to_owned(),
                },
            }
        });
        (machines.collect(), self.links)
    }

    fn machine_with(&mut self, node: &str) -> Result<&mut Machine, FabricError> {
        let place = self.machine_numbers.get(node).copied();
        let place = place.ok_or_else(|| {
            FabricError::Broken(format!("no machine of --machines has the node {node}"))
        })?;
        Ok(&mut self.machines[place])
    }

    /// Reads all responses that have arrived, each with the number of its machine. A failure that a machine reports is
    /// an error.
    fn read(&mut self) -> Result<Vec<(usize, Response)>, FabricError> {
        let mut response = Vec::new();
        for (number, machine) in self.machines.iter_mut().enumerate() {
            while let Some(line) = machine.next(Instant::now())? {
                response.push((number, line));
            }
        }
        Ok(response)
    }
}

impl Network for MachinesNetwork {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let machines = self.machines.iter();
        machines.map(|machine| machine.control.as_fd()).collect()
    }

    fn take_ready(&mut self) -> Result<bool, FabricError> {
        for (number, response) in self.read()? {
            let Response::Ready { addresses } = response else {
                continue;
            };
            self.machines[number].is_ready = true;
            self.addresses.switches.extend(addresses.switches);
            self.addresses.hosts.extend(addresses.hosts);
            self.addresses.interfaces.extend(addresses.interfaces);
        }
        Ok(self.machines.iter().all(|machine| machine.is_ready))
    }

    fn check(&mut self) -> Result<(), FabricError> {
        // Any other response is a late reply.
        self.read().map(drop)
    }

    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn connect(&self, host: &str) -> Result<HostClient, Failure> {
        let (place, number) = (
            self.machine_numbers.get(host),
            self.hosts.iter().position(|name| name == host),
        );
        let (Some(&place), Some(number)) = (place, number) else {
            return Err(Failure::failed(format_args!("no machine has host {host}")));
        };
        let stream = self.machines[place].trunk.open(FIRST_HOST + number as u16);
        let stream =
            stream.map_err(|error| Failure::failed(format_args!("host {host}: {error}")))?;
        Ok(HostClient::over(host, stream))
    }

    fn kill(&mut self, node: &str) -> Result<(), FabricError> {
        let request = Request::Kill {
            node: node.to_owned(),
        };
        self.machine_with(node)?.request(&request)
    }

    fn cut(&mut self, switch: &str, interface: &str) -> Result<(), FabricError> {
        let interface = interface.to_owned();
        self.machine_with(switch)?
            .request(&Request::Cut { interface })
    }

    fn restore(&mut self, switch: &str, interface: &str) -> Result<(), FabricError> {
        let interface = interface.to_owned();
        self.machine_with(switch)?
            .request(&Request::Restore { interface })
    }

    fn machine_of(&self, host: &str) -> usize {
        self.machine_numbers.get(host).copied().unwrap_or(0)
    }

    fn store(&mut self, machine: usize, bytes: &[u8]) -> Result<PathBuf, FabricError> {
        let machine = &mut self.machines[machine];
        machine.request(&Request::Store {
            name: MESSAGE.to_owned(),
            size: bytes.len() as u64,
        })?;
        match machine.response()? {
            Response::GoOn => {}
            other => return Err(machine.unexpected(&other)),
        }
        let written = machine.files.write_all(bytes);
        written.map_err(|error| machine.lost(&error))?;
        match machine.response()? {
            Response::Stored { path } => Ok(path),
            other => Err(machine.unexpected(&other)),
        }
    }

    fn packets(
        &mut self,
        sent: &[(&str, &str)],
        received: &[(&str, &str)],
    ) -> Result<u64, FabricError> {
        let machine_numbers = &self.machine_numbers;
        let mut packets = 0;
        for (number, machine) in self.machines.iter_mut().enumerate() {
            let here = |all: &[(&str, &str)]| -> Vec<String> {
                all.iter()
                    .filter(|(switch, _)| machine_numbers.get(*switch) == Some(&number))
                    .map(|(_, interface)| (*interface).to_owned())
                    .collect()
            };
            machine.request(&Request::Packets {
                sent: here(sent),
                received: here(received),
            })?;
            match machine.response()? {
                Response::Packets { count } => packets += count,
                other => return Err(machine.unexpected(&other)),
            }
        }
        Ok(packets)
    }

    fn counters(&mut self) -> Result<Vec<(Counters, usize)>, FabricError> {
        let machines = self.machines.iter_mut();
        let read = machines.map(|machine| {
            machine.request(&Request::Load)?;
            match machine.response()? {
                Response::Load { counters } => Ok((counters, machine.hello.processors)),
                other => Err(machine.unexpected(&other)),
            }
        });
        read.collect()
    }

    fn processors(&self) -> usize {
        self.capacity().processors
    }
}

impl Machine {
    /// Waits for the machine's first response, and checks that it has the same version of alfirk and lacks no
    /// requirement.
    fn wait_for_hello(&mut self, deadline: Instant, alfirk: &str) -> Result<(), Failure> {
        let name = self.name.clone();
        let wrong = |why: String| Failure::failed(format_args!("machine {name}: {why}"));
        match self.next(deadline) {
            Ok(Some(Response::Hello(hello))) => self.hello = hello,
            Ok(Some(_)) => {
                let why =
                    "its first response is not that of this alfirk; install the same version there";
                return Err(wrong(why.to_owned()));
            }
            Ok(None) => {
                return Err(wrong(format!(
                    "no response within {} s; check that its shell does not wait for input{}",
                    HELLO_LIMIT.as_secs(),
                    self.last_error_line()
                )))
            }
            Err(_) => return Err(wrong(self.explain_end(alfirk))),
        }
        let (theirs, ours) = (&self.hello.version, env!("CARGO_PKG_VERSION"));
        if theirs != ours {
            return Err(wrong(format!(
                "alfirk has version {theirs} there and {ours} here; install the same version"
            )));
        }
        if !self.hello.missing.is_empty() {
            let missing = self.hello.missing.join("; ");
            let hint = match missing.contains("root") && self.name != LOCAL {
                true => " (log in as root, or give --remote-alfirk 'sudo -n alfirk')",
                false => "",
            };
            return Err(wrong(format!("{missing}{hint}")));
        }
        Ok(())
    }

    /// Message that explains why the remote shell ended before alfirk responded. `alfirk`: the command that it should
    /// have run.
    fn explain_end(&mut self, alfirk: &str) -> String {
        // Its output may have closed a moment before the process ended.
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut status = None;
        while status.is_none() && Instant::now() < deadline {
            status = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(10));
        }
        let error_output = self.last_error_line();
        match status.and_then(|status| status.code()) {
            Some(255) => format!("cannot be reached{error_output}"),
            Some(126 | 127) => format!(
                "cannot find `{alfirk}`{error_output}; install this version of alfirk there, or give its path with --remote-alfirk"
            ),
            Some(code) => format!(
                "`{alfirk} machine` ended with exit code {code}{error_output}; check that the same version of alfirk is installed there"
            ),
            None => format!(
                "its output is not that of alfirk{error_output}; a non-interactive shell there must not print anything"
            ),
        }
    }

    /// Last line of the remote shell's error output, after a colon; empty without output.
    fn last_error_line(&self) -> String {
        let text = fs::read(&self.errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.map_or(String::new(), |line| format!(": {}", line.trim()))
    }

    fn request(&mut self, request: &Request) -> Result<(), FabricError> {
        let line = alfirk_json_lines::to_line(request).expect("requests have no strange keys");
        let written = self.control.write_all(&line);
        written.map_err(|error| self.lost(&error))
    }

    /// Waits for the next response. A failure that the machine reports is an error.
    fn response(&mut self) -> Result<Response, FabricError> {
        let response = self.next(Instant::now() + RESPONSE_LIMIT)?;
        response.ok_or_else(|| FabricError::Timeout {
            what: format!("no response from machine {}", self.name),
            seconds: RESPONSE_LIMIT.as_secs_f64(),
        })
    }

    /// Waits for the next response; `None` if none arrives before `deadline`. A failure that the machine reports is an
    /// error.
    fn next(&mut self, deadline: Instant) -> Result<Option<Response>, FabricError> {
        loop {
            let line = self.input.next_line();
            if let Some(line) = line.map_err(|error| self.lost(&error))? {
                return match serde_json::from_slice(&line) {
                    Ok(Response::Failed { what }) => {
                        let name = &self.name;
                        Err(FabricError::Broken(format!("machine {name}: {what}")))
                    }
                    Ok(response) => Ok(Some(response)),
                    Err(error) => Err(self.lost(&error)),
                };
            }
            // A socket timeout of zero would mean no timeout.
            let left = deadline.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_micros(1));
            let mut chunk = [0; 65536];
            let read = self
                .control
                .set_read_timeout(Some(left))
                .and_then(|()| self.control.read(&mut chunk));
            match read {
                Ok(0) => return Err(self.lost(&"the connection was closed")),
                Ok(count) => self.input.push(&chunk[..count]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(self.lost(&error)),
                },
            }
        }
    }

    fn lost(&self, why: &dyn std::fmt::Display) -> FabricError {
        let (name, error_output) = (&self.name, self.last_error_line());
        FabricError::Broken(format!("machine {name}: {why}{error_output}"))
    }

    fn unexpected(&self, response: &Response) -> FabricError {
        let name = &self.name;
        FabricError::Broken(format!("machine {name}: unexpected response {response:?}"))
    }

    /// Stops the machine's part of the network: receives its captures into the folder `captures`, and waits until the
    /// part is removed.
    fn stop(&mut self, captures: Option<&PathBuf>) -> Result<(), FabricError> {
        self.request(&Request::Stop)?;
        let deadline = Instant::now() + STOP_LIMIT;
        while let Some(response) = self.next(deadline)? {
            match (response, captures) {
                (Response::Stopped, _) => return Ok(()),
                (Response::Capture { name, size }, Some(folder)) => {
                    self.request(&Request::GoOn)?;
                    let file = PathBuf::from(&name);
                    let file = folder.join(file.file_name().unwrap_or_default());
                    let kept = fs::create_dir_all(folder)
                        .and_then(|()| File::create(&file))
                        .and_then(|mut to| io::copy(&mut (&self.files).take(size), &mut to));
                    kept.map_err(|error| self.lost(&format_args!("{name}: {error}")))?;
                }
                // A late reply.
                _ => {}
            }
        }
        Err(FabricError::Timeout {
            what: format!("machine {} has not removed its network", self.name),
            seconds: STOP_LIMIT.as_secs_f64(),
        })
    }
}

impl Drop for MachinesNetwork {
    /// Removes the network on all machines.
    fn drop(&mut self) {
        let captures = self.captures.take();
        let was_started = !self.machine_numbers.is_empty();
        std::thread::scope(|scope| {
            for machine in &mut self.machines {
                scope.spawn(|| {
                    if was_started {
                        if let Err(error) = machine.stop(captures.as_ref()) {
                            match &captures {
                                Some(_) => tracing::warn!("captures are missing: {error}"),
                                // It may be the machine whose failure ended the run, which is reported.
                                None => tracing::info!("{error}"),
                            }
                        }
                    }
                    // The agent ends with its connection, and the connection with the shell.
                    let _ = machine.child.kill();
                    let _ = machine.child.wait();
                });
            }
        });
    }
}

/// Command that starts an agent on a machine.
fn command(config: &Machines, name: &str) -> Result<Command, Failure> {
    if name == LOCAL {
        let alfirk = std::env::current_exe().map_err(|error| {
            Failure::failed(format_args!(
                "cannot find the path of this executable: {error}"
            ))
        })?;
        let mut command = Command::new(alfirk);
        command.arg("machine");
        return Ok(command);
    }
    let mut command = Command::new(&config.shell[0]);
    command.args(&config.shell[1..]).arg(name);
    // The remote shell expands the variable.
    let alfirk = &config.alfirk;
    command.arg(format!(
        "exec {alfirk} machine --connection \"$SSH_CONNECTION\""
    ));
    Ok(command)
}
