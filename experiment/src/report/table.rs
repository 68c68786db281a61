//! The text table of a report, and the lines around it.

use alfirk_units::plural;
use std::fmt::{self, Write};

use super::text::{aligned, duration, gbps, grouped};
use super::{GroupSummary, Input, Report, Row, Settings};
use crate::workload::Throughput;

impl Report {
    /// Formats the report as aligned text: its settings, the results of the algorithms, and the load of the source's
    /// link.
    pub fn table(&self) -> String {
        let mut text = String::new();
        self.write_head(&mut text)
            .and_then(|()| self.write_rows(&mut text))
            .and_then(|()| self.write_phase_lines(&mut text))
            .and_then(|()| self.write_link_line(&mut text))
            .and_then(|()| self.write_group_lines(&mut text))
            .expect("writing to a String does not fail");
        if let Some(clock) = &self.clock {
            text += &clock.lines();
        }
        if let Some(machines) = &self.machines {
            text += &machines.lines();
        }
        text
    }

    /// Writes the settings of the run.
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
        for suspension in &settings.suspensions {
            write!(out, ", {suspension} suspended")?;
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

    /// Writes one table line for each algorithm.
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
                match row.given_up {
                    None => duration(row.completion_ns),
                    Some(_) => format!("> {}", duration(row.completion_ns)),
                },
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

    /// Writes the duration of each phase of a workload.
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

    /// Writes how often the source's link carried the message when alfirk ran; nothing if alfirk did not run.
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
                "\nalfirk: hosts discarded {}, which no correct fabric delivers",
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
            // The source does not count its packets, or a barrier ran.
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
}

/// Writes which members send the message and which receive it.
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

/// Writes the throughput of each flow in Gbit/s, one line for each interval.
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

/// Formats how much faster or slower alfirk was than the algorithm of `row`, such as `1.10x faster`.
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
