//! Multicast groups and clone sessions (P4Runtime § 9.5).

use alfirk_bmv2::Replica;
use alfirk_p4runtime::Code;

use crate::fixture::*;

fn group(id: u32, replicas: &str) -> String {
    format!("packet_replication_engine_entry {{ multicast_group_entry {{ multicast_group_id: {id} {replicas} }} }}")
}

fn session(id: u32, more: &str) -> String {
    format!(
        "packet_replication_engine_entry {{ clone_session_entry {{ session_id: {id} {more} }} }}"
    )
}

fn flood(f: &mut Fixture, group: u8) {
    f.insert(&format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x05" }} }}
           action {{ action {{ action_id: {FLOOD} params {{ param_id: 1 value: "\x{group:02x}" }} }} }} }}"#
    ))
    .unwrap();
}

#[test]
fn copies_go_to_the_replicas() {
    let mut f = Fixture::new();
    flood(&mut f, 9);
    assert!(f.ports(1, &frame(5)).is_empty());
    let two = group(9, "replicas { egress_port: 2 instance: 1 } replicas { port: \"\\x03\" instance: 2 } metadata: \"m\"");
    f.insert(&two).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [2, 3]);
    assert_eq!(f.read(&group(9, "")), [entity(&two)]);
    f.modify(&group(9, "replicas { egress_port: 4 instance: 1 }"))
        .unwrap();
    assert_eq!(f.ports(1, &frame(5)), [4]);
    f.delete(&group(9, "")).unwrap();
    assert!(f.ports(1, &frame(5)).is_empty());
    assert_eq!(f.read(&group(0, "")), []);
}

#[test]
fn groups_beyond_the_limit_are_rejected() {
    use alfirk_bmv2::{PreLimits, Switch, SwitchOptions};
    use alfirk_p4rt::Server;
    use alfirk_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
    let mut f = Fixture::without_pipeline();
    f.server = Server::new(Switch::new(SwitchOptions {
        device_id: DEVICE,
        pre_limits: PreLimits {
            groups: 1,
            nodes: 9,
        },
        ..Default::default()
    }));
    f.primary = f.server.stream_open();
    f.server.stream_message(f.primary, arbitration(id(1)), 0);
    f.set_pipeline(Action::VerifyAndCommit, Some(config()))
        .unwrap();
    f.insert(&group(9, "")).unwrap();
    let more = f.insert(&group(8, ""));
    assert_rejected(more, Code::ResourceExhausted, "the limit of 1");
}

#[test]
fn existence_and_ids_are_checked() {
    let mut f = Fixture::new();
    assert_rejected(f.modify(&group(9, "")), Code::NotFound, "group 9");
    assert_rejected(f.delete(&group(9, "")), Code::NotFound, "group 9");
    assert_rejected(f.insert(&group(0, "")), Code::InvalidArgument, "from 1");
    assert_rejected(f.insert(&group(65536, "")), Code::InvalidArgument, "65535");
    f.insert(&group(9, "")).unwrap();
    assert_rejected(f.insert(&group(9, "")), Code::AlreadyExists, "group 9");
    f.insert(&group(3, "")).unwrap();
    assert_eq!(
        f.read(&group(0, "")),
        [entity(&group(3, "")), entity(&group(9, ""))]
    );
}

#[test]
fn replicas_are_checked() {
    let mut f = Fixture::new();
    let mut invalid = |replicas: &str, why: &str| {
        assert_rejected(f.insert(&group(1, replicas)), Code::InvalidArgument, why)
    };
    let one = "replicas { egress_port: 2 instance: 1 }";
    invalid(&format!("{one} {one}"), "occurs twice");
    invalid("replicas { instance: 1 }", "no port");
    invalid(
        "replicas { egress_port: 2 instance: 65536 }",
        "instance 65536",
    );
    invalid("replicas { port: \"\" }", "empty");
    let backup = "replicas { egress_port: 2 backup_replicas { port: \"\\x02\" instance: 1 } }";
    invalid(backup, "occurs twice in a replica");
    let backup = "replicas { egress_port: 2 backup_replicas { port: \"\\x03\" instance: 65536 } }";
    invalid(backup, "instance 65536");
}

#[test]
fn backups_replace_replicas_whose_port_is_down() {
    let mut f = Fixture::new();
    let protected = group(
        9,
        r#"replicas { egress_port: 2 instance: 1 backup_replicas { port: "\x03" instance: 7 } backup_replicas { port: "\x04" } }
           replicas { egress_port: 6 instance: 1 }"#,
    );
    flood(&mut f, 9);
    f.server.set_port(3, false);
    f.insert(&protected).unwrap();
    let mut ports_after = |port: u32, up: bool| {
        f.server.set_port(port, up);
        let mut ports = f.ports(1, &frame(5));
        ports.sort_unstable();
        ports
    };
    assert_eq!(ports_after(1, true), [2, 6]);
    assert_eq!(ports_after(2, false), [4, 6]);
    assert_eq!(ports_after(3, true), [3, 6]);
    assert_eq!(ports_after(2, true), [2, 6]);
    // A replica without a backup keeps its port, as does one without a backup that is up.
    assert_eq!(ports_after(6, false), [2, 6]);
    for port in [2, 3] {
        ports_after(port, false);
    }
    assert_eq!(ports_after(4, false), [2, 6]);
    assert_eq!(f.read(&group(9, "")), [entity(&protected)]);
}

#[test]
fn sessions_are_written_and_read() {
    let mut f = Fixture::new();
    // SDN_PORT_CPU means the CPU port.
    let to_cpu = session(100, "replicas { port: \"\\xff\\xff\\xff\\xfd\" instance: 1 } class_of_service: 2 packet_length_bytes: 64");
    f.insert(&to_cpu).unwrap();
    assert_eq!(
        f.server
            .switch()
            .pre()
            .unwrap()
            .session(100)
            .unwrap()
            .replicas[0]
            .port,
        CPU_PORT
    );
    assert_eq!(f.read(&session(0, "")), [entity(&to_cpu)]);
    assert_rejected(f.insert(&to_cpu), Code::AlreadyExists, "session 100");
    assert_rejected(f.insert(&session(0, "")), Code::InvalidArgument, "from 1");
    assert_rejected(
        f.insert(&session(40000, "")),
        Code::InvalidArgument,
        "32767",
    );
    assert_rejected(
        f.insert(&session(1, "class_of_service: 8")),
        Code::InvalidArgument,
        "above 7",
    );
    assert_rejected(
        f.insert(&session(1, "packet_length_bytes: -1")),
        Code::InvalidArgument,
        "negative",
    );
    assert_rejected(f.delete(&session(1, "")), Code::NotFound, "session 1");
    f.delete(&session(100, "")).unwrap();
    assert_eq!(f.read(&session(0, "")), []);
}

#[test]
fn changes_of_other_services_replace_what_was_written() {
    let mut f = Fixture::new();
    let written = "replicas { egress_port: 2 instance: 1 } metadata: \"m\"";
    f.insert(&group(9, written)).unwrap();
    f.insert(&session(
        5,
        "class_of_service: 0 replicas { egress_port: 2 instance: 1 }",
    ))
    .unwrap();
    let mut switch = f.server.switch_mut();
    let pre = switch.pre_mut().unwrap();
    pre.set_group(9, &[Replica { port: 3, rid: 7 }]).unwrap();
    pre.delete_session(5).unwrap();
    drop(switch);
    let read = f.read(&group(9, ""));
    assert_eq!(
        read,
        [entity(&group(
            9,
            "replicas { port: \"\\x03\" instance: 7 }"
        ))]
    );
    assert_eq!(f.read(&session(0, "")), []);
}
