use super::*;
use crate::tables::ProgramError;
use crate::topology::{fat_tree, leaf_spine, testbed, Builder, End, Host, LinkAttributes, MacAddr};

#[test]
fn a_switch_gets_routes_arp_replies_and_clone_sessions() {
    let fabric = FakeFabric::ready(testbed());
    insta::assert_snapshot!(fabric.switches[0].contents().join("\n"));
}

#[test]
fn a_leaf_reaches_remote_hosts_by_every_spine() {
    let fabric = FakeFabric::ready(leaf_spine(2, 2, 1).unwrap());
    insta::assert_snapshot!(fabric.switches[0].contents().join("\n"));
}

#[test]
fn readiness_is_reported_once_when_all_switches_are_ready() {
    let mut fabric = FakeFabric::new(leaf_spine(2, 1, 1).unwrap());
    fabric.connect_all();
    let said: Vec<_> = fabric
        .said
        .iter()
        .map(|reply| match reply {
            ApiReply::SwitchReady { switch } => format!("switch {}", switch.0),
            ApiReply::Ready => "ready".to_owned(),
            other => panic!("unexpected: {other:?}"),
        })
        .collect();
    assert_eq!(said, ["switch 0", "switch 1", "switch 2", "ready"]);
    assert_eq!(fabric.controller.poll_timeout(), None);
}

#[test]
fn a_backup_takes_over_when_the_primary_leaves() {
    let mut fabric = FakeFabric::new(testbed());
    fabric.switches[0].has_primary = true;
    fabric.connect_all();
    assert_eq!(
        shown(&fabric.said),
        ["switch s1: another controller is primary; stop it, or use a higher election id"]
    );
    assert_eq!(fabric.controller.poll_timeout(), None);
    fabric.said.clear();

    let status = alfirk_p4runtime::Status::new(alfirk_p4runtime::Code::Ok, "");
    let message = arbitration(status);
    fabric.handle(Event::Stream {
        switch: SwitchIndex(0),
        message,
    });
    assert!(fabric.controller.is_ready());
}

#[test]
fn a_replaced_primary_reports_an_error() {
    let mut fabric = FakeFabric::ready(testbed());
    let status = alfirk_p4runtime::Status::new(alfirk_p4runtime::Code::AlreadyExists, "");
    fabric.handle(Event::Stream {
        switch: SwitchIndex(0),
        message: arbitration(status),
    });
    assert!(!fabric.controller.is_ready());
    assert!(matches!(
        fabric.register(&["h1", "h2"]),
        Err(GroupError::SwitchNotReady { .. })
    ));
}

fn arbitration(
    status: alfirk_p4runtime::Status,
) -> alfirk_p4runtime::p4::v1::StreamMessageResponse {
    use alfirk_p4runtime::p4::v1::{
        stream_message_response::Update, MasterArbitrationUpdate, StreamMessageResponse,
    };
    StreamMessageResponse {
        update: Some(Update::Arbitration(MasterArbitrationUpdate {
            status: Some(status),
            ..MasterArbitrationUpdate::default()
        })),
    }
}

#[test]
fn a_refused_pipeline_is_reported() {
    let mut fabric = FakeFabric::new(testbed());
    fabric.switches[0].refuse_pipeline = true;
    fabric.connect_all();
    assert_eq!(
        shown(&fabric.said),
        ["switch s1: SetForwardingPipelineConfig was rejected: INVALID_ARGUMENT: no such pipeline"]
    );
}

#[test]
fn a_refused_entry_fails_the_switch() {
    let mut fabric = FakeFabric::new(testbed());
    fabric.switches[0].refuse.insert(32);
    fabric.connect_all();
    assert_eq!(
        shown(&fabric.said),
        ["switch s1: table ingress.ipv4_routing.routes: insert was rejected: RESOURCE_EXHAUSTED: fake"]
    );
    // A new connection repeats the whole set-up.
    fabric.connect_all();
    assert!(fabric.controller.is_ready());
}

#[test]
fn a_switch_without_replies_fails_after_the_timeout() {
    let mut fabric = FakeFabric::new(testbed());
    fabric.switches[0].silent = true;
    fabric.connect_all();
    assert_eq!(fabric.controller.poll_timeout(), Some(10_000_000_000));
    fabric.wait();
    assert_eq!(
        shown(&fabric.said),
        ["switch s1: no reply to arbitration within 10 s"]
    );
}

fn shown(said: &[ApiReply]) -> Vec<String> {
    said.iter()
        .map(|reply| match reply {
            ApiReply::SwitchFailed { error, .. } => error.to_string(),
            other => panic!("unexpected: {other:?}"),
        })
        .collect()
}

fn refused(topology: Topology, change: impl FnOnce(&mut ControllerConfig)) -> String {
    let mut config = ControllerConfig::new(p4info::p4info(), Vec::new());
    change(&mut config);
    Controller::new(topology, config).err().unwrap().to_string()
}

#[test]
fn entries_of_every_switch_satisfy_the_constraints() {
    for topology in [
        testbed(),
        fat_tree(4).unwrap(),
        leaf_spine(3, 2, 3).unwrap(),
    ] {
        let mut fabric = FakeFabric::ready(topology);
        fabric.register(&["h1", "h2", "h3"]).unwrap();
        let controller = &fabric.controller;
        for switch in controller.network.topology().switch_indexes() {
            let (network, datagrams) = (&controller.network, &controller.datagrams);
            let mut all = crate::controller::boot::first_entries(network, datagrams, switch);
            all.extend(crate::controller::boot::second_entries(
                network, datagrams, switch,
            ));
            assert_eq!(
                controller.network.program().constraints().check(&all),
                Ok(())
            );
        }
    }
}

#[test]
fn invalid_configurations_are_rejected() {
    assert_eq!(
        refused(testbed(), |c| c.election_id = 0),
        "election id 0 never becomes primary; use 1 or more"
    );
    assert_eq!(
        refused(testbed(), |c| {
            c.group_range = GroupRange::new([10, 0, 0, 0].into(), 16).unwrap();
        }),
        "host h1 has the address 10.0.0.1, which lies in the range of group addresses 10.0.0.0/16; move one of them"
    );
    assert_eq!(
        refused(testbed(), |c| {
            c.group_range = GroupRange::new([11, 0, 0, 0].into(), 16).unwrap();
        }),
        "host h1: its prefix 10.0.0.1/8 does not cover the group addresses 11.0.0.0/16; widen it, so that the host resolves them by ARP"
    );
    assert!(GroupRange::new([224, 0, 0, 0].into(), 16).is_err());
    assert!(GroupRange::new([10, 255, 0, 0].into(), 31).is_err());
}

#[test]
fn an_unsupported_pipeline_is_rejected_by_name() {
    let messages = [
        refused(testbed(), |c| {
            let groups = p4info::table(&mut c.p4info, "ingress.group_lookup.groups");
            groups.preamble = None;
        }),
        refused(testbed(), |c| {
            let reply = p4info::action(&mut c.p4info, "ingress.arp_responder.reply");
            reply.params[0].bitwidth = 32;
        }),
        refused(testbed(), |c| {
            let deliver = p4info::action(&mut c.p4info, "egress.bridge_exit.deliver_with_slot");
            deliver.params.pop();
        }),
        refused(testbed(), |c| c.p4info.registers.clear()),
        refused(testbed(), |c| {
            c.p4info.controller_packet_metadata[0].metadata[0].name = "why".to_owned();
        }),
        refused(testbed(), |c| c.p4info = p4info::sized(1024, 256)),
    ];
    insta::assert_snapshot!(messages.join("\n"));
    let mut config = ControllerConfig::new(p4info::p4info(), Vec::new());
    let routes = p4info::table(&mut config.p4info, "ingress.ipv4_routing.routes");
    let lpm = routes.match_fields[0].r#match.clone();
    let groups = p4info::table(&mut config.p4info, "ingress.group_lookup.groups");
    groups.match_fields[0].r#match = lpm;
    assert_eq!(
        Controller::new(testbed(), config).err(),
        Some(ConfigError::Program(ProgramError::MatchKind {
            name: "ingress.group_lookup.groups.mcst_id".to_owned(),
            expected: "exact",
        }))
    );
}

#[test]
fn a_topology_too_large_for_the_tables_is_rejected() {
    let mut builder = Builder::new("wide", LinkAttributes::default()).unwrap();
    let switches: Vec<_> = (1..=9)
        .map(|n| builder.switch(format!("s{n}"), n).unwrap())
        .collect();
    for n in 1..9 {
        let [a, b] = [switches[n - 1], switches[n]];
        builder
            .link(End::switch(a, 501), End::switch(b, 502))
            .unwrap();
    }
    for n in 0..4100u32 {
        let [_, _, hi, lo] = (n + 1).to_be_bytes();
        let host = builder
            .host(Host {
                name: format!("h{n}"),
                ip: [10, 0, hi, lo].into(),
                prefix_len: 8,
                mac: MacAddr([2, 0, 0, 0, hi, lo]),
            })
            .unwrap();
        let port = End::switch(switches[n as usize / 500], n % 500 + 1);
        builder.link(End::host(host), port).unwrap();
    }
    assert_eq!(
        refused(builder.build().unwrap(), |c| {
            p4info::table(&mut c.p4info, "ingress.ipv4_routing.routes").size = 512;
        }),
        "switch s5: table routes needs 514 entries, but its size is 512; compile p4src/ with larger sizes"
    );
}

/// Ports have a translated type wherever the controller uses them (P4Runtime, "PSA Metadata Translation").
#[test]
fn ports_in_p4info_have_a_translated_type() {
    let p4info = p4info::p4info();
    let keys = p4info.tables.iter().flat_map(|table| &table.match_fields);
    let keys = keys.map(|field| (&field.name, &field.type_name));
    let parameters = p4info.actions.iter().flat_map(|action| &action.params);
    let parameters = parameters.map(|parameter| (&parameter.name, &parameter.type_name));
    let headers = p4info.controller_packet_metadata.iter();
    let metadata = headers.flat_map(|header| &header.metadata);
    let metadata = metadata.map(|field| (&field.name, &field.type_name));
    let is_port = |name: &str| ["port", "ingress_port", "egress_port"].contains(&name);
    let ports: Vec<_> = (keys.chain(parameters).chain(metadata))
        .filter(|(name, _)| is_port(name))
        .collect();
    assert_eq!(ports.len(), 10);
    for (name, type_name) in ports {
        let type_name = type_name.as_ref().map(|of| &*of.name);
        assert_eq!(type_name, Some("port_id_t"), "{name}");
    }
    let types = p4info.type_info.expect("there are types").new_types;
    assert!(types["port_id_t"].representation.is_some());
}
