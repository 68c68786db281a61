//! The results of the main job, as an object for tools and as a table for people.

use std::fmt::{self, Write};

use alfirk_ctrl::tables::Counts;
use alfirk_roce::collective::{Algorithm, RequestTimes};
use serde::Serialize;

use super::fabric::{FlowControl, Traffic};
use super::job::spec::{Congestion, Job};
use super::machines::MachinesSummary;
use super::workload::{PhaseRow, Throughput};

/// Everything that a run of the main job found out. Serialises to the one object of `alfirk run --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// One row per algorithm, in the order asked for.
    pub results: Vec<Row>,
    /// The message; `None` for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadSummary>,
    pub topology: TopologySummary,
    /// The members; `None` for a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSummary>,
    pub settings: Settings,
    pub seed: u64,
    /// The clock of a network of processes whose links have rates; `None` for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSummary>,
    /// The machines that the network was on, if there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<MachinesSummary>,
}

/// The slow clock of a network of processes, and whether its machine could keep up. All other times of the report are on that
/// clock, so that they compare with those in virtual time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClockSummary {
    /// Nanoseconds of real time for one of the network's.
    pub scale: u32,
    /// Whether the machine was looked at to choose it.
    pub is_chosen_here: bool,
    /// Processors of the machine.
    pub processors: usize,
    /// What each algorithm had of them, in the order of the results.
    pub load: Vec<LoadSummary>,
}

/// What a network of processes had of its machine while an algorithm ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSummary {
    pub algorithm: String,
    /// The part of all processors' time that the network's processes had, from 0 to 1.
    pub network_busy: f64,
    /// The part in which processors worked for whomever.
    pub machine_busy: f64,
    /// How long a process waited for a processor at each of its turns, on average, in nanoseconds of the network's clock.
    pub wait_ns: f64,
    /// The part of the shortest time that a full packet takes from a switch to the next, above which waiting counts.
    pub wait_limit_ns: f64,
    /// Whether the processors may have been what was measured.
    pub is_limited: bool,
}

impl ClockSummary {
    /// The algorithms that the processors may have slowed down.
    pub fn limited(&self) -> impl Iterator<Item = &str> {
        let limited = self.load.iter().filter(|load| load.is_limited);
        limited.map(|load| load.algorithm.as_str())
    }

    /// How slow the clock was, and whether that was slow enough, for people.
    pub fn lines(&self) -> String {
        let most = |part: fn(&LoadSummary) -> f64| self.load.iter().map(part).fold(0.0, f64::max);
        let chosen = match self.is_chosen_here {
            true => ", chosen for this machine",
            false => "",
        };
        let mut text = format!(
            "clock: {} times slower than real time{chosen}; times above are on it; the network had up to {:.0} % of {}, \
             and a process waited up to {} for its turn in the mean\n",
            grouped(self.scale.into()),
            100.0 * most(|load| load.network_busy),
            plural(self.processors, "processor", "processors"),
            duration(most(|load| load.wait_ns).round() as u64),
        );
        let limited: Vec<&str> = self.limited().collect();
        if !limited.is_empty() {
            text += &format!(
                "warning: processors were short for {}, whose times may be too long: give a larger --scale than {}, \
                 or leave the machine alone\n",
                limited.join(", "),
                self.scale
            );
        }
        text
    }
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Input {
    /// The file, or `None` for content made from the seed.
    pub file: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Of the content, as lower-case hexadecimal digits.
    pub sha256: String,
}

/// What was carried out instead of one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadSummary {
    /// As the command line names it, with every key.
    pub kind: String,
    /// What loaded the fabric meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
    /// Hosts that take part.
    pub hosts: usize,
    /// What is waited for, of all phases together.
    pub flows: usize,
    pub phases: usize,
    /// Bytes of these flows, each counted once.
    pub bytes: u64,
}

/// Where it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopologySummary {
    pub name: String,
    pub hosts: usize,
    pub switches: usize,
    pub links: usize,
}

/// Between whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupSummary {
    /// Hosts, the source included.
    pub size: usize,
    pub source: String,
    /// In the order of their ranks, the source first.
    pub members: Vec<String>,
}

/// How.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// `virtual` or `mininet`.
    pub driver: String,
    /// `broadcast`, `scatter`, `allgather` or `barrier`.
    pub collective: String,
    /// `send`, `write` or `write-imm`.
    pub op: String,
    /// How WRITEs to the group fit its receivers: `aligned`, `uniform` or `per-request`; `None` for SEND.
    pub write: Option<String>,
    /// How the minimum PSN is found: `tree`, `walk` or `punt`.
    pub min_psn: String,
    /// How data ICRCs are kept right: `neutral`, `recompute` or `punt`.
    pub icrc: String,
    /// How the group's tree chooses ports: `reuse-least-loaded`, `cyclic` or `spanning`.
    pub tree_policy: String,
    /// How often the source of the group changed.
    pub switch_source: u32,
    /// Whether a source began while the one before might still wait for acknowledgements.
    pub switch_early: bool,
    /// Congestion control of the queue pairs: `none` or `dcqcn`.
    pub congestion: String,
    /// What queue pairs do about losses, if they do not go back N: `selective-repeat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// Path MTU of the queue pairs in bytes.
    pub mtu: u32,
    /// Slices of the relaying algorithms; each one's own choice if `None`.
    pub slices: Option<u32>,
    /// Probability of loss per frame and link direction.
    pub loss: f64,
    /// Losses of single links for a while, as they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<String>,
    /// Rates of single links that the topology has otherwise, as they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<String>,
    /// The share of the normal goodput under which the group is given up for an overlay; `None` if it is not watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_below: Option<f64>,
    /// How groups are registered: `api` or `mrp`.
    pub registration: String,
    /// How switches queue, buffer and pause, as topology files write it; `None` if each port has a queue and nothing more is
    /// stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switching: Option<String>,
    /// What hosts cost, as `--host-model` has it; `None` for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_model: Option<String>,
}

/// What one algorithm did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub algorithm: String,
    /// From the post at the source until the last receiver's application holds the whole message, in ns.
    pub completion_ns: u64,
    /// 8 × message bytes ÷ completion, in Gbit/s; `None` if there is no message, as in a barrier.
    pub goodput_gbps: Option<f64>,
    /// Whether every receiver holds the bytes that were sent.
    pub verified: bool,
    /// Receivers in the group: without the source, unless that changed.
    pub receivers: usize,
    /// Receivers whose SHA-256 is the input's.
    pub receivers_verified: usize,
    /// Bytes of all frames that the source (all sources, where it changed) put on its link, from the Ethernet header to the ICRC.
    pub sender_tx_bytes: u64,
    /// Of these the bytes of the message, each as often as it was sent; 0 if the source is a device that does not count them.
    pub sender_payload_bytes: u64,
    /// Frames on all links, each link counted once, ARP and feedback included.
    pub wire_packets: u64,
    /// ACK and NAK packets that reached the source.
    pub sender_acks: u64,
    /// Congestion notifications that reached the source; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_cnps: Option<u64>,
    /// Request packets that reached members with the mark of congestion; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked_packets: Option<u64>,
    /// Congestion notifications that members sent; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cnps_sent: Option<u64>,
    /// Of these, what switches kept from the source because another path was more congested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cnps_filtered: Option<u64>,
    /// Copies of retransmissions that switches kept from paths that had acknowledged them; `None` without a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_filtered: Option<u64>,
    /// What finding the minimum PSN cost; `None` without a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_work: Option<FeedbackWork>,
    /// Request packets that any host sent more than once.
    pub retransmissions: u64,
    /// Frames lost on links and in queues; `None` where the driver cannot tell.
    pub dropped_packets: Option<u64>,
    /// Frames that members refused because no correct fabric delivers them: wrong addresses, checksums, opcodes, PSNs or
    /// message counts.
    pub implausible_packets: u64,
    /// What PAUSE frames did; `None` without flow control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<FlowControl>,
    /// From the request for the group until its members may send, in ns; `None` without a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_ns: Option<u64>,
    /// How long the source's messages took, where it has so many of them under way and no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestTimes>,
    /// What ran instead, because there was no group to be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// How the message changed its way between the group and an overlay, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub safeguard: Vec<Change>,
    /// What broke on the way, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Receivers that the group had to go on without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// What each source did, in the order of their turns; nothing unless the source changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRow>,
    /// What each phase of a workload took, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRow>,
    /// [`Throughput::fairness`], the mean of all phases that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
}

impl Row {
    /// What a run of `job` has cost, with nothing about how it went.
    pub(crate) fn of_cost(
        algorithm: Algorithm,
        job: &Job,
        traffic: &Traffic,
        counts: Option<&Counts>,
    ) -> Row {
        // Tofino's data plane does not count it; where it is counted, feedback there is.
        let work = counts.map(|counts| counts.work(job.strategies.min_psn));
        let work = work.filter(|work| work.feedback > 0);
        let has_control = job.congestion != Congestion::None;
        Row {
            algorithm: algorithm.to_string(),
            completion_ns: 0,
            goodput_gbps: None,
            verified: false,
            receivers: 0,
            receivers_verified: 0,
            sender_tx_bytes: traffic.source_tx_bytes,
            sender_payload_bytes: traffic.source_payload_bytes,
            wire_packets: traffic.wire_packets,
            sender_acks: traffic.source_acks,
            sender_cnps: has_control.then_some(traffic.source_cnps),
            marked_packets: has_control.then_some(traffic.marked),
            cnps_sent: has_control.then_some(traffic.cnps_sent),
            cnps_filtered: counts.filter(|_| has_control).map(|c| c.cnps_filtered),
            copies_filtered: counts.map(|c| c.copies_filtered),
            feedback_work: work.map(|work| FeedbackWork {
                feedback: work.feedback,
                told: work.told,
                recirculations: work.recirculations,
                punts: work.punts,
            }),
            retransmissions: traffic.retransmissions,
            dropped_packets: traffic.dropped_packets,
            implausible_packets: traffic.implausible,
            flow_control: None,
            registration_ns: None,
            requests: None,
            fallback: None,
            safeguard: Vec::new(),
            failures: Vec::new(),
            lost: Vec::new(),
            parts: Vec::new(),
            phases: Vec::new(),
            fairness: None,
        }
    }
}

/// What finding the minimum PSN cost all switches together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FeedbackWork {
    /// ACKs and NAKs that came in at switches.
    pub feedback: u64,
    /// ACKs and NAKs that switches, or the controller, sent on to the source.
    pub told: u64,
    /// Passes through a pipeline beyond the first.
    pub recirculations: u64,
    /// Packets handed to the controller: ACKs, NAKs, and data that asks whether everyone has it.
    pub punts: u64,
}

impl FeedbackWork {
    /// So many for each ACK and NAK; 0 without any.
    fn per_ack(&self, count: u64) -> f64 {
        count as f64 / self.feedback.max(1) as f64
    }
}

/// One part of the message, from one of several sources.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartRow {
    pub source: String,
    pub bytes: u64,
    /// From the post at the source until the last other member's application holds the part, in ns.
    pub completion_ns: u64,
    /// 8 × bytes of the part ÷ completion, in Gbit/s; `None` if it has none.
    pub goodput_gbps: Option<f64>,
}

/// Another algorithm ran than was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fallback {
    pub to: String,
    pub why: String,
}

/// A message goes on another way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The algorithm from now on: `alfirk` is a return to the group.
    pub to: String,
    pub why: String,
    /// Since the post at the source, in ns; 0 for what was decided before.
    pub at_ns: u64,
    /// From then until the source sent again, in ns.
    pub took_ns: u64,
    /// Slices that every receiver held then, of all.
    pub held: u32,
    pub slices: u32,
}

/// Something broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// A host, a switch, or a link by its ends.
    pub what: String,
    /// Since the post at the source, in ns.
    pub at_ns: u64,
    /// From then until the controller had taken the dead member out or led the tree around it; `None` if it had no
    /// reason to.
    pub repaired_ns: Option<u64>,
    /// From then until the source got the next acknowledgement after that.
    pub going_on_ns: Option<u64>,
}

/// 8 × `bytes` ÷ `ns` in Gbit/s, to the kbit/s; nothing if there are no bytes or no time has passed.
pub fn goodput_gbps(bytes: u64, ns: u64) -> Option<f64> {
    if bytes == 0 || ns == 0 {
        return None;
    }
    let gbps = bytes as f64 * 8.0 / ns as f64;
    Some((gbps * 1e6).round() / 1e6)
}

/// A line for each interval, in Gbit/s.
fn write_throughput(out: &mut String, throughput: &Throughput) -> fmt::Result {
    let flows = &throughput.flows;
    let head = flows.iter().map(|flow| flow.flow.clone());
    let mut lines: Vec<Vec<String>> = vec![["until".to_owned()].into_iter().chain(head).collect()];
    let intervals = flows.iter().map(|flow| flow.gbps.len()).max().unwrap_or(0);
    for at in 0..intervals {
        let until = duration((at as u64 + 1) * throughput.interval_ns);
        let each = flows.iter().map(|flow| gbps(flow.gbps.get(at).copied()));
        lines.push([until].into_iter().chain(each).collect());
    }
    out.push_str(&aligned(&lines));
    if let Some(fairness) = throughput.fairness {
        writeln!(out, "fairness (Jain's index): {fairness:.3}")?;
    }
    Ok(())
}

/// A goodput for people.
fn gbps(goodput: Option<f64>) -> String {
    goodput.map_or_else(|| "-".to_string(), |gbps| format!("{gbps:.3} Gbit/s"))
}

impl Report {
    /// Whether every algorithm delivered every byte to every receiver.
    pub fn verified(&self) -> bool {
        self.results.iter().all(|row| row.verified)
    }

    /// The comparison as aligned text with lines about the run before it and about the source's link after it.
    pub fn table(&self) -> String {
        let mut text = String::new();
        self.write_head(&mut text)
            .and_then(|()| self.write_rows(&mut text))
            .and_then(|()| self.write_phase_lines(&mut text))
            .and_then(|()| self.write_link_line(&mut text))
            .and_then(|()| self.write_group_lines(&mut text))
            .expect("a String takes everything");
        if let Some(clock) = &self.clock {
            text += &clock.lines();
        }
        if let Some(machines) = &self.machines {
            text += &machines.lines();
        }
        text
    }

    fn write_head(&self, out: &mut String) -> fmt::Result {
        let Report {
            topology,
            group,
            settings,
            input,
            ..
        } = self;
        writeln!(
            out,
            "{}: {}, {}, {}; {} driver, seed {}",
            topology.name,
            plural(topology.hosts, "host", "hosts"),
            plural(topology.switches, "switch", "switches"),
            plural(topology.links, "link", "links"),
            settings.driver,
            self.seed
        )?;
        match (input, group, &self.workload) {
            (Some(input), Some(group), _) => write_message(out, settings, input, group)?,
            (_, _, Some(workload)) => {
                write!(
                    out,
                    "{}: {} in {} among {}",
                    workload.kind,
                    plural(workload.flows, "flow", "flows"),
                    plural(workload.phases, "phase", "phases"),
                    plural(workload.hosts, "host", "hosts"),
                )?;
                if let Some(background) = &workload.background {
                    write!(out, ", beside {background}")?;
                }
            }
            _ => {}
        }
        let op = settings.op.to_uppercase();
        let datagrams = self
            .results
            .iter()
            .filter(|row| row.algorithm == "binomial-ack")
            .count();
        let over = match datagrams {
            0 => "RC",
            all if all == self.results.len() => "UD",
            _ => "RC and UD",
        };
        write!(out, " by {op} over {over}, path MTU {} B", settings.mtu)?;
        if settings.switch_source > 0 {
            let changes = plural(settings.switch_source as usize, "time", "times");
            write!(out, ", the source changes {changes}")?;
        }
        if let Some(write) = &settings.write {
            write!(out, ", {write} regions")?;
        }
        if settings.min_psn != "tree" {
            write!(out, ", minimum PSN by {}", settings.min_psn)?;
        }
        if settings.icrc != "neutral" {
            write!(out, ", ICRCs by {}", settings.icrc)?;
        }
        if settings.tree_policy != "reuse-least-loaded" {
            write!(out, ", {} tree", settings.tree_policy)?;
        }
        if settings.congestion != "none" {
            write!(out, ", {}", settings.congestion.to_uppercase())?;
        }
        if let Some(recovery) = &settings.recovery {
            write!(out, ", {recovery}")?;
        }
        if settings.loss > 0.0 {
            write!(out, ", loss {} per link", settings.loss)?;
        }
        for outage in &settings.outages {
            write!(out, ", loss {outage}")?;
        }
        for rate in &settings.rates {
            write!(out, ", rate {rate}")?;
        }
        if let Some(switching) = &settings.switching {
            write!(out, ", switches {switching}")?;
        }
        if let Some(model) = &settings.host_model {
            write!(out, ", hosts {model}")?;
        }
        if settings.collective == "barrier" {
            return writeln!(out, "\n");
        }
        match (input, &self.workload) {
            (Some(input), _) => writeln!(
                out,
                "\n{} bytes, SHA-256 {}\n",
                grouped(input.size),
                input.sha256
            ),
            (None, Some(workload)) => writeln!(
                out,
                "\n{} bytes, each counted once\n",
                grouped(workload.bytes)
            ),
            (None, None) => writeln!(out, "\n"),
        }
    }

    fn write_rows(&self, out: &mut String) -> fmt::Result {
        let base = self
            .results
            .iter()
            .find(|row| row.algorithm == "alfirk")
            .map(|row| row.completion_ns);
        let mut lines = vec![[
            "algorithm",
            "completion",
            "goodput",
            "alfirk is",
            "verified",
            "sender bytes",
            "wire packets",
            "sender ACKs",
            "resent",
        ]
        .map(str::to_string)];
        for row in &self.results {
            lines.push([
                row.algorithm.clone(),
                duration(row.completion_ns),
                gbps(row.goodput_gbps),
                speed_up(base, row),
                format!("{}/{}", row.receivers_verified, row.receivers),
                grouped(row.sender_tx_bytes),
                grouped(row.wire_packets),
                grouped(row.sender_acks),
                grouped(row.retransmissions),
            ]);
        }
        out.push_str(&aligned(&lines));
        Ok(())
    }

    /// What the source's link carried under alfirk, if it was asked for.
    fn write_phase_lines(&self, out: &mut String) -> fmt::Result {
        if self.workload.is_some() {
            writeln!(out)?;
        }
        for row in &self.results {
            for phase in &row.phases {
                writeln!(
                    out,
                    "{}: {}, {} of {} bytes together: {}, {} in the mean, the fastest {}",
                    row.algorithm,
                    phase.name,
                    plural(phase.flows, "flow", "flows"),
                    grouped(phase.bytes),
                    duration(phase.completion_ns),
                    duration(phase.mean_ns),
                    duration(phase.fastest_ns),
                )?;
                if let Some(throughput) = &phase.throughput {
                    write_throughput(out, throughput)?;
                }
            }
        }
        Ok(())
    }

    fn write_link_line(&self, out: &mut String) -> fmt::Result {
        let Some(row) = self.results.iter().find(|row| row.algorithm == "alfirk") else {
            return Ok(());
        };
        let (Some(input), Some(group)) = (&self.input, &self.group) else {
            return Ok(());
        };
        let payload = row.sender_payload_bytes;
        let size = input.size;
        let one_source = row.parts.is_empty() && self.settings.collective == "broadcast";
        let source = match one_source {
            true => format!("link of {}", group.source),
            false => "links of all sources".to_string(),
        };
        if row.implausible_packets > 0 {
            writeln!(
                out,
                "\nalfirk: hosts refused {}, which no correct fabric delivers",
                plural(row.implausible_packets as usize, "packet", "packets")
            )?;
        }
        for (index, part) in row.parts.iter().enumerate() {
            let start = if index == 0 { "\n" } else { "" };
            writeln!(
                out,
                "{start}alfirk: part {} of {} from {}: {} bytes in {}, {}",
                index + 1,
                row.parts.len(),
                part.source,
                grouped(part.bytes),
                duration(part.completion_ns),
                gbps(part.goodput_gbps)
            )?;
        }
        if payload == 0 {
            // A source that does not count its packets, or a barrier.
            return Ok(());
        }
        write!(
            out,
            "\nalfirk: the {source} carried {} message bytes for a message of {}: ",
            grouped(payload),
            grouped(size)
        )?;
        if payload == size {
            writeln!(
                out,
                "each byte once for {}",
                plural(group.size - 1, "receiver", "receivers")
            )
        } else {
            writeln!(
                out,
                "{:.4} times, retransmissions included",
                payload as f64 / size.max(1) as f64
            )
        }
    }

    /// How groups came about, and what became of them.
    fn write_group_lines(&self, out: &mut String) -> fmt::Result {
        for row in &self.results {
            let name = &row.algorithm;
            if let Some(ns) = row.registration_ns {
                let how = &self.settings.registration;
                writeln!(out, "{name}: group registered in {} ({how})", duration(ns))?;
            }
            if let Some(work) = &row.feedback_work {
                writeln!(
                    out,
                    "{name}: {} at switches by {}: {} told on, {:.3} recirculations and {:.3} punts for each",
                    plural(work.feedback as usize, "ACK", "ACKs"),
                    self.settings.min_psn,
                    grouped(work.told),
                    work.per_ack(work.recirculations),
                    work.per_ack(work.punts),
                )?;
            }
            if let (Some(marked), Some(sent)) = (row.marked_packets, row.cnps_sent) {
                let filtered = row.cnps_filtered.unwrap_or(0);
                writeln!(
                    out,
                    "{name}: {} marked, {} sent, {} filtered, {} at the sender",
                    plural(marked as usize, "packet", "packets"),
                    plural(sent as usize, "CNP", "CNPs"),
                    grouped(filtered),
                    grouped(row.sender_cnps.unwrap_or(0)),
                )?;
            }
            if let Some(times) = &row.requests {
                writeln!(
                    out,
                    "{name}: {}, {} each second; {} in the mean, {} for 50 %, {} for 99 %, {} at most",
                    plural(times.count as usize, "request", "requests"),
                    grouped(times.per_second),
                    duration(times.mean_ns),
                    duration(times.p50_ns),
                    duration(times.p99_ns),
                    duration(times.max_ns),
                )?;
            }
            if let Some(control) = &row.flow_control {
                write!(
                    out,
                    "{name}: {}, {} of stopped senders",
                    plural(control.pauses as usize, "PAUSE", "PAUSEs"),
                    duration(control.paused_ns)
                )?;
                match control.links.iter().max_by_key(|link| link.paused_ns) {
                    None => writeln!(out)?,
                    Some(most) => writeln!(
                        out,
                        " on {}, most of it {} on {}",
                        plural(control.links.len(), "link", "links"),
                        duration(most.paused_ns),
                        most.link
                    )?,
                }
            }
            if let Some(Fallback { to, why }) = &row.fallback {
                writeln!(out, "{name}: no group, so {to} ran instead: {why}")?;
            }
            for change in &row.safeguard {
                let way = match change.to.as_str() {
                    "alfirk" => "back to the group",
                    overlay => &format!("by {overlay} instead of the group"),
                };
                writeln!(
                    out,
                    "{name}: {way} after {}, in {}, with {} of {} slices everywhere: {}",
                    duration(change.at_ns),
                    duration(change.took_ns),
                    change.held,
                    change.slices,
                    change.why,
                )?;
            }
            for failure in &row.failures {
                let [acted, moved] = match row.registration_ns {
                    Some(_) => ["the controller acted", "acknowledgements came again"],
                    None => ["the survivors agreed on what is stable", "went on"],
                };
                writeln!(
                    out,
                    "{name}: {} died after {}; {acted} {}, {moved} {}",
                    failure.what,
                    duration(failure.at_ns),
                    after(failure.repaired_ns, "never"),
                    after(failure.going_on_ns, "never"),
                )?;
            }
            if !row.lost.is_empty() {
                writeln!(
                    out,
                    "{name}: the group went on without {}",
                    row.lost.join(", ")
                )?;
            }
        }
        Ok(())
    }
}

/// Who sends what to whom.
fn write_message(
    out: &mut String,
    settings: &Settings,
    input: &Input,
    group: &GroupSummary,
) -> fmt::Result {
    let receivers = plural(group.size - 1, "receiver", "receivers");
    let members = plural(group.size, "member", "members");
    let file = input.file.as_ref();
    let file = file.map_or(String::new(), |file| format!(" {file},"));
    match settings.collective.as_str() {
        "scatter" => write!(out, "{} scatters{file} to {receivers}", group.source),
        "allgather" => write!(out, "{members} gather{file} a piece from each"),
        "barrier" => write!(out, "{members} wait for each other"),
        _ => write!(out, "{} sends{file} to {receivers}", group.source),
    }
}

/// A time after a failure, or what it means that there is none.
fn after(ns: Option<u64>, otherwise: &str) -> String {
    ns.map_or_else(
        || otherwise.to_string(),
        |ns| format!("{} later", duration(ns)),
    )
}

/// How alfirk compares with the algorithm of `row`.
fn speed_up(alfirk_ns: Option<u64>, row: &Row) -> String {
    match alfirk_ns {
        Some(ns) if ns > 0 && row.algorithm != "alfirk" => {
            let ratio = row.completion_ns as f64 / ns as f64;
            if ratio >= 1.0 {
                format!("{ratio:.2}x faster")
            } else {
                format!("{:.2}x slower", 1.0 / ratio)
            }
        }
        _ => "-".to_string(),
    }
}

fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Lines of cells below each other, two blanks between them: the first one of each line to the left, the others to the right.
pub fn aligned<L: AsRef<[String]>>(lines: &[L]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        for (column, cell) in line.as_ref().iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let mut out = String::new();
    for line in lines {
        let mut cells = line.as_ref().iter().zip(&widths);
        if let Some((name, &width)) = cells.next() {
            out += &format!("{name:<width$}");
        }
        for (cell, &width) in cells {
            out += &format!("  {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

/// Nanoseconds with three digits behind the point, in the unit that leaves one to three before it.
pub fn duration(ns: u64) -> String {
    let (unit, divisor) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    format!("{:.3} {unit}", ns as f64 / divisor)
}

/// A number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::PausedLink;

    fn row(algorithm: &str, completion_ns: u64) -> Row {
        Row {
            algorithm: algorithm.to_string(),
            completion_ns,
            goodput_gbps: goodput_gbps(16_384, completion_ns),
            verified: true,
            receivers: 3,
            receivers_verified: 3,
            sender_tx_bytes: 16_700,
            sender_payload_bytes: 16_384,
            wire_packets: 40,
            sender_acks: 1,
            sender_cnps: None,
            marked_packets: None,
            cnps_sent: None,
            cnps_filtered: None,
            copies_filtered: None,
            feedback_work: None,
            retransmissions: 0,
            dropped_packets: Some(0),
            implausible_packets: 0,
            flow_control: None,
            registration_ns: None,
            fallback: None,
            requests: None,
            safeguard: Vec::new(),
            failures: Vec::new(),
            lost: Vec::new(),
            parts: Vec::new(),
            phases: Vec::new(),
            fairness: None,
        }
    }

    fn report() -> Report {
        Report {
            results: vec![row("alfirk", 5_000), row("chain", 12_345)],
            input: Some(Input {
                file: None,
                size: 16_384,
                sha256: "0f".repeat(32),
            }),
            workload: None,
            topology: TopologySummary {
                name: "testbed".to_string(),
                hosts: 4,
                switches: 1,
                links: 4,
            },
            group: Some(GroupSummary {
                size: 4,
                source: "h1".to_string(),
                members: ["h1", "h2", "h3", "h4"].map(str::to_string).to_vec(),
            }),
            settings: Settings {
                driver: "virtual".to_string(),
                collective: "broadcast".to_string(),
                op: "send".to_string(),
                write: None,
                min_psn: "tree".to_string(),
                icrc: "neutral".to_string(),
                tree_policy: "reuse-least-loaded".to_string(),
                switch_source: 0,
                switch_early: false,
                congestion: "none".to_string(),
                recovery: None,
                mtu: 4096,
                slices: None,
                loss: 0.0,
                outages: Vec::new(),
                rates: Vec::new(),
                fallback_below: None,
                registration: "api".to_string(),
                switching: None,
                host_model: None,
            },
            clock: None,
            machines: None,
            seed: 1,
        }
    }

    #[test]
    fn table_is_aligned_and_compares_with_alfirk() {
        insta::assert_snapshot!(report().table());
    }

    #[test]
    fn table_tells_what_was_resent() {
        let mut report = report();
        report.results[0].sender_payload_bytes = 16_384 + 4_096;
        assert!(report.table().ends_with(
            "the link of h1 carried 20,480 message bytes for a message of 16,384: \
             1.2500 times, retransmissions included\n"
        ));
    }

    #[test]
    fn table_tells_what_broke_and_what_became_of_it() {
        let mut report = report();
        report.settings.registration = "mrp".to_string();
        let row = &mut report.results[0];
        row.registration_ns = Some(1_234_000);
        row.lost = vec!["h3".to_string()];
        row.failures = vec![Failure {
            what: "h3".to_string(),
            at_ns: 10_000,
            repaired_ns: Some(20_000_000),
            going_on_ns: Some(20_100_000),
        }];
        report.results[1].fallback = Some(Fallback {
            to: "binomial".to_string(),
            why: "s1 is full".to_string(),
        });
        assert!(report.table().ends_with(
            "alfirk: group registered in 1.234 ms (mrp)\n\
             alfirk: h3 died after 10.000 us; the controller acted 20.000 ms later, \
             acknowledgements came again 20.100 ms later\n\
             alfirk: the group went on without h3\n\
             chain: no group, so binomial ran instead: s1 is full\n"
        ));
    }

    #[test]
    fn table_tells_who_was_paused() {
        let mut report = report();
        report.settings.switching = Some("{queueing: output, pfc: {class: 3}}".to_string());
        let paused = |link: &str, paused_ns| PausedLink {
            link: link.to_string(),
            pauses: 1,
            paused_ns,
        };
        report.results[0].flow_control = Some(FlowControl {
            pauses: 2,
            paused_ns: 3_500,
            links: vec![paused("h1:0 -> s1:1", 500), paused("s2:1 -> s1:2", 3_000)],
        });
        report.results[1].flow_control = Some(FlowControl::default());
        let table = report.table();
        assert!(table.contains(", switches {queueing: output, pfc: {class: 3}}\n"));
        assert!(table.ends_with(
            "alfirk: 2 PAUSEs, 3.500 us of stopped senders on 2 links, most of it 3.000 us on s2:1 -> s1:2\n\
             chain: 0 PAUSEs, 0 ns of stopped senders\n"
        ));
    }

    #[test]
    fn table_tells_of_a_slow_clock_and_of_processors_that_were_short() {
        let mut report = report();
        let load = |algorithm: &str, wait_ns, is_limited| LoadSummary {
            algorithm: algorithm.to_string(),
            network_busy: 0.25,
            machine_busy: 0.5,
            wait_ns,
            wait_limit_ns: 60.0,
            is_limited,
        };
        let mut clock = ClockSummary {
            scale: 5_000,
            is_chosen_here: true,
            processors: 2,
            load: vec![load("alfirk", 12.0, false)],
        };
        report.clock = Some(clock.clone());
        let said = "clock: 5,000 times slower than real time, chosen for this machine; times above are on it; \
                    the network had up to 25 % of 2 processors, and a process waited up to 12 ns for its turn in the mean\n";
        assert!(report.table().ends_with(said), "{}", report.table());
        clock.load.push(load("chain", 100.0, true));
        report.clock = Some(clock);
        assert!(report
            .table()
            .contains("\nwarning: processors were short for chain, whose"));
    }

    #[test]
    fn durations_and_numbers_are_readable() {
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_001), "1.001 us");
        assert_eq!(duration(1_377_123), "1.377 ms");
        assert_eq!(duration(2_000_000_000), "2.000 s");
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(123_456_789), "123,456,789");
    }

    #[test]
    fn goodput_is_bits_per_nanosecond() {
        assert_eq!(goodput_gbps(1_000, 80), Some(100.0));
        assert_eq!(goodput_gbps(0, 80), None);
        assert_eq!(goodput_gbps(1, 0), None);
        assert_eq!(gbps(None), "-");
    }
}
