//! The packet generator with its timers: `pktgen.port_cfg`, `pktgen.app_cfg` and `pktgen.pkt_buffer`.
//!
//! An application generates batches of packets from the packet buffer when its timer expires. Each packet has a header in
//! front, `pktgen_timer_header_t`, and enters ingress on the application's source port. Differences to the chip:
//! - There is one generator, that of pipe 0.
//! - The gaps between packets and batches are stored, and have no effect.
//! - A timer that expires faster than packets are processed loses expiries.
//! - Applications have timers only: ports that go down, patterns and flow control start none.

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{
    ActionData, ActionParam, ActionSpec, FieldType, Table, TableType, TypeName,
};
use alfirk_bmv2::PORTS_PER_PIPE;
use alfirk_p4rt::Server;
use alfirk_p4runtime::bfrt_proto::{data_field::Value, DataField, TableData, TableKey};

use crate::device::{key, key_field, table, Generation, Row, KEY, PIPES, RECIRCULATION_PORT};
use crate::error::{invalid, Outcome};
use crate::match_table::{params_of, spec_of};
use crate::pre::{key_u32, Entry};
use crate::values::{self, bytes_of, exact_key, exact_keys, is_true, with_defaults, Values};

/// Bytes of the packet buffer.
const BUFFER: usize = 16 << 10;
/// Maximum number of packets that an application generates in a call.
const MAX_PACKETS_PER_CALL: u32 = 64;
/// Longest time for which expiries that are late are made up for, in nanoseconds.
const MAX_BACKLOG: u64 = 100_000_000;

/// Data field of `pktgen.port_cfg` that permits packets on a port.
const PORT_ENABLE: u32 = 2;
/// Key field of `pktgen.pkt_buffer` with the number of bytes, and its data field.
const BUFFER_SIZE: u32 = 2;
const BUFFER_BYTES: u32 = 1;
/// Actions and data fields of `pktgen.app_cfg`.
const ONE_SHOT: u32 = 1;
const PERIODIC: u32 = 2;
const TIMER: u32 = 1;
const ENABLE: u32 = 12;
const LENGTH: u32 = 13;
const OFFSET: u32 = 14;
const SOURCE_PORT: u32 = 15;
const LAST_BATCH: u32 = 17;
const LAST_PACKET: u32 = 18;
const BATCHES: u32 = 23;
const PACKETS: u32 = 24;
const TRIGGERS: u32 = 25;
/// Data field of Tofino 2 with the port whose generator makes the packets.
const CHANNEL: u32 = 28;

/// Kinds of the tables.
const PORTS: &str = "PktgenPortCfg";
const APPS: &str = "PktgenAppCfg";
const PACKET_BUFFER: &str = "PktgenPktBufferCfg";

/// Whether a table is one of [`tables`].
pub(crate) fn is_of_generator(table: &Table) -> bool {
    matches!(&table.table_type, TableType::Other(kind) if [PORTS, APPS, PACKET_BUFFER].contains(&kind.as_str()))
}

/// The schemas of the tables of the packet generator.
pub(crate) fn tables(generation: Generation) -> Vec<Table> {
    use TypeName::{Bool, Uint32};
    let (chip, apps) = match generation {
        Generation::One => ("tf1", 8),
        Generation::Two => ("tf2", 16),
    };
    let kind = |kind: &str| TableType::Other(kind.to_owned());
    let flag = |id, name| (id, name, FieldType::plain(Bool), false);
    let port_fields = vec![
        flag(1, "recirculation_enable"),
        flag(PORT_ENABLE, "pktgen_enable"),
        flag(3, "pattern_matching_enable"),
        flag(4, "clear_port_down_enable"),
    ];
    let buffer_key = vec![
        key_field(KEY, "pkt_buffer_offset", Uint32),
        key_field(BUFFER_SIZE, "pkt_buffer_size", Uint32),
    ];
    let bytes = vec![(BUFFER_BYTES, "buffer", FieldType::bytes(8), true)];
    let named = |name: &str| format!("{chip}.pktgen.{name}");
    let app = table(
        &named("app_cfg"),
        0xff03_0002,
        kind(APPS),
        apps,
        key("app_id", Uint32),
        app_fields(generation),
    );
    vec![
        table(
            &named("port_cfg"),
            0xff03_0001,
            kind(PORTS),
            256,
            key("dev_port", Uint32),
            port_fields,
        ),
        Table {
            action_specs: Some(vec![
                trigger(ONE_SHOT, "trigger_timer_one_shot"),
                trigger(PERIODIC, "trigger_timer_periodic"),
            ]),
            ..app
        },
        table(
            &named("pkt_buffer"),
            0xff03_0003,
            kind(PACKET_BUFFER),
            1024,
            buffer_key,
            bytes,
        ),
    ]
}

/// The data fields of `pktgen.app_cfg`.
fn app_fields(generation: Generation) -> Vec<Row> {
    let (short, of_two) = match generation {
        Generation::One => (FieldType::plain(TypeName::Uint16), None),
        Generation::Two => (
            FieldType::bytes(16),
            Some((CHANNEL, "assigned_chnl_id", FieldType::bytes(8), false)),
        ),
    };
    let short = |id, name| (id, name, short.clone(), false);
    let word = |id, name| (id, name, FieldType::plain(TypeName::Uint32), false);
    let count = |id, name| (id, name, FieldType::plain(TypeName::Uint64), false);
    let fields = [
        (
            ENABLE,
            "app_enable",
            FieldType::plain(TypeName::Bool),
            false,
        ),
        short(LENGTH, "pkt_len"),
        short(OFFSET, "pkt_buffer_offset"),
        word(SOURCE_PORT, "pipe_local_source_port"),
        short(LAST_BATCH, "batch_count_cfg"),
        short(LAST_PACKET, "packets_per_batch_cfg"),
        word(19, "ibg"),
        word(20, "ibg_jitter"),
        word(21, "ipg"),
        word(22, "ipg_jitter"),
        count(BATCHES, "batch_counter"),
        count(PACKETS, "pkt_counter"),
        count(TRIGGERS, "trigger_counter"),
    ];
    fields.into_iter().chain(of_two).collect()
}

/// The action of an application with a timer.
fn trigger(id: u32, name: &str) -> ActionSpec {
    let timer = ActionParam {
        id: TIMER,
        name: "timer_nanosec".to_owned(),
        repeated: false,
        mandatory: true,
        read_only: false,
        annotations: Vec::new(),
        ty: FieldType::plain(TypeName::Uint32),
    };
    ActionSpec {
        id,
        name: name.to_owned(),
        action_scope: None,
        annotations: Vec::new(),
        data: vec![ActionData::Param(timer)],
    }
}

/// An application of the generator.
#[derive(Clone, Debug, Default)]
struct App {
    /// Action and data fields, without counters.
    settings: TableData,
    /// Time at which the timer expires, or packets of the last expiry are still to be generated; `None` if the application
    /// is off, or its only expiry has passed.
    next: Option<u64>,
    /// Batch and packet to generate next.
    position: (u64, u64),
    triggers: u64,
    batches: u64,
    packets: u64,
}

impl App {
    fn number(&self, id: u32) -> u64 {
        let mut fields = self.settings.fields.iter();
        match fields.find(|field| field.field_id == id) {
            Some(DataField {
                value: Some(Value::Stream(bytes)),
                ..
            }) => values::number(bytes).unwrap_or(0),
            _ => 0,
        }
    }

    fn is_enabled(&self) -> bool {
        is_true(&self.settings, ENABLE)
    }

    /// The packet to generate next, with its header, and whether it is the last one of this expiry.
    fn packet(&mut self, app: u32, generation: Generation, buffer: &[u8]) -> (Vec<u8>, bool) {
        let (batch, packet) = self.position;
        if self.position == (0, 0) {
            self.triggers += 1;
        }
        if packet == 0 {
            self.batches += 1;
        }
        self.packets += 1;
        // The pipe, in front of the application, is 0.
        let app = match generation {
            Generation::One => app & 0x7,
            Generation::Two => app & 0xf,
        };
        let mut bytes = vec![app as u8, 0];
        bytes.extend((batch as u16).to_be_bytes());
        bytes.extend((packet as u16).to_be_bytes());
        let start = (self.number(OFFSET) as usize).min(buffer.len());
        let end = (start + self.number(LENGTH) as usize).min(buffer.len());
        bytes.extend(&buffer[start..end]);
        self.position = match (batch, packet) {
            (_, packet) if packet < self.number(LAST_PACKET) => (batch, packet + 1),
            (batch, _) if batch < self.number(LAST_BATCH) => (batch + 1, 0),
            _ => (0, 0),
        };
        (bytes, self.position == (0, 0))
    }
}

/// The packet generator.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    generation: Generation,
    /// Settings of ports.
    ports: BTreeMap<u32, TableData>,
    apps: BTreeMap<u32, App>,
    buffer: Vec<u8>,
}

impl Generator {
    /// Creates a generator without settings.
    pub fn new(generation: Generation) -> Generator {
        Generator {
            generation,
            ports: BTreeMap::new(),
            apps: BTreeMap::new(),
            buffer: vec![0; BUFFER],
        }
    }

    /// Writes an entry of a table of the generator.
    pub fn write(&mut self, table: &Table, key: &TableKey, data: &TableData, now: u64) -> Outcome {
        let spec = match data.action_id {
            // Both actions have the same data.
            0 => table.action_specs.iter().flatten().next(),
            action => Some(spec_of(table, action)?),
        };
        let values = Values::new(table, &spec.map(params_of).unwrap_or_default(), data)?;
        match kind_of(table) {
            PORTS => {
                let port = self.port(table, key)?;
                merge(self.ports.entry(port).or_default(), data, |_| true);
                Ok(())
            }
            PACKET_BUFFER => {
                let place = buffer_place(table, key)?;
                let bytes: Vec<u8> = match values.bytes(BUFFER_BYTES) {
                    Some(bytes) => bytes.to_vec(),
                    None => {
                        let numbers = values.numbers(BUFFER_BYTES).iter();
                        numbers.map(|number| *number as u8).collect()
                    }
                };
                if bytes.len() != place.len() {
                    let (name, have, size) = (&table.name, bytes.len(), place.len());
                    return Err(invalid(format!(
                        "table {name}: the buffer has {have} bytes, the key expects {size}"
                    )));
                }
                self.buffer[place].copy_from_slice(&bytes);
                Ok(())
            }
            _ => {
                let app = self.apps.entry(app_id(table, key)?).or_default();
                let is_counter = |id| [BATCHES, PACKETS, TRIGGERS].contains(&id);
                merge(&mut app.settings, data, |id| !is_counter(id));
                let counters = [
                    (BATCHES, &mut app.batches),
                    (PACKETS, &mut app.packets),
                    (TRIGGERS, &mut app.triggers),
                ];
                for (id, counter) in counters {
                    *counter = values.number(id).unwrap_or(*counter);
                }
                app.position = (0, 0);
                let has_timer = app.settings.action_id != 0;
                app.next =
                    (app.is_enabled() && has_timer).then(|| now.saturating_add(app.number(TIMER)));
                Ok(())
            }
        }
    }

    /// The port in a key: one of the ports of a pipe that can generate packets.
    fn port(&self, table: &Table, key: &TableKey) -> Outcome<u32> {
        let port = key_u32(table, key)?;
        let generators = match self.generation {
            Generation::One => 64..72,
            Generation::Two => 0..8,
        };
        match generators.contains(&(port % PORTS_PER_PIPE)) && port < PIPES * PORTS_PER_PIPE {
            true => Ok(port),
            false => Err(invalid(format!(
                "table {}: port {port} has no packet generator",
                table.name
            ))),
        }
    }

    /// Resets the entry with a key, or all entries, of a table of the generator.
    pub fn reset(&mut self, table: &Table, key: Option<&TableKey>) -> Outcome {
        match (kind_of(table), key) {
            (PORTS, None) => self.ports.clear(),
            (PORTS, Some(key)) => drop(self.ports.remove(&self.port(table, key)?)),
            (PACKET_BUFFER, None) => self.buffer.fill(0),
            (PACKET_BUFFER, Some(key)) => self.buffer[buffer_place(table, key)?].fill(0),
            (_, None) => self.apps.clear(),
            (_, Some(key)) => drop(self.apps.remove(&app_id(table, key)?)),
        }
        Ok(())
    }

    /// The entry with a key, or all entries that were written, of a table of the generator.
    pub fn read(&self, table: &Table, key: Option<&TableKey>) -> Outcome<Vec<Entry>> {
        let one = |id: u32| exact_key(KEY, bytes_of(u64::from(id), 32));
        match (kind_of(table), key) {
            (PORTS, Some(key)) => {
                let port = self.port(table, key)?;
                let none = TableData::default();
                let own = self.ports.get(&port).unwrap_or(&none);
                Ok(vec![(one(port), with_defaults(table, own))])
            }
            (PORTS, None) => {
                let ports = self.ports.iter();
                let entries = ports.map(|(port, own)| (one(*port), with_defaults(table, own)));
                Ok(entries.collect())
            }
            (PACKET_BUFFER, Some(key)) => {
                let bytes = self.buffer[buffer_place(table, key)?].iter();
                let field = values::numbers_field(BUFFER_BYTES, bytes.map(|b| u32::from(*b)));
                let data = TableData {
                    action_id: 0,
                    fields: vec![field],
                };
                Ok(vec![(key.clone(), data)])
            }
            // All of the buffer as one entry.
            (PACKET_BUFFER, None) => {
                let all = exact_keys([
                    (KEY, bytes_of(0, 32)),
                    (BUFFER_SIZE, bytes_of(BUFFER as u64, 32)),
                ]);
                self.read(table, Some(&all))
            }
            (_, Some(key)) => {
                let id = app_id(table, key)?;
                Ok(vec![(one(id), self.app_data(table, id))])
            }
            (_, None) => {
                let ids = self.apps.keys();
                Ok(ids
                    .map(|id| (one(*id), self.app_data(table, *id)))
                    .collect())
            }
        }
    }

    fn app_data(&self, table: &Table, id: u32) -> TableData {
        let none = App::default();
        let app = self.apps.get(&id).unwrap_or(&none);
        let mut data = app.settings.clone();
        data.fields.extend([
            values::number_field(BATCHES, app.batches, 64),
            values::number_field(PACKETS, app.packets, 64),
            values::number_field(TRIGGERS, app.triggers, 64),
        ]);
        with_defaults(table, &data)
    }

    /// The time of the next call of [`Generator::generate`], in nanoseconds; `None` if none is needed.
    pub fn poll_timeout(&self) -> Option<u64> {
        let apps = self.apps.values().filter(|app| self.can_generate(app));
        apps.filter_map(|app| app.next).min()
    }

    /// Whether the port that generates the packets of an application permits them.
    fn can_generate(&self, app: &App) -> bool {
        let port = match self.generation {
            Generation::One => RECIRCULATION_PORT,
            Generation::Two => app.number(CHANNEL) as u32 % PORTS_PER_PIPE,
        };
        let settings = self.ports.get(&port);
        settings.is_some_and(|settings| is_true(settings, PORT_ENABLE))
    }

    /// Generates the packets that are due, up to a limit. Returns whether there were any.
    pub fn generate(&mut self, server: &mut Server, now: u64) -> bool {
        let is_due = |app: &App| app.next.is_some_and(|next| next <= now) && self.can_generate(app);
        let apps = self.apps.iter().filter(|(_, app)| is_due(app));
        let due: Vec<u32> = apps.map(|(id, _)| *id).collect();
        for id in &due {
            let Some(app) = self.apps.get_mut(id) else {
                continue;
            };
            let port = app.number(SOURCE_PORT) as u32;
            for _ in 0..MAX_PACKETS_PER_CALL {
                let (packet, is_last) = app.packet(*id, self.generation, &self.buffer);
                server.frame_in(port, &packet, now);
                if is_last {
                    let interval = app.number(TIMER).max(1);
                    let oldest = now.saturating_sub(MAX_BACKLOG);
                    let next = app.next;
                    let next = next.map(|next| next.saturating_add(interval).max(oldest));
                    app.next = next.filter(|_| app.settings.action_id == PERIODIC);
                    break;
                }
            }
        }
        !due.is_empty()
    }
}

fn kind_of(table: &Table) -> &str {
    match &table.table_type {
        TableType::Other(kind) => kind,
        _ => "",
    }
}

/// Sets the action and the fields of a request for which `is_kept` is true.
fn merge(settings: &mut TableData, data: &TableData, is_kept: impl Fn(u32) -> bool) {
    if data.action_id != 0 {
        settings.action_id = data.action_id;
    }
    let kept = data.fields.iter().filter(|field| is_kept(field.field_id));
    values::set_fields(&mut settings.fields, kept);
}

/// The application in a key.
fn app_id(table: &Table, key: &TableKey) -> Outcome<u32> {
    let id = key_u32(table, key)?;
    match u64::from(id) < table.size {
        true => Ok(id),
        false => {
            let (name, size) = (&table.name, table.size);
            Err(invalid(format!(
                "table {name}: {id} is not below {size}, the number of applications"
            )))
        }
    }
}

/// The bytes of the packet buffer in a key.
fn buffer_place(table: &Table, key: &TableKey) -> Outcome<std::ops::Range<usize>> {
    let number = |id| {
        let number = values::key_number(table, key, id)?;
        let number = usize::try_from(number)
            .ok()
            .filter(|number| *number <= BUFFER);
        number.ok_or_else(|| {
            invalid(format!(
                "table {}: the buffer has {BUFFER} bytes",
                table.name
            ))
        })
    };
    let (offset, size) = (number(KEY)?, number(BUFFER_SIZE)?);
    match offset + size <= BUFFER {
        true => Ok(offset..offset + size),
        false => Err(invalid(format!(
            "table {}: {size} bytes at {offset} are beyond the buffer of {BUFFER} bytes",
            table.name
        ))),
    }
}
