//! What a test expects to come out of the ports, and what came.

use std::collections::BTreeMap;

use crate::keys::hex;
use crate::parse::Pattern;

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
            for (position, (line, pattern)) in expected.iter().enumerate() {
                let what = match (received.get(position), pattern) {
                    (None, _) => format!("no packet came out of port {port}"),
                    (Some(_), None) => continue,
                    (Some(packet), Some(pattern)) if pattern.matches(packet) => continue,
                    (Some(packet), Some(pattern)) => format!(
                        "another packet came out of port {port}\n  expected {pattern}\n  received {}",
                        hex(packet)
                    ),
                };
                failures.push(Failure {
                    line: Some(*line),
                    what,
                });
            }
            for packet in received.iter().skip(expected.len()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_without_data_takes_the_packet_in_its_place() {
        let mut packets = Packets::default();
        packets.expect(1, 7, None);
        let ends = Pattern {
            digits: vec![Some(0xa), Some(0xb)],
            ends: true,
        };
        packets.expect(1, 8, Some(ends));
        packets.received(1, vec![1, 2, 3]);
        packets.received(1, vec![0xab]);
        assert_eq!(packets.failures(), []);
        packets.received(1, vec![4]);
        assert_eq!(
            packets.failures(),
            [Failure {
                line: None,
                what: "one packet too many came out of port 1: 04".to_owned()
            }]
        );
    }

    #[test]
    fn an_expectation_without_data_needs_a_packet() {
        let mut packets = Packets::default();
        packets.expect(1, 7, None);
        assert_eq!(packets.failures()[0].line, Some(7));
    }
}
