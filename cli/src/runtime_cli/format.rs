//! Formats table entries, members, groups, ports and properties of the switch as BMv2's CLI does, since scripts parse
//! its output.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use alfirk_thrift::simple_switch::MirroringSessionConfig;
use alfirk_thrift::standard::{
    BmActionEntry, BmActionEntryType, BmConfig, BmMatchParam, BmMatchParamType, BmMtActProfGroup,
    BmMtActProfMember, BmMtEntry, DevMgrPortInfo,
};
use serde::Deserialize;

use super::program::Table;
use super::values::hex;

/// Formats the key of a new entry as `table_add` prints it, with `:` between bytes.
pub fn added_key(key: &[BmMatchParam]) -> String {
    let fields: Vec<String> = key
        .iter()
        .map(|param| match param.r#type {
            // BMv2's CLI prints nothing after it.
            BmMatchParamType::Valid => "VALID-".to_owned(),
            kind => format!("{}-{}", kind.name(), param_value(param, ":")),
        })
        .collect();
    fields.join("\t")
}

/// Formats the action arguments of a new entry as `table_add` prints them, with `:` between bytes.
pub fn added_data(data: &[Vec<u8>]) -> String {
    let data: Vec<String> = data.iter().map(|bytes| hex(bytes, ":")).collect();
    data.join("\t")
}

/// Formats a label and its value as one line in two columns.
pub fn labelled_line(label: &str, value: &str) -> String {
    format!("{label:20} {value}\n")
}

fn param_value(param: &BmMatchParam, between: &str) -> String {
    let shown = match param.r#type {
        BmMatchParamType::Exact => param.exact.as_ref().map(|p| hex(&p.key, between)),
        BmMatchParamType::Lpm => {
            let lpm = param.lpm.as_ref();
            lpm.map(|p| format!("{}/{}", hex(&p.key, between), p.prefix_length))
        }
        BmMatchParamType::Ternary => {
            let ternary = param.ternary.as_ref();
            ternary.map(|p| format!("{} &&& {}", hex(&p.key, between), hex(&p.mask, between)))
        }
        BmMatchParamType::Valid => {
            let valid = param.valid.as_ref();
            valid.map(|p| if p.key { "01" } else { "00" }.to_owned())
        }
        BmMatchParamType::Range => {
            let range = param.range.as_ref();
            range.map(|p| format!("{} -> {}", hex(&p.start, between), hex(&p.end_, between)))
        }
    };
    // Missing only if the switch violates the interface.
    shown.unwrap_or_default()
}

/// Formats a table entry: key, priority, action and age.
pub fn entry(table: &Table, entry: &BmMtEntry) -> String {
    let mut out = format!("Dumping entry {:#x}\nMatch key:\n", entry.entry_handle);
    let names = table.keys.iter().map(|key| key.name.chars().count());
    let width = names.max().unwrap_or(0).max(20);
    for (param, key) in entry.match_key.iter().zip(&table.keys) {
        let kind = param.r#type.name();
        let value = param_value(param, "");
        // Writing to a String does not fail.
        let _ = writeln!(out, "* {:width$}: {kind:10}{value}", key.name);
    }
    if let Some(priority) = entry.options.priority.filter(|priority| *priority >= 0) {
        let _ = writeln!(out, "Priority: {priority}");
    }
    out += &action_entry(&entry.action_entry);
    if let Some(life) = &entry.life {
        let _ = writeln!(
            out,
            "Life: {}ms since hit, timeout is {}ms",
            life.time_since_hit_ms, life.timeout_ms
        );
    }
    out
}

/// Formats what an entry selects: an action, or a member or group of the action profile.
pub fn action_entry(entry: &BmActionEntry) -> String {
    match entry.action_type {
        BmActionEntryType::None => "EMPTY\n".to_owned(),
        BmActionEntryType::ActionData => action(
            entry.action_name.as_deref().unwrap_or_default(),
            entry.action_data.as_deref().unwrap_or_default(),
        ),
        BmActionEntryType::MbrHandle => {
            format!("Index: member({})\n", entry.mbr_handle.unwrap_or_default())
        }
        BmActionEntryType::GrpHandle => {
            format!("Index: group({})\n", entry.grp_handle.unwrap_or_default())
        }
    }
}

fn action(name: &str, data: &[Vec<u8>]) -> String {
    let data: Vec<String> = data.iter().map(|bytes| hex(bytes, "")).collect();
    format!("Action entry: {name} - {}\n", data.join(", "))
}

/// Formats a member of an action profile.
pub fn member(member: &BmMtActProfMember) -> String {
    let head = format!("Dumping member {}\n", member.mbr_handle);
    head + &action(&member.action_name, &member.action_data)
}

/// Formats a group of an action profile.
pub fn group(group: &BmMtActProfGroup) -> String {
    format!(
        "Dumping group {}\nMembers: [{}]\n",
        group.grp_handle,
        comma_separated(&group.mbr_handles)
    )
}

/// Formats the members of an action profile, and its groups if it has a selector.
pub fn profile(members: &[BmMtActProfMember], groups: Option<&[BmMtActProfGroup]>) -> String {
    let mut out = "==========\nMEMBERS\n".to_owned();
    for one in members {
        out += "**********\n";
        out += &member(one);
    }
    if let Some(groups) = groups {
        out += "==========\nGROUPS\n";
        for one in groups {
            out += "**********\n";
            out += &group(one);
        }
    }
    out
}

/// Formats the ports of the switch as a table.
pub fn ports(ports: &[DevMgrPortInfo]) -> String {
    let mut out = format!(
        "{:^10}{:^20}{:^10}extra info\n{}\n",
        "port #",
        "iface name",
        "status",
        "=".repeat(50)
    );
    for port in ports {
        let status = if port.is_up { "UP" } else { "DOWN" };
        let extra: Vec<String> = port.extra.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let _ = writeln!(
            out,
            "{:^10}{:^20}{status:^10}{}",
            port.port_num,
            port.iface_name,
            extra.join("; ")
        );
    }
    out
}

/// Formats the properties of the switch.
pub fn switch_info(info: &BmConfig) -> String {
    let socket = |socket: &Option<String>| socket.clone().unwrap_or_else(|| "None".to_owned());
    let lines = [
        ("device_id", info.device_id.to_string()),
        ("thrift_port", info.thrift_port.to_string()),
        ("notifications_socket", socket(&info.notifications_socket)),
        ("elogger_socket", socket(&info.elogger_socket)),
        ("debugger_socket", socket(&info.debugger_socket)),
    ];
    let lines = lines.map(|(name, value)| format!("{name:25}: {value}\n"));
    lines.concat()
}

/// Formats a clone session.
pub fn mirroring_session(session: &MirroringSessionConfig) -> String {
    let number = |number: Option<i32>| number.map_or("None".to_owned(), |n| n.to_string());
    format!(
        "MirroringSessionConfig(port={}, mgid={})\n",
        number(session.port),
        number(session.mgid)
    )
}

/// JSON of the replication engine: groups, nodes and link aggregation groups. In BMv2, a node has an L1 part
/// (replication id) and an L2 part (ports).
#[derive(Deserialize)]
struct MulticastEntries {
    #[serde(default)]
    mgrps: Vec<MulticastGroup>,
    #[serde(default)]
    l1_handles: Vec<L1Node>,
    #[serde(default)]
    l2_handles: Vec<L2Node>,
    lags: Option<Vec<Lag>>,
}

#[derive(Deserialize)]
struct MulticastGroup {
    id: i64,
    #[serde(default)]
    l1_handles: Vec<i64>,
}

#[derive(Deserialize)]
struct L1Node {
    handle: i64,
    rid: i64,
    l2_handle: i64,
}

#[derive(Deserialize)]
struct L2Node {
    handle: i64,
    #[serde(default)]
    ports: Vec<i64>,
    #[serde(default)]
    lags: Vec<i64>,
}

#[derive(Deserialize)]
struct Lag {
    id: i64,
    #[serde(default)]
    ports: Vec<i64>,
}

/// Formats the replication engine's JSON: groups with their nodes, and link aggregation groups. `None` if the JSON is
/// not valid.
pub fn multicast(json: &str) -> Option<String> {
    let entries: MulticastEntries = serde_json::from_str(json).ok()?;
    let l1: BTreeMap<i64, &L1Node> = entries.l1_handles.iter().map(|h| (h.handle, h)).collect();
    let l2: BTreeMap<i64, &L2Node> = entries.l2_handles.iter().map(|h| (h.handle, h)).collect();
    let mut out = "==========\nMC ENTRIES\n".to_owned();
    for group in &entries.mgrps {
        let _ = writeln!(out, "**********\nmgrp({})", group.id);
        for handle in &group.l1_handles {
            let node = l1.get(handle)?;
            let leads_to = l2.get(&node.l2_handle)?;
            let _ = writeln!(
                out,
                "  -> (L1h={handle}, rid={}) -> (ports=[{}], lags=[{}])",
                node.rid,
                comma_separated(&leads_to.ports),
                comma_separated(&leads_to.lags)
            );
        }
    }
    out += "==========\nLAGS\n";
    match &entries.lags {
        None => out += "None for this PRE type\n",
        Some(lags) => {
            for lag in lags {
                let _ = writeln!(
                    out,
                    "lag({}) -> ports=[{}]",
                    lag.id,
                    comma_separated(&lag.ports)
                );
            }
        }
    }
    out += "==========\n";
    Some(out)
}

fn comma_separated<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime_cli::program::tests::sample;
    use crate::runtime_cli::values::match_key;
    use alfirk_thrift::standard::{BmAddEntryOptions, BmMtEntryLife};

    #[test]
    fn keys_are_shown_with_their_kind() {
        let program = sample();
        let acl = match_key(
            &program.tables["MyIngress.acl"],
            "acl",
            &["1", "0x40&&&0xf0"],
        );
        assert_eq!(added_key(&acl.unwrap()), "EXACT-01\tTERNARY-40 &&& f0");
        let route = &program.tables["MyIngress.route"];
        let key = match_key(route, "route", &["10.0.1.0/24"]).unwrap();
        assert_eq!(added_key(&key), "LPM-0a:00:01:00/24");
        assert_eq!(added_data(&[vec![0, 1], vec![2]]), "00:01\t02");
    }

    #[test]
    fn an_entry_has_its_key_in_columns() {
        let program = sample();
        let table = &program.tables["MyIngress.acl"];
        let shown = entry(
            table,
            &BmMtEntry {
                match_key: match_key(table, "acl", &["1", "0x40&&&0xf0"]).unwrap(),
                options: BmAddEntryOptions { priority: Some(7) },
                entry_handle: 0x0100_0002,
                action_entry: BmActionEntry {
                    action_type: BmActionEntryType::ActionData,
                    action_name: Some("MyIngress.drop".to_owned()),
                    action_data: Some(Vec::new()),
                    ..Default::default()
                },
                life: Some(BmMtEntryLife {
                    timeout_ms: 10,
                    time_since_hit_ms: 3,
                }),
            },
        );
        assert_eq!(
            shown,
            "Dumping entry 0x1000002\n\
             Match key:\n\
             * ipv4_valid          : EXACT     01\n\
             * ipv4.ttl            : TERNARY   40 &&& f0\n\
             Priority: 7\n\
             Action entry: MyIngress.drop - \n\
             Life: 3ms since hit, timeout is 10ms\n"
        );
    }

    #[test]
    fn entry_may_have_no_action_or_a_member() {
        let mut entry = BmActionEntry::default();
        assert_eq!(action_entry(&entry), "EMPTY\n");
        entry.action_type = BmActionEntryType::GrpHandle;
        entry.grp_handle = Some(2);
        assert_eq!(action_entry(&entry), "Index: group(2)\n");
    }

    #[test]
    fn multicast_groups_are_shown_with_nodes_and_lags() {
        let json = r#"{"mgrps": [{"id": 1, "l1_handles": [0]}],
            "l1_handles": [{"handle": 0, "rid": 5, "l2_handle": 3}],
            "l2_handles": [{"handle": 3, "ports": [1, 2], "lags": []}],
            "lags": [{"id": 9, "ports": [4]}]}"#;
        assert_eq!(
            multicast(json).as_deref(),
            Some(
                "==========\nMC ENTRIES\n**********\nmgrp(1)\n\
                 \x20 -> (L1h=0, rid=5) -> (ports=[1, 2], lags=[])\n\
                 ==========\nLAGS\nlag(9) -> ports=[4]\n==========\n"
            )
        );
        assert!(multicast("{}").is_some_and(|text| text.contains("None for this PRE type")));
        for wrong in ["", "[]", r#"{"mgrps": [{"id": 1, "l1_handles": [7]}]}"#] {
            assert_eq!(multicast(wrong), None);
        }
    }

    #[test]
    fn ports_are_aligned_in_columns() {
        let port = DevMgrPortInfo {
            port_num: 1,
            iface_name: "veth1".to_owned(),
            is_up: true,
            extra: [("a".to_owned(), "b".to_owned())].into(),
        };
        let shown = ports(&[port]);
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "  port #       iface name       status  extra info",
                "==================================================",
                "    1            veth1            UP    a=b",
            ]
        );
    }
}
