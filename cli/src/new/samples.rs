//! Common packets, and what a program does with them now.

use std::collections::BTreeMap;

use alfirk_bmv2::trace::{TraceEvent, TraceLine};
use alfirk_stf::{Records, Session};

/// A common packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Name of the packet in the tests.
    pub name: &'static str,
    /// Expression that has the same value in scapy and in scapy-rs.
    pub expression: &'static str,
    /// Classes of scapy in the expression.
    pub layers: &'static [&'static str],
}

/// The packets that are tried, the most usual first.
pub const SAMPLES: [Sample; 5] = [
    Sample {
        name: "TCP_PACKET",
        expression: r#"Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1234, dport=80) / Raw("x" * 46)"#,
        layers: &["Ether", "IP", "Raw", "TCP"],
    },
    Sample {
        name: "UDP_PACKET",
        expression: r#"Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1234, dport=4321) / Raw("x" * 58)"#,
        layers: &["Ether", "IP", "Raw", "UDP"],
    },
    Sample {
        name: "IPV6_PACKET",
        expression: r#"Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / IPv6(src="2001:db8::1", dst="2001:db8::2") / UDP(sport=1234, dport=4321) / Raw("x" * 38)"#,
        layers: &["Ether", "IPv6", "Raw", "UDP"],
    },
    Sample {
        name: "ARP_PACKET",
        expression: r#"Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:01") / ARP(hwsrc="02:00:00:00:00:01", psrc="10.0.0.1", pdst="10.0.0.2") / Raw("x" * 18)"#,
        layers: &["ARP", "Ether", "Raw"],
    },
    Sample {
        name: "VLAN_PACKET",
        expression: r#"Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / Dot1Q(vlan=1) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1234, dport=4321) / Raw("x" * 54)"#,
        layers: &["Dot1Q", "Ether", "IP", "Raw", "UDP"],
    },
];

/// Port into which the tests send packets.
pub const INGRESS_PORT: u32 = 0;

impl Sample {
    /// The bytes of the packet.
    pub fn frame(&self) -> Result<Vec<u8>, String> {
        let packet = scapy::parse_with(self.expression, &[]).map_err(|error| error.to_string())?;
        packet.build().map_err(|error| error.to_string())
    }
}

/// Values of the key fields of tables, by name of the table and of the key: hexadecimal with `0x`.
pub type Keys = BTreeMap<String, BTreeMap<String, String>>;

/// The keys with which a trace applies each table for the first time.
pub fn keys(trace: &[TraceLine]) -> Keys {
    let mut found = Keys::new();
    for line in trace {
        if let TraceEvent::Table { table, key, .. } = &line.event {
            let values = key.iter().map(|one| (one.name.clone(), one.value.clone()));
            found
                .entry(table.clone())
                .or_insert_with(|| values.collect());
        }
    }
    found
}

/// A program in this process, which packets are tried with.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// BMv2 JSON.
    pub json: &'a str,
}

/// Why packets cannot be tried.
#[derive(Debug, PartialEq, Eq)]
pub enum TryError {
    /// The switch rejects the command before the packet.
    Rejected(String),
    /// The program cannot be run.
    Unusable(String),
}

/// What the program does with a packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The packets that leave the switch, with their ports.
    pub packets: Vec<(u32, Vec<u8>)>,
    /// The keys with which tables are applied to it.
    pub keys: Keys,
}

impl Program<'_> {
    /// Executes commands of the STF language on a new switch, then sends `frame`.
    ///
    /// # Errors
    /// The program cannot be loaded, or a command is rejected.
    fn attempt(self, seed: u64, commands: &[String], frame: &[u8]) -> Result<Outcome, TryError> {
        let records = Records {
            traces: true,
            ..Records::default()
        };
        let mut session = Session::start(self.json, seed, records).map_err(TryError::Unusable)?;
        let execute = |session: &mut Session, text: &str| {
            let lines = alfirk_stf::parse(text).map_err(|error| error.message)?;
            lines
                .iter()
                .try_for_each(|line| session.execute(line).map(|_| ()))
        };
        for command in commands {
            execute(&mut session, command).map_err(TryError::Rejected)?;
        }
        let packet = format!("packet {INGRESS_PORT} {}", scapy::hex(frame));
        execute(&mut session, &packet).map_err(TryError::Unusable)?;
        Ok(Outcome {
            packets: session.take_packets(),
            keys: keys(&session.take_trace()),
        })
    }

    /// What the program does with a packet after commands of the STF language, and whether that is independent of random
    /// numbers and of the time.
    ///
    /// # Errors
    /// As for [`Program::attempt`].
    pub fn outcome(self, commands: &[String], frame: &[u8]) -> Result<(Outcome, bool), TryError> {
        let first = self.attempt(0, commands, frame)?;
        let mut later = vec!["wait".to_owned()];
        later.extend_from_slice(commands);
        let second = self.attempt(1, &later, frame)?;
        let is_fixed = first.packets == second.packets;
        Ok((first, is_fixed))
    }
}
