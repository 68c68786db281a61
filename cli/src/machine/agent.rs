//! The agent on a machine: builds its part of the network, and executes the requests of `alfirk run --machines`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use alfirk_ctrl::topology::Topology;
use alfirk_json_lines::{Lines, MAX_LINE};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::protocol::{Hello, Request, Response};
use super::trunk::{Trunk, CONTROL, FILES, FIRST_HOST};
use crate::doctor;
use crate::exit::{Failure, Outcome};
use crate::run::mininet::load::Counters;
use crate::run::mininet::network::{count_packets, InterfaceCounter, MininetNetwork, NetworkSpec};
use crate::run::mininet::scale::measure_wake_latency;
use crate::run::mininet::signals::Signals;
use crate::run::processors;
use crate::vxlan::check_mtu;

/// Name of the folder with captures, inside the folder of the run.
const CAPTURES: &str = "pcaps";

/// Builds and controls this machine's part of a network as requested through standard input.
pub fn run(connection: &str) -> Outcome {
    let broken = |error: io::Error| Failure::failed(format_args!("alfirk machine: {error}"));
    let signals = Signals::block()?;
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(broken)?;
    let output = io::stdout().as_fd().try_clone_to_owned().map_err(broken)?;
    let trunk = Trunk::over(File::from(input), File::from(output)).map_err(broken)?;
    let mut agent = Agent {
        control: trunk.open(CONTROL).map_err(broken)?,
        files: trunk.open(FILES).map_err(broken)?,
        trunk,
        input: Lines::new(MAX_LINE),
        network: None,
        hosts: Vec::new(),
        is_ready: false,
        captures: None,
    };
    agent
        .send(&Response::Hello(hello(connection)))
        .map_err(broken)?;
    agent.serve(&signals).map_err(broken)
}

/// State of the agent: its connection, and its part of the network.
struct Agent {
    trunk: Trunk,
    control: UnixStream,
    files: UnixStream,
    /// Bytes received on `control` that are not a complete request yet.
    input: Lines,
    network: Option<MininetNetwork>,
    /// Names of all hosts of the topology, on all machines.
    hosts: Vec<String>,
    is_ready: bool,
    /// Folder with the captures; `None` if none were requested.
    captures: Option<PathBuf>,
}

impl Agent {
    /// Serves requests until the connection ends or a signal arrives.
    fn serve(&mut self, signals: &Signals) -> io::Result<()> {
        loop {
            let (asked, network, signal) = {
                let fds = [self.control.as_fd(), signals.as_fd()].into_iter();
                let fds = fds.chain(self.network.as_ref().map(AsFd::as_fd));
                let mut fds: Vec<PollFd<'_>> =
                    fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
                match poll(&mut fds, PollTimeout::NONE) {
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
                let is_readable = |at: usize| fds.get(at).and_then(PollFd::any).unwrap_or(false);
                (is_readable(0), is_readable(2), is_readable(1))
            };
            if signal && signals.take().is_some() {
                return Ok(());
            }
            if network {
                self.report_network_output()?;
            }
            if !asked {
                continue;
            }
            if !self.read()? {
                return Ok(());
            }
            while let Some(request) = self.next_request()? {
                self.execute(request)?;
            }
        }
    }

    /// Reads available bytes of requests; returns false if the connection has ended.
    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 65536];
        let count = self.control.read(&mut chunk)?;
        self.input.push(&chunk[..count]);
        Ok(count > 0)
    }

    /// Returns the next complete request; `None` if there is none.
    fn next_request(&mut self) -> io::Result<Option<Request>> {
        let Some(line) = self.input.next_line()? else {
            return Ok(None);
        };
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(io::Error::other)
    }

    /// Waits until the other end requests the contents of the announced file.
    fn wait_for_reader(&mut self) -> io::Result<()> {
        loop {
            match self.next_request()? {
                Some(Request::GoOn) => return Ok(()),
                Some(_) => {
                    return Err(io::Error::other(
                        "a request was sent before a file was complete",
                    ))
                }
                None if self.read()? => {}
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    fn send(&mut self, response: &Response) -> io::Result<()> {
        let line = alfirk_json_lines::to_line(response)?;
        self.control.write_all(&line)
    }

    /// Reports a failure and removes the network.
    fn fail(&mut self, what: String) -> io::Result<()> {
        // Reported first, as removing the network may take long.
        let sent = self.send(&Response::Failed { what });
        self.network = None;
        sent
    }

    /// Reports output of the network: that it is ready, or that it has failed.
    fn report_network_output(&mut self) -> io::Result<()> {
        let Some(network) = &mut self.network else {
            return Ok(());
        };
        if self.is_ready {
            return match network.check() {
                Ok(()) => Ok(()),
                Err(error) => self.fail(error.to_string()),
            };
        }
        match network.take_ready() {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.is_ready = true;
                let addresses = network.addresses.clone();
                for (name, socket) in &addresses.hosts {
                    let number = self.hosts.iter().position(|host| host == name);
                    let number =
                        number.ok_or_else(|| io::Error::other("a stream for an unknown host"))?;
                    let stream = UnixStream::connect(socket)?;
                    self.trunk.attach(FIRST_HOST + number as u16, stream)?;
                }
                self.send(&Response::Ready { addresses })
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn execute(&mut self, request: Request) -> io::Result<()> {
        let done = match request {
            Request::Start { network } => self.start(*network),
            Request::Kill { node } => self.with_network(|network| network.kill(&node)),
            Request::Cut { interface } => self.with_network(|network| network.cut(&interface)),
            Request::Restore { interface } => {
                self.with_network(|network| network.restore(&interface))
            }
            Request::Packets { sent, received } => {
                let count = |names: &[String], counter| {
                    count_packets(names.iter().map(String::as_str), counter)
                };
                let count = count(&sent, InterfaceCounter::SentPackets)
                    + count(&received, InterfaceCounter::ReceivedPackets);
                return self.send(&Response::Packets { count });
            }
            Request::Load => {
                let processes = self.network.as_ref().map(|n| n.addresses.processes.clone());
                let counters = Counters::read(&processes.unwrap_or_default());
                return self.send(&Response::Load { counters });
            }
            Request::Store { name, size } => self.store(&name, size),
            Request::Stop => return self.stop(),
            // Belongs to a file that is complete.
            Request::GoOn => return Ok(()),
        };
        match done {
            Ok(()) => Ok(()),
            Err(what) => self.fail(what),
        }
    }

    /// Executes an operation of a request on the network; an error if none has been started.
    fn with_network<E: ToString>(
        &mut self,
        work: impl FnOnce(&mut MininetNetwork) -> Result<(), E>,
    ) -> Result<(), String> {
        let network = self.network.as_mut().ok_or("no network has been started")?;
        work(network).map_err(|error| error.to_string())
    }

    fn start(&mut self, mut spec: NetworkSpec) -> Result<(), String> {
        let topology = Topology::from_yaml("the topology", &spec.topology);
        let topology = topology.map_err(|error| error.to_string())?;
        let names = topology.hosts().iter().map(|host| host.name.clone());
        self.hosts = names.collect();
        if let Some(part) = spec.part.as_ref().filter(|part| !part.fragments) {
            for link in &part.links {
                let checked = check_mtu(part.address, link.remote, link.mtu, "fragment-vxlan");
                let checked = checked.map_err(|error| {
                    let (remote, address) = (link.remote, part.address);
                    format!("no route from {address} to {remote}: {error}")
                })?;
                checked.map_err(|error| error.to_string())?;
            }
        }
        let wants_captures = spec.pcap.take().is_some();
        let started = MininetNetwork::start_with(&spec, |folder| {
            let captures = folder.join(CAPTURES);
            wants_captures.then_some(captures)
        });
        let network = started.map_err(|failure| match failure {
            Failure::Failed(error) | Failure::BadInput(error) => format!("{error:#}"),
            Failure::AlreadyReported(_) | Failure::PipeClosed => "it ended".to_owned(),
        })?;
        self.captures = wants_captures.then(|| network.file(CAPTURES));
        self.network = Some(network);
        Ok(())
    }

    fn store(&mut self, name: &str, size: u64) -> Result<(), String> {
        let network = self.network.as_ref().ok_or("no network has been started")?;
        // Only a file name, so that it stays inside the folder.
        let name = Path::new(name).file_name().ok_or("the file has no name")?;
        let path = network.file(&name.to_string_lossy());
        let announced = self.send(&Response::GoOn);
        let write = |files: &mut UnixStream| {
            let mut file = File::create(&path)?;
            let copied = io::copy(&mut files.take(size), &mut file)?;
            match copied == size {
                true => Ok(()),
                false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }
        };
        announced
            .and_then(|()| write(&mut self.files))
            .and_then(|()| self.send(&Response::Stored { path: path.clone() }))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    fn stop(&mut self) -> io::Result<()> {
        if let Some(network) = self.network.as_mut() {
            network.take_down();
        }
        if let Some(captures) = self.captures.take() {
            let mut files: Vec<PathBuf> = match fs::read_dir(&captures) {
                Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
                Err(_) => Vec::new(),
            };
            files.sort();
            for path in files {
                let mut file = File::open(&path)?;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let size = file.metadata()?.len();
                self.send(&Response::Capture {
                    name: name.into_owned(),
                    size,
                })?;
                self.wait_for_reader()?;
                io::copy(&mut (&mut file).take(size), &mut self.files)?;
            }
        }
        self.network = None;
        self.send(&Response::Stopped)
    }
}

/// Collects the properties of this machine.
fn hello(connection: &str) -> Hello {
    let (client, address) = addresses(connection);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        missing: doctor::missing_for_mininet(),
        address,
        client,
        processors: processors(),
        wake_ns: measure_wake_latency(),
        boot: boot.trim().to_owned(),
        kernel_vxlan: kernel_has_vxlan(),
    }
}

/// Parses the addresses of the client and of this machine from `SSH_CONNECTION`: "client port server port".
fn addresses(connection: &str) -> (Option<Ipv4Addr>, Option<Ipv4Addr>) {
    let words: Vec<&str> = connection.split_whitespace().collect();
    let at = |index: usize| words.get(index).and_then(|word| word.parse().ok());
    (at(0), at(2))
}

/// Whether the kernel supports VXLAN interfaces; creates and removes one.
fn kernel_has_vxlan() -> bool {
    let name = format!("vxt{}", std::process::id());
    let ip = |words: &[&str]| {
        let quiet = Command::new("ip")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        quiet.is_ok_and(|status| status.success())
    };
    let here = ["remote", "127.0.0.1", "dstport", "4789"];
    let made = ip(&[
        &["link", "add", &name, "type", "vxlan", "id", "1"][..],
        &here,
    ]
    .concat());
    made && ip(&["link", "delete", &name])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_connection_are_found() {
        let [client, server] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 9)];
        let found = addresses("192.0.2.1 51234 192.0.2.9 22");
        assert_eq!(found, (Some(client), Some(server)));
        assert_eq!(addresses(""), (None, None));
        assert_eq!(addresses("fe80::1 51234 fe80::2 22"), (None, None));
    }
}
