//! The control socket: accepts clients, reads requests, and writes replies and events, without blocking.
//!
//! Instead of the socket, a character device can be used, such as the serial port of a virtual machine. It has one
//! client at a time. When the client closes the device, queued lines are discarded, and the next client starts with an
//! empty line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use alfirk_json_lines::Lines;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::protocol::{Line, NumberedRequest};

/// Maximum size of a request in bytes; enough for the endpoints of 10,000 members.
const MAX_REQUEST: usize = 16 << 20;
/// Maximum size in bytes of a client's unread output; a client that exceeds it is dropped.
pub(super) const MAX_UNREAD: usize = 64 << 20;

/// Connection to one client (an orchestrator), with its partly read input and unsent output.
struct Client {
    /// Number that identifies the client to the event loop.
    token: u64,
    stream: File,
    input: Lines,
    output: Vec<u8>,
}

/// Source of client connections.
enum Listener {
    /// A Unix socket, for any number of clients at a time. Its file is removed on drop.
    Socket(UnixListener),
    /// A character device, for one client at a time. The open device is kept here while no client is connected.
    Device(Option<File>),
}

/// The control socket or device, and its connected clients.
pub(super) struct Control {
    path: PathBuf,
    listener: Listener,
    clients: Vec<Client>,
    next_token: u64,
}

/// A received request, and the client that gets the reply.
pub(super) struct Incoming {
    pub(super) client: u64,
    /// The parsed request, or why it is malformed.
    pub(super) request: Result<NumberedRequest, String>,
}

impl Control {
    /// Opens the character device at `path`, or listens there on a Unix socket. A socket file without a listening
    /// process is replaced; one with a listening process is an error. Clients get tokens from `first_token` on.
    pub(super) fn open(path: &Path, first_token: u64) -> io::Result<Control> {
        let is_device = path
            .metadata()
            .is_ok_and(|found| found.file_type().is_char_device());
        let listener = match is_device {
            true => Listener::Device(Some(open_device(path)?)),
            false => Listener::Socket(listen(path)?),
        };
        Ok(Control {
            path: path.to_owned(),
            listener,
            clients: Vec::new(),
            next_token: first_token,
        })
    }

    /// Descriptor that is readable when a client waits to be accepted. `None` for a device: see
    /// [`Control::needs_polling`].
    pub(super) fn listener_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.listener {
            Listener::Socket(listener) => Some(listener.as_fd()),
            Listener::Device(_) => None,
        }
    }

    /// Whether [`Control::accept`] must be called periodically: a device does not signal that a client has opened it.
    pub(super) fn needs_polling(&self) -> bool {
        matches!(self.listener, Listener::Device(_)) && self.clients.is_empty()
    }

    /// Accepts waiting clients. Returns the descriptor of each, to be watched for input, with its token.
    pub(super) fn accept(&mut self) -> Vec<(BorrowedFd<'_>, u64)> {
        let mut streams = Vec::new();
        match &mut self.listener {
            Listener::Socket(listener) => {
                while let Ok((stream, _)) = listener.accept() {
                    if stream.set_nonblocking(true).is_ok() {
                        streams.push(File::from(OwnedFd::from(stream)));
                    }
                }
            }
            Listener::Device(_) if !self.clients.is_empty() => {}
            Listener::Device(device) => {
                let file = device.take().or_else(|| open_device(&self.path).ok());
                match file {
                    Some(file) if has_peer(&file) => streams.push(file),
                    // Kept open: closing and reopening could lose data that a client sends meanwhile.
                    other => *device = other,
                }
            }
        }
        let first = self.clients.len();
        for stream in streams {
            let token = self.next_token;
            self.next_token += 1;
            self.clients.push(Client {
                token,
                stream,
                input: Lines::new(MAX_REQUEST),
                output: Vec::new(),
            });
        }
        let new = self.clients[first..].iter();
        new.map(|client| (client.stream.as_fd(), client.token))
            .collect()
    }

    /// Reads the requests of a client. A client that has closed its connection, or whose line exceeds [`MAX_REQUEST`],
    /// is dropped.
    pub(super) fn read(&mut self, token: u64) -> Vec<Incoming> {
        let Some(index) = self.clients.iter().position(|c| c.token == token) else {
            return Vec::new();
        };
        let client = &mut self.clients[index];
        let alive = client.read_available();
        let mut requests = Vec::new();
        let is_too_long = loop {
            match client.input.next_line() {
                Ok(Some(line)) if line.trim_ascii().is_empty() => {}
                Ok(Some(line)) => requests.push(Incoming {
                    client: token,
                    request: serde_json::from_slice(&line)
                        .map_err(|error| format!("malformed request: {error}")),
                }),
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        if !alive || is_too_long {
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

    /// Whether a client is connected.
    pub(super) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Writes queued output, and returns whether some is left. Clients that have closed their connection, or whose
    /// unread output exceeds [`MAX_UNREAD`], are dropped.
    pub(super) fn flush(&mut self) -> bool {
        self.clients
            .retain_mut(|c| c.write_queued() && c.output.len() <= MAX_UNREAD);
        self.clients.iter().any(|c| !c.output.is_empty())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Listener::Socket(_) = self.listener {
            // The file may be gone already.
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
                    "another process listens on this socket",
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

/// Opens the character device at `path`; if it is a terminal, sets raw mode.
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

/// Whether another process has the other end of the device open.
fn has_peer(device: &File) -> bool {
    let mut fds = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    polled.is_ok() && !fds[0].revents().is_some_and(|found| found.intersects(gone))
}

impl Client {
    /// Reads available input; false if the client closed the connection.
    fn read_available(&mut self) -> bool {
        let mut chunk = [0; 65536];
        while !self.input.is_full() {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => self.input.push(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn push(&mut self, line: &Line) {
        alfirk_json_lines::encode(line, &mut self.output).expect("lines serialize to JSON");
    }

    /// Writes queued output; false if the client closed the connection.
    fn write_queued(&mut self) -> bool {
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
        assert!(control.needs_polling());
        assert_eq!(control.accept().len(), 1);
        assert!(!control.needs_polling());
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
        assert!(control.needs_polling());
        // No client is connected.
        assert!(control.accept().is_empty());
        drop(control);
    }
}
