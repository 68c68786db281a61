//! Report lines about groups: registration, cost, fallback and failures.

use alfirk_units::plural;
use std::fmt::{self, Write};

use super::text::{duration, grouped, rate};
use super::{Fallback, Report};

impl Report {
    /// Writes, for each algorithm, the lines about its group, queue pairs and failures.
    pub(super) fn write_group_lines(&self, out: &mut String) -> fmt::Result {
        for row in &self.results {
            let name = &row.algorithm;
            if let Some(ns) = row.registration_ns {
                let how = &self.settings.registration;
                write!(out, "{name}: group registered in {}", duration(ns))?;
                // Messages of the controller take real time, whatever the network's clock.
                match &self.clock {
                    Some(clock) if clock.scale > 1 => {
                        let real = duration(ns.saturating_mul(clock.scale.into()));
                        writeln!(out, " of the network's clock, {real} of real time ({how})")?;
                    }
                    _ => writeln!(out, " ({how})")?,
                }
            }
            if let Some((pace, sender)) = row.sender.and_then(|s| Some((s.pace_bps?, s))) {
                writeln!(
                    out,
                    "{name}: the sender is limited to {} by its slowest path, with {} outstanding and an ACK timeout of {}",
                    rate(pace),
                    plural(sender.window as usize, "packet", "packets"),
                    sender.ack_timeout_ns.map_or_else(|| "none".to_owned(), duration),
                )?;
            }
            if let Some(work) = &row.feedback_work {
                writeln!(
                    out,
                    "{name}: {} at switches by {}: {} forwarded upstream, {:.3} recirculations and {:.3} punts for each",
                    plural(work.feedback as usize, "ACK", "ACKs"),
                    self.settings.min_psn,
                    grouped(work.forwarded_upstream),
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
                    Some(_) => [
                        "the controller repaired the group",
                        "acknowledgements resumed",
                    ],
                    None => ["the survivors agreed on what is stable", "continued"],
                };
                writeln!(
                    out,
                    "{name}: {} failed after {}; {acted} {}, {moved} {}",
                    failure.what,
                    duration(failure.at_ns),
                    time_after_failure(failure.repaired_ns, "never"),
                    time_after_failure(failure.going_on_ns, "never"),
                )?;
            }
            for missing in &row.missing {
                writeln!(out, "{name}: {missing}")?;
            }
            if !row.lost.is_empty() {
                writeln!(
                    out,
                    "{name}: the group continued without {}",
                    row.lost.join(", ")
                )?;
            }
        }
        Ok(())
    }
}

/// Formats the time from a failure to an event, such as `1.200 us later`; `otherwise` if the event did not occur.
fn time_after_failure(ns: Option<u64>, otherwise: &str) -> String {
    ns.map_or_else(
        || otherwise.to_string(),
        |ns| format!("{} later", duration(ns)),
    )
}
