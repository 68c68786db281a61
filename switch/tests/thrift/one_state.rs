//! P4Runtime and Thrift on one switch: each returns what the other has written.

use alfirk_p4runtime::Code;
use alfirk_switch::{Request, Response, Runtime, ThriftSettings};
use alfirk_thrift::{
    simple_pre_lag as pre, simple_switch,
    standard::{self, BmAddEntryOptions},
    Call, Reply,
};

use crate::{exact, fixture::*, RecordingPorts};

/// Returns Thrift's reply to a call.
fn thrift(f: &mut Fixture, call: Call) -> Reply {
    let (mut ports, mut config) = (RecordingPorts::default(), None);
    let mut runtime = Runtime {
        server: &mut f.server,
        ports: &mut ports,
        settings: &ThriftSettings::default(),
        config: &mut config,
        now: 0,
        wall_clock: 0,
    };
    match runtime.handle(Request::Call(Box::new(call))) {
        Response::Reply(reply) => *reply,
        Response::Config(_) => panic!("expected a reply"),
    }
}

fn add(dst: u8, port: u8) -> Call {
    Call::Standard(standard::Call::BmMtAddEntry(standard::BmMtAddEntry {
        cxt_id: 0,
        table_name: "ingress.l2".into(),
        match_key: vec![exact(&[0, 0, 0, 0, 0, dst])],
        action_name: "ingress.forward".into(),
        action_data: vec![vec![0, port]],
        options: BmAddEntryOptions::default(),
    }))
}

#[test]
fn entries_are_shared() {
    let mut f = Fixture::new();
    let reply = thrift(&mut f, add(5, 2));
    assert_eq!(reply, Reply::Standard(standard::Reply::BmMtAddEntry(Ok(0))));
    let all = format!("table_entry {{ table_id: {L2} }}");
    assert_eq!(f.read(&all), [entity(&l2(5, 2, ""))]);
    assert_rejected(f.insert(&l2(5, 3, "")), Code::AlreadyExists, "l2");

    // P4Runtime deletes the entry, and the metadata of an entry of its own.
    f.delete(&l2(5, 2, "")).unwrap();
    f.insert(&l2(6, 3, "metadata: \"m\"")).unwrap();
    let entries = standard::BmMtGetEntries {
        cxt_id: 0,
        table_name: "ingress.l2".into(),
    };
    let reply = thrift(
        &mut f,
        Call::Standard(standard::Call::BmMtGetEntries(entries)),
    );
    let Reply::Standard(standard::Reply::BmMtGetEntries(Ok(entries))) = reply else {
        panic!("{reply:?}");
    };
    let [entry] = &entries[..] else {
        panic!("{entries:?}")
    };
    assert_eq!(entry.entry_handle, 1 << 24);
    let cleared = standard::BmMtClearEntries {
        cxt_id: 0,
        table_name: "ingress.l2".into(),
        reset_default_entry: false,
    };
    thrift(
        &mut f,
        Call::Standard(standard::Call::BmMtClearEntries(cleared)),
    );
    assert_eq!(f.read(&all), []);
    // The next entry reuses the first slot, without the old metadata.
    thrift(&mut f, add(7, 2));
    assert_eq!(f.read(&all), [entity(&l2(7, 2, ""))]);
}

#[test]
fn multicast_groups_are_shared() {
    let mut f = Fixture::new();
    let group =
        "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9 } }";
    let call = |call| Call::SimplePreLag(call);
    thrift(
        &mut f,
        call(pre::Call::BmMcMgrpCreate(pre::BmMcMgrpCreate {
            cxt_id: 0,
            mgrp: 9,
        })),
    );
    let node = pre::BmMcNodeCreate {
        cxt_id: 0,
        rid: 4,
        port_map: "110".into(),
        lag_map: String::new(),
    };
    thrift(&mut f, call(pre::Call::BmMcNodeCreate(node)));
    let associate = pre::BmMcNodeAssociate {
        cxt_id: 0,
        mgrp_handle: 9,
        l1_handle: 0,
    };
    thrift(&mut f, call(pre::Call::BmMcNodeAssociate(associate)));
    let expected = "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9
        replicas { port: \"\\x01\" instance: 4 } replicas { port: \"\\x02\" instance: 4 } } }";
    assert_eq!(f.read(group), [entity(expected)]);
    assert_rejected(f.insert(group), Code::AlreadyExists, "group 9");
    f.delete(group).unwrap();
    let reply = thrift(
        &mut f,
        call(pre::Call::BmMcGetEntries(pre::BmMcGetEntries { cxt_id: 0 })),
    );
    let Reply::SimplePreLag(pre::Reply::BmMcGetEntries(Ok(text))) = reply else {
        panic!("{reply:?}");
    };
    let entries: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(entries["mgrps"], serde_json::json!([]));
    assert_eq!(entries["l1_handles"], serde_json::json!([]));
}

#[test]
fn clone_sessions_are_shared() {
    let mut f = Fixture::new();
    let session = "packet_replication_engine_entry { clone_session_entry { session_id: 3
        replicas { egress_port: 2 instance: 1 } } }";
    f.insert(session).unwrap();
    let config = simple_switch::MirroringSessionConfig {
        port: Some(5),
        mgid: None,
    };
    let get = simple_switch::MirroringSessionGet { mirror_id: 3 };
    let reply = thrift(
        &mut f,
        Call::SimpleSwitch(simple_switch::Call::MirroringSessionGet(get)),
    );
    let shown = simple_switch::MirroringSessionConfig {
        port: Some(2),
        mgid: None,
    };
    let expected = simple_switch::Reply::MirroringSessionGet(Ok(shown));
    assert_eq!(reply, Reply::SimpleSwitch(expected));
    let add = simple_switch::MirroringSessionAdd {
        mirror_id: 3,
        config,
    };
    thrift(
        &mut f,
        Call::SimpleSwitch(simple_switch::Call::MirroringSessionAdd(add)),
    );
    let [read] = &f.read(session)[..] else {
        panic!("there is one session");
    };
    let expected = "packet_replication_engine_entry { clone_session_entry { session_id: 3
        replicas { port: \"\\x05\" } } }";
    assert_eq!(*read, entity(expected));
}

fn acl_add(priority: i32) -> Call {
    let ternary = |bytes: usize| standard::BmMatchParam {
        r#type: standard::BmMatchParamType::Ternary,
        ternary: Some(standard::BmMatchParamTernary {
            key: vec![0; bytes],
            mask: vec![0; bytes],
        }),
        ..Default::default()
    };
    let range = standard::BmMatchParam {
        r#type: standard::BmMatchParamType::Range,
        range: Some(standard::BmMatchParamRange {
            start: vec![0, 0],
            end_: vec![0xff, 0xff],
        }),
        ..Default::default()
    };
    Call::Standard(standard::Call::BmMtAddEntry(standard::BmMtAddEntry {
        cxt_id: 0,
        table_name: "ingress.acl".into(),
        match_key: vec![ternary(6), range, ternary(2)],
        action_name: "ingress.drop".into(),
        action_data: vec![],
        options: BmAddEntryOptions {
            priority: Some(priority),
        },
    }))
}

fn acl_priorities(f: &mut Fixture) -> Vec<Option<i32>> {
    let entries = standard::BmMtGetEntries {
        cxt_id: 0,
        table_name: "ingress.acl".into(),
    };
    let reply = thrift(f, Call::Standard(standard::Call::BmMtGetEntries(entries)));
    let Reply::Standard(standard::Reply::BmMtGetEntries(Ok(entries))) = reply else {
        panic!("{reply:?}");
    };
    let priorities = entries.into_iter().map(|entry| entry.options.priority);
    priorities.collect()
}

fn acl(priority: i32) -> String {
    format!(
        "table_entry {{ table_id: {ACL} priority: {priority} action {{ action {{ action_id: {DROP} }} }} }}"
    )
}

/// As in BMv2's P4Runtime server, the priorities of both protocols add up to 2^31 - 1.
#[test]
fn priorities_are_converted_in_both_directions() {
    let mut f = Fixture::new();
    let all = format!("table_entry {{ table_id: {ACL} }}");
    for priority in [0, 1, 10, i32::MAX - 1] {
        let reply = thrift(&mut f, acl_add(priority));
        assert!(
            matches!(reply, Reply::Standard(standard::Reply::BmMtAddEntry(Ok(_)))),
            "{reply:?}"
        );
        let shown = acl(i32::MAX - priority);
        assert_eq!(f.read(&all), [entity(&shown)]);
        f.delete(&shown).unwrap();
        assert_eq!(f.read(&all), []);

        f.insert(&shown).unwrap();
        assert_eq!(acl_priorities(&mut f), [Some(priority)]);
        f.delete(&shown).unwrap();
    }
}

/// P4Runtime cannot express other priorities.
#[test]
fn thrift_accepts_only_priorities_that_p4runtime_can_express() {
    let mut f = Fixture::new();
    for priority in [-1, i32::MIN, i32::MAX] {
        let reply = thrift(&mut f, acl_add(priority));
        assert!(
            matches!(
                reply,
                Reply::Standard(standard::Reply::BmMtAddEntry(Err(_)))
            ),
            "{priority}: {reply:?}"
        );
    }
    assert_eq!(acl_priorities(&mut f), []);
}

#[test]
fn the_size_of_a_selector_limits_groups_of_both_protocols() {
    let mut f = Fixture::new();
    let profile = || "ingress.selector".to_owned();
    let call = Call::Standard;
    let group = |f: &mut Fixture, members: i32| {
        let create = standard::BmMtActProfCreateGroup {
            cxt_id: 0,
            act_prof_name: profile(),
        };
        let reply = thrift(f, call(standard::Call::BmMtActProfCreateGroup(create)));
        let Reply::Standard(standard::Reply::BmMtActProfCreateGroup(Ok(group))) = reply else {
            panic!("{reply:?}");
        };
        let add = |member| standard::BmMtActProfAddMemberToGroup {
            cxt_id: 0,
            act_prof_name: profile(),
            mbr_handle: member,
            grp_handle: group,
        };
        (0..members)
            .map(|member| {
                let add = standard::Call::BmMtActProfAddMemberToGroup(add(member));
                let reply = thrift(f, call(add));
                matches!(
                    reply,
                    Reply::Standard(standard::Reply::BmMtActProfAddMemberToGroup(Ok(())))
                )
            })
            .collect::<Vec<_>>()
    };
    for _ in 0..5 {
        let add = standard::BmMtActProfAddMember {
            cxt_id: 0,
            act_prof_name: profile(),
            action_name: "ingress.forward".into(),
            action_data: vec![vec![0, 3]],
        };
        thrift(&mut f, call(standard::Call::BmMtActProfAddMember(add)));
    }
    // The fifth member of a group exceeds the limit, as does the 17th of all groups.
    for _ in 0..4 {
        assert_eq!(group(&mut f, 5), [true, true, true, true, false]);
    }
    assert_eq!(group(&mut f, 1), [false]);
}
