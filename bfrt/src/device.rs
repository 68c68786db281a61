//! Tables of the device, which exist without a program: their schema, and the configuration of the device.

use alfirk_bf_rt_json::{
    ActionSpec, Annotation, Data, DataField, FieldType, KeyField, MatchType, Schema, Table,
    TableType, TypeName,
};
use alfirk_p4runtime::bfrt_proto::{data_field::Value, TableData};

use crate::pktgen;
use crate::ports::{self, Port};
use crate::values;

/// Id of the key field of all tables of the device with a key.
pub(crate) const KEY: u32 = 1;

/// Data fields of `$pre.node`.
pub(crate) const NODE_RID: u32 = 1;
pub(crate) const NODE_LAGS: u32 = 2;
pub(crate) const NODE_PORTS: u32 = 3;
/// Data fields of `$pre.mgid`.
pub(crate) const GROUP_NODES: u32 = 1;
pub(crate) const GROUP_XID_VALID: u32 = 2;
pub(crate) const GROUP_XID: u32 = 3;
pub(crate) const GROUP_ECMPS: u32 = 4;
pub(crate) const GROUP_ECMP_XID_VALID: u32 = 5;
pub(crate) const GROUP_ECMP_XID: u32 = 6;
/// Data fields of `$pre.lag`.
pub(crate) const LAG_PORTS: u32 = 1;
pub(crate) const LAG_REMOTE_MSB: u32 = 2;
pub(crate) const LAG_REMOTE_LSB: u32 = 3;
/// Data field of `$pre.ecmp`.
pub(crate) const ECMP_NODES: u32 = 1;
/// Data field of `$pre.port` by which packets are copied to the port for the CPU.
pub(crate) const PRE_PORT_COPY_TO_CPU: u32 = 4;
/// Data field of `$pre.prune`.
pub(crate) const PRUNE_PORTS: u32 = 1;
/// Action and data fields of `$mirror.cfg`.
pub(crate) const MIRROR_COALESCING: u32 = 1;
pub(crate) const MIRROR_ENABLE: u32 = 5;
pub(crate) const MIRROR_PORT: u32 = 7;
pub(crate) const MIRROR_PORT_VALID: u32 = 8;
pub(crate) const MIRROR_COS: u32 = 10;
pub(crate) const MIRROR_GROUP_A: u32 = 14;
pub(crate) const MIRROR_GROUP_A_VALID: u32 = 15;
pub(crate) const MIRROR_GROUP_B: u32 = 16;
pub(crate) const MIRROR_GROUP_B_VALID: u32 = 17;
pub(crate) const MIRROR_RID: u32 = 20;
pub(crate) const MIRROR_LENGTH: u32 = 23;

/// Kind of the table with the configuration of the device.
const DEVICE_CONFIGURATION: &str = "DevConfigure";
/// Whether a table is the configuration of the device.
pub(crate) fn is_configuration(table: &Table) -> bool {
    table.table_type == TableType::Other(DEVICE_CONFIGURATION.to_owned())
}

/// Port to the CPU over PCIe, and ports of the packet generator and of recirculation, on a chip with one pipe.
const PCIE_PORT: u64 = 64;
pub(crate) const RECIRCULATION_PORT: u32 = 68;
/// Number of pipes whose ports have numbers.
pub(crate) const PIPES: u32 = 4;
/// Number of port numbers of a pipe.
const PORTS_OF_PIPE: u64 = 72;

/// Generation of the chip whose tables the device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Tofino.
    One,
    /// Tofino 2.
    Two,
}

/// A data field of the device: id, name, type, and whether it is a list.
pub(crate) type Row = (u32, &'static str, FieldType, bool);

/// The schema of a table of the device.
pub(crate) fn table(
    name: &str,
    id: u32,
    ty: TableType,
    size: u64,
    key: Vec<KeyField>,
    data: Vec<Row>,
) -> Table {
    let data = data.into_iter().map(|(id, name, ty, repeated)| {
        let is_port = name == "$DEV_PORT" || name == "$MULTICAST_BACKUP_PORT";
        let note = Annotation {
            name: "$bfrt_port_type_class".to_owned(),
            value: Some("dev_port".to_owned()),
        };
        let field = DataField {
            repeated,
            annotations: if is_port { vec![note] } else { Vec::new() },
            ..DataField::new(id, name, ty)
        };
        Data::singleton(false, field)
    });
    Table {
        name: name.to_owned(),
        id,
        table_type: ty,
        size,
        key,
        data: data.collect(),
        ..Table::default()
    }
}

/// A key of one exact field.
pub(crate) fn key(name: &str, ty: TypeName) -> Vec<KeyField> {
    vec![key_field(KEY, name, ty)]
}

/// An exact key field.
pub(crate) fn key_field(id: u32, name: &str, ty: TypeName) -> KeyField {
    KeyField {
        id,
        name: name.to_owned(),
        repeated: false,
        annotations: Vec::new(),
        mandatory: true,
        match_type: MatchType::Exact,
        ty: FieldType::plain(ty),
    }
}

/// The schema of the device. Names and ids are those of the chip's driver; fields without a meaning for a software
/// switch are absent.
pub(crate) fn schema(generation: Generation) -> Schema {
    use TypeName::{Bool, Uint16, Uint32, Uint8};
    let of = FieldType::plain;
    let one = |id, name, ty| (id, name, of(ty), false);
    let list = |id, name, ty| (id, name, of(ty), true);
    let chip = match generation {
        Generation::One => "tf1",
        Generation::Two => "tf2",
    };
    let configuration = table(
        &format!("{chip}.dev.device_configuration"),
        0xff06_0001,
        TableType::Other(DEVICE_CONFIGURATION.to_owned()),
        1,
        Vec::new(),
        vec![
            (1, "sku", of(TypeName::String), false),
            one(2, "num_pipes", Uint32),
            one(3, "num_stages", Uint32),
            one(4, "num_max_ports", Uint32),
            one(5, "num_front_ports", Uint32),
            one(6, "pcie_cpu_port", Uint32),
            list(7, "eth_cpu_port_list", Uint32),
            list(8, "internal_port_list", Uint32),
            list(9, "external_port_list", Uint32),
            list(10, "recirc_port_list", Uint32),
        ],
    );
    let group = table(
        "$pre.mgid",
        0xff02_0001,
        TableType::PreMgid,
        65536,
        key("$MGID", Uint16),
        vec![
            list(GROUP_NODES, "$MULTICAST_NODE_ID", Uint32),
            list(GROUP_XID_VALID, "$MULTICAST_NODE_L1_XID_VALID", Bool),
            list(GROUP_XID, "$MULTICAST_NODE_L1_XID", Uint16),
            list(GROUP_ECMPS, "$MULTICAST_ECMP_ID", Uint32),
            list(GROUP_ECMP_XID_VALID, "$MULTICAST_ECMP_L1_XID_VALID", Bool),
            list(GROUP_ECMP_XID, "$MULTICAST_ECMP_L1_XID", Uint16),
        ],
    );
    let group = Table {
        attributes: vec!["pre_device_config".to_owned()],
        ..group
    };
    let node = table(
        "$pre.node",
        0xff02_0002,
        TableType::PreNode,
        1 << 24,
        key("$MULTICAST_NODE_ID", Uint32),
        vec![
            one(NODE_RID, "$MULTICAST_RID", Uint16),
            list(NODE_LAGS, "$MULTICAST_LAG_ID", Uint8),
            list(NODE_PORTS, "$DEV_PORT", Uint32),
        ],
    );
    let ecmp = table(
        "$pre.ecmp",
        0xff02_0003,
        TableType::PreEcmp,
        1 << 24,
        key("$MULTICAST_ECMP_ID", Uint32),
        vec![list(ECMP_NODES, "$MULTICAST_NODE_ID", Uint32)],
    );
    let lag = table(
        "$pre.lag",
        0xff02_0004,
        TableType::PreLag,
        255,
        key("$MULTICAST_LAG_ID", Uint8),
        vec![
            list(LAG_PORTS, "$DEV_PORT", Uint32),
            (
                LAG_REMOTE_MSB,
                "$MULTICAST_LAG_REMOTE_MSB_COUNT",
                of(Uint32).with_default(0),
                false,
            ),
            (
                LAG_REMOTE_LSB,
                "$MULTICAST_LAG_REMOTE_LSB_COUNT",
                of(Uint32).with_default(0),
                false,
            ),
        ],
    );
    let prune = table(
        "$pre.prune",
        0xff02_0005,
        TableType::PrePrune,
        288,
        key("$MULTICAST_L2_XID", Uint16),
        vec![list(PRUNE_PORTS, "$DEV_PORT", Uint32)],
    );
    let pre_port = table(
        "$pre.port",
        0xff02_0006,
        TableType::PrePort,
        288,
        key("$DEV_PORT", Uint32),
        vec![
            one(1, "$MULTICAST_BACKUP_PORT", Uint32),
            one(2, "$MULTICAST_FORWARD_STATE", Bool),
            one(3, "$MULTICAST_CLEAR_FAST_FAILOVER", Bool),
            one(PRE_PORT_COPY_TO_CPU, "$COPY_TO_CPU_PORT_ENABLE", Bool),
        ],
    );
    let mut tables = vec![configuration];
    tables.extend(ports::tables(generation));
    tables.extend(pktgen::tables(generation));
    tables.extend([group, node, ecmp, lag, prune, pre_port, mirror()]);
    Schema {
        schema_version: None,
        tables,
        learn_filters: Vec::new(),
    }
}

fn mirror() -> Table {
    use TypeName::{Bool, Uint16, Uint32};
    let of = FieldType::plain;
    let one = |id, name, ty| (id, name, of(ty), false);
    let choice = |id, name, choices: &[&str]| (id, name, FieldType::choice(choices), false);
    let action = |id, name: &str| ActionSpec {
        id,
        name: name.to_owned(),
        action_scope: None,
        annotations: Vec::new(),
        data: Vec::new(),
    };
    let table = table(
        "$mirror.cfg",
        0xff04_0001,
        TableType::MirrorCfg,
        1024,
        key("$sid", Uint16),
        vec![
            one(MIRROR_ENABLE, "$session_enable", Bool),
            choice(6, "$direction", &["INGRESS", "EGRESS", "BOTH"]),
            one(MIRROR_PORT, "$ucast_egress_port", Uint32),
            one(MIRROR_PORT_VALID, "$ucast_egress_port_valid", Bool),
            one(9, "$egress_port_queue", Uint32),
            one(MIRROR_COS, "$ingress_cos", Uint32),
            choice(11, "$packet_color", &["GREEN", "YELLOW", "RED"]),
            one(12, "$level1_mcast_hash", Uint32),
            one(13, "$level2_mcast_hash", Uint32),
            one(MIRROR_GROUP_A, "$mcast_grp_a", Uint16),
            one(MIRROR_GROUP_A_VALID, "$mcast_grp_a_valid", Bool),
            one(MIRROR_GROUP_B, "$mcast_grp_b", Uint16),
            one(MIRROR_GROUP_B_VALID, "$mcast_grp_b_valid", Bool),
            one(18, "$mcast_l1_xid", Uint16),
            one(19, "$mcast_l2_xid", Uint16),
            one(MIRROR_RID, "$mcast_rid", Uint16),
            one(21, "$icos_for_copy_to_cpu", Uint32),
            one(22, "$copy_to_cpu", Bool),
            one(MIRROR_LENGTH, "$max_pkt_len", Uint16),
        ],
    );
    Table {
        action_specs: Some(vec![
            action(MIRROR_COALESCING, "$coalescing"),
            action(2, "$normal"),
        ]),
        ..table
    }
}

/// The configuration of the device, which clients read before they use ports.
pub(crate) fn configuration(generation: Generation, ports: &[Port]) -> TableData {
    let number = |id, value| values::number_field(id, value, 32);
    let stages = match generation {
        Generation::One => 12,
        Generation::Two => 20,
    };
    let external = ports.iter().map(|port| port.number);
    let fields = vec![
        values::field(1, Value::StrVal("UNKNOWN".to_owned())),
        number(2, 1),
        number(3, stages),
        number(4, PORTS_OF_PIPE),
        number(5, ports.len() as u64),
        number(6, PCIE_PORT),
        values::numbers_field(7, [PCIE_PORT as u32]),
        values::numbers_field(8, [RECIRCULATION_PORT]),
        values::numbers_field(9, external),
        values::numbers_field(10, [RECIRCULATION_PORT]),
    ];
    TableData {
        action_id: 0,
        fields,
    }
}
