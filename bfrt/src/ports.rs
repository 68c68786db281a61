//! Ports of the device: their settings (`$PORT`), statistics (`$PORT_STAT`), and the tables that find a port by its
//! place on the front panel (`$PORT_HDL_INFO`, `$PORT_FP_IDX_INFO`, `$PORT_STR_INFO`).
//!
//! Front-panel ports are named `CONNECTOR/CHANNEL`, such as `1/0`; connectors are numbered from 1, channels from 0. The
//! order of the connectors is that of the port numbers: a board may have another one.

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{Data, FieldType, KeyField, Table, TableType, TypeName};
use alfirk_bmv2::{PortMode, PORTS_PER_PIPE};
use alfirk_p4runtime::bfrt_proto::{data_field::Value, DataField, TableData, TableKey};
use alfirk_p4runtime::Status;
use alfirk_packet_io::wire::ETHERNET_FCS;

use crate::device::{key, key_field, table, Generation, Row, KEY, PIPES};
use crate::error::{exists, invalid, not_found, unsupported, Outcome};
use crate::pre::{key_u32, Entry};
use crate::values::{self, bytes_of, exact_key, exact_keys, Values};

/// Channels of the connector to the CPU.
const CPU_CHANNELS: u32 = 4;

/// Data fields of `$PORT`.
const ENABLE: u32 = 4;
const LOOPBACK: u32 = 6;
/// Data fields of `$PORT` that can only be read.
const READ_ONLY: [u32; 7] = [MEDIA, VALID, INTERNAL, CONNECTOR, CHANNEL, UP, NAME];
const MEDIA: u32 = 15;
const VALID: u32 = 21;
const INTERNAL: u32 = 22;
const CONNECTOR: u32 = 23;
const CHANNEL: u32 = 24;
const UP: u32 = 25;
const NAME: u32 = 26;
/// Value of the loopback mode of a port without loopback.
const NO_LOOPBACK: &str = "BF_LPBK_NONE";
/// Key field of `$PORT_HDL_INFO` with the channel.
const HANDLE_CHANNEL: u32 = 2;
/// Kind of the table that finds a port by its position among all places.
const PLACE_INDEX: &str = "PortFpIdxInfo";
/// Data field of the tables that find a port.
const FOUND_PORT: u32 = 1;

/// A port of the switch that has an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Number of the port.
    pub number: u32,
    /// Name of the port's interface.
    pub interface: String,
    /// Whether the link of the port is up.
    pub is_up: bool,
    /// Frames of the port since the switch started.
    pub counters: PortCounters,
}

/// Frames and bytes of a port since the switch started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Valid frames received.
    pub received: u64,
    /// Bytes of the valid frames received, without frame check sequences.
    pub received_bytes: u64,
    /// Frames received with an error.
    pub malformed: u64,
    /// Frames that arrived while the receive buffer was full.
    pub not_received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Bytes of the frames sent, without frame check sequences.
    pub sent_bytes: u64,
    /// Frames that could not be sent.
    pub unsent: u64,
}

impl PortCounters {
    /// The value of a field of `$PORT_STAT`.
    fn field(&self, id: u32) -> u64 {
        match id {
            1 => self.received,
            2 => self.received + self.malformed,
            4 => self.malformed,
            5 | 6 => self.received_bytes + ETHERNET_FCS * self.received,
            20 => self.not_received,
            33 => self.sent,
            34 => self.sent + self.unsent,
            35 => self.unsent,
            36 | 37 => self.sent_bytes + ETHERNET_FCS * self.sent,
            // A virtual interface checks no frame check sequence.
            _ => 0,
        }
    }
}

/// Fields of `$PORT_STAT` that this switch counts: id and name.
const STATISTICS: [(u32, &str); 12] = [
    (1, "$FramesReceivedOK"),
    (2, "$FramesReceivedAll"),
    (3, "$FramesReceivedwithFCSError"),
    (4, "$FrameswithanyError"),
    (5, "$OctetsReceivedinGoodFrames"),
    (6, "$OctetsReceived"),
    (20, "$FramesDroppedBufferFull"),
    (33, "$FramesTransmittedOK"),
    (34, "$FramesTransmittedAll"),
    (35, "$FramesTransmittedwithError"),
    (36, "$OctetsTransmittedwithouterror"),
    (37, "$OctetsTransmittedTotal"),
];

/// A place on the front panel, and the number of its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    connector: u32,
    channel: u32,
    number: u32,
}

impl Place {
    fn name(self) -> String {
        format!("{}/{}", self.connector, self.channel)
    }
}

/// All places on the front panel of a chip with four pipes, the CPU's connector last.
fn places(generation: Generation) -> impl Iterator<Item = Place> {
    // Connectors and channels of a pipe, its first port on the front panel, and the CPU's first port.
    let (connectors, channels, first, cpu) = match generation {
        Generation::One => (16, 4, 0, 64),
        Generation::Two => (8, 8, 8, 2),
    };
    let all = connectors * PIPES;
    let front = (0..all).flat_map(move |at| {
        let base = at / connectors * PORTS_PER_PIPE + first + at % connectors * channels;
        (0..channels).map(move |channel| Place {
            connector: at + 1,
            channel,
            number: base + channel,
        })
    });
    front.chain((0..CPU_CHANNELS).map(move |channel| Place {
        connector: all + 1,
        channel,
        number: cpu + channel,
    }))
}

/// The schemas of the tables of ports.
pub(crate) fn tables(generation: Generation) -> Vec<Table> {
    use TypeName::{String, Uint32};
    let by = |name: &str, id, ty, key: Vec<KeyField>| {
        let number = vec![(FOUND_PORT, "$DEV_PORT", FieldType::plain(Uint32), false)];
        read_only(table(name, id, ty, 256, key, number), &[FOUND_PORT])
    };
    let handle = vec![
        key_field(KEY, "$CONN_ID", Uint32),
        key_field(HANDLE_CHANNEL, "$CHNL_ID", Uint32),
    ];
    let index = TableType::Other(PLACE_INDEX.to_owned());
    vec![
        settings(generation),
        statistics(),
        by(
            "$PORT_HDL_INFO",
            0xff01_0003,
            TableType::PortHdlInfo,
            handle,
        ),
        by(
            "$PORT_FP_IDX_INFO",
            0xff01_0004,
            index,
            key("$FP_IDX", Uint32),
        ),
        by(
            "$PORT_STR_INFO",
            0xff01_0005,
            TableType::PortStrInfo,
            key("$PORT_NAME", String),
        ),
    ]
}

/// Whether a table is one of [`tables`].
pub(crate) fn is_of_ports(table: &Table) -> bool {
    match &table.table_type {
        TableType::PortConfigure
        | TableType::PortStat
        | TableType::PortHdlInfo
        | TableType::PortStrInfo => true,
        TableType::Other(kind) => kind == PLACE_INDEX,
        _ => false,
    }
}

/// The schema of `$PORT`.
fn settings(generation: Generation) -> Table {
    use TypeName::{Bool, String, Uint32};
    let one = |id, name, ty| (id, name, FieldType::plain(ty), false);
    let number = |id, name, default: u32| {
        let ty = FieldType::plain(Uint32).with_default(default);
        (id, name, ty, false)
    };
    let flag = |id, name| (id, name, FieldType::plain(Bool).with_default(false), false);
    let choice = |id, name, choices: &[&str]| (id, name, FieldType::choice(choices), false);
    let loopbacks = match generation {
        Generation::One => &LOOPBACKS[..LOOPBACKS.len() - 1],
        Generation::Two => &LOOPBACKS[..],
    };
    let fields: Vec<Row> = vec![
        choice(1, "$SPEED", &SPEEDS),
        choice(2, "$FEC", &FECS),
        number(3, "$N_LANES", 1),
        flag(ENABLE, "$PORT_ENABLE"),
        choice(5, "$AUTO_NEGOTIATION", &NEGOTIATIONS),
        choice(LOOPBACK, "$LOOPBACK_MODE", loopbacks),
        number(7, "$TX_MTU", 10240),
        number(8, "$RX_MTU", 10240),
        number(9, "$TX_PFC_EN_MAP", 0),
        number(10, "$RX_PFC_EN_MAP", 0),
        flag(11, "$TX_PAUSE_FRAME_EN"),
        flag(12, "$RX_PAUSE_FRAME_EN"),
        flag(13, "$CUT_THROUGH_EN"),
        choice(14, "$PORT_DIR", &DIRECTIONS),
        choice(MEDIA, "$MEDIA_TYPE", &MEDIA_TYPES),
        one(VALID, "$IS_VALID", Bool),
        one(INTERNAL, "$IS_INTERNAL", Bool),
        one(CONNECTOR, "$CONN_ID", Uint32),
        one(CHANNEL, "$CHNL_ID", Uint32),
        one(UP, "$PORT_UP", Bool),
        one(NAME, "$PORT_NAME", String),
    ];
    let key = key("$DEV_PORT", Uint32);
    let port = table(
        "$PORT",
        0xff01_0001,
        TableType::PortConfigure,
        256,
        key,
        fields,
    );
    Table {
        attributes: vec!["port_status_notif_cb".to_owned()],
        ..read_only(port, &READ_ONLY)
    }
}

/// The schema of `$PORT_STAT`.
fn statistics() -> Table {
    let ty = FieldType::plain(TypeName::Uint64).with_default(0);
    let fields = STATISTICS
        .iter()
        .map(|(id, name)| (*id, *name, ty.clone(), false));
    let key = key("$DEV_PORT", TypeName::Uint32);
    table(
        "$PORT_STAT",
        0xff01_0002,
        TableType::PortStat,
        256,
        key,
        fields.collect(),
    )
}

/// A table whose data fields `ids` can only be read.
fn read_only(table: Table, ids: &[u32]) -> Table {
    let data = table.data.into_iter().map(|data| Data {
        read_only: data.fields().iter().any(|field| ids.contains(&field.id)),
        ..data
    });
    Table {
        data: data.collect(),
        ..table
    }
}

const SPEEDS: [&str; 11] = [
    "BF_SPEED_NONE",
    "BF_SPEED_1G",
    "BF_SPEED_10G",
    "BF_SPEED_25G",
    "BF_SPEED_40G",
    "BF_SPEED_40G_NB",
    "BF_SPEED_40G_NON_BREAKABLE",
    "BF_SPEED_50G",
    "BF_SPEED_100G",
    "BF_SPEED_200G",
    "BF_SPEED_400G",
];
const FECS: [&str; 5] = [
    "BF_FEC_TYP_NONE",
    "BF_FEC_TYP_FIRECODE",
    "BF_FEC_TYP_REED_SOLOMON",
    "BF_FEC_TYP_FC",
    "BF_FEC_TYP_RS",
];
const NEGOTIATIONS: [&str; 3] = ["PM_AN_DEFAULT", "PM_AN_FORCE_ENABLE", "PM_AN_FORCE_DISABLE"];
/// Loopback modes; only Tofino 2 has the last one.
const LOOPBACKS: [&str; 7] = [
    NO_LOOPBACK,
    "BF_LPBK_MAC_NEAR",
    "BF_LPBK_MAC_FAR",
    "BF_LPBK_PCS_NEAR",
    "BF_LPBK_SERDES_NEAR",
    "BF_LPBK_SERDES_FAR",
    "BF_LPBK_PIPE",
];
const DIRECTIONS: [&str; 3] = [
    "PM_PORT_DIR_DEFAULT",
    "PM_PORT_DIR_TX_ONLY",
    "PM_PORT_DIR_RX_ONLY",
];
const MEDIA_TYPES: [&str; 3] = [
    "BF_MEDIA_TYPE_COPPER",
    "BF_MEDIA_TYPE_OPTICAL",
    "BF_MEDIA_TYPE_UNKNOWN",
];

/// A value that a client wrote to a field of `$PORT_STAT`, and the counter's value at that time.
#[derive(Clone, Copy, Debug)]
struct Written {
    value: u64,
    at: u64,
}

/// Ports that clients added, and statistics that they wrote.
///
/// A port with an interface forwards also before it is added. A port that was added without `$PORT_ENABLE`, or in a
/// loopback mode, does not use its interface. A port without an interface can be added: packets for it are lost, or
/// return in a loopback mode. Other settings have no effect.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    generation: Generation,
    settings: BTreeMap<u32, TableData>,
    statistics: BTreeMap<(u32, u32), Written>,
}

impl Ports {
    /// Creates the state without added ports.
    pub fn new(generation: Generation) -> Ports {
        Ports {
            generation,
            settings: BTreeMap::new(),
            statistics: BTreeMap::new(),
        }
    }

    fn place(&self, number: u32) -> Option<Place> {
        places(self.generation).find(|place| place.number == number)
    }

    /// Modes of the ports that are not in normal operation.
    pub fn modes(&self) -> BTreeMap<u32, PortMode> {
        let modes = self.settings.iter().filter_map(|(number, own)| {
            let mode = match (is_enabled(own), is_in_loopback(own)) {
                (false, _) => PortMode::Disabled,
                (true, true) => PortMode::Loopback,
                (true, false) => return None,
            };
            Some((*number, mode))
        });
        modes.collect()
    }

    /// Writes an entry of a table of ports.
    pub fn write(
        &mut self,
        table: &Table,
        key: &TableKey,
        data: &TableData,
        ports: &[Port],
        is_new: bool,
    ) -> Outcome {
        let values = Values::new(table, &[], data)?;
        let mut fields = table.data_fields();
        if let Some((_, field)) =
            fields.find(|(data, field)| data.read_only && values.has(field.id))
        {
            let (table, field) = (&table.name, &field.name);
            return Err(invalid(format!("table {table}: {field} can only be read")));
        }
        match table.table_type {
            TableType::PortConfigure => {
                self.write_settings(key_u32(table, key)?, data, ports, is_new)
            }
            TableType::PortStat => {
                let port = self.counted(key_u32(table, key)?, ports)?;
                for (_, field) in table.data_fields() {
                    if let Some(value) = values.number(field.id) {
                        self.set_statistic(&port, field.id, value);
                    }
                }
                Ok(())
            }
            _ => Err(constant(table)),
        }
    }

    fn write_settings(
        &mut self,
        number: u32,
        data: &TableData,
        ports: &[Port],
        is_new: bool,
    ) -> Outcome {
        let is_attached = ports.iter().any(|port| port.number == number);
        let is_added = self.settings.contains_key(&number);
        match is_new {
            true if is_added => return Err(exists(format!("port {number} was added already"))),
            true if !is_attached && self.place(number).is_none() => {
                return Err(invalid(format!("the device has no port {number}")))
            }
            false if !is_attached && !is_added => return Err(not_added(number)),
            _ => {}
        }
        // A port with an interface is enabled until it is added.
        let enabled = values::field(ENABLE, Value::BoolVal(!is_new));
        let own = self.settings.entry(number).or_insert_with(|| TableData {
            action_id: 0,
            fields: vec![enabled],
        });
        values::set_fields(&mut own.fields, &data.fields);
        Ok(())
    }

    /// The port whose statistics a request refers to. A port without an interface has counted nothing.
    fn counted(&self, number: u32, ports: &[Port]) -> Outcome<Port> {
        let attached = ports.iter().find(|port| port.number == number);
        match attached {
            Some(port) => Ok(port.clone()),
            None if self.settings.contains_key(&number) => Ok(Port {
                number,
                ..Port::default()
            }),
            None => Err(not_added(number)),
        }
    }

    fn set_statistic(&mut self, port: &Port, field: u32, value: u64) {
        let at = port.counters.field(field);
        self.statistics
            .insert((port.number, field), Written { value, at });
    }

    fn statistic(&self, port: &Port, field: u32) -> u64 {
        let count = port.counters.field(field);
        let written = self.statistics.get(&(port.number, field));
        written.map_or(count, |written| {
            written.value.wrapping_add(count.saturating_sub(written.at))
        })
    }

    /// Deletes an entry of a table of ports; without a key, all entries.
    pub fn delete(&mut self, table: &Table, key: Option<&TableKey>, ports: &[Port]) -> Outcome {
        match (&table.table_type, key) {
            (TableType::PortConfigure, None) => {
                self.settings.clear();
                Ok(())
            }
            (TableType::PortConfigure, Some(key)) => {
                let number = key_u32(table, key)?;
                match self.settings.remove(&number) {
                    Some(_) => Ok(()),
                    None => Err(not_added(number)),
                }
            }
            (TableType::PortStat, None) => {
                for port in ports {
                    for (_, field) in table.data_fields() {
                        self.set_statistic(port, field.id, 0);
                    }
                }
                Ok(())
            }
            _ => Err(constant(table)),
        }
    }

    /// The entry with a key, or all entries, of a table of ports.
    pub fn read(
        &self,
        table: &Table,
        key: Option<&TableKey>,
        ports: &[Port],
    ) -> Outcome<Vec<Entry>> {
        if !matches!(
            table.table_type,
            TableType::PortConfigure | TableType::PortStat
        ) {
            return self.read_places(table, key);
        }
        let numbers = match key {
            Some(key) => vec![key_u32(table, key)?],
            None => {
                let attached = ports.iter().map(|port| port.number);
                let mut all: Vec<u32> = attached.chain(self.settings.keys().copied()).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        };
        let entries = numbers.into_iter().map(|number| {
            let port = self.counted(number, ports)?;
            let fields = match table.table_type {
                TableType::PortConfigure => self.port_fields(&port),
                _ => {
                    let fields = table.data_fields();
                    let value = |id| values::number_field(id, self.statistic(&port, id), 64);
                    fields.map(|(_, field)| value(field.id)).collect()
                }
            };
            let data = TableData {
                action_id: 0,
                fields,
            };
            Ok((exact_key(KEY, bytes_of(u64::from(number), 32)), data))
        });
        entries.collect()
    }

    /// The data fields of an entry of `$PORT`.
    fn port_fields(&self, port: &Port) -> Vec<DataField> {
        let text = |id, text: &str| values::field(id, Value::StrVal(text.to_owned()));
        let flag = |id, value| values::field(id, Value::BoolVal(value));
        let number = |id, value: u32| values::number_field(id, u64::from(value), 32);
        let own = self.settings.get(&port.number);
        let mut fields = vec![
            text(1, "BF_SPEED_10G"),
            text(2, FECS[0]),
            number(3, 1),
            flag(ENABLE, true),
            text(5, NEGOTIATIONS[0]),
            text(LOOPBACK, NO_LOOPBACK),
            number(7, 10240),
            number(8, 10240),
            number(9, 0),
            number(10, 0),
            flag(11, false),
            flag(12, false),
            flag(13, false),
            text(14, DIRECTIONS[0]),
        ];
        values::set_fields(&mut fields, own.iter().flat_map(|own| &own.fields));
        let is_up = match own {
            Some(own) if !is_enabled(own) => false,
            Some(own) if is_in_loopback(own) => true,
            _ => port.is_up,
        };
        let place = self.place(port.number);
        let name = place.map_or_else(|| port.interface.clone(), Place::name);
        fields.extend([
            text(MEDIA, "BF_MEDIA_TYPE_UNKNOWN"),
            flag(VALID, true),
            flag(INTERNAL, false),
            number(CONNECTOR, place.map_or(0, |place| place.connector)),
            number(CHANNEL, place.map_or(0, |place| place.channel)),
            flag(UP, is_up),
            text(NAME, &name),
        ]);
        fields
    }

    /// The entries of a table that finds a port by its place.
    fn read_places(&self, table: &Table, key: Option<&TableKey>) -> Outcome<Vec<Entry>> {
        let all = places(self.generation).zip(0..).map(|(place, index)| {
            let number = |value: u32| bytes_of(u64::from(value), 32);
            let key = match table.table_type {
                TableType::PortHdlInfo => vec![
                    (KEY, number(place.connector)),
                    (HANDLE_CHANNEL, number(place.channel)),
                ],
                TableType::PortStrInfo => vec![(KEY, place.name().into_bytes())],
                _ => vec![(KEY, number(index))],
            };
            let data = TableData {
                action_id: 0,
                fields: vec![values::number_field(
                    FOUND_PORT,
                    u64::from(place.number),
                    32,
                )],
            };
            (exact_keys(key), data)
        });
        match key {
            None => Ok(all.collect()),
            Some(key) => {
                let is_wanted = |entry: &Entry| is_same(&entry.0, key);
                let found = all.into_iter().find(is_wanted);
                let absent = || not_found(format!("table {}: no port has this key", table.name));
                Ok(vec![found.ok_or_else(absent)?])
            }
        }
    }
}

/// Whether a setting enables the port; a port that is added without the field is disabled.
fn is_enabled(settings: &TableData) -> bool {
    values::is_true(settings, ENABLE)
}

fn is_in_loopback(settings: &TableData) -> bool {
    let mut fields = settings.fields.iter();
    let mode = fields.find(|field| field.field_id == LOOPBACK);
    matches!(mode.and_then(|mode| mode.value.as_ref()), Some(Value::StrVal(mode)) if mode != NO_LOOPBACK)
}

/// Whether two keys have the same fields, in any order.
fn is_same(one: &TableKey, other: &TableKey) -> bool {
    values::key_fields(one) == values::key_fields(other)
}

fn not_added(number: u32) -> Status {
    not_found(format!("port {number} was not added"))
}

fn constant(table: &Table) -> Status {
    unsupported(format!("table {}: it cannot be written", table.name))
}
