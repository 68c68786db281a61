//! Flags that distribute a network over several machines.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_ctrl::topology::{Node, Placement, Topology};
use alfirk_roce::wire::vxlan;

use crate::exit::Failure;

/// Name in `--machines` of the machine on which the command runs.
pub const LOCAL: &str = "local";
/// Default remote shell: it does not prompt, and ends when the connection is lost.
const SHELL: &str =
    "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

/// Flags for the machines of a network, and for the placement of nodes on them.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several machines")]
pub struct PlacementArgs {
    /// Spread the network over these machines, by ssh name (root@b, or local for this one), with =ADDR where the others reach it by
    /// another address. For Mininet all need this version of alfirk; containerlab needs all addresses
    #[arg(long, value_name = "NAME[=ADDR]", value_delimiter = ',')]
    pub machines: Vec<String>,

    /// Placement of nodes, by machine name or number from 1: s1=root@b, p1*=2 for all names that begin so. Hosts follow their switch;
    /// the rest is placed so that few links cross [default: `machines:` of the topology]
    #[arg(
        long,
        value_name = "NODE=MACHINE",
        value_delimiter = ',',
        requires = "machines"
    )]
    place: Vec<String>,
}

impl PlacementArgs {
    /// Parses the machines and assigns each node to one; `None` without `--machines`.
    pub fn check(
        &self,
        topology: &Topology,
    ) -> Result<Option<(Vec<MachineName>, Placement)>, Failure> {
        match self.machines.is_empty() {
            true => Ok(None),
            false => machines_and_placement(topology, &self.machines, &self.place).map(Some),
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct MachinesArgs {
    #[command(flatten)]
    pub placement: PlacementArgs,

    /// Remote shell; the machine's name and a command follow it [default: ssh, with options that disable prompts]
    #[arg(long, value_name = "COMMAND", requires = "machines")]
    remote_shell: Option<String>,

    /// Command that starts alfirk on the other machines, such as 'sudo -n alfirk'
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "machines",
        default_value = "alfirk"
    )]
    remote_alfirk: String,

    /// UDP port of the links between machines
    #[arg(long, value_name = "PORT", requires = "machines", default_value_t = vxlan::PORT)]
    vxlan_port: u16,

    /// Let IP fragment VXLAN packets that exceed the MTU between machines (slow), instead of failing: VXLAN adds 50 bytes
    #[arg(long, requires = "machines")]
    fragment_vxlan: bool,
}

/// The machines of a network, the nodes on each, and how the machines are reached.
#[derive(Debug)]
pub struct Machines {
    /// Names and addresses of the machines; the index is the number of the machine.
    pub machines: Vec<MachineName>,
    pub placement: Placement,
    /// Remote shell, split into words.
    pub shell: Vec<String>,
    pub alfirk: String,
    pub vxlan_port: u16,
    pub fragments: bool,
}

/// A machine: the name for the remote shell, and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineName {
    pub name: String,
    /// Address at which the other machines reach it; `None` if it is detected from the connection.
    pub address: Option<Ipv4Addr>,
}

impl Machines {
    /// Whether one of the machines is the one on which the command runs.
    pub fn has_local(&self) -> bool {
        self.machines.iter().any(|machine| machine.name == LOCAL)
    }
}

impl MachinesArgs {
    /// Checks the flags and assigns each node to a machine; `None` without `--machines`.
    pub fn check(&self, topology: &Topology) -> Result<Option<Machines>, Failure> {
        let Some((machines, placement)) = self.placement.check(topology)? else {
            return Ok(None);
        };
        let shell = self.remote_shell.as_deref().unwrap_or(SHELL);
        let shell: Vec<String> = shell.split_whitespace().map(str::to_owned).collect();
        if shell.is_empty() || self.remote_alfirk.trim().is_empty() {
            return Err(Failure::bad_input(
                "--remote-shell and --remote-alfirk are commands; one of them is empty",
            ));
        }
        Ok(Some(Machines {
            machines,
            placement,
            shell,
            alfirk: self.remote_alfirk.clone(),
            vxlan_port: self.vxlan_port,
            fragments: self.fragment_vxlan,
        }))
    }
}

fn machines_and_placement(
    topology: &Topology,
    names: &[String],
    places: &[String],
) -> Result<(Vec<MachineName>, Placement), Failure> {
    let machines = names.iter().map(|text| parse_machine(text));
    let machines: Vec<MachineName> = machines
        .collect::<Result<_, String>>()
        .map_err(Failure::bad_input)?;
    for (at, machine) in machines.iter().enumerate() {
        if machines[..at].iter().any(|m| m.name == machine.name) {
            let name = &machine.name;
            return Err(Failure::bad_input(format_args!(
                "--machines: {name} is named twice; name each machine once"
            )));
        }
    }
    let mut fixed = BTreeMap::new();
    for text in places {
        parse_placement(topology, &machines, text, &mut fixed)
            .map_err(|why| Failure::bad_input(format_args!("--place {text}: {why}")))?;
    }
    let placement = Placement::new(topology, machines.len(), &fixed)
        .map_err(|error| Failure::bad_input(format_args!("--machines: {error}")))?;
    Ok((machines, placement))
}

/// Parses a machine, such as `b`, `root@b` or `local=192.0.2.1`.
fn parse_machine(text: &str) -> Result<MachineName, String> {
    let (name, address) = match text.split_once('=') {
        Some((name, address)) => (name, Some(address)),
        None => (text, None),
    };
    // A remote shell would parse it as an option.
    if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
        return Err(format!("--machines {text}: `{name}` is not a machine name"));
    }
    let address = address.map(|address| {
        address.parse().map_err(|_| {
            format!("--machines {text}: `{address}` is not an IPv4 address; write NAME=ADDR, such as b=192.0.2.2")
        })
    });
    Ok(MachineName {
        name: name.to_owned(),
        address: address.transpose()?,
    })
}

/// Parses a placement, such as `s1=b` or `p1*=2`, and adds its nodes to `fixed`.
fn parse_placement(
    topology: &Topology,
    machines: &[MachineName],
    text: &str,
    fixed: &mut BTreeMap<Node, usize>,
) -> Result<(), String> {
    let (nodes, machine) = text
        .split_once('=')
        .ok_or("write it as NODE=MACHINE, such as s1=b, s1=2 or p1*=2")?;
    let named = machines.iter().position(|m| m.name == machine);
    let numbered = || machine.parse::<usize>().ok()?.checked_sub(1);
    let machine = named.or_else(numbered).filter(|m| *m < machines.len());
    let machine = machine.ok_or_else(|| {
        let names: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
        let (names, count) = (names.join(", "), names.len());
        format!("there is no machine of that name or number; the {count} machines are {names}")
    })?;
    let all = topology.switch_indexes().map(Node::Switch);
    let all = all.chain(topology.host_indexes().map(Node::Host));
    let meant: Vec<Node> = match nodes.strip_suffix('*') {
        Some(start) => all
            .filter(|node| topology.name_of(*node).starts_with(start))
            .collect(),
        None => topology.node_named(nodes).into_iter().collect(),
    };
    if meant.is_empty() {
        let name = topology.name();
        return Err(format!("topology {name} has no node {nodes}"));
    }
    for node in meant {
        if fixed.insert(node, machine).is_some_and(|m| m != machine) {
            let name = topology.name_of(node);
            return Err(format!(
                "node {name} is placed on two machines; place it once"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_ctrl::topology::leaf_spine;

    fn check(machines: &[&str], places: &[&str]) -> Result<Machines, String> {
        let args = MachinesArgs {
            placement: PlacementArgs {
                machines: machines.iter().map(ToString::to_string).collect(),
                place: places.iter().map(ToString::to_string).collect(),
            },
            remote_shell: None,
            remote_alfirk: "alfirk".to_owned(),
            vxlan_port: vxlan::PORT,
            fragment_vxlan: false,
        };
        match args.check(&leaf_spine(2, 1, 2).unwrap()) {
            Ok(checked) => Ok(checked.unwrap()),
            Err(Failure::BadInput(error)) => Err(error.to_string()),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn machines_have_names_and_may_have_addresses() {
        let checked = check(&["local=192.0.2.1", "root@b"], &[]).unwrap();
        assert!(checked.has_local());
        assert_eq!(
            checked.machines[0].address,
            Some(Ipv4Addr::new(192, 0, 2, 1))
        );
        assert_eq!(checked.machines[1].name, "root@b");
        assert_eq!(checked.shell[0], "ssh");
    }

    #[test]
    fn nodes_are_placed_by_name_number_and_pattern() {
        let topology = leaf_spine(2, 1, 2).unwrap();
        let checked = check(&["a", "b"], &["h1=b", "h2=1", "l*=2"]);
        let leaf = topology.switches()[0].name.clone();
        let checked =
            checked.or_else(|_| check(&["a", "b"], &["h1=b", "h2=1", &format!("{leaf}=2")]));
        let placement = checked.unwrap().placement;
        let of = |name: &str| placement.machine_of(topology.node_named(name).unwrap());
        assert_eq!((of("h1"), of("h2"), of(&leaf)), (1, 0, 1));
    }

    #[test]
    fn errors_name_the_mistake() {
        for (machines, places, why) in [
            (
                &["-oProxyCommand=x", "b"][..],
                &[][..],
                "not a machine name",
            ),
            (&["a=b", "b"], &[], "`b` is not an IPv4 address"),
            (&["a", "a"], &[], "named twice"),
            (&["a", "b", "c", "d"], &[], "4 machines for 3 switches"),
            (&["a", "b"], &["h1"], "NODE=MACHINE"),
            (&["a", "b"], &["h1=c"], "the 2 machines are a, b"),
            (&["a", "b"], &["h1=0"], "no machine of that name or number"),
            (&["a", "b"], &["h77=1"], "has no node h77"),
            (
                &["a", "b"],
                &["h1=1", "h1=2"],
                "node h1 is placed on two machines",
            ),
        ] {
            let said = check(machines, places).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
