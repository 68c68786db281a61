//! Setting and showing the pipeline (P4Runtime § 14, § 15).

use alfirk_p4runtime::{
    p4::config::v1::Table,
    p4::v1::{set_forwarding_pipeline_config_request::Action, *},
    Code,
};

use crate::fixture::*;

fn shown(
    f: &Fixture,
    response_type: get_forwarding_pipeline_config_request::ResponseType,
) -> Option<ForwardingPipelineConfig> {
    let request = GetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        response_type: response_type.into(),
    };
    f.server
        .get_forwarding_pipeline_config(&request)
        .unwrap()
        .config
}

#[test]
fn the_config_is_returned_in_parts() {
    use get_forwarding_pipeline_config_request::ResponseType as R;
    let f = Fixture::without_pipeline();
    assert_eq!(shown(&f, R::All), None);
    let f = Fixture::new();
    let all = config();
    assert_eq!(shown(&f, R::All), Some(all.clone()));
    let cookie = ForwardingPipelineConfig {
        cookie: all.cookie,
        ..Default::default()
    };
    assert_eq!(shown(&f, R::CookieOnly), Some(cookie.clone()));
    let info = ForwardingPipelineConfig {
        p4info: all.p4info.clone(),
        ..cookie.clone()
    };
    assert_eq!(shown(&f, R::P4infoAndCookie), Some(info));
    let device = ForwardingPipelineConfig {
        p4_device_config: all.p4_device_config.clone(),
        ..cookie
    };
    assert_eq!(shown(&f, R::DeviceConfigAndCookie), Some(device));
}

#[test]
fn nothing_is_read_or_written_before_there_is_a_pipeline() {
    let mut f = Fixture::without_pipeline();
    assert_rejected(
        f.insert(&l2(5, 3, "")),
        Code::FailedPrecondition,
        "pipeline",
    );
    assert_eq!(
        code(&f.try_read("table_entry {}").unwrap_err()),
        Code::FailedPrecondition
    );
}

#[test]
fn the_program_may_be_in_a_device_config_message() {
    use alfirk_p4runtime::{p4::tmp::P4DeviceConfig, Message};
    let wrapped = |device_data| ForwardingPipelineConfig {
        p4_device_config: P4DeviceConfig {
            reassign: true,
            device_data,
            ..Default::default()
        }
        .encode_to_vec()
        .into(),
        ..config()
    };
    let mut f = Fixture::without_pipeline();
    let sent = wrapped(config().p4_device_config.to_vec());
    f.set_pipeline(Action::Verify, Some(sent.clone())).unwrap();
    f.set_pipeline(Action::VerifyAndCommit, Some(sent.clone()))
        .unwrap();
    f.insert(&l2(5, 3, "")).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [3]);
    let all = get_forwarding_pipeline_config_request::ResponseType::All;
    assert_eq!(shown(&f, all), Some(sent), "as it was sent");

    for (bad, why) in [
        (wrapped(Vec::new()).p4_device_config, "neither BMv2 JSON"),
        (vec![0xff; 9].into(), "neither BMv2 JSON"),
        (b"  {".to_vec().into(), "p4_device_config"),
        (b"{\xff}".to_vec().into(), "not JSON text"),
    ] {
        let config = ForwardingPipelineConfig {
            p4_device_config: bad,
            ..config()
        };
        let refusal = f.set_pipeline(Action::Verify, Some(config)).unwrap_err();
        assert_eq!(refusal.canonical_code(), Code::InvalidArgument);
        assert!(refusal.message.contains(why), "{}", refusal.message);
    }
}

#[test]
fn disable_swap_rejects_new_programs() {
    use alfirk_bmv2::{Switch, SwitchOptions};
    use alfirk_p4rt::Server;
    let mut f = Fixture::without_pipeline();
    f.server = Server::new(Switch::new(SwitchOptions {
        device_id: DEVICE,
        may_swap: false,
        ..Default::default()
    }));
    f.primary = f.server.stream_open();
    f.server.stream_message(f.primary, arbitration(id(1)), 0);
    f.set_pipeline(Action::Verify, Some(config())).unwrap();
    for action in [Action::VerifyAndSave, Action::VerifyAndCommit] {
        let refusal = f.set_pipeline(action, Some(config())).unwrap_err();
        assert_eq!(refusal.canonical_code(), Code::FailedPrecondition);
        assert!(refusal.message.contains("--disable-swap"));
    }
}

#[test]
fn verify_changes_nothing() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    f.set_pipeline(Action::Verify, Some(config())).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [3]);
    assert_eq!(f.read("table_entry {}").len(), 2);
}

#[test]
fn commit_clears_the_forwarding_state() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    f.set_pipeline(Action::VerifyAndCommit, Some(config()))
        .unwrap();
    assert_eq!(f.ports(1, &frame(5)), [0]);
    assert_eq!(f.read("table_entry {}").len(), 1);
}

#[test]
fn writes_apply_to_a_saved_config_before_it_is_committed() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    f.set_pipeline(Action::VerifyAndSave, Some(config()))
        .unwrap();
    f.insert(&l2(5, 4, "")).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [3]);
    f.set_pipeline(Action::Commit, None).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [4]);
    let again = f.set_pipeline(Action::Commit, None).unwrap_err();
    assert_eq!(again.canonical_code(), Code::NotFound);
}

#[test]
fn reconciliation_preserves_written_entities() {
    let mut f = Fixture::new();
    let entry = l2(
        5,
        3,
        r#"metadata: "m" counter_data { packet_count: 7 byte_count: 8 }"#,
    );
    f.insert(&entry).unwrap();
    let acl = format!(
        "table_entry {{ table_id: {ACL} priority: 4 action {{ action {{ action_id: {NO_ACTION} }} }} meter_config {{ cir: 1 pir: 2 }} }}"
    );
    f.insert(&acl).unwrap();
    f.modify(&format!("register_entry {{ register_id: {REGISTER} index {{ index: 1 }} data {{ bitstring: \"x\" }} }}")).unwrap();
    f.insert("packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 3 replicas { egress_port: 1 } } }").unwrap();
    f.insert(&format!(
        "digest_entry {{ digest_id: {DIGEST} config {{ max_list_size: 5 }} }}"
    ))
    .unwrap();
    f.modify(&format!("table_entry {{ table_id: {L2} is_default_action: true action {{ action {{ action_id: {MISS} }} }} }}")).unwrap();
    let everything = [
        "table_entry { counter_data {} meter_config {} }",
        "table_entry { is_default_action: true }",
        "register_entry {}",
        "packet_replication_engine_entry { multicast_group_entry {} }",
        "digest_entry {}",
    ];
    let before: Vec<_> = everything.iter().map(|filter| f.read(filter)).collect();
    f.set_pipeline(Action::ReconcileAndCommit, Some(config()))
        .unwrap();
    let after: Vec<_> = everything.iter().map(|filter| f.read(filter)).collect();
    assert_eq!(before, after);
}

/// Returns the table `l2` in a config's P4Info.
fn l2_of(config: &mut ForwardingPipelineConfig) -> &mut Table {
    let tables = &mut config.p4info.as_mut().unwrap().tables;
    let is_l2 = |table: &&mut Table| table.preamble.as_ref().is_some_and(|p| p.id == L2);
    tables.iter_mut().find(is_l2).unwrap()
}

#[test]
fn state_that_does_not_fit_stops_reconciliation() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    let mut other = config();
    let preamble = l2_of(&mut other).preamble.as_mut();
    preamble.unwrap().id = 0x0200_0042;
    let status = f
        .set_pipeline(Action::ReconcileAndCommit, Some(other))
        .unwrap_err();
    assert_eq!(status.canonical_code(), Code::InvalidArgument);
    assert!(
        status.message.contains("does not fit the new config"),
        "{}",
        status.message
    );
    assert_eq!(f.ports(1, &frame(5)), [3]);
}

#[test]
fn packets_of_the_old_program_do_not_reach_the_new_one() {
    use alfirk_bmv2::QueueState;
    use alfirk_p4rt::Event;
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    f.server.frame_in(1, &frame(5), 0);
    let Some(Event::Enqueue(packet)) = f.server.poll() else {
        panic!("no packet");
    };
    f.set_pipeline(Action::VerifyAndCommit, Some(config()))
        .unwrap();
    f.server.dequeue(packet, 0, QueueState::default());
    assert_eq!(f.settle().0, []);
    assert_eq!(f.server.counters().drops["no_program"], 1);
}

#[test]
fn configs_that_the_target_cannot_run_are_rejected() {
    let mut f = Fixture::new();
    let mut refuse = |action, config, why: &str| {
        let status = f.set_pipeline(action, config).unwrap_err();
        assert_eq!(status.canonical_code(), Code::InvalidArgument);
        assert!(status.message.contains(why), "{}", status.message);
    };
    let with = |change: &dyn Fn(&mut ForwardingPipelineConfig)| {
        let mut config = config();
        change(&mut config);
        Some(config)
    };
    refuse(Action::Unspecified, Some(config()), "action is unset");
    refuse(Action::Verify, None, "no config");
    refuse(Action::Commit, Some(config()), "must have no config");
    refuse(Action::Verify, with(&|c| c.p4info = None), "no p4info");
    refuse(
        Action::Verify,
        with(&|c| c.p4_device_config.clear()),
        "no p4_device_config",
    );
    refuse(
        Action::Verify,
        with(&|c| c.p4_device_config = b"{\xff}".to_vec().into()),
        "not JSON text",
    );
    refuse(
        Action::Verify,
        with(&|c| c.p4_device_config.truncate(100)),
        "p4_device_config",
    );
    refuse(
        Action::Verify,
        with(&|c| {
            c.p4info.as_mut().unwrap().actions[0]
                .preamble
                .as_mut()
                .unwrap()
                .id = 0x0100_0002
        }),
        "zero or used twice",
    );
    refuse(
        Action::Verify,
        with(&|c| l2_of(c).action_refs[0].id = 5),
        "which does not exist",
    );
    refuse(
        Action::Verify,
        with(&|c| l2_of(c).match_fields.clear()),
        "do not match: ingress.l2",
    );
    refuse(
        Action::Verify,
        with(&|c| {
            for table in &mut c.p4info.as_mut().unwrap().tables {
                table.preamble.as_mut().unwrap().name.push('x');
            }
        }),
        "no table in common",
    );
}

#[test]
fn servers_that_share_programs_load_each_once() {
    use alfirk_bmv2::{Switch, SwitchOptions};
    use alfirk_p4rt::{Programs, Server};
    use std::sync::Arc;
    let programs = Programs::default();
    let start = |shared: Option<&Arc<ForwardingPipelineConfig>>| {
        let switch = Switch::new(SwitchOptions {
            device_id: DEVICE,
            ..Default::default()
        });
        let mut server = Server::with_programs(switch, programs.clone());
        let client = server.stream_open();
        server.stream_message(client, arbitration(id(1)), 0);
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: id(1),
            action: Action::VerifyAndCommit.into(),
            config: shared.is_none().then(config),
            ..Default::default()
        };
        let set = match shared {
            Some(shared) => server.set_shared_pipeline_config(&request, shared, 0),
            None => server.set_forwarding_pipeline_config(&request, 0),
        };
        set.unwrap();
        server
    };
    let shared = Arc::new(config());
    let servers = [None, None, Some(&shared)].map(start);
    let program = |server: &Server| server.switch().program().unwrap().clone();
    for server in &servers {
        assert!(Arc::ptr_eq(&program(&servers[0]), &program(server)));
        let request = GetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            ..Default::default()
        };
        let got = server.get_forwarding_pipeline_config(&request).unwrap();
        assert_eq!(got.config.as_ref(), Some(&*shared));
    }
}
