//! State of components as a list of values, by which a simulator finds and skips steady states.
//!
//! Two states are *equal up to a shift* if they differ only in these values: times by one duration, packet numbers of
//! each stream by one number of packets, and counters. A component whose behaviour does not depend on absolute times
//! and packet numbers then behaves in both states alike, up to the same shift. If a state recurs up to a shift, the
//! simulator can therefore add a multiple of the shift to it, in place of simulating as many periods.
//!
//! A component implements one function that passes each of its values to a [`StateVisitor`], always in the same order,
//! and stores the value that the visitor returns. While the visitor records, it returns the value unchanged. While it
//! shifts, it returns the value that the component has some periods later. So there is one list of values per
//! component, from which the compiler's exhaustiveness checks keep no field apart.
//!
//! A *stream* is the sequence of data packets that are being sent to a multicast group, or to a host, identified by the
//! destination's address.

use std::net::Ipv4Addr;

use alfirk_packet_io::frame::SharedBytes;

/// What a value of a component's state means, which determines how two states are compared and shifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any value that must be equal in both states.
    Same,
    /// A value that must not change within a period, but may differ between two recurrences.
    Constant,
    /// A time in nanoseconds.
    Time,
    /// A time in picoseconds.
    TimePs,
    /// A time in picoseconds that influences the behaviour only while it is in the future.
    FreePs,
    /// A PSN of the stream with this index, 24 bits.
    Psn(u16),
    /// A packet number of the stream with this index, which does not wrap.
    Number(u16),
    /// An offset in bytes, which increases by the payload of each packet of the stream with this index.
    Bytes(u16),
    /// A number of packets of the stream with this index after which the component no longer behaves as now. It limits
    /// the shift, and is not compared.
    Room(u16),
    /// A counter that does not influence the component's behaviour, modulo 2^64.
    Count,
    /// An IPv4 identification that the host assigns next, 1 to 65,535; see [`Kind::Count`].
    Identification,
    /// A number that no longer influences the behaviour once it has reached a limit, which it has.
    Saturated,
}

/// One value of a component's state.
pub type Value = (Kind, u64);

/// A stream: the data packets that a queue pair is sending, all of which belong to one message.
#[derive(Debug, Clone)]
pub struct Stream {
    /// IPv4 address of the destination: a multicast group or a host.
    pub to: Ipv4Addr,
    /// Number of the next packet that the source sends.
    pub next: u64,
    /// PSN of that packet.
    pub psn: u32,
    /// Payload of a full packet in bytes.
    pub mtu: u64,
    /// Bytes of the message.
    pub message: SharedBytes,
}

/// Receives the values of components in a fixed order: records them, or shifts them.
pub struct StateVisitor<'a> {
    streams: &'a [Stream],
    /// Index in `streams` of the stream to which the next values belong; `None` if they belong to none.
    stream: Option<u16>,
    mode: Mode<'a>,
}

enum Mode<'a> {
    /// Appends the values; `is_supported` becomes false if a component cannot be shifted.
    Record {
        values: &'a mut Vec<Value>,
        is_supported: bool,
    },
    /// Adds `times` times the change of each value in one period, modulo 2^64.
    Shift {
        changes: std::slice::Iter<'a, u64>,
        times: u64,
    },
}

impl<'a> StateVisitor<'a> {
    /// Creates a visitor that appends all values to `values`. `streams`: the streams that are being sent.
    pub fn recorder(streams: &'a [Stream], values: &'a mut Vec<Value>) -> StateVisitor<'a> {
        StateVisitor {
            streams,
            stream: None,
            mode: Mode::Record {
                values,
                is_supported: true,
            },
        }
    }

    /// Creates a visitor that adds `times` times `changes` to the values, in the order in which they were recorded.
    pub fn shifter(streams: &'a [Stream], changes: &'a [u64], times: u64) -> StateVisitor<'a> {
        StateVisitor {
            streams,
            stream: None,
            mode: Mode::Shift {
                changes: changes.iter(),
                times,
            },
        }
    }

    /// Whether the visitor changes values.
    pub fn shifts(&self) -> bool {
        matches!(self.mode, Mode::Shift { .. })
    }

    /// Whether all components visited so far can be shifted.
    pub fn is_supported(&self) -> bool {
        match self.mode {
            Mode::Record { is_supported, .. } => is_supported,
            Mode::Shift { .. } => true,
        }
    }

    /// Reports that the component is in a state that cannot be shifted.
    pub fn unsupported(&mut self) {
        if let Mode::Record { is_supported, .. } = &mut self.mode {
            *is_supported = false;
        }
    }

    /// Sets the stream of the following values to the first one that is sent to one of the addresses `to`; to none if there
    /// is no such stream.
    pub fn enter(&mut self, to: impl IntoIterator<Item = Ipv4Addr>) {
        let find = |to| self.streams.iter().position(|stream| stream.to == to);
        let found = to.into_iter().find_map(find);
        self.stream = found.and_then(|index| u16::try_from(index).ok());
    }

    /// The stream of the present values; `None` if they belong to none.
    pub fn stream(&self) -> Option<&'a Stream> {
        self.stream.map(|index| &self.streams[usize::from(index)])
    }

    fn value(&mut self, kind: Kind, value: u64) -> u64 {
        match &mut self.mode {
            Mode::Record { values, .. } => {
                values.push((kind, value));
                value
            }
            Mode::Shift { changes, times } => {
                let change = changes.next().copied().unwrap_or(0);
                value.wrapping_add(change.wrapping_mul(*times))
            }
        }
    }

    /// Visits a value of the present stream. A value that belongs to no stream must be equal in both states.
    fn of_stream(&mut self, kind: impl Fn(u16) -> Kind, value: u64) -> u64 {
        let kind = self.stream.map_or(Kind::Same, kind);
        self.value(kind, value)
    }

    /// Visits a value that must be equal in both states.
    pub fn same(&mut self, value: u64) {
        self.value(Kind::Same, value);
    }

    /// Visits a value that must not change within a period, but may differ between two recurrences of the period.
    pub fn constant(&mut self, value: u64) {
        self.value(Kind::Constant, value);
    }

    /// Visits the bytes of a value that must be equal in both states.
    pub fn same_bytes(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.same(u64::from_ne_bytes(word));
        }
    }

    /// Visits a time in nanoseconds.
    #[must_use]
    pub fn time(&mut self, at: u64) -> u64 {
        self.value(Kind::Time, at)
    }

    /// Visits a time in nanoseconds, which may be absent.
    #[must_use]
    pub fn optional_time(&mut self, at: Option<u64>) -> Option<u64> {
        self.same(u64::from(at.is_some()));
        at.map(|at| self.time(at))
    }

    /// Visits a time in picoseconds.
    #[must_use]
    pub fn time_ps(&mut self, at: u64) -> u64 {
        self.value(Kind::TimePs, at)
    }

    /// Visits a time in picoseconds that influences the behaviour only while it is in the future.
    #[must_use]
    pub fn free_ps(&mut self, at: u64) -> u64 {
        self.value(Kind::FreePs, at)
    }

    /// Visits a PSN of the present stream.
    #[must_use]
    pub fn psn(&mut self, psn: u32) -> u32 {
        self.of_stream(Kind::Psn, psn.into()) as u32 & 0x00ff_ffff
    }

    /// Visits a packet number of the present stream.
    #[must_use]
    pub fn number(&mut self, number: u64) -> u64 {
        self.of_stream(Kind::Number, number)
    }

    /// Visits an offset in bytes in the message of the present stream.
    #[must_use]
    pub fn bytes(&mut self, offset: u64) -> u64 {
        self.of_stream(Kind::Bytes, offset)
    }

    /// Visits a number of packets of the present stream after which the component no longer behaves as now.
    pub fn room(&mut self, packets: u64) {
        self.of_stream(Kind::Room, packets);
    }

    /// Visits a counter that does not influence the behaviour.
    #[must_use]
    pub fn count(&mut self, counter: u64) -> u64 {
        self.value(Kind::Count, counter)
    }

    /// Visits counters that do not influence the behaviour.
    pub fn counts<'c>(&mut self, counters: impl IntoIterator<Item = &'c mut u64>) {
        for counter in counters {
            *counter = self.count(*counter);
        }
    }

    /// Visits a number that influences the behaviour only below `limit`.
    #[must_use]
    pub fn saturating(&mut self, number: u32, limit: u32) -> u32 {
        let kind = match number < limit {
            true => Kind::Same,
            false => Kind::Saturated,
        };
        match self.shifts() {
            // The number may stop at its maximum.
            true => {
                let before = self.value(kind, 0);
                u32::try_from(u64::from(number).saturating_add(before)).unwrap_or(u32::MAX)
            }
            false => self.value(kind, number.into()) as u32,
        }
    }

    /// Visits the IPv4 identification that a host assigns next, 1 to 65,535.
    #[must_use]
    pub fn identification(&mut self, next: u16) -> u16 {
        let number = u64::from(next) - 1;
        match &mut self.mode {
            Mode::Record { values, .. } => {
                values.push((Kind::Identification, number));
                next
            }
            Mode::Shift { changes, times } => {
                let change = changes.next().copied().unwrap_or(0);
                let by = u128::from(change) * u128::from(*times);
                ((u128::from(number) + by) % 0xffff) as u16 + 1
            }
        }
    }
}
