//! A network that is spread over several machines, each of which an [agent](crate::machine) has a part of.

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

use super::load::Counters;
use super::network::{Addresses, CrossingLink, Network, NetworkSpec, PartSpec, MESSAGE};
use super::scale::Equipment;
use super::work_dir::WorkDir;
use crate::exit::Failure;
use crate::host::client::HostClient;
use crate::machine::protocol::{Hello, Request, Response};
use crate::machine::trunk::{Trunk, CONTROL, FILES, FIRST_HOST};
use crate::run::machines::{Machines, LOCAL};

/// How long a machine may take until it says that it is there.
const HELLO_LIMIT: Duration = Duration::from_secs(30);
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long a machine may take to end what it has and to send captures: longer than its network may take.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// Machines that are connected, and what they have together.
pub struct MachinesNetwork {
    machines: Vec<Machine>,
    /// Of all of them; control sockets are streams, so there are no paths.
    addresses: Addresses,
    /// The machine of each node.
    places: BTreeMap<String, usize>,
    /// Names of hosts in the order of the topology.
    hosts: Vec<String>,
    links: usize,
    /// Where captures of all machines go.
    captures: Option<PathBuf>,
}

/// One machine, at the other end of a remote shell.
struct Machine {
    name: String,
    child: Child,
    trunk: Trunk,
    control: UnixStream,
    files: UnixStream,
    /// What has been read of a line.
    input: Vec<u8>,
    hello: Hello,
    address: Ipv4Addr,
    nodes: Vec<Node>,
    is_ready: bool,
    /// What its remote shell complains of.
    errors: PathBuf,
    /// Has the file of complaints.
    _work: std::sync::Arc<WorkDir>,
}

impl MachinesNetwork {
    /// Connects to the machines, and finds out whether they can have a network.
    ///
    /// # Errors
    /// One of them is not reached, or lacks something; the message says which, and what helps.
    pub fn connect(config: &Machines) -> Result<MachinesNetwork, Failure> {
        let work = std::sync::Arc::new(WorkDir::new()?);
        // All at once, for each takes its time.
        let started = config.machines.iter().enumerate().map(|(number, machine)| {
            let errors = work.path().join(format!("machine-{number}.log"));
            let complain = |error: io::Error| {
                Failure::failed(format_args!("machine {}: {error}", machine.name))
            };
            let log = File::create(&errors).map_err(complain)?;
            let mut command = command(config, &machine.name)?;
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(log)
                // Ctrl-C at the terminal is for this command, which then takes everything down.
                .process_group(0);
            let mut child = command.spawn().map_err(|error| {
                let program = command.get_program().to_string_lossy();
                Failure::failed(format_args!("cannot start {program}: {error}"))
            })?;
            let input = OwnedFd::from(child.stdout.take().expect("it is piped"));
            let output = child.stdin.take().expect("it is piped");
            // Opened before anything comes, so that nothing is missed.
            let trunk = Trunk::over(File::from(input), output).map_err(complain)?;
            Ok(Machine {
                name: machine.name.clone(),
                control: trunk.open(CONTROL).map_err(complain)?,
                files: trunk.open(FILES).map_err(complain)?,
                trunk,
                child,
                input: Vec::new(),
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
            machine.greet(deadline, &config.alfirk)?;
        }
        let client = machines.iter().find_map(|machine| machine.hello.client);
        for (machine, named) in machines.iter_mut().zip(&config.machines) {
            let seen = match machine.name.as_str() {
                // As the others see it.
                LOCAL => client,
                _ => machine.hello.address,
            };
            machine.address = named.address.or(seen).ok_or_else(|| {
                let name = &machine.name;
                Failure::bad_input(format_args!(
                    "machine {name}: it is not known by which IPv4 address the others reach it; write --machines {name}=ADDR"
                ))
            })?;
        }
        Ok(MachinesNetwork {
            machines,
            addresses: Addresses::default(),
            places: BTreeMap::new(),
            hosts: Vec::new(),
            links: 0,
            captures: None,
        })
    }

    /// What processors there are. Machines that are one kernel count once.
    pub fn equipment(&self) -> Equipment {
        let kernels = self.machines.iter().map(|machine| &machine.hello);
        let kernels: BTreeMap<&str, &Hello> = kernels.map(|h| (h.boot.as_str(), h)).collect();
        let wake = kernels.values().map(|hello| hello.wake_ns);
        Equipment {
            processors: kernels.values().map(|hello| hello.processors).sum(),
            wake: wake.fold(0.0, f64::max),
        }
    }

    /// Has every machine build its part.
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
                    // Numbers of segments begin at 1.
                    vni: link.0 as u32 + 1,
                    remote: addresses[other],
                    mtu: topology.link(*link).attributes.mtu,
                })
            });
            let names = machine.nodes.iter().map(|node| topology.name_of(*node));
            let names: Vec<String> = names.map(str::to_owned).collect();
            for name in &names {
                self.places.insert(name.clone(), number);
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
                .ask(&Request::Start { network })
                .map_err(Failure::failed)?;
        }
        Ok(())
    }

    /// For the report.
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

    fn of(&mut self, node: &str) -> Result<&mut Machine, FabricError> {
        let place = self.places.get(node).copied();
        let place = place.ok_or_else(|| FabricError::Broken(format!("no machine has {node}")))?;
        Ok(&mut self.machines[place])
    }

    /// Reads once from each machine that has something to say; gives lines that are no bad news.
    fn read(&mut self) -> Result<Vec<(usize, Response)>, FabricError> {
        let mut told = Vec::new();
        for (number, machine) in self.machines.iter_mut().enumerate() {
            while let Some(line) = machine.next(Instant::now())? {
                told.push((number, line));
            }
        }
        Ok(told)
    }
}

impl Network for MachinesNetwork {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let machines = self.machines.iter();
        machines.map(|machine| machine.control.as_fd()).collect()
    }

    fn take_ready(&mut self) -> Result<bool, FabricError> {
        for (number, told) in self.read()? {
            let Response::Ready { addresses } = told else {
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
        // What is no bad news is an answer that came too late.
        self.read().map(drop)
    }

    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn connect(&self, host: &str) -> Result<HostClient, Failure> {
        let (place, number) = (
            self.places.get(host),
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
        let ask = Request::Kill {
            node: node.to_owned(),
        };
        self.of(node)?.ask(&ask)
    }

    fn cut(&mut self, switch: &str, interface: &str) -> Result<(), FabricError> {
        let interface = interface.to_owned();
        self.of(switch)?.ask(&Request::Cut { interface })
    }

    fn mend(&mut self, switch: &str, interface: &str) -> Result<(), FabricError> {
        let interface = interface.to_owned();
        self.of(switch)?.ask(&Request::Mend { interface })
    }

    fn machine_of(&self, host: &str) -> usize {
        self.places.get(host).copied().unwrap_or(0)
    }

    fn store(&mut self, machine: usize, bytes: &[u8]) -> Result<PathBuf, FabricError> {
        let machine = &mut self.machines[machine];
        machine.ask(&Request::Store {
            name: MESSAGE.to_owned(),
            size: bytes.len() as u64,
        })?;
        match machine.answer()? {
            Response::GoOn => {}
            other => return Err(machine.unexpected(&other)),
        }
        let written = machine.files.write_all(bytes);
        written.map_err(|error| machine.lost(&error))?;
        match machine.answer()? {
            Response::Stored { path } => Ok(path),
            other => Err(machine.unexpected(&other)),
        }
    }

    fn packets(
        &mut self,
        sent: &[(&str, &str)],
        received: &[(&str, &str)],
    ) -> Result<u64, FabricError> {
        let places = &self.places;
        let mut packets = 0;
        for (number, machine) in self.machines.iter_mut().enumerate() {
            let here = |all: &[(&str, &str)]| -> Vec<String> {
                all.iter()
                    .filter(|(switch, _)| places.get(*switch) == Some(&number))
                    .map(|(_, interface)| (*interface).to_owned())
                    .collect()
            };
            machine.ask(&Request::Packets {
                sent: here(sent),
                received: here(received),
            })?;
            match machine.answer()? {
                Response::Packets { count } => packets += count,
                other => return Err(machine.unexpected(&other)),
            }
        }
        Ok(packets)
    }

    fn counters(&mut self) -> Result<Vec<(Counters, usize)>, FabricError> {
        let machines = self.machines.iter_mut();
        let read = machines.map(|machine| {
            machine.ask(&Request::Load)?;
            match machine.answer()? {
                Response::Load { counters } => Ok((counters, machine.hello.processors)),
                other => Err(machine.unexpected(&other)),
            }
        });
        read.collect()
    }

    fn processors(&self) -> usize {
        self.equipment().processors
    }
}

impl Machine {
    /// Waits until it says that it is there, and looks whether it is as it must be.
    fn greet(&mut self, deadline: Instant, alfirk: &str) -> Result<(), Failure> {
        let name = self.name.clone();
        let wrong = |why: String| Failure::failed(format_args!("machine {name}: {why}"));
        match self.next(deadline) {
            Ok(Some(Response::Hello(hello))) => self.hello = hello,
            Ok(Some(_)) => {
                let why = "it speaks otherwise: another alfirk is there; install this one";
                return Err(wrong(why.to_owned()));
            }
            Ok(None) => {
                return Err(wrong(format!(
                    "it has said nothing for {} s: does its shell wait for something?{}",
                    HELLO_LIMIT.as_secs(),
                    self.last_words()
                )))
            }
            Err(_) => return Err(wrong(self.why_it_ended(alfirk))),
        }
        let (theirs, ours) = (&self.hello.version, env!("CARGO_PKG_VERSION"));
        if theirs != ours {
            return Err(wrong(format!(
                "alfirk is of version {theirs} there, and of {ours} here: install the same"
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

    /// What became of a remote shell that ended before alfirk answered.
    fn why_it_ended(&mut self, alfirk: &str) -> String {
        // It may have closed its output a moment before.
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut status = None;
        while status.is_none() && Instant::now() < deadline {
            status = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(10));
        }
        let said = self.last_words();
        match status.and_then(|status| status.code()) {
            Some(255) => format!("it is not reached{said}"),
            Some(126 | 127) => format!(
                "there is no `{alfirk}`{said}; install this version of alfirk there, or say by --remote-alfirk where it is"
            ),
            Some(code) => format!(
                "`{alfirk} machine` ended with exit code {code}{said}; is another version of alfirk there?"
            ),
            None => format!(
                "what it says is not alfirk's{said}; a shell that prints something when nobody looks must not"
            ),
        }
    }

    /// The end of what its remote shell complains of.
    fn last_words(&self) -> String {
        let text = fs::read(&self.errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.map_or(String::new(), |line| format!(": {}", line.trim()))
    }

    fn ask(&mut self, ask: &Request) -> Result<(), FabricError> {
        let mut line = serde_json::to_vec(ask).expect("requests have no strange keys");
        line.push(b'\n');
        let written = self.control.write_all(&line);
        written.map_err(|error| self.lost(&error))
    }

    /// The next answer; bad news is an error.
    fn answer(&mut self) -> Result<Response, FabricError> {
        let told = self.next(Instant::now() + ANSWER_LIMIT)?;
        told.ok_or_else(|| FabricError::Timeout {
            what: format!("machine {} does not answer", self.name),
            seconds: ANSWER_LIMIT.as_secs_f64(),
        })
    }

    /// The next line, if one comes before `deadline`; bad news is an error.
    fn next(&mut self, deadline: Instant) -> Result<Option<Response>, FabricError> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                return match serde_json::from_slice(&line) {
                    Ok(Response::Failed { what }) => {
                        let name = &self.name;
                        Err(FabricError::Broken(format!("machine {name}: {what}")))
                    }
                    Ok(told) => Ok(Some(told)),
                    Err(error) => Err(self.lost(&error)),
                };
            }
            // A timeout of zero would mean none.
            let left = deadline.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_micros(1));
            let mut chunk = [0; 65536];
            let read = self
                .control
                .set_read_timeout(Some(left))
                .and_then(|()| self.control.read(&mut chunk));
            match read {
                Ok(0) => return Err(self.lost(&"the connection has ended")),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(self.lost(&error)),
                },
            }
        }
    }

    fn lost(&self, why: &dyn std::fmt::Display) -> FabricError {
        let (name, said) = (&self.name, self.last_words());
        FabricError::Broken(format!("machine {name}: {why}{said}"))
    }

    fn unexpected(&self, told: &Response) -> FabricError {
        let name = &self.name;
        FabricError::Broken(format!("machine {name}: unexpected answer {told:?}"))
    }

    /// Takes what it has captured, and waits until its part of the network is gone.
    fn stop(&mut self, captures: Option<&PathBuf>) -> Result<(), FabricError> {
        self.ask(&Request::Stop)?;
        let deadline = Instant::now() + STOP_LIMIT;
        while let Some(told) = self.next(deadline)? {
            match (told, captures) {
                (Response::Stopped, _) => return Ok(()),
                (Response::Capture { name, size }, Some(folder)) => {
                    self.ask(&Request::GoOn)?;
                    let file = PathBuf::from(&name);
                    let file = folder.join(file.file_name().unwrap_or_default());
                    let kept = fs::create_dir_all(folder)
                        .and_then(|()| File::create(&file))
                        .and_then(|mut to| io::copy(&mut (&self.files).take(size), &mut to));
                    kept.map_err(|error| self.lost(&format_args!("{name}: {error}")))?;
                }
                // An answer that came too late.
                _ => {}
            }
        }
        Err(FabricError::Timeout {
            what: format!("machine {} has not taken its network down", self.name),
            seconds: STOP_LIMIT.as_secs_f64(),
        })
    }
}

impl Drop for MachinesNetwork {
    /// Takes down what the machines have.
    fn drop(&mut self) {
        let captures = self.captures.take();
        let was_started = !self.places.is_empty();
        std::thread::scope(|scope| {
            for machine in &mut self.machines {
                scope.spawn(|| {
                    if was_started {
                        if let Err(error) = machine.stop(captures.as_ref()) {
                            match &captures {
                                Some(_) => tracing::warn!("captures are missing: {error}"),
                                // It may be the one whose failure ended the run, which is reported.
                                None => tracing::info!("{error}"),
                            }
                        }
                    }
                    // Its connection ends with the shell, and it with its connection.
                    let _ = machine.child.kill();
                    let _ = machine.child.wait();
                });
            }
        });
    }
}

/// What starts an agent on a machine.
fn command(config: &Machines, name: &str) -> Result<Command, Failure> {
    if name == LOCAL {
        let alfirk = std::env::current_exe()
            .map_err(|error| Failure::failed(format_args!("cannot find my own file: {error}")))?;
        let mut command = Command::new(alfirk);
        command.arg("machine");
        return Ok(command);
    }
    let mut command = Command::new(&config.shell[0]);
    command.args(&config.shell[1..]).arg(name);
    // The far shell puts in what it knows of the connection.
    let alfirk = &config.alfirk;
    command.arg(format!(
        "exec {alfirk} machine --connection \"$SSH_CONNECTION\""
    ));
    Ok(command)
}
