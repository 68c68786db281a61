//! Multiplexes byte streams over one connection, that of a remote shell. Both ends use this module.
//!
//! A frame is a stream number (16 bits) and a length (32 bits), both in network byte order, followed by that many
//! bytes. A frame of length 0 ends its stream. The user of a stream reads and writes a Unix socket. Both ends send
//! frames of the stream [`KEEPALIVE`] periodically. After [`SILENCE`] without any frame, all streams end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// Number of the stream of requests and responses: lines of JSON.
pub const CONTROL: u16 = 0;
/// Number of the stream of file contents. Each file is announced by a line on the stream [`CONTROL`].
pub const FILES: u16 = 1;
/// Number of the stream that carries the control socket of the topology's first host. The streams of the other hosts
/// have the following numbers.
pub const FIRST_HOST: u16 = 2;
/// Number of the stream of keepalives, which carries no data.
const KEEPALIVE: u16 = u16::MAX;

const HEADER_LEN: usize = 6;
/// Maximum length of a frame's contents in bytes.
const MAX_CONTENTS: usize = 1 << 20;
/// Maximum number of bytes that are read from a stream at once.
const CHUNK: usize = 64 << 10;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Time without a frame after which the connection is considered lost.
pub const SILENCE: Duration = Duration::from_secs(20);

/// One end of a multiplexed connection; clones share the end.
#[derive(Clone)]
pub struct Trunk {
    output: Arc<Mutex<Box<dyn Write + Send>>>,
    streams: Arc<Mutex<Streams>>,
}

/// Open streams; `None` once the connection has ended.
type Streams = Option<BTreeMap<u16, UnixStream>>;

fn header(stream: u16, length: usize) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[..2].copy_from_slice(&stream.to_be_bytes());
    bytes[2..].copy_from_slice(&(length as u32).to_be_bytes());
    bytes
}

/// Parses a header into stream number and length of the contents; `None` if it is invalid.
fn parse(bytes: [u8; HEADER_LEN]) -> Option<(u16, usize)> {
    let stream = u16::from_be_bytes([bytes[0], bytes[1]]);
    let length = u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]) as usize;
    (length <= MAX_CONTENTS).then_some((stream, length))
}

impl Trunk {
    /// Multiplexes a connection, given its two directions. Starts threads that read from it and keep it alive.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn over(input: File, output: impl Write + Send + 'static) -> io::Result<Trunk> {
        let trunk = Trunk {
            output: Arc::new(Mutex::new(Box::new(output))),
            streams: Arc::new(Mutex::new(Some(BTreeMap::new()))),
        };
        Ok(trunk).and_then(|trunk| {
            let control = trunk.clone();
            thread::Builder::new()
                .name("trunk".into())
                .spawn(move || control.receive(input))?;
            let alive = trunk.clone();
            thread::Builder::new().name("alive".into()).spawn(move || {
                while alive.send(KEEPALIVE, b"!").is_ok() {
                    thread::sleep(KEEPALIVE_INTERVAL);
                }
            })?;
            Ok(trunk)
        })
    }

    /// Opens the stream with this number, and returns the socket of its user. Must be called before the other end sends
    /// on the stream.
    ///
    /// # Errors
    /// A socket or thread cannot be created.
    pub fn open(&self, stream: u16) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        self.attach(stream, ours)?;
        Ok(theirs)
    }

    /// Connects an existing socket to the stream with this number. If the connection has ended, the stream ends
    /// immediately.
    ///
    /// # Errors
    /// As [`Trunk::open`].
    pub fn attach(&self, stream: u16, socket: UnixStream) -> io::Result<()> {
        let mut reader = socket.try_clone()?;
        match self.streams().as_mut() {
            Some(streams) => streams.insert(stream, socket),
            None => return socket.shutdown(Shutdown::Both),
        };
        let trunk = self.clone();
        thread::Builder::new()
            .name(format!("stream {stream}"))
            .stack_size(256 << 10)
            .spawn(move || {
                let mut chunk = vec![0; CHUNK];
                loop {
                    let count = match reader.read(&mut chunk) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        read => read.unwrap_or(0),
                    };
                    if trunk.send(stream, &chunk[..count]).is_err() || count == 0 {
                        return;
                    }
                }
            })?;
        Ok(())
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, stream: u16, bytes: &[u8]) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(&header(stream, bytes.len()))?;
        output.write_all(bytes)?;
        output.flush()
    }

    /// Distributes received frames to the sockets of their streams until the connection ends; then ends all streams.
    fn receive(&self, input: File) {
        // The error is not needed: the user of the connection notices its end, and the responses show why.
        let _ = self.forward_streams(&mut TimedReader(input));
        let open = self.streams().take();
        for socket in open.into_iter().flat_map(BTreeMap::into_values) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn forward_streams(&self, input: &mut TimedReader) -> io::Result<()> {
        let mut contents = Vec::new();
        loop {
            let mut bytes = [0; HEADER_LEN];
            input.read_exact(&mut bytes)?;
            let (stream, length) = parse(bytes).ok_or(io::ErrorKind::InvalidData)?;
            contents.resize(length, 0);
            input.read_exact(&mut contents)?;
            let Some(socket) = self
                .streams()
                .as_ref()
                .and_then(|all| all.get(&stream))
                .map(UnixStream::try_clone)
            else {
                continue;
            };
            let socket = socket?;
            let passed = match contents.is_empty() {
                true => socket.shutdown(Shutdown::Write),
                false => (&socket).write_all(&contents),
            };
            if passed.is_err() {
                // The reader of this stream is gone, which ends this stream only.
                self.streams().as_mut().map(|all| all.remove(&stream));
            }
        }
    }
}

/// A reader that fails if nothing arrives for [`SILENCE`]. Files and pipes have no timeout of their own.
struct TimedReader(File);

impl Read for TimedReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let limit = PollTimeout::from(SILENCE.as_secs() as u16 * 1_000);
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, limit)? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => self.0.read(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Trunk, Trunk) {
        let (there, back) = (nix::unistd::pipe().unwrap(), nix::unistd::pipe().unwrap());
        let left = Trunk::over(File::from(back.0), File::from(there.1)).unwrap();
        let right = Trunk::over(File::from(there.0), File::from(back.1)).unwrap();
        (left, right)
    }

    #[test]
    fn streams_do_not_mix() {
        let (left, right) = pair();
        let mut ends = Vec::new();
        for stream in [CONTROL, FIRST_HOST, FIRST_HOST + 1] {
            ends.push((right.open(stream).unwrap(), left.open(stream).unwrap()));
        }
        let text = |stream: usize| format!("{stream} ").repeat(40_000 + stream);
        for (stream, (_, left)) in ends.iter_mut().enumerate() {
            let (mut end, text) = (left.try_clone().unwrap(), text(stream));
            thread::spawn(move || {
                end.write_all(text.as_bytes()).unwrap();
                end.shutdown(Shutdown::Write).unwrap();
            });
        }
        for (stream, (right, _)) in ends.iter_mut().enumerate() {
            let mut read = String::new();
            right.read_to_string(&mut read).unwrap();
            assert!(read == text(stream), "stream {stream}");
        }
    }

    #[test]
    fn all_streams_end_with_the_connection() {
        let (there, back) = (nix::unistd::pipe().unwrap(), nix::unistd::pipe().unwrap());
        let trunk = Trunk::over(File::from(back.0), File::from(there.1)).unwrap();
        let mut stream = trunk.open(CONTROL).unwrap();
        // A frame, and then an invalid header.
        let mut far = File::from(back.1);
        far.write_all(&[
            0, 0, 0, 0, 0, 2, b'h', b'i', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ])
        .unwrap();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"hi");
        // A stream that is opened afterwards has ended from the start.
        assert_eq!(trunk.open(FILES).unwrap().read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn headers_round_trip() {
        for (stream, length) in [(0, 0), (1, MAX_CONTENTS), (u16::MAX, 1)] {
            assert_eq!(parse(header(stream, length)), Some((stream, length)));
        }
        assert_eq!(parse(header(0, MAX_CONTENTS + 1)), None);
    }
}
