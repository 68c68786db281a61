//! Writes a switch's state as a script for bfrt_python, the shell of Intel's SDE for Tofino (`bfshell -b FILE`).
//!
//! Tables, fields and actions have their P4Info names, as in BfRt. In keyword arguments, every character of a field name other
//! than a letter, digit or underscore becomes an underscore.

use std::fmt::Write;

use alfirk_ctrl::bfrt::{reversed_priority, DEFAULT_MAX_MIRRORED_LEN};
use alfirk_p4runtime::p4::config::v1::{
    match_field, p4_bitstring_like_type_spec, p4_data_type_spec, p4_struct_type_spec,
    P4DataTypeSpec, P4Info, Preamble,
};
use alfirk_p4runtime::p4::v1::{
    self, entity::Entity as Kind, field_match, p4_data,
    packet_replication_engine_entry::Type as Pre, table_action, Entity,
};

/// Returns the script that writes `state`, the entities of one switch. `remarks` are comment lines at its beginning.
pub fn script(switch: &str, remarks: &str, p4info: &P4Info, state: &[Entity]) -> String {
    let mut script = Script {
        p4info,
        text: String::new(),
        nodes: 0,
    };
    // Writing to a string cannot fail.
    let _ = script.write_head(switch, remarks);
    for entity in state {
        let _ = match &entity.entity {
            Some(Kind::TableEntry(entry)) => script.write_table_entry(entry),
            Some(Kind::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
                Some(Pre::MulticastGroupEntry(group)) => script.write_group(group),
                Some(Pre::CloneSessionEntry(session)) => script.write_mirror(session),
                None => Ok(()),
            },
            Some(Kind::MeterEntry(entry)) => script.write_meter(entry),
            Some(Kind::RegisterEntry(entry)) => script.write_register(entry),
            _ => Ok(()),
        };
    }
    script.text += "\nbfrt.complete_operations()\n";
    script.text
}

/// The script of one switch while it is written.
struct Script<'a> {
    p4info: &'a P4Info,
    text: String,
    /// Number of multicast replication nodes written so far; node ids start at 1.
    nodes: u32,
}

impl Script<'_> {
    fn write_head(&mut self, switch: &str, remarks: &str) -> std::fmt::Result {
        write!(
            self.text,
            "# Tables, multicast groups, mirrors, meters and registers of {switch}, for bfrt_python: bfshell -b {switch}.py\n\
             # Planned by `alfirk ctrl --dry-run bfrt` on a model of the chip. It was never run on hardware.\n\
             # Ports are the numbers of the topology file: write the chip's device ports (dev_port) there.\n\
             {remarks}\n\
             pipe = bfrt.main.pipe\n\n"
        )
    }

    fn write_table_entry(&mut self, entry: &v1::TableEntry) -> std::fmt::Result {
        let tables = &self.p4info.tables;
        let Some(table) = tables
            .iter()
            .find(|table| id_of(&table.preamble) == entry.table_id)
        else {
            return Ok(());
        };
        let action = match entry
            .action
            .as_ref()
            .and_then(|action| action.r#type.as_ref())
        {
            Some(table_action::Type::Action(action)) => action,
            _ => return Ok(()),
        };
        if table.is_const_table || entry.is_const {
            return Ok(());
        }
        let actions = &self.p4info.actions;
        let Some(of_action) = actions
            .iter()
            .find(|one| id_of(&one.preamble) == action.action_id)
        else {
            return Ok(());
        };
        let mut args: Vec<String> = Vec::new();
        for field in &table.match_fields {
            let name = keyword(&field.name);
            let given = entry.r#match.iter().find(|one| one.field_id == field.id);
            let given = given.and_then(|one| one.field_match_type.as_ref());
            let whole = field.bitwidth.max(0) as u32;
            match given {
                Some(field_match::FieldMatchType::Exact(exact)) => {
                    args.push(format!("{name}={}", number(&exact.value)));
                }
                Some(field_match::FieldMatchType::Lpm(lpm)) => {
                    args.push(format!("{name}={}", number(&lpm.value)));
                    args.push(format!("{name}_p_length={}", lpm.prefix_len));
                }
                Some(field_match::FieldMatchType::Ternary(ternary)) => {
                    args.push(format!("{name}={}", number(&ternary.value)));
                    args.push(format!("{name}_mask={}", number(&ternary.mask)));
                }
                Some(field_match::FieldMatchType::Range(range)) => {
                    args.push(format!("{name}_start={}", number(&range.low)));
                    args.push(format!("{name}_end={}", number(&range.high)));
                }
                Some(field_match::FieldMatchType::Optional(optional)) => {
                    args.push(format!("{name}={}", number(&optional.value)));
                    args.push(format!("{name}_mask={}", all_ones(whole)));
                }
                // P4Runtime omits a field that matches every value.
                _ => match field.r#match {
                    Some(match_field::Match::MatchType(kind))
                        if kind == match_field::MatchType::Range as i32 =>
                    {
                        args.push(format!("{name}_start=0"));
                        args.push(format!("{name}_end={}", all_ones(whole)));
                    }
                    Some(match_field::Match::MatchType(kind))
                        if kind == match_field::MatchType::Lpm as i32 =>
                    {
                        args.push(format!("{name}=0"));
                        args.push(format!("{name}_p_length=0"));
                    }
                    _ => {
                        args.push(format!("{name}=0"));
                        args.push(format!("{name}_mask=0"));
                    }
                },
            }
        }
        if entry.priority != 0 {
            args.push(format!(
                "MATCH_PRIORITY={}",
                reversed_priority(entry.priority)
            ));
        }
        for param in &of_action.params {
            let given = action.params.iter().find(|one| one.param_id == param.id);
            let value = given.map_or("0".to_owned(), |one| number(&one.value));
            args.push(format!("{}={value}", keyword(&param.name)));
        }
        let table = name_of(&table.preamble);
        let action = last_component(name_of(&of_action.preamble));
        let verb = match entry.is_default_action {
            true => "set_default_with",
            false => "add_with",
        };
        writeln!(
            self.text,
            "pipe.{table}.{verb}_{action}({})",
            args.join(", ")
        )
    }

    /// Writes a multicast group, with a replication node of its own for each copy: each copy has another replication
    /// id.
    #[allow(deprecated)]
    fn write_group(&mut self, group: &v1::MulticastGroupEntry) -> std::fmt::Result {
        let mut nodes = Vec::new();
        for replica in &group.replicas {
            self.nodes += 1;
            nodes.push(self.nodes.to_string());
            writeln!(
                self.text,
                "bfrt.pre.node.add(MULTICAST_NODE_ID={}, MULTICAST_RID={}, MULTICAST_LAG_ID=[], DEV_PORT=[{}])",
                self.nodes,
                replica.instance,
                port(replica)
            )?;
        }
        let no_xids = vec!["False"; nodes.len()].join(", ");
        let xids = vec!["0"; nodes.len()].join(", ");
        writeln!(
            self.text,
            "bfrt.pre.mgid.add(MGID={}, MULTICAST_NODE_ID=[{}], MULTICAST_NODE_L1_XID_VALID=[{no_xids}], MULTICAST_NODE_L1_XID=[{xids}])",
            group.multicast_group_id,
            nodes.join(", ")
        )
    }

    fn write_mirror(&mut self, session: &v1::CloneSessionEntry) -> std::fmt::Result {
        let Some(replica) = session.replicas.first() else {
            return Ok(());
        };
        let length = match session.packet_length_bytes {
            0 => i32::from(DEFAULT_MAX_MIRRORED_LEN),
            bytes => bytes,
        };
        writeln!(
            self.text,
            "bfrt.mirror.cfg.add_with_normal(sid={}, direction=\"BOTH\", session_enable=True, ucast_egress_port={}, \
             ucast_egress_port_valid=True, max_pkt_len={length})",
            session.session_id,
            port(replica)
        )
    }

    fn write_meter(&mut self, entry: &v1::MeterEntry) -> std::fmt::Result {
        let meters = &self.p4info.meters;
        let meter = meters
            .iter()
            .find(|meter| id_of(&meter.preamble) == entry.meter_id);
        // A cell without a configuration has its initial state, in which all packets are green.
        let (Some(meter), Some(index), Some(config)) = (meter, &entry.index, &entry.config) else {
            return Ok(());
        };
        writeln!(
            self.text,
            "pipe.{}.mod(METER_INDEX={}, METER_SPEC_CIR_PPS={}, METER_SPEC_PIR_PPS={}, METER_SPEC_CBS_PKTS={}, METER_SPEC_PBS_PKTS={})",
            name_of(&meter.preamble),
            index.index,
            config.cir,
            config.pir,
            config.cburst,
            config.pburst
        )
    }

    /// Writes one register cell, unless its value is 0.
    fn write_register(&mut self, entry: &v1::RegisterEntry) -> std::fmt::Result {
        let registers = &self.p4info.registers;
        let register = registers
            .iter()
            .find(|one| id_of(&one.preamble) == entry.register_id);
        let data = entry.data.as_ref().and_then(|data| data.data.as_ref());
        let (Some(register), Some(index), Some(data)) = (register, &entry.index, data) else {
            return Ok(());
        };
        let values: Vec<(String, String)> = match data {
            p4_data::Data::Struct(parts) => (parts.members.iter())
                .zip(self.members(register.type_spec.as_ref()))
                .filter_map(|(part, (name, spec))| {
                    Some((name, unsigned(part.data.as_ref()?, spec)?))
                })
                .collect(),
            data => {
                let value = unsigned(data, register.type_spec.as_ref());
                value
                    .map(|value| ("f1".to_owned(), value))
                    .into_iter()
                    .collect()
            }
        };
        if values.iter().all(|(_, value)| value == "0x0") {
            return Ok(());
        }
        let values: Vec<String> = values
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        writeln!(
            self.text,
            "pipe.{}.mod(REGISTER_INDEX={}, {})",
            name_of(&register.preamble),
            index.index,
            values.join(", ")
        )
    }

    /// Names and types of the members of the P4 struct `spec`; empty if it is not a struct.
    fn members(&self, spec: Option<&P4DataTypeSpec>) -> Vec<(String, Option<&P4DataTypeSpec>)> {
        let Some(p4_data_type_spec::TypeSpec::Struct(named)) =
            spec.and_then(|spec| spec.type_spec.as_ref())
        else {
            return Vec::new();
        };
        let types = self.p4info.type_info.as_ref();
        let of = types.and_then(|types| types.structs.get(&named.name));
        let member = |member: &p4_struct_type_spec::Member| keyword(&member.name);
        of.map_or(Vec::new(), |of| {
            (of.members.iter())
                .map(|one| (member(one), one.type_spec.as_ref()))
                .collect()
        })
    }
}

fn id_of(preamble: &Option<Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |preamble| preamble.id)
}

fn name_of(preamble: &Option<Preamble>) -> &str {
    preamble.as_ref().map_or("", |preamble| &preamble.name)
}

/// The part of a P4Info name after its last dot.
fn last_component(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Converts a field name to a keyword argument: characters other than letters, digits and underscores become
/// underscores.
fn keyword(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(plain).collect()
}

/// Formats a canonical byte string as a hexadecimal number.
fn number(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match digits.trim_start_matches('0') {
        "" => "0x0".to_owned(),
        digits => format!("0x{digits}"),
    }
}

/// The number with `bits` ones, in hexadecimal.
fn all_ones(bits: u32) -> String {
    let value = (num_bigint::BigUint::from(1u8) << bits) - 1u8;
    format!("{value:#x}")
}

/// Formats a register value as an unsigned number, the form that BfRt expects for all types; `None` for structs and
/// other compound values.
fn unsigned(data: &p4_data::Data, spec: Option<&P4DataTypeSpec>) -> Option<String> {
    match data {
        p4_data::Data::Bitstring(bytes) => {
            let width = match spec.and_then(|spec| spec.type_spec.as_ref()) {
                Some(p4_data_type_spec::TypeSpec::Bitstring(like)) => match &like.type_spec {
                    Some(p4_bitstring_like_type_spec::TypeSpec::Int(int)) => {
                        int.bitwidth.max(0) as u32
                    }
                    _ => 0,
                },
                _ => 0,
            };
            // int<W> is encoded as two's complement, in as few bytes as hold it (P4Runtime specification, section 8.4).
            if width == 0 || bytes.first().is_none_or(|first| first & 0x80 == 0) {
                return Some(number(bytes));
            }
            let all: num_bigint::BigInt = (num_bigint::BigInt::from(1) << width) - 1;
            let value: num_bigint::BigInt = num_bigint::BigInt::from_signed_bytes_be(bytes) & all;
            Some(number(&value.magnitude().to_bytes_be()))
        }
        p4_data::Data::EnumValue(bytes) => Some(number(bytes)),
        p4_data::Data::Bool(value) => Some(number(&[u8::from(*value)])),
        _ => None,
    }
}

#[allow(deprecated)]
fn port(replica: &v1::Replica) -> String {
    match &replica.port_kind {
        Some(v1::replica::PortKind::EgressPort(port)) => port.to_string(),
        Some(v1::replica::PortKind::Port(bytes)) => number(bytes),
        None => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::p4::config::v1::{
        action, Action, MatchField, P4BitstringLikeTypeSpec, P4IntTypeSpec, Register, Table,
    };

    fn preamble(id: u32, name: &str) -> Option<Preamble> {
        Some(Preamble {
            id,
            name: name.to_owned(),
            ..Preamble::default()
        })
    }

    fn field(id: u32, name: &str, kind: match_field::MatchType) -> MatchField {
        MatchField {
            id,
            name: name.to_owned(),
            bitwidth: 12,
            r#match: Some(match_field::Match::MatchType(kind as i32)),
            ..MatchField::default()
        }
    }

    fn p4info() -> P4Info {
        use match_field::MatchType as Type;
        let bits = P4BitstringLikeTypeSpec {
            type_spec: Some(p4_bitstring_like_type_spec::TypeSpec::Int(P4IntTypeSpec {
                bitwidth: 32,
            })),
            ..P4BitstringLikeTypeSpec::default()
        };
        P4Info {
            tables: vec![Table {
                preamble: preamble(1, "ingress.some.t"),
                match_fields: vec![
                    field(1, "hdr.h.a", Type::Exact),
                    field(2, "b", Type::Lpm),
                    field(3, "c", Type::Ternary),
                    field(4, "d", Type::Range),
                    field(5, "e", Type::Optional),
                ],
                ..Table::default()
            }],
            actions: vec![Action {
                preamble: preamble(7, "ingress.some.go"),
                params: vec![action::Param {
                    id: 1,
                    name: "port".to_owned(),
                    ..action::Param::default()
                }],
            }],
            registers: vec![Register {
                preamble: preamble(9, "ingress.r"),
                type_spec: Some(P4DataTypeSpec {
                    type_spec: Some(p4_data_type_spec::TypeSpec::Bitstring(bits)),
                }),
                ..Register::default()
            }],
            ..P4Info::default()
        }
    }

    fn lines(kind: Kind) -> String {
        let entity = Entity { entity: Some(kind) };
        let text = script("s1", "", &p4info(), &[entity]);
        let body = text
            .split_once("pipe = bfrt.main.pipe\n\n")
            .expect("a head")
            .1;
        body.replace("\nbfrt.complete_operations()\n", "")
    }

    fn entry(fields: Vec<v1::FieldMatch>, priority: i32) -> Kind {
        Kind::TableEntry(v1::TableEntry {
            table_id: 1,
            r#match: fields,
            priority,
            action: Some(v1::TableAction {
                r#type: Some(table_action::Type::Action(v1::Action {
                    action_id: 7,
                    params: vec![v1::action::Param {
                        param_id: 1,
                        value: vec![1, 0],
                    }],
                })),
            }),
            ..v1::TableEntry::default()
        })
    }

    fn matching(field_id: u32, value: field_match::FieldMatchType) -> v1::FieldMatch {
        v1::FieldMatch {
            field_id,
            field_match_type: Some(value),
        }
    }

    #[test]
    fn each_match_kind_has_its_arguments() {
        use field_match::{Exact, FieldMatchType as Type, Lpm, Optional, Range, Ternary};
        let fields = vec![
            matching(1, Type::Exact(Exact { value: vec![0] })),
            matching(
                2,
                Type::Lpm(Lpm {
                    value: vec![0x0a, 0],
                    prefix_len: 4,
                }),
            ),
            matching(
                3,
                Type::Ternary(Ternary {
                    value: vec![5],
                    mask: vec![0x0f],
                }),
            ),
            matching(
                4,
                Type::Range(Range {
                    low: vec![1],
                    high: vec![9],
                }),
            ),
            matching(5, Type::Optional(Optional { value: vec![3] })),
        ];
        assert_eq!(
            lines(entry(fields, 10)),
            "pipe.ingress.some.t.add_with_go(hdr_h_a=0x0, b=0xa00, b_p_length=4, c=0x5, c_mask=0xf, d_start=0x1, \
             d_end=0x9, e=0x3, e_mask=0xfff, MATCH_PRIORITY=2147483637, port=0x100)\n"
        );
        // A field that P4Runtime omits matches every value.
        let only = vec![matching(1, Type::Exact(Exact { value: vec![2] }))];
        assert_eq!(
            lines(entry(only, 1)),
            "pipe.ingress.some.t.add_with_go(hdr_h_a=0x2, b=0, b_p_length=0, c=0, c_mask=0, d_start=0, d_end=0xfff, \
             e=0, e_mask=0, MATCH_PRIORITY=2147483646, port=0x100)\n"
        );
    }

    #[test]
    fn registers_that_are_zero_are_left_out() {
        let cell = |value: Vec<u8>| {
            Kind::RegisterEntry(v1::RegisterEntry {
                register_id: 9,
                index: Some(v1::Index { index: 4 }),
                data: Some(v1::P4Data {
                    data: Some(p4_data::Data::Bitstring(value)),
                }),
            })
        };
        assert_eq!(lines(cell(vec![0])), "");
        assert_eq!(
            lines(cell(vec![1, 2])),
            "pipe.ingress.r.mod(REGISTER_INDEX=4, f1=0x102)\n"
        );
        // -2 of int<32>.
        assert_eq!(
            lines(cell(vec![0xfe])),
            "pipe.ingress.r.mod(REGISTER_INDEX=4, f1=0xfffffffe)\n"
        );
    }

    #[test]
    fn each_copy_of_a_group_is_a_node() {
        let copy = |port: u32, instance: u32| {
            #[allow(deprecated)]
            let port_kind = Some(v1::replica::PortKind::EgressPort(port));
            v1::Replica {
                port_kind,
                instance,
                ..v1::Replica::default()
            }
        };
        let group = v1::MulticastGroupEntry {
            multicast_group_id: 3,
            replicas: vec![copy(8, 0), copy(9, 1)],
            ..v1::MulticastGroupEntry::default()
        };
        let engine = Kind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
            r#type: Some(Pre::MulticastGroupEntry(group)),
        });
        assert_eq!(
            lines(engine),
            "bfrt.pre.node.add(MULTICAST_NODE_ID=1, MULTICAST_RID=0, MULTICAST_LAG_ID=[], DEV_PORT=[8])\n\
             bfrt.pre.node.add(MULTICAST_NODE_ID=2, MULTICAST_RID=1, MULTICAST_LAG_ID=[], DEV_PORT=[9])\n\
             bfrt.pre.mgid.add(MGID=3, MULTICAST_NODE_ID=[1, 2], MULTICAST_NODE_L1_XID_VALID=[False, False], \
             MULTICAST_NODE_L1_XID=[0, 0])\n"
        );
    }
}
