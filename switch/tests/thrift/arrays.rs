//! Thrift requests for registers, counters, meters, value sets and custom CRCs.

use alfirk_thrift::standard::*;
use serde_json::json;

use crate::{builder::*, error_code, TestServer};

fn program() -> Builder {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    b.add(
        "register_arrays",
        json!({"name": "r", "bitwidth": 12, "size": 4}),
    );
    b.add(
        "register_arrays",
        json!({"name": "wide", "bitwidth": 128, "size": 1}),
    );
    b.add(
        "counter_arrays",
        json!({"name": "c", "size": 2, "is_direct": false}),
    );
    let meter =
        json!({"name": "m", "is_direct": false, "size": 2, "rate_count": 2, "type": "packets"});
    b.add("meter_arrays", meter);
    b.add(
        "parse_vsets",
        json!({"name": "v", "compressed_bitwidth": 8, "max_size": 2}),
    );
    for (name, algorithm) in [("custom", "crc16_custom"), ("fixed", "crc16")] {
        let input = json!([field("h", "a")]);
        b.add(
            "calculations",
            json!({"name": name, "algo": algorithm, "input": input}),
        );
    }
    b
}

#[test]
fn register_values_wrap_and_indexes_are_checked() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    client.bm_register_write(0, "r", 1, 0x1fff).unwrap();
    client.bm_register_write_range(0, "r", 2, 4, -1).unwrap();
    let all = client.bm_register_read_all(0, "r").unwrap();
    assert_eq!(all, [0, 0xfff, 0xfff, 0xfff]);
    assert_eq!(client.bm_register_read(0, "r", 1).unwrap(), 0xfff);
    client.bm_register_reset(0, "r").unwrap();
    assert_eq!(client.bm_register_read_all(0, "r").unwrap(), [0; 4]);
    client.bm_register_write(0, "wide", 0, -1).unwrap();
    assert_eq!(client.bm_register_read(0, "wide", 0).unwrap(), i64::MAX);
    assert_eq!(
        error_code(client.bm_register_read(0, "r", 4)),
        "INVALID_INDEX"
    );
    assert_eq!(
        error_code(client.bm_register_read(0, "r", -1)),
        "INVALID_INDEX"
    );
    assert_eq!(
        error_code(client.bm_register_write(0, "r", 4, 0)),
        "INVALID_INDEX"
    );
    assert_eq!(
        error_code(client.bm_register_write_range(0, "r", 3, 2, 0)),
        "INVALID_INDEX"
    );
    assert_eq!(
        error_code(client.bm_register_write_range(0, "r", 0, 5, 0)),
        "INVALID_INDEX"
    );
    assert_eq!(
        error_code(client.bm_register_read_all(0, "x")),
        "INVALID_REGISTER_NAME"
    );
}

#[test]
fn counters_are_read_written_and_reset() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    let value = BmCounterValue {
        bytes: 100,
        packets: 2,
    };
    client.bm_counter_write(0, "c", 1, value.clone()).unwrap();
    assert_eq!(client.bm_counter_read(0, "c", 1).unwrap(), value);
    client.bm_counter_reset_all(0, "c").unwrap();
    let read = client.bm_counter_read(0, "c", 1).unwrap();
    assert_eq!(read, BmCounterValue::default());
    assert_eq!(
        error_code(client.bm_counter_read(0, "c", 2)),
        "INVALID_INDEX"
    );
    assert_eq!(
        error_code(client.bm_counter_read(0, "x", 0)),
        "INVALID_COUNTER_NAME"
    );
}

#[test]
fn meters_accept_two_rates_in_ascending_order() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    let rate = |units_per_micros, burst_size| BmMeterRateConfig {
        units_per_micros,
        burst_size,
    };
    assert_eq!(client.bm_meter_get_rates(0, "m", 0).unwrap(), []);
    let rates = vec![rate(0.25, 10), rate(1.5, 20)];
    client.bm_meter_set_rates(0, "m", 0, rates.clone()).unwrap();
    assert_eq!(client.bm_meter_get_rates(0, "m", 0).unwrap(), rates);
    assert_eq!(client.bm_meter_get_rates(0, "m", 1).unwrap(), []);
    client
        .bm_meter_array_set_rates(0, "m", rates.clone())
        .unwrap();
    assert_eq!(client.bm_meter_get_rates(0, "m", 1).unwrap(), rates);
    let mut rejected = |rates| error_code(client.bm_meter_set_rates(0, "m", 0, rates));
    assert_eq!(rejected(vec![rate(1.0, 1)]), "BAD_RATES_LIST");
    assert_eq!(
        rejected(vec![rate(2.0, 1), rate(1.0, 1)]),
        "INVALID_INFO_RATE_VALUE"
    );
    assert_eq!(
        rejected(vec![rate(f64::NAN, 1), rate(1.0, 1)]),
        "INVALID_INFO_RATE_VALUE"
    );
    assert_eq!(
        rejected(vec![rate(1.0, -1), rate(1.0, 1)]),
        "INVALID_BURST_SIZE_VALUE"
    );
    let beyond = client.bm_meter_set_rates(0, "m", 2, rates);
    assert_eq!(error_code(beyond), "INVALID_INDEX");
    assert_eq!(
        error_code(client.bm_meter_get_rates(0, "x", 0)),
        "INVALID_METER_NAME"
    );
}

#[test]
fn value_sets_contain_each_value_once() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    for value in [1, 2, 1] {
        client.bm_parse_vset_add(0, "v", vec![value]).unwrap();
    }
    assert_eq!(
        client.bm_parse_vset_get(0, "v").unwrap(),
        [vec![1], vec![2]]
    );
    assert_eq!(
        error_code(client.bm_parse_vset_add(0, "v", vec![3])),
        "ERROR"
    );
    client.bm_parse_vset_remove(0, "v", vec![1]).unwrap();
    assert_eq!(client.bm_parse_vset_get(0, "v").unwrap(), [vec![2]]);
    client.bm_parse_vset_clear(0, "v").unwrap();
    assert!(client.bm_parse_vset_get(0, "v").unwrap().is_empty());
    assert_eq!(
        error_code(client.bm_parse_vset_get(0, "x")),
        "INVALID_PARSE_VSET_NAME"
    );
}

#[test]
fn only_custom_crcs_accept_parameters() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    let crc16 = BmCrc16Config::default();
    client
        .bm_set_crc16_custom_parameters(0, "custom", crc16.clone())
        .unwrap();
    let fixed = client.bm_set_crc16_custom_parameters(0, "fixed", crc16.clone());
    assert_eq!(error_code(fixed), "WRONG_TYPE_CALCULATION");
    let width = client.bm_set_crc32_custom_parameters(0, "custom", Default::default());
    assert_eq!(error_code(width), "WRONG_TYPE_CALCULATION");
    let unknown = client.bm_set_crc16_custom_parameters(0, "x", crc16);
    assert_eq!(error_code(unknown), "INVALID_CALCULATION_NAME");
    let key = client.bm_set_toeplitz_hash_key(0, "custom", vec![0; 4]);
    assert_eq!(error_code(key), "WRONG_TYPE_CALCULATION");
}
