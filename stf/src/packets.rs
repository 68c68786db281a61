//! Expected and received packets of a test.

use std::collections::BTreeMap;

use scapy::{p4::Program, Mask};

use crate::keys::hex;
use crate::parse::Pattern;

/// A failed check of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the test, from 1; `None` for a failure at the end of the test.
    pub line: Option<usize>,
    /// Description of the failure, without the line number.
    pub message: String,
}

impl Failure {
    /// Returns the failure with its place in the test of this name.
    pub fn text(&self, test: &str) -> String {
        match self.line {
            Some(line) => format!("{test}:{line}: {}", self.message),
            None => format!("{test}: {}", self.message),
        }
    }
}

/// Returns the result of a test in one line.
pub fn summary(test: &str, failures: &[Failure]) -> String {
    match failures.len() {
        0 => format!("{test}: passed"),
        1 => format!("{test}: 1 check failed"),
        count => format!("{test}: {count} checks failed"),
    }
}

/// An expected packet.
#[derive(Clone, Debug)]
struct Expected {
    /// Line of the test.
    line: usize,
    /// Pattern of the packet; `None` matches any packet.
    pattern: Option<Pattern>,
    /// Group of alternatives to which the packet belongs, and number of the alternative.
    of: (usize, usize),
}

/// Received and expected packets by port.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    expected: BTreeMap<u32, Vec<Expected>>,
    received: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Line of the `no_packet` command, if the test has one.
    no_packet_line: Option<usize>,
    /// Groups of expected packets, each with the lines of its `or` commands. All commands `expect` without another command
    /// between them are one group.
    groups: Vec<Vec<usize>>,
    /// Whether the last command was `expect` or `or`.
    is_expecting: bool,
}

/// An alternative of a test: for each group of expected packets, the number of the alternative.
pub type Variant = Vec<usize>;

/// Maximum number of variants of a test: combinations of its alternatives.
const MAX_VARIANTS: usize = 1024;

impl Packets {
    /// Records a port to which the test sends a packet, so that packets from this port are compared.
    pub fn sent(&mut self, port: u32) {
        self.expected.entry(port).or_default();
    }

    /// Records a command that is neither `expect` nor `or`.
    pub fn end_expectations(&mut self) {
        self.is_expecting = false;
    }

    /// Records the command `or` on line `line`.
    ///
    /// # Errors
    /// There are too many combinations.
    pub fn or(&mut self, line: usize) -> Result<(), String> {
        self.begin_expectations();
        let group = self.groups.last_mut().expect("one was just begun");
        group.push(line);
        let variants = self.groups.iter().map(|group| group.len() + 1);
        let all = variants.fold(1, usize::saturating_mul);
        match all > MAX_VARIANTS {
            true => Err(format!(
                "the test has {all} combinations of alternatives; the limit is {MAX_VARIANTS}"
            )),
            false => Ok(()),
        }
    }

    fn begin_expectations(&mut self) {
        if !std::mem::replace(&mut self.is_expecting, true) {
            self.groups.push(Vec::new());
        }
    }

    /// Records a packet that left through a port.
    pub fn received(&mut self, port: u32, frame: Vec<u8>) {
        self.received.entry(port).or_default().push(frame);
    }

    /// Returns the packets that have left since the last call, with their ports: ordered by port, and for each port in the
    /// order of their departure.
    pub fn take_received(&mut self) -> Vec<(u32, Vec<u8>)> {
        let received = std::mem::take(&mut self.received).into_iter();
        let of_port = |(port, frames): (u32, Vec<Vec<u8>>)| {
            frames.into_iter().map(move |frame| (port, frame))
        };
        received.flat_map(of_port).collect()
    }

    /// Returns the packets that have left and are not taken, by port in the order of their departure.
    pub fn by_port(&self) -> &BTreeMap<u32, Vec<Vec<u8>>> {
        &self.received
    }

    /// Adds a packet that is expected at `port`, by line `line` of the test.
    pub fn expect(&mut self, port: u32, line: usize, pattern: Option<Pattern>) {
        self.begin_expectations();
        let group = self.groups.len() - 1;
        let of = (group, self.groups[group].len());
        let expected = self.expected.entry(port).or_default();
        expected.push(Expected { line, pattern, of });
    }

    /// Records the command `no_packet` on line `line`: no packets are expected at ports without `packet` or `expect`.
    pub fn expect_none(&mut self, line: usize) {
        self.no_packet_line = Some(line);
    }

    /// Returns whether each port has sent at least as many packets as expected so far.
    pub fn are_complete(&self) -> bool {
        self.variants().iter().any(|variant| {
            self.expected.keys().all(|port| {
                let received = self.received.get(port).map_or(0, Vec::len);
                received >= self.expected_by(variant, *port).count()
            })
        })
    }

    /// Returns all combinations of alternatives, at least one.
    fn variants(&self) -> Vec<Variant> {
        let mut variants: Vec<Variant> = vec![Vec::new()];
        for group in &self.groups {
            let longer = variants.iter().flat_map(|variant| {
                (0..=group.len()).map(|alternative| [&variant[..], &[alternative]].concat())
            });
            variants = longer.take(MAX_VARIANTS).collect();
        }
        variants
    }

    /// Returns the packets that a variant expects at a port.
    fn expected_by<'a>(
        &'a self,
        variant: &'a Variant,
        port: u32,
    ) -> impl Iterator<Item = &'a Expected> {
        let all = self.expected.get(&port).into_iter().flatten();
        all.filter(
            |Expected {
                 of: (group, alternative),
                 ..
             }| variant[*group] == *alternative,
        )
    }

    /// Returns the alternatives of the test: group, number, and line of the `or` command before it. Groups without `or` are left
    /// out.
    pub(crate) fn alternatives(&self) -> Vec<(usize, usize, Option<usize>)> {
        let groups = self.groups.iter().enumerate();
        groups
            .filter(|(_, ors)| !ors.is_empty())
            .flat_map(|(group, ors)| {
                (0..=ors.len())
                    .map(move |number| (group, number, number.checked_sub(1).map(|or| ors[or])))
            })
            .collect()
    }

    /// Compares received with expected packets, port by port and in order. Ports without commands in the test are
    /// ignored: p4c's tester has no interfaces for them.
    ///
    /// Of a test with alternatives (`or`), those are compared of which the fewest checks fail.
    ///
    /// `json`: BMv2 JSON of the program, whose headers messages name.
    pub fn failures(&self, json: &str) -> Vec<Failure> {
        self.best_variant(json).1
    }

    /// Returns the combination of alternatives that agrees best with the received packets, and its failures.
    pub(crate) fn best_variant(&self, json: &str) -> (Variant, Vec<Failure>) {
        let variants = self.variants().into_iter();
        let compared = variants.map(|variant| {
            let failures = self.failures_of(&variant, json);
            (variant, failures)
        });
        let best = compared.min_by_key(|(_, failures)| failures.len());
        best.expect("there is at least one variant")
    }

    fn failures_of(&self, variant: &Variant, json: &str) -> Vec<Failure> {
        let mut failures = Vec::new();
        for port in self.expected.keys() {
            let expected: Vec<&Expected> = self.expected_by(variant, *port).collect();
            let received = self.received.get(port).map_or(&[][..], Vec::as_slice);
            for (position, Expected { line, pattern, .. }) in expected.iter().enumerate() {
                let message = match (received.get(position), pattern) {
                    (None, _) => format!("expected a packet at port {port}, received none"),
                    (Some(_), None) => continue,
                    (Some(packet), Some(pattern)) if pattern.matches(packet) => continue,
                    (Some(packet), Some(pattern)) => format!(
                        "the packet at port {port} differs from the expected one\n  expected {pattern}\n  received {}{}",
                        hex(packet),
                        differences(pattern, packet, json)
                    ),
                };
                failures.push(Failure {
                    line: Some(*line),
                    message,
                });
            }
            for packet in received.iter().skip(expected.len()) {
                let message = format!(
                    "unexpected additional packet at port {port}: {}",
                    hex(packet)
                );
                failures.push(Failure {
                    line: None,
                    message,
                });
            }
        }
        if let Some(line) = self.no_packet_line {
            for (port, packets) in &self.received {
                if !self.expected.contains_key(port) {
                    let message = format!(
                        "unexpected packet at port {port}, at which no packet is expected: {}",
                        hex(&packets[0])
                    );
                    failures.push(Failure {
                        line: Some(line),
                        message,
                    });
                }
            }
        }
        failures
    }
}

/// Maximum number of differing fields that a message lists.
const MAX_DIFFERENCES: usize = 8;

/// Lines with the fields in which a packet differs from a pattern, each line after a line break. The fields are those of
/// well-known protocols, or of the program's own headers if a packet is none of these.
fn differences(pattern: &Pattern, packet: &[u8], json: &str) -> String {
    let (mut expected, bits) = pattern.bytes_and_mask();
    // What the pattern leaves open is as received, so that both have the same layers there.
    for ((byte, bits), received) in expected.iter_mut().zip(&bits).zip(packet) {
        *byte = *byte & bits | received & !bits;
    }
    if !pattern.is_exact && packet.len() > expected.len() {
        expected.extend(&packet[expected.len()..]);
    }
    let mask = Mask {
        bits,
        ignored: Vec::new(),
    };
    let mut pair = [scapy::dissect(&expected), scapy::dissect(packet)];
    if pair.iter().any(|packet| !is_known(packet)) {
        if let Ok(program) = Program::from_json(json) {
            pair = [program.dissect(&expected), program.dissect(packet)];
        }
    }
    let found = scapy::diff(&pair[0], &pair[1], &mask);
    let mut text = String::new();
    for difference in found.iter().take(MAX_DIFFERENCES) {
        text += &format!("\n  {difference}");
    }
    if found.len() > MAX_DIFFERENCES {
        text += &format!("\n  and {} other fields", found.len() - MAX_DIFFERENCES);
    }
    text
}

/// Whether a packet has a well-known protocol after its Ethernet header.
fn is_known(packet: &scapy::Packet) -> bool {
    packet
        .layers()
        .get(1)
        .is_some_and(|layer| layer.name() != "Raw")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_without_data_matches_any_packet() {
        let mut packets = Packets::default();
        packets.expect(1, 7, None);
        let ends = Pattern {
            digits: vec![Some(0xa), Some(0xb)],
            is_exact: true,
        };
        packets.expect(1, 8, Some(ends));
        packets.received(1, vec![1, 2, 3]);
        packets.received(1, vec![0xab]);
        assert_eq!(packets.failures(""), []);
        packets.received(1, vec![4]);
        assert_eq!(
            packets.failures(""),
            [Failure {
                line: None,
                message: "unexpected additional packet at port 1: 04".to_owned()
            }]
        );
    }

    #[test]
    fn an_expectation_without_data_needs_a_packet() {
        let mut packets = Packets::default();
        packets.expect(1, 7, None);
        assert_eq!(packets.failures("")[0].line, Some(7));
    }

    #[test]
    fn one_alternative_of_each_group_must_agree() {
        let mut packets = Packets::default();
        // A packet at port 1 or at port 2, then one at port 3 or none.
        packets.expect(1, 1, None);
        packets.or(2).expect("a few alternatives");
        packets.expect(2, 3, None);
        packets.end_expectations();
        packets.expect(3, 5, None);
        packets.or(6).expect("a few alternatives");
        assert_eq!(packets.failures("").len(), 1);
        packets.received(2, vec![1]);
        assert_eq!(packets.best_variant(""), (vec![1, 1], Vec::new()));
        packets.received(3, vec![1]);
        assert_eq!(packets.best_variant(""), (vec![1, 0], Vec::new()));
        // Both alternatives of a group are one packet too many.
        packets.received(1, vec![1]);
        assert_eq!(packets.failures("").len(), 1);
    }

    #[test]
    fn combinations_of_alternatives_are_limited() {
        let mut packets = Packets::default();
        for line in 1..MAX_VARIANTS {
            assert_eq!(packets.or(line), Ok(()));
        }
        let error = packets.or(MAX_VARIANTS).expect_err("too many");
        assert!(error.contains("1025 combinations"), "{error}");
    }

    #[test]
    fn a_message_names_the_fields_that_differ() {
        let frame = |ttl: u8| {
            let packet =
                scapy::Ether::new() / scapy::Ipv4::to("10.0.0.2").ttl(ttl) / scapy::Udp::port(9);
            packet.build().unwrap()
        };
        let mut digits: Vec<Option<u8>> = frame(64)
            .iter()
            .flat_map(|byte| [Some(byte >> 4), Some(byte & 15)])
            .collect();
        // Any IPv4 checksum.
        digits[48..52].fill(None);
        let mut packets = Packets::default();
        let is_exact = true;
        packets.expect(1, 7, Some(Pattern { digits, is_exact }));
        packets.received(1, frame(63));
        let message = &packets.failures("")[0].message;
        let lines: Vec<&str> = message.lines().skip(3).collect();
        assert_eq!(lines, ["  IP.ttl: expected 64, received 63"], "{message}");
    }

    #[test]
    fn headers_of_the_program_are_named() {
        let json = r#"{
            "header_types": [{"name": "h_t", "id": 0, "fields": [["kind", 4, false], ["count", 12, false]]}],
            "headers": [{"name": "mine", "id": 0, "header_type": "h_t", "metadata": false}],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [{
                "name": "start", "id": 0,
                "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "mine"}]}],
                "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}]}]}]
        }"#;
        let mut packets = Packets::default();
        let digits = [Some(1), None, Some(0), Some(5)].to_vec();
        let is_exact = false;
        packets.expect(1, 7, Some(Pattern { digits, is_exact }));
        packets.received(1, vec![0x1f, 0x06, 0xaa]);
        let message = &packets.failures(json)[0].message;
        let lines: Vec<&str> = message.lines().skip(3).collect();
        assert_eq!(
            lines,
            ["  mine.count: expected 0xf05, received 0xf06"],
            "{message}"
        );
    }
}
