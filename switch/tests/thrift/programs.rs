//! Thrift requests for the program's text, and for replacing the program.

use alfirk_switch::ThriftSettings;
use alfirk_thrift::standard::*;
use serde_json::json;

use crate::{builder::*, error_code, TestServer};

fn program(port: u64) -> Builder {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    b.runs("ingress", json!([send_to(port)]));
    b.add(
        "register_arrays",
        json!({"name": "r", "bitwidth": 8, "size": 1, "id": 42}),
    );
    b
}

fn server_with_program(may_swap: bool) -> TestServer {
    let settings = ThriftSettings {
        may_swap,
        ..Default::default()
    };
    let program = program(1);
    TestServer::with(program.switch(), &program.text(), settings)
}

#[test]
fn the_text_is_returned_with_its_hash_and_ids() {
    let mut server_with_program = server_with_program(false);
    let mut client = server_with_program.client.standard();
    assert_eq!(client.bm_get_config().unwrap(), program(1).text());
    assert_eq!(client.bm_get_config_md5().unwrap().len(), 16);
    let mut id = |kind, name: &str| client.bm_get_id_from_name(0, kind, name);
    assert_eq!(id(BmResourceType::Register, "r").unwrap(), 42);
    assert_eq!(
        error_code(id(BmResourceType::Counter, "r")),
        "INVALID_RESOURCE_NAME"
    );
    assert_eq!(client.bm_mgmt_get_info().unwrap().thrift_port, 9090);
    let state = client.bm_serialize_state().unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["format"], "alfirk switch state 1");
}

#[test]
fn programs_are_swapped_if_allowed() {
    let mut server_with_program = server_with_program(true);
    let mut client = server_with_program.client.standard();
    assert_eq!(error_code(client.bm_swap_configs()), "NO_ONGOING_SWAP");
    client.bm_register_write(0, "r", 0, 9).unwrap();
    client.bm_load_new_config(program(2).text()).unwrap();
    let again = client.bm_load_new_config(program(2).text());
    assert_eq!(error_code(again), "ONGOING_SWAP");
    // From now on requests refer to the new program, whose registers are zero.
    assert_eq!(client.bm_register_read(0, "r", 0).unwrap(), 0);
    assert_eq!(client.bm_get_config().unwrap(), program(2).text());
    client.bm_swap_configs().unwrap();
    let mut after = server_with_program.end();
    assert_eq!(after.server.switch_mut().process(0, &[1], 0)[0].0, 2);
}

#[test]
fn programs_are_not_swapped_unless_allowed() {
    let mut server_with_program = server_with_program(false);
    let mut client = server_with_program.client.standard();
    let loaded = client.bm_load_new_config(program(2).text());
    assert_eq!(error_code(loaded), "CONFIG_SWAP_DISABLED");
    assert_eq!(error_code(client.bm_swap_configs()), "CONFIG_SWAP_DISABLED");
}

#[test]
fn a_reset_clears_the_state_and_keeps_the_program() {
    let mut server_with_program = server_with_program(false);
    let mut client = server_with_program.client.standard();
    client.bm_register_write(0, "r", 0, 9).unwrap();
    let mut groups = server_with_program.client.simple_pre();
    groups.bm_mc_mgrp_create(0, 3).unwrap();
    server_with_program
        .client
        .standard()
        .bm_reset_state()
        .unwrap();
    let mut client = server_with_program.client.standard();
    assert_eq!(client.bm_register_read(0, "r", 0).unwrap(), 0);
    let after = server_with_program.end();
    assert!(after.server.switch().pre().unwrap().groups().is_empty());
}
