//! Parses `--lose`: rules by which a switch drops chosen packets at the port of a host.

use alfirk_ctrl::topology::{Node, Topology};

/// Rule by which a switch drops certain packets of one kind at the port of a host.
#[derive(Debug, PartialEq, Eq)]
pub struct LossRule {
    switch: String,
    port: u32,
    /// Whether packets from the host are dropped; otherwise packets to the host.
    from_host: bool,
    kind: PacketKind,
    /// Which packets of the kind are dropped, counted from 1: `1`, or `1-3`.
    numbers: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketKind {
    Data,
    Ack,
    Nak,
    Rnr,
}

impl LossRule {
    /// Parses a value of `--lose`, such as `h2:from:ack:1`. The error is a message for users.
    pub fn parse(topology: &Topology, text: &str) -> Result<LossRule, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [host, direction, kind, numbers] = parts[..] else {
            return Err("write it as HOST:from|to:data|ack|nak|rnr:N, as h2:from:ack:1".to_owned());
        };
        let found = topology.host_named(host);
        let host = found.ok_or_else(|| {
            let name = topology.name();
            format!("topology {name} has no host {host}")
        })?;
        let mut ends = topology.links().iter().filter_map(|link| {
            let here = link.ends.iter().any(|end| end.node == Node::Host(host));
            let there = link.ends.iter().find_map(|end| match end.node {
                Node::Switch(switch) => Some((switch, end.port)),
                Node::Host(_) => None,
            });
            there.filter(|_| here)
        });
        let (switch, port) = ends.next().ok_or("the host has no link to a switch")?;
        let from_host = match direction {
            "from" => true,
            "to" => false,
            _ => {
                return Err(format!(
                    "`{direction}`: expected `from` or `to` after the host"
                ))
            }
        };
        let kind = match kind {
            "data" => PacketKind::Data,
            "ack" => PacketKind::Ack,
            "nak" => PacketKind::Nak,
            "rnr" => PacketKind::Rnr,
            _ => {
                return Err(format!(
                    "unknown kind `{kind}`: expected data, ack, nak or rnr"
                ))
            }
        };
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let counted = |text: &str| text.parse::<u64>().is_ok_and(|number| number > 0);
        if !counted(first) || !counted(last) {
            return Err(format!(
                "`{numbers}`: expected ordinals from 1, as 1 or 2-5"
            ));
        }
        Ok(LossRule {
            switch: topology.switch(switch).name.clone(),
            port,
            from_host,
            kind,
            numbers: numbers.to_owned(),
        })
    }

    /// Formats the rule as `SWITCH:RULE`, where RULE is a value of `alfirk switch --port-drop`.
    ///
    /// A RoCEv2 packet has UDP port 4791 at offset 36 of its frame and its opcode at 42; an ACK or NAK has its syndrome at 54, whose
    /// upper three bits are the kind (IBTA vol. 1, 9.2.1 and 9.7.5.1.1).
    pub fn switch_rule(&self) -> String {
        let direction = if self.from_host { "in" } else { "out" };
        let kind = match self.kind {
            PacketKind::Data => "42=00/f0",
            PacketKind::Ack => "42=11,54=00/e0",
            PacketKind::Rnr => "42=11,54=20/e0",
            PacketKind::Nak => "42=11,54=60/e0",
        };
        let LossRule {
            switch,
            port,
            numbers,
            ..
        } = self;
        format!("{switch}:{port}={direction},{numbers},36=12,37=b7,{kind}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_ctrl::topology::testbed;

    #[test]
    fn packet_kinds_become_byte_rules_at_the_hosts_port() {
        let rule = |text| LossRule::parse(&testbed(), text).map(|lost| lost.switch_rule());
        let rule_of = |text| rule(text).unwrap();
        assert_eq!(
            rule_of("h2:from:ack:1"),
            "s1:2=in,1,36=12,37=b7,42=11,54=00/e0"
        );
        assert_eq!(
            rule_of("h3:to:data:2-4"),
            "s1:3=out,2-4,36=12,37=b7,42=00/f0"
        );
        assert_eq!(
            rule_of("h3:from:nak:1"),
            "s1:3=in,1,36=12,37=b7,42=11,54=60/e0"
        );
        for (text, why) in [
            ("h2", "write it as"),
            ("h9:from:ack:1", "no host h9"),
            ("h2:at:ack:1", "expected `from` or `to`"),
            ("h2:to:cnp:1", "unknown kind"),
            ("h2:to:ack:0", "from 1"),
            ("h2:to:ack:1-x", "from 1"),
        ] {
            assert!(rule(text).unwrap_err().contains(why), "{text}");
        }
    }
}
