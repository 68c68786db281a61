//! The control socket: clients come and go, requests come in, answers and events go out. Nothing blocks.
//!
//! In its place there can be a character device, such as the serial port of a virtual machine. It has one client at a time: when the
//! other end closes, what was under way to it is forgotten, and the next who opens it finds a fresh line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::protocol::{Line, NumberedRequest};

/// The longest request. A list of endpoints of some 10,000 members fits.
const LONGEST_REQUEST: usize = 16 << 20;
/// Bytes that a client may leave unread before it is dropped.
const MOST_UNREAD: usize = 64 << 20;

/// One orchestrator.
struct Client {
    token: u64,
    stream: File,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Where clients come from.
enum Door {
    /// Any number, one after the other and side by side. The socket's file goes away with it.
    Socket(UnixListener),
    /// One. While nobody is at the other end, the open device is kept here.
    Device(Option<File>),
}

/// The door and the clients who came in.
pub(super) struct Control {
    path: PathBuf,
    door: Door,
    clients: Vec<Client>,
    next_token: u64,
}

/// A request, and who gets the answer.
pub(super) struct Incoming {
    pub(super) client: u64,
    /// Or what is wrong with it.
    pub(super) request: Result<NumberedRequest, String>,
}

impl Control {
    /// Opens the character device at `path`, or listens there on a socket. A file that a dead process left there is replaced; a socket that
    /// answers is not. Clients get tokens from `first_token` on.
    pub(super) fn open(path: &Path, first_token: u64) -> io::Result<Control> {
        let is_device = path
            .metadata()
            .is_ok_and(|found| found.file_type().is_char_device());
        let door = match is_device {
            true => Door::Device(Some(open_device(path)?)),
            false => Door::Socket(listen(path)?),
        };
        Ok(Control {
            path: path.to_owned(),
            door,
            clients: Vec::new(),
            next_token: first_token,
        })
    }

    /// Readable when a client waits at the door. A device has no such thing: see [`Control::is_waiting`].
    pub(super) fn listener_fd(&self) -> Option<RawFd> {
        match &self.door {
            Door::Socket(listener) => Some(listener.as_raw_fd()),
            Door::Device(_) => None,
        }
    }

    /// Whether [`Control::accept`] should be called again and again, because nothing says when somebody comes.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.door, Door::Device(_)) && self.clients.is_empty()
    }

    /// Takes clients that wait at the door; descriptors to watch, with their tokens.
    pub(super) fn accept(&mut self) -> Vec<(RawFd, u64)> {
        let mut streams = Vec::new();
        match &mut self.door {
            Door::Socket(listener) => {
                while let Ok((stream, _)) = listener.accept() {
                    if stream.set_nonblocking(true).is_ok() {
                        streams.push(File::from(OwnedFd::from(stream)));
                    }
                }
            }
            Door::Device(_) if !self.clients.is_empty() => {}
            Door::Device(device) => {
                let file = device.take().or_else(|| open_device(&self.path).ok());
                match file {
                    Some(file) if has_peer(&file) => streams.push(file),
                    // Closed and opened again, it could lose what somebody sends meanwhile.
                    other => *device = other,
                }
            }
        }
        let mut new = Vec::new();
        for stream in streams {
            let token = self.next_token;
            self.next_token += 1;
            new.push((stream.as_raw_fd(), token));
            self.clients.push(Client {
                token,
                stream,
                input: Vec::new(),
                output: Vec::new(),
            });
        }
        new
    }

    /// Reads what a client has sent. A client that has gone or sends nonsense without end is dropped.
    pub(super) fn read(&mut self, token: u64) -> Vec<Incoming> {
        let Some(index) = self.clients.iter().position(|c| c.token == token) else {
            return Vec::new();
        };
        let client = &mut self.clients[index];
        let alive = client.fill();
        let mut requests = Vec::new();
        while let Some(end) = client.input.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = client.input.drain(..=end).collect();
            if line.trim_ascii().is_empty() {
                continue;
            }
            requests.push(Incoming {
                client: token,
                request: serde_json::from_slice(&line)
                    .map_err(|error| format!("malformed request: {error}")),
            });
        }
        if !alive || client.input.len() > LONGEST_REQUEST {
            self.clients.remove(index);
        }
        requests
    }

    /// Queues a line for one client.
    pub(super) fn send(&mut self, token: u64, line: &Line) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.token == token) {
            client.push(line);
        }
    }

    /// Queues a line for all clients.
    pub(super) fn broadcast(&mut self, line: &Line) {
        for client in &mut self.clients {
            client.push(line);
        }
    }

    pub(super) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Writes what clients can take, and says whether something is left. Clients that have gone, or that do not read, are dropped.
    pub(super) fn flush(&mut self) -> bool {
        self.clients
            .retain_mut(|c| c.drain() && c.output.len() <= MOST_UNREAD);
        self.clients.iter().any(|c| !c.output.is_empty())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Door::Socket(_) = self.door {
            // It may be gone already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if UnixStream::connect(path).is_ok() {
                return Err(io::Error::new(
                    error.kind(),
                    "another process listens there",
                ));
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        other => other?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A terminal is made to pass everything on as it is.
fn open_device(path: &Path) -> io::Result<File> {
    use nix::sys::termios::{cfmakeraw, tcgetattr, tcsetattr, SetArg};

    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if let Ok(mut settings) = tcgetattr(&device) {
        cfmakeraw(&mut settings);
        tcsetattr(&device, SetArg::TCSANOW, &settings)?;
    }
    Ok(device)
}

/// Whether somebody has the other end of a device open.
fn has_peer(device: &File) -> bool {
    let mut fds = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    polled.is_ok() && !fds[0].revents().is_some_and(|found| found.intersects(gone))
}

impl Client {
    /// False when the client has gone.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 65536];
        while self.input.len() <= LONGEST_REQUEST {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn push(&mut self, line: &Line) {
        serde_json::to_writer(&mut self.output, line).expect("lines hold nothing that JSON cannot");
        self.output.push(b'\n');
    }

    /// False when the client has gone.
    fn drain(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::protocol::{Reply, Request};
    use nix::pty::openpty;
    use nix::unistd::ttyname;

    #[test]
    fn terminal_serves_one_client_until_it_closes() {
        let pty = openpty(None, None).unwrap();
        let path = ttyname(&pty.slave).unwrap();
        let mut control = Control::open(&path, 7).unwrap();
        drop(pty.slave);
        assert!(control.listener_fd().is_none());
        assert!(control.is_waiting());
        assert_eq!(control.accept().len(), 1);
        assert!(!control.is_waiting());
        assert!(control.accept().is_empty());

        let mut master = File::from(pty.master);
        master
            .write_all(b"{\"id\":1,\"request\":\"info\"}\nx\n")
            .unwrap();
        let got = control.read(7);
        assert_eq!(got[0].client, 7);
        assert_eq!(got[0].request.as_ref().unwrap().request, Request::Info);
        assert!(got[1].request.is_err());

        let reply = Reply::Accepted;
        control.send(7, &Line::Reply { id: 1, reply });
        assert!(!control.flush());
        let mut line = [0; 64];
        let count = master.read(&mut line).unwrap();
        // The terminal neither echoes nor changes the end of the line.
        assert_eq!(&line[..count], b"{\"id\":1,\"reply\":\"accepted\"}\n");

        drop(master);
        assert!(control.read(7).is_empty());
        assert!(control.is_waiting());
        // Nobody is there to come in.
        assert!(control.accept().is_empty());
        drop(control);
    }
}
