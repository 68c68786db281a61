//! Multicast groups, clone sessions, queues and clocks.

use alfirk_thrift::simple_switch::MirroringSessionConfig;
use serde_json::{json, Value};

use crate::{builder::*, error_code, TestServer};

fn program() -> Builder {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    b.runs("ingress", json!([assign(standard("mcast_grp"), num(3))]));
    b
}

#[test]
fn packets_are_copied_to_the_ports_of_a_group_s_nodes() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.simple_pre_lag();
    assert_eq!(client.bm_mc_mgrp_create(0, 3).unwrap(), 3);
    // Creating a group twice succeeds, as in BMv2.
    assert_eq!(client.bm_mc_mgrp_create(0, 3).unwrap(), 3);
    let node = client.bm_mc_node_create(0, 7, "10010", "10").unwrap();
    assert_eq!(client.bm_mc_node_create(0, 8, "", "").unwrap(), node + 1);
    client.bm_mc_node_associate(0, 3, node).unwrap();
    client.bm_mc_set_lag_membership(0, 1, "1100000").unwrap();
    assert_eq!(error_code(client.bm_mc_node_associate(0, 3, node)), "ERROR");
    assert_eq!(
        error_code(client.bm_mc_node_associate(0, 9, node + 1)),
        "INVALID_MGRP_HANDLE"
    );
    assert_eq!(
        error_code(client.bm_mc_node_associate(0, 3, 99)),
        "INVALID_L1_HANDLE"
    );
    assert_eq!(error_code(client.bm_mc_node_create(0, 7, "2", "")), "ERROR");
    let entries: Value = serde_json::from_str(&client.bm_mc_get_entries(0).unwrap()).unwrap();
    assert_eq!(
        entries,
        json!({
            "mgrps": [{"id": 3, "l1_handles": [0]}],
            "l1_handles": [
                {"handle": 0, "rid": 7, "l2_handle": 0},
                {"handle": 1, "rid": 8, "l2_handle": 1},
            ],
            "l2_handles": [
                {"handle": 0, "ports": [1, 4], "lags": [1]},
                {"handle": 1, "ports": [], "lags": []},
            ],
            "lags": [{"id": 1, "ports": [5, 6]}],
        })
    );
    // The service without link aggregation has the same groups.
    let mut client = served.client.simple_pre();
    client.bm_mc_node_associate(0, 3, node + 1).unwrap();
    client.bm_mc_node_update(0, node + 1, "1").unwrap();
    client.bm_mc_mgrp_destroy(0, 77).unwrap();
    let mut after = served.end();
    let sent = after.server.switch_mut().process(2, &[1], 0);
    let ports: Vec<u32> = sent.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [1, 4, 6, 0]);
}

#[test]
fn sessions_refer_to_a_port_or_a_group() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.simple_switch();
    let config = |port, mgid| MirroringSessionConfig { port, mgid };
    client
        .mirroring_session_add(5, config(Some(2), None))
        .unwrap();
    client
        .mirroring_session_add(6, config(None, Some(3)))
        .unwrap();
    assert_eq!(
        client.mirroring_session_get(5).unwrap(),
        config(Some(2), None)
    );
    assert_eq!(
        client.mirroring_session_get(6).unwrap(),
        config(None, Some(3))
    );
    assert_eq!(client.mirroring_mapping_get_egress_port(5).unwrap(), 2);
    assert_eq!(client.mirroring_mapping_get_egress_port(6).unwrap(), -1);
    client.mirroring_session_delete(5).unwrap();
    assert_eq!(
        error_code(client.mirroring_session_delete(5)),
        "SESSION_NOT_FOUND"
    );
    assert_eq!(
        error_code(client.mirroring_session_get(5)),
        "SESSION_NOT_FOUND"
    );
    assert_eq!(client.mirroring_mapping_add(5, 1).unwrap(), 1);
    assert_eq!(client.mirroring_mapping_delete(5).unwrap(), 1);
    assert_eq!(client.mirroring_mapping_delete(5).unwrap(), 0);
    // BMv2 does not report an invalid session.
    client
        .mirroring_session_add(40_000, config(Some(2), None))
        .unwrap();
    assert_eq!(
        error_code(client.mirroring_session_get(40_000)),
        "SESSION_NOT_FOUND"
    );
}

#[test]
fn requests_for_queues_and_ports_reach_the_driver() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.simple_switch();
    client.set_all_egress_queue_depths(9).unwrap();
    client.set_egress_queue_rate(2, 100).unwrap();
    client.set_egress_priority_queue_depth(2, 1, 3).unwrap();
    // Time advances only with requests, by one millisecond each.
    assert_eq!(client.get_time_elapsed_us().unwrap(), 4000);
    assert_eq!(client.get_time_since_epoch_us().unwrap(), 5_000_000);
    let mut client = served.client.standard();
    client.bm_dev_mgr_add_port("veth0", 4, "").unwrap();
    assert_eq!(
        error_code(client.bm_dev_mgr_add_port("veth1", 4, "")),
        "ERROR"
    );
    assert_eq!(
        client.bm_dev_mgr_show_ports().unwrap()[0].iface_name,
        "veth0"
    );
    client.bm_dev_mgr_remove_port(4).unwrap();
    assert_eq!(error_code(client.bm_dev_mgr_remove_port(4)), "ERROR");
    let after = served.end();
    let notes = [
        "depth None None 9",
        "rate Some(2) None 100",
        "depth Some(2) Some(1) 3",
    ];
    assert_eq!(after.ports.notes, notes);
}
