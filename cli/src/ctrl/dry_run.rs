//! `alfirk ctrl --dry-run`: writes the state that the controller would program, without connecting to switches.
//!
//! The controller programs a simulated fabric of Tofino models in virtual time. The state of these models is then
//! written in a form for real switches.

use std::fs;
use std::net::Ipv4Addr;

use alfirk_ctrl::controller::{ControllerConfig, MemberSpec, RegisterGroup};
use alfirk_ctrl::strategy::Strategies;
use alfirk_ctrl::topology::Topology;
use alfirk_ctrl::{CtrlArgs, DryRun};
use alfirk_experiment::Fabric;
use alfirk_p4rt::Server;
use alfirk_p4runtime::p4::v1::{
    self, entity::Entity as Kind, packet_replication_engine_entry::Type as Pre, Entity,
    PacketReplicationEngineEntry, ReadRequest,
};
use alfirk_roce::wire::{Psn, QpNum};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;

use super::bfrt;
use crate::exit::{print, Failure, Outcome};
use crate::program::{self, Target};

/// Writes the entries of all switches for the groups of `--group`, without connecting to a switch.
pub fn run(args: &CtrlArgs, format: DryRun) -> Outcome {
    let DryRun::Bfrt = format;
    let topology = read_topology(args)?;
    let groups = args.groups.iter().map(|text| parse_group(text));
    let groups: Vec<RegisterGroup> = groups.collect::<Result<_, _>>()?;
    let program = program::compile_program(Target::Tna, None)?;
    let ecn = args.ecn.as_ref();
    let ecn = ecn.map(|ecn| ecn.profile_on(&topology)).transpose();
    let ecn = ecn.map_err(|error| Failure::bad_input(format_args!("--ecn {error}")))?;
    let config = ControllerConfig {
        policy: args.tree_policy,
        group_range: args.group_range,
        punt_rate: args.punt_rate,
        ecn,
        strategies: Strategies::default(),
        ..ControllerConfig::new(program.p4info.clone(), program.device_config)
    };
    let faults = FaultProbabilities::default();
    let network = Network::build(&topology, config, Model::default(), faults, 1);
    let network = network.map_err(Failure::bad_input)?;
    let mut fabric = VirtualFabric::bring_up(network).map_err(Failure::failed)?;
    let mut made = String::new();
    for wanted in groups {
        let info = fabric.register(wanted).map_err(Failure::bad_input)?;
        made += &format!(
            "# Group {}: {} members, which send to queue pair {} and begin at PSN {}.\n",
            info.mcst_id, info.members, info.remote_qpn, info.initial_psn
        );
    }
    fs::create_dir_all(&args.out).map_err(|error| unwritable(&args.out, &error))?;
    for index in topology.switch_indexes() {
        let name = &topology.switch(index).name;
        let server = fabric.network().switch(index).server();
        let script = bfrt::script(name, &made, &program.p4info, &read_state(server)?);
        let path = args.out.join(format!("{name}.py"));
        fs::write(&path, script).map_err(|error| unwritable(&path, &error))?;
        print(format_args!("{}\n", path.display()))?;
    }
    Ok(())
}

fn unwritable(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::failed(format_args!("{}: {error}", path.display()))
}

fn read_topology(args: &CtrlArgs) -> Result<Topology, Failure> {
    let path = &args.topology;
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::bad_input(format_args!("{}: {error}", path.display())))?;
    Topology::from_yaml(&path.display().to_string(), &text).map_err(Failure::bad_input)
}

/// Parses a value of `--group`: `MCSTID=HOST:QPN,HOST:QPN...`.
fn parse_group(text: &str) -> Result<RegisterGroup, Failure> {
    let wrong = |what: &str| {
        Failure::bad_input(format_args!(
            "--group {text}: {what}; write it as 10.255.0.1=10.0.0.1:17,10.0.0.2:18"
        ))
    };
    let (mcst_id, members) = text
        .split_once('=')
        .ok_or_else(|| wrong("no `=` after the group's address"))?;
    let mcst_id: Ipv4Addr = mcst_id
        .parse()
        .map_err(|_| wrong("the group's address is not an IPv4 address"))?;
    let members = members.split(',').map(|member| {
        let (ip, qpn) = member
            .split_once(':')
            .ok_or_else(|| wrong("no `:` between a member's address and queue pair number"))?;
        let number = qpn.parse::<u32>().ok().filter(|number| *number < 1 << 24);
        Ok(MemberSpec {
            ip: ip
                .parse()
                .map_err(|_| wrong("a member's address is not an IPv4 address"))?,
            qpn: QpNum::new(
                number.ok_or_else(|| wrong("a queue pair number is not a number of 24 bits"))?,
            ),
            region: None,
            may_send: true,
        })
    });
    Ok(RegisterGroup {
        mcst_id: Some(mcst_id),
        virtual_qpn: None,
        members: members.collect::<Result<_, Failure>>()?,
        initial_psn: Psn::new(0),
        strategies: Strategies::default(),
    })
}

/// Reads the tables' entries, multicast groups, clone sessions, meters and registers of a switch.
fn read_state(server: &Server) -> Result<Vec<Entity>, Failure> {
    let engine = |entry| {
        Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
            r#type: Some(entry),
        })
    };
    let wanted = [
        Kind::TableEntry(v1::TableEntry::default()),
        engine(Pre::MulticastGroupEntry(v1::MulticastGroupEntry::default())),
        engine(Pre::CloneSessionEntry(v1::CloneSessionEntry::default())),
        Kind::MeterEntry(v1::MeterEntry::default()),
        Kind::RegisterEntry(v1::RegisterEntry::default()),
    ];
    let request = ReadRequest {
        device_id: server.switch().options().device_id,
        entities: wanted.map(|kind| Entity { entity: Some(kind) }).to_vec(),
        ..ReadRequest::default()
    };
    let answer = server.read(&request, 0).map_err(|status| {
        Failure::failed(format_args!(
            "cannot read the state of the model: {status:?}"
        ))
    })?;
    Ok(answer.entities)
}
