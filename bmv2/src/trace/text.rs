//! Traces as indented text, one line for each step.

use super::{Lost, NamedValue, Source, TraceEvent, TraceLine};
use std::fmt::{self, Write};

/// Terminal escape codes by colour; all empty for plain text.
struct Colors {
    strong: &'static str,
    name: &'static str,
    good: &'static str,
    bad: &'static str,
    end: &'static str,
}

const PLAIN: Colors = Colors {
    strong: "",
    name: "",
    good: "",
    bad: "",
    end: "",
};

const ANSI: Colors = Colors {
    strong: "\x1b[1m",
    name: "\x1b[36m",
    good: "\x1b[32m",
    bad: "\x1b[31m",
    end: "\x1b[0m",
};

impl TraceLine {
    /// Formats the step as one line without a line end, indented under the line of the packet's arrival.
    pub fn text(&self, color: bool) -> String {
        let mut line = String::new();
        // Writing to a string never fails.
        let _ = self.write(&mut line, if color { &ANSI } else { &PLAIN });
        line
    }

    /// Formats the step as one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data becomes JSON")
    }

    /// Returns the number of the packet, with that of the copy, if it is one: `#1`, or `#1.2` for copy 2.
    fn number(&self) -> String {
        match self.copy {
            0 => format!("#{}", self.packet),
            copy => format!("#{}.{copy}", self.packet),
        }
    }

    fn write(&self, out: &mut String, c: &Colors) -> fmt::Result {
        let n = self.number();
        let copy = |copy: u32| match copy {
            0 => String::new(),
            copy => format!(", as #{}.{copy}", self.packet),
        };
        match &self.event {
            TraceEvent::In { port, bytes } => {
                write!(
                    out,
                    "{}{n} in{} port {port}, {bytes} bytes",
                    c.strong, c.end
                )
            }
            TraceEvent::Block { block, starts } => {
                let verb = if *starts { "starts" } else { "ends" };
                write!(out, "{n}   {block} {verb}")
            }
            TraceEvent::Parsed {
                states,
                headers,
                payload,
                error,
            } => {
                let (path, headers) = (states.join(" > "), headers.join(", "));
                write!(out, "{n}   parser {path}: {}{headers}{}", c.name, c.end)?;
                write!(out, "; {payload} bytes of payload")?;
                match error {
                    Some(error) => write!(out, "; {}{error}{}", c.bad, c.end),
                    None => Ok(()),
                }
            }
            TraceEvent::Condition { source, holds } => {
                let color = if *holds { c.good } else { c.bad };
                write!(out, "{n}   if ({}) {color}{holds}{}", source.text, c.end)?;
                place(out, source)
            }
            TraceEvent::Statement { source } => {
                write!(out, "{n}     {}", source.text)?;
                place(out, source)
            }
            TraceEvent::Register {
                register,
                index,
                written,
                value,
            } => {
                let verb = if *written { "write" } else { "read" };
                let name = format_args!("{}{register}[{index}]{}", c.name, c.end);
                write!(out, "{n}     {verb} register {name}: {value}")
            }
            TraceEvent::Updated { kind, name, index } => {
                write!(out, "{n}     {kind} {}{name}[{index}]{}", c.name, c.end)
            }
            TraceEvent::OutOfBounds {
                kind,
                name,
                index,
                size,
            } => write!(
                out,
                "{n}     {kind} {}{name}[{index}]{}: {}no such cell{}, {size} cells",
                c.name, c.end, c.bad, c.end
            ),
            TraceEvent::Table {
                table,
                key,
                hit,
                entry,
                entries,
                action,
                data,
                source,
            } => {
                write!(out, "{n}   table {}{table}{}", c.name, c.end)?;
                if !key.is_empty() {
                    list(out, " [", key, "]")?;
                }
                match (hit, entry) {
                    // A table without a key, often one that the compiler made for an action, has only its default action.
                    _ if key.is_empty() => {}
                    (true, Some(entry)) => write!(out, " {}hit{} entry {entry}", c.good, c.end)?,
                    (true, None) => write!(out, " {}hit{}", c.good, c.end)?,
                    (false, _) => write!(out, " {}miss{} of {entries}", c.bad, c.end)?,
                }
                if let Some(action) = action {
                    write!(out, ": {action}")?;
                    list(out, "(", data, ")")?;
                }
                source.iter().try_for_each(|source| place(out, source))
            }
            TraceEvent::Candidate { entry, reason } => {
                write!(out, "{n}     entry {entry} ")?;
                match reason {
                    Lost::Differs {
                        field,
                        entry_value,
                        packet_value,
                    } => write!(
                        out,
                        "has {field} = {entry_value}, the packet {packet_value}"
                    ),
                    Lost::Prefix { bits } => {
                        write!(out, "matches too, with a shorter prefix (/{bits})")
                    }
                    Lost::Priority => out.write_str("matches too, with a lower priority"),
                }
            }
            TraceEvent::Changed {
                field,
                before,
                after,
            } => write!(
                out,
                "{n}     {field}: {before} > {}{after}{}",
                c.good, c.end
            ),
            TraceEvent::Queued {
                port,
                priority,
                rid,
                as_copy,
            } => {
                write!(out, "{n}   to port {port}, priority {priority}")?;
                if *rid != 0 {
                    write!(out, ", rid {rid}")?;
                }
                out.write_str(&copy(*as_copy))
            }
            TraceEvent::Multicast { group, replicas } => {
                write!(out, "{n}   multicast group {group}: {replicas} replicas")
            }
            TraceEvent::Egress { port } => write!(out, "{n}   egress for port {port}"),
            TraceEvent::Cloned { session, as_copy } => {
                write!(out, "{n}   clone to session {session}{}", copy(*as_copy))
            }
            TraceEvent::NoSession { session } => write!(
                out,
                "{n}   {}no clone{}: there is no clone session {session}",
                c.bad, c.end
            ),
            TraceEvent::Digest { digest, fields } => {
                let fields = fields.join(", ");
                write!(out, "{n}   digest {}{digest}{}: {fields}", c.name, c.end)
            }
            TraceEvent::Resubmitted { as_copy } => {
                write!(out, "{n}   resubmitted{}", copy(*as_copy))
            }
            TraceEvent::Recirculated { as_copy } => {
                write!(out, "{n}   recirculated{}", copy(*as_copy))
            }
            TraceEvent::Out { port, bytes } => {
                write!(
                    out,
                    "{}{n} out{} port {port}, {bytes} bytes",
                    c.strong, c.end
                )
            }
            TraceEvent::Dropped { reason } => {
                write!(out, "{}{n} dropped{}: {reason}", c.bad, c.end)
            }
        }
    }
}

/// Adds a position in the P4 source.
fn place(out: &mut String, source: &Source) -> fmt::Result {
    write!(out, "  ({}:{})", source.file, source.line)
}

fn list(out: &mut String, open: &str, items: &[NamedValue], close: &str) -> fmt::Result {
    out.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(out, "{comma}{} = {}", item.name, item.value)?;
    }
    out.write_str(close)
}
