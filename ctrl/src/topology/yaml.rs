//! Topologies from YAML text, with errors that name the line.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use alfirk_roce::wire::ethernet::BadMac;
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use super::switching::SwitchingProblem;
use super::{
    Alpha, BuildError, Builder, End, Host, LinkAttributes, MacAddr, Node, Pfc, Queueing,
    SharedBuffer, Switching, Topology,
};
use alfirk_units::{Quantity, UnitError, RATE, SIZE, TIME};

/// Error in a topology file: location, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    /// Name of the file, as passed by the caller.
    pub file: String,
    /// Line, from 1; 0 if the error has no location.
    pub line: u64,
    /// Column, from 1; 0 if the error has no location.
    pub column: u64,
    /// The problem.
    pub kind: Box<TopologyErrorKind>,
}

/// Problem that a [`TopologyError`] reports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyErrorKind {
    /// The text is not YAML, or does not have the expected structure.
    #[error("{0}")]
    Form(String),
    /// `ip` is not `ADDRESS/PREFIX`.
    #[error("host {host}: `{text}` is not an address with its prefix; write it as 10.0.0.1/8")]
    Ip {
        /// Name of the host.
        host: String,
        /// The invalid text in the file.
        text: String,
    },
    /// `mac` is malformed.
    #[error("host {host}: {error}")]
    Mac {
        /// Name of the host.
        host: String,
        /// Cause of the error.
        error: BadMac,
    },
    /// A rate, delay or size is malformed.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A link does not have two ends.
    #[error("a link has two ends, this one has {0}; write ends: [h1, \"s1:1\"]")]
    Ends(usize),
    /// A link end names an unknown node.
    #[error("link end `{end}`: there is no node `{node}`; list it under switches or hosts")]
    UnknownNode {
        /// Text of the link's end in the file.
        end: String,
        /// Node name in the text of the end.
        node: String,
    },
    /// `machines` lists an unknown node.
    #[error("machines: there is no node `{0}`; list it under switches or hosts")]
    PlacedUnknownNode(String),
    /// A link end names a switch without a port, or a host with a port.
    #[error("link end `{end}`: {hint}")]
    EndForm {
        /// Text of the link's end in the file.
        end: String,
        /// How to write the end correctly.
        hint: String,
    },
    /// A node or link does not fit the topology.
    #[error(transparent)]
    BuildError(#[from] BuildError),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    /// Parses and checks a topology in YAML; the format is documented in `topologies/README.md`.
    ///
    /// `file` is the name of the file in errors.
    pub fn from_yaml(file: &str, text: &str) -> Result<Topology, TopologyError> {
        read(text).map_err(|At { location, kind }| TopologyError {
            file: file.to_owned(),
            line: location.line(),
            column: location.column(),
            kind: Box::new(kind),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    defaults: Option<Spanned<Attributes>>,
    switch: Option<Spanned<RawSwitching>>,
    #[serde(default)]
    machines: BTreeMap<u32, Vec<Spanned<String>>>,
    switches: Vec<Spanned<RawSwitch>>,
    #[serde(default)]
    hosts: Vec<Spanned<RawHost>>,
    #[serde(default)]
    links: Vec<Spanned<RawLink>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSwitch {
    name: String,
    id: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: String,
    ip: Spanned<String>,
    mac: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    ends: Spanned<Vec<Spanned<String>>>,
    rate: Option<Spanned<String>>,
    delay: Option<Spanned<String>>,
    mtu: Option<u32>,
    queue: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {
    rate: Option<Spanned<String>>,
    delay: Option<Spanned<String>>,
    mtu: Option<u32>,
    queue: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSwitching {
    queueing: Option<Spanned<String>>,
    speedup: Option<Spanned<u32>>,
    buffer: Option<Spanned<String>>,
    alpha: Option<Spanned<String>>,
    pfc: Option<Spanned<RawPfc>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPfc {
    class: Option<u8>,
    xoff: Option<Spanned<String>>,
    xon: Option<Spanned<String>>,
    headroom: Option<Spanned<String>>,
}

/// An error and its location in the file.
struct At {
    location: Location,
    kind: TopologyErrorKind,
}

trait Locate<T> {
    fn at(self, location: Location) -> Result<T, At>;
}

impl<T, E: Into<TopologyErrorKind>> Locate<T> for Result<T, E> {
    fn at(self, location: Location) -> Result<T, At> {
        self.map_err(|error| At {
            location,
            kind: error.into(),
        })
    }
}

fn read(text: &str) -> Result<Topology, At> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000_000,
            max_nodes: 10_000_000,
            max_documents: 1,
            max_total_scalar_bytes: 256 << 20,
        },
        with_snippet: false,
    };
    let file: File =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| form_error(&error))?;

    let defaults = match &file.defaults {
        None => LinkAttributes::default(),
        Some(own) => attributes(&own.value, LinkAttributes::default())?,
    };
    let place = match &file.defaults {
        Some(own) => own.referenced,
        None => file.name.referenced,
    };
    let mut builder = Builder::new(file.name.value.clone(), defaults).map_err(|problem| At {
        location: match &problem {
            BuildError::Name(_) => file.name.referenced,
            _ => place,
        },
        kind: problem.into(),
    })?;
    if let Some(own) = &file.switch {
        builder
            .switching(switching(&own.value)?)
            .at(own.referenced)?;
    }
    for switch in &file.switches {
        builder
            .switch(switch.value.name.clone(), switch.value.id)
            .at(switch.referenced)?;
    }
    for host in &file.hosts {
        let RawHost { name, ip, mac } = &host.value;
        let (address, prefix_len) = parse_ip(&ip.value)
            .ok_or_else(|| TopologyErrorKind::Ip {
                host: name.clone(),
                text: ip.value.clone(),
            })
            .at(ip.referenced)?;
        let mac = mac
            .value
            .parse::<MacAddr>()
            .map_err(|error| TopologyErrorKind::Mac {
                host: name.clone(),
                error,
            })
            .at(mac.referenced)?;
        builder
            .host(Host {
                name: name.clone(),
                ip: address,
                prefix_len,
                mac,
            })
            .at(host.referenced)?;
    }
    for link in &file.links {
        let RawLink {
            ends,
            rate,
            delay,
            mtu,
            queue,
        } = &link.value;
        let [a, b] = ends.value.as_slice() else {
            return Err(TopologyErrorKind::Ends(ends.value.len())).at(ends.referenced);
        };
        let own = Attributes {
            rate: rate.clone(),
            delay: delay.clone(),
            mtu: *mtu,
            queue: queue.clone(),
        };
        let own = attributes(&own, defaults)?;
        let a = parse_end(&builder, &a.value).at(a.referenced)?;
        let b = parse_end(&builder, &b.value).at(b.referenced)?;
        builder.link_with(a, b, own).at(link.referenced)?;
    }
    for (number, names) in &file.machines {
        for name in names {
            let node = builder.node_named(&name.value);
            let node = node.ok_or_else(|| TopologyErrorKind::PlacedUnknownNode(name.value.clone()));
            let node = node.at(name.referenced)?;
            builder.machine(node, *number).at(name.referenced)?;
        }
    }
    builder.build().map_err(|problem| At {
        location: locate(&file, &problem),
        kind: problem.into(),
    })
}

/// Location of an error that is found only after the whole file is read.
fn locate(file: &File, problem: &BuildError) -> Location {
    let found = match problem {
        BuildError::HostWithoutLink(host) => file
            .hosts
            .iter()
            .find(|h| h.value.name == *host)
            .map(|h| h.referenced),
        BuildError::NotConnected { switch, .. } => file
            .switches
            .iter()
            .find(|s| s.value.name == *switch)
            .map(|s| s.referenced),
        BuildError::Switching(_) => file.switch.as_ref().map(|s| s.referenced),
        _ => None,
    };
    found.unwrap_or(file.name.referenced)
}

fn form_error(error: &serde_saphyr::Error) -> At {
    let inner = error.without_snippet();
    let message = match inner {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{key}` is given twice; remove one")
        }
        _ => {
            // Remove the location, which the error has as a field.
            let text = inner.to_string();
            let text = text
                .split_once(" at line ")
                .map_or(&*text, |(text, _)| text);
            match text.strip_prefix("invalid u") {
                Some(bits) => format!("not a whole number of 0 or more that fits {bits} bits"),
                None => text.to_owned(),
            }
        }
    };
    At {
        location: error.location().unwrap_or(Location::UNKNOWN),
        kind: TopologyErrorKind::Form(message),
    }
}

fn attributes(own: &Attributes, defaults: LinkAttributes) -> Result<LinkAttributes, At> {
    let read = |quantity: &Quantity, own: &Option<Spanned<String>>, default: u64| match own {
        None => Ok(default),
        Some(text) => quantity.parse(&text.value).at(text.referenced),
    };
    Ok(LinkAttributes {
        rate_bps: read(&RATE, &own.rate, defaults.rate_bps)?,
        delay_ns: read(&TIME, &own.delay, defaults.delay_ns)?,
        mtu: own.mtu.unwrap_or(defaults.mtu),
        queue_bytes: read(&SIZE, &own.queue, defaults.queue_bytes)?,
    })
}

fn switching(own: &RawSwitching) -> Result<Switching, At> {
    let wrong = |location, problem: SwitchingProblem| At {
        location,
        kind: BuildError::from(problem).into(),
    };
    let size = |own: &Option<Spanned<String>>| match own {
        None => Ok(None),
        Some(text) => SIZE.parse(&text.value).at(text.referenced).map(Some),
    };
    let speedup = own.speedup.as_ref().map_or(1, |speedup| speedup.value);
    let queueing = match &own.queueing {
        None => Queueing::Output,
        Some(name) => Queueing::named(&name.value, speedup).ok_or_else(|| {
            let problem = SwitchingProblem::Queueing(name.value.clone());
            wrong(name.referenced, problem)
        })?,
    };
    if let (Queueing::Output, Some(speedup)) = (queueing, &own.speedup) {
        return Err(wrong(speedup.referenced, SwitchingProblem::SpeedupOfOutput));
    }
    let alpha = match &own.alpha {
        None => Alpha::ONE,
        Some(text) => text
            .value
            .parse()
            .map_err(|bad| wrong(text.referenced, SwitchingProblem::Alpha(bad)))?,
    };
    let buffer = size(&own.buffer)?.map(|bytes| SharedBuffer { bytes, alpha });
    if let (None, Some(alpha)) = (buffer, &own.alpha) {
        return Err(wrong(alpha.referenced, SwitchingProblem::AlphaAlone));
    }
    let pfc = match &own.pfc {
        None => None,
        Some(pfc) => Some(Pfc {
            class: pfc.value.class.unwrap_or(Pfc::USUAL_CLASS),
            xoff: size(&pfc.value.xoff)?,
            xon: size(&pfc.value.xon)?,
            headroom: size(&pfc.value.headroom)?,
        }),
    };
    Ok(Switching {
        queueing,
        buffer,
        pfc,
    })
}

fn parse_ip(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    Some((address.parse().ok()?, prefix.parse().ok()?))
}

fn parse_end(builder: &Builder, text: &str) -> Result<End, TopologyErrorKind> {
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let node = builder
        .node_named(name)
        .ok_or_else(|| TopologyErrorKind::UnknownNode {
            end: text.to_owned(),
            node: name.to_owned(),
        })?;
    let form = |hint: String| TopologyErrorKind::EndForm {
        end: text.to_owned(),
        hint,
    };
    match (node, port) {
        (Node::Host(host), None) => Ok(End::host(host)),
        (Node::Host(_), Some(_)) => Err(form(format!(
            "{name} is a host and has one port only; write it as {name}"
        ))),
        (Node::Switch(_), None) => Err(form(format!(
            "{name} is a switch; say which port, as \"{name}:1\""
        ))),
        (Node::Switch(switch), Some(port)) => match port.parse() {
            Ok(port) => Ok(End::switch(switch, port)),
            Err(_) => Err(form(format!(
                "`{port}` is not a port; write a number from 1 to {}",
                End::MAX_PORT
            ))),
        },
    }
}
