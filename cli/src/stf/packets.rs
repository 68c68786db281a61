//! What a test expects to come out of the ports, and what came.

use std::collections::BTreeMap;

use super::keys::hex;
use super::parse::Pattern;

/// One thing that did not go as the test says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the test, from 1; none for what only shows at the end.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

/// Packets by port.
#[derive(Debug, Default)]
pub struct Packets {
    /// Line and pattern of each expected packet; no pattern where any will do.
    expected: BTreeMap<u32, Vec<(usize, Option<Pattern>)>>,
    received: BTreeMap<u32, Vec<Vec<u8>>>,
    /// The line that says that no more packets come.
    none: Option<usize>,
}

impl Packets {
    /// A packet goes in at a port, which is so one of the test's.
    pub fn sent(&mut self, port: u32) {
        self.expected.entry(port).or_default();
    }

    /// A packet came out.
    pub fn received(&mut self, port: u32, frame: Vec<u8>) {
        self.received.entry(port).or_default().push(frame);
    }

    /// A packet is to come out.
    pub fn expect(&mut self, port: u32, line: usize, pattern: Option<Pattern>) {
        let expected = self.expected.entry(port).or_default();
        expected.push((line, pattern));
    }

    /// Nothing is to come out of ports for which nothing is expected.
    pub fn expect_none(&mut self, line: usize) {
        self.none = Some(line);
    }

    /// Whether each port has sent as many packets as are expected so far.
    pub fn are_complete(&self) -> bool {
        self.expected
            .iter()
            .all(|(port, expected)| self.received.get(port).map_or(0, Vec::len) >= expected.len())
    }

    /// Compares what came with what was expected, port by port and in order. Ports that the test does not name have no interface in
    /// p4c's tester, so that what goes there is lost.
    pub fn failures(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        for (port, expected) in &self.expected {
            let received = self.received.get(port).map_or(&[][..], Vec::as_slice);
            let patterns: Vec<_> = expected
                .iter()
                .filter_map(|(line, pattern)| Some((*line, pattern.as_ref()?)))
                .collect();
            match expected.iter().find(|(_, pattern)| pattern.is_none()) {
                // Whatever comes out of this port is right.
                Some(_) if patterns.is_empty() => continue,
                Some((line, _)) => failures.push(Failure {
                    line: Some(*line),
                    what: format!("port {port} is expected to send any packets, and certain ones"),
                }),
                None => {}
            }
            for (position, (line, pattern)) in patterns.iter().enumerate() {
                let what = match received.get(position) {
                    None => format!("no packet came out of port {port}"),
                    Some(packet) if pattern.matches(packet) => continue,
                    Some(packet) => format!(
                        "another packet came out of port {port}\n  expected {pattern}\n  received {}",
                        hex(packet)
                    ),
                };
                failures.push(Failure {
                    line: Some(*line),
                    what,
                });
            }
            for packet in received.iter().skip(patterns.len()) {
                let what = format!(
                    "one packet too many came out of port {port}: {}",
                    hex(packet)
                );
                failures.push(Failure { line: None, what });
            }
        }
        if let Some(line) = self.none {
            for (port, packets) in &self.received {
                if !self.expected.contains_key(port) {
                    let what = format!(
                        "a packet came out of port {port}, where none was expected: {}",
                        hex(&packets[0])
                    );
                    failures.push(Failure {
                        line: Some(line),
                        what,
                    });
                }
            }
        }
        failures
    }
}
