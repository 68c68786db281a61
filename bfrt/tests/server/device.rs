//! Tests of the chip around the pipeline: ports, the packet generator, and what egress reads of a packet.

use super::*;
use alfirk_bfrt::PortCounters;

/// Options for the program of these tests.
fn options() -> CompileOptions {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut options = CompileOptions::new(folder.join("test_data/device.p4"));
    options.set_arch(Arch::TNA);
    let include = folder.join("../p4include");
    options.preprocessor.include_dirs.push(include);
    options
}

/// Port that generated packets arrive on.
const GENERATOR: u16 = 68;
/// Actions of the table `forward`.
const SEND: &str = "send";
const REPLICATE: &str = "replicate";
const SHORTEN: &str = "shorten";

/// A server with its program, and the names of its tables.
struct Chip {
    fixture: Fixture,
    tables: Vec<Table>,
}

impl Chip {
    fn new() -> Chip {
        let options = options();
        let json = compile(&options).unwrap().json.to_text();
        let schema = bf_rt_schema(&options, &DiskLoader).unwrap();
        let fixture = Fixture::with(&json, &schema);
        let device = fixture.service.get_pipeline().non_p4_config.unwrap();
        let device = Schema::parse(&device.bfruntime_info).unwrap();
        let tables = schema.tables.into_iter().chain(device.tables).collect();
        Chip { fixture, tables }
    }

    fn table(&self, name: &str) -> &Table {
        let mut tables = self.tables.iter();
        tables.find(|table| table.name.ends_with(name)).unwrap()
    }

    /// Sets what ingress does with packets of a port.
    fn forward(&mut self, port: u16, action: &str, argument: u16) {
        let key = vec![exact(1, &port.to_be_bytes())];
        let data = vec![stream(1, &argument.to_be_bytes())];
        let entry = of(self.table("forward"), key, action, data);
        assert_eq!(self.fixture.entry(Type::InsertOrModify, entry), Ok(()));
    }

    /// Writes an entry of a table of the device, whose key has numbers.
    fn set(
        &mut self,
        kind: Type,
        name: &str,
        key: &[u32],
        data: &[(&str, Value)],
    ) -> Result<(), Code> {
        let table = self.table(name);
        let fields = table.key.iter().zip(key);
        let key = fields.map(|(field, number)| exact(field.id, &number.to_be_bytes()));
        let data = data.iter().map(|(name, value)| DataField {
            field_id: id_of(table, name),
            value: Some(value.clone()),
        });
        let entry = of(table, key.collect(), "", data.collect());
        self.fixture.entry(kind, entry)
    }

    /// The entries of a table with this key, as values by the names of their fields.
    fn get(&self, name: &str, key: Vec<KeyField>) -> Vec<Vec<(String, Value)>> {
        let table = self.table(name);
        let entries = self.fixture.entries(of(table, key, "", vec![])).into_iter();
        let values = entries.map(|entry| {
            let fields = entry.data.unwrap().fields.into_iter();
            let named = fields.filter_map(|field| {
                let mut all = table.data_fields();
                let found = all.find(|(_, own)| own.id == field.field_id);
                found.map(|(_, own)| (own.name.clone(), field.value.unwrap()))
            });
            named.collect()
        });
        values.collect()
    }

    /// A field of the only entry with a numeric key.
    fn field(&self, name: &str, key: u32, field: &str) -> Value {
        let entries = self.get(name, vec![exact(1, &key.to_be_bytes())]);
        assert_eq!(entries.len(), 1);
        let mut fields = entries.into_iter().flatten();
        fields.find(|(own, _)| own == field).unwrap().1
    }

    /// Ports and frames that leave after the events of the server.
    fn sent(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut out = Vec::new();
        while let Some(event) = self.fixture.server.poll() {
            match event {
                Event::Output { port, frame } => out.push((port, frame.into_bytes())),
                Event::Enqueue(packet) => {
                    self.fixture.server.dequeue(packet, 0, Default::default())
                }
                _ => {}
            }
        }
        out
    }

    /// Sends a frame into a port; returns the ports of the frames that leave.
    fn packet(&mut self, port: u32) -> Vec<u32> {
        self.fixture.server.frame_in(port, &[7; 64], 0);
        self.sent().into_iter().map(|(port, _)| port).collect()
    }
}

/// Id of a data field, outside of actions or of the first action.
fn id_of(table: &Table, name: &str) -> u32 {
    let mut fields = table.data_fields();
    fields.find(|(_, field)| field.name == name).unwrap().1.id
}

fn text(text: &str) -> Value {
    Value::StrVal(text.to_owned())
}

fn word(number: u32) -> Value {
    Value::Stream(number.to_be_bytes().to_vec())
}

fn long(number: u64) -> Value {
    Value::Stream(number.to_be_bytes().to_vec())
}

fn numbers(val: &[u32]) -> Value {
    Value::IntArrVal(IntArray { val: val.to_vec() })
}

#[test]
fn port_without_interface_is_added_and_found_by_its_place() {
    let mut chip = Chip::new();
    let on = ("$PORT_ENABLE", Value::BoolVal(true));
    let fast = ("$SPEED", text("BF_SPEED_100G"));
    assert_eq!(
        chip.set(Type::Insert, "$PORT", &[12], &[fast.clone(), on]),
        Ok(())
    );
    assert_eq!(chip.field("$PORT", 12, "$SPEED"), text("BF_SPEED_100G"));
    assert_eq!(chip.field("$PORT", 12, "$PORT_NAME"), text("4/0"));
    assert_eq!(chip.field("$PORT", 12, "$CONN_ID"), word(4));
    assert_eq!(chip.field("$PORT", 12, "$PORT_UP"), Value::BoolVal(false));
    let loopback = ("$LOOPBACK_MODE", text("BF_LPBK_MAC_NEAR"));
    assert_eq!(chip.set(Type::Modify, "$PORT", &[12], &[loopback]), Ok(()));
    assert_eq!(chip.field("$PORT", 12, "$PORT_UP"), Value::BoolVal(true));
    // The four ports with an interface, and this one.
    assert_eq!(chip.get("$PORT", vec![]).len(), 5);

    let by_place = |chip: &Chip, key| chip.get("$PORT_HDL_INFO", key)[0][0].1.clone();
    let handle = |connector: u32, channel: u32| {
        vec![
            exact(1, &connector.to_be_bytes()),
            exact(2, &channel.to_be_bytes()),
        ]
    };
    assert_eq!(by_place(&chip, handle(4, 0)), word(12));
    assert_eq!(by_place(&chip, handle(18, 3)), word(128 + 7));
    let by_name = chip.get("$PORT_STR_INFO", vec![exact(1, b"4/0")]);
    assert_eq!(by_name[0][0].1, word(12));
    assert_eq!(chip.field("$PORT_FP_IDX_INFO", 12, "$DEV_PORT"), word(12));
    assert_eq!(chip.get("$PORT_STR_INFO", vec![]).len(), 4 * 64 + 4);

    let name = ("$PORT_NAME", text("1/0"));
    let refused = chip.set(Type::Modify, "$PORT", &[12], &[name]);
    assert_eq!(refused, Err(Code::InvalidArgument));
    let refused = chip.set(Type::Insert, "$PORT", &[12], std::slice::from_ref(&fast));
    assert_eq!(refused, Err(Code::AlreadyExists));
    let refused = chip.set(Type::Insert, "$PORT", &[100], std::slice::from_ref(&fast));
    assert_eq!(refused, Err(Code::InvalidArgument));
    assert_eq!(chip.set(Type::Delete, "$PORT", &[12], &[]), Ok(()));
    assert_eq!(
        chip.set(Type::Modify, "$PORT", &[12], &[fast]),
        Err(Code::NotFound)
    );
}

#[test]
fn port_in_loopback_receives_what_it_sends() {
    let mut chip = Chip::new();
    chip.forward(0, SEND, 12);
    chip.forward(12, SEND, 1);
    assert_eq!(chip.packet(0), [12]);
    let on = ("$PORT_ENABLE", Value::BoolVal(true));
    let loopback = ("$LOOPBACK_MODE", text("BF_LPBK_MAC_NEAR"));
    let data = [on.clone(), loopback];
    assert_eq!(chip.set(Type::Insert, "$PORT", &[12], &data), Ok(()));
    assert_eq!(chip.packet(0), [1]);
    assert_eq!(chip.set(Type::Delete, "$PORT", &[], &[]), Ok(()));
    assert_eq!(chip.packet(0), [12]);
}

#[test]
fn port_that_is_added_without_being_enabled_neither_sends_nor_receives() {
    let mut chip = Chip::new();
    chip.forward(0, SEND, 1);
    chip.forward(1, SEND, 2);
    assert_eq!((chip.packet(0), chip.packet(1)), (vec![1], vec![2]));
    let speed = ("$SPEED", text("BF_SPEED_10G"));
    assert_eq!(chip.set(Type::Insert, "$PORT", &[1], &[speed]), Ok(()));
    assert_eq!(chip.field("$PORT", 1, "$PORT_UP"), Value::BoolVal(false));
    assert_eq!((chip.packet(0), chip.packet(1)), (vec![], vec![]));
    let on = ("$PORT_ENABLE", Value::BoolVal(true));
    assert_eq!(chip.set(Type::Modify, "$PORT", &[1], &[on]), Ok(()));
    assert_eq!((chip.packet(0), chip.packet(1)), (vec![1], vec![2]));
}

#[test]
fn port_statistics_go_on_from_what_a_client_writes() {
    let mut chip = Chip::new();
    let count = |chip: &mut Chip, received| {
        chip.fixture.ports[2].counters = PortCounters {
            received,
            received_bytes: 100 * received,
            malformed: 1,
            ..PortCounters::default()
        };
    };
    count(&mut chip, 3);
    assert_eq!(chip.field("$PORT_STAT", 2, "$FramesReceivedOK"), long(3));
    assert_eq!(chip.field("$PORT_STAT", 2, "$FramesReceivedAll"), long(4));
    // The chip counts the frame check sequence.
    assert_eq!(chip.field("$PORT_STAT", 2, "$OctetsReceived"), long(312));
    let zero = ("$FramesReceivedOK", long(0));
    assert_eq!(chip.set(Type::Modify, "$PORT_STAT", &[2], &[zero]), Ok(()));
    count(&mut chip, 5);
    assert_eq!(chip.field("$PORT_STAT", 2, "$FramesReceivedOK"), long(2));
    assert_eq!(chip.field("$PORT_STAT", 2, "$FramesReceivedAll"), long(6));
}

/// Configures an application that generates two batches of two packets, and starts it at time 0.
fn start_generator(chip: &mut Chip, action: &str) {
    let on = ("pktgen_enable", Value::BoolVal(true));
    let port = u32::from(GENERATOR);
    assert_eq!(
        chip.set(Type::Modify, "pktgen.port_cfg", &[port], &[on]),
        Ok(())
    );
    let packet = ("buffer", Value::Stream(vec![0xab; 32]));
    assert_eq!(
        chip.set(Type::Modify, "pktgen.pkt_buffer", &[160, 32], &[packet]),
        Ok(())
    );
    let table = chip.table("pktgen.app_cfg");
    let short = |name, number: u16| stream(id_of(table, name), &number.to_be_bytes());
    let data = vec![
        DataField {
            field_id: id_of(table, "app_enable"),
            value: Some(Value::BoolVal(true)),
        },
        stream(1, &1000u32.to_be_bytes()),
        short("pkt_len", 32),
        short("pkt_buffer_offset", 160),
        stream(id_of(table, "pipe_local_source_port"), &port.to_be_bytes()),
        short("batch_count_cfg", 1),
        short("packets_per_batch_cfg", 1),
    ];
    let entry = of(table, vec![exact(1, &5u32.to_be_bytes())], action, data);
    assert_eq!(chip.fixture.entry(Type::Modify, entry), Ok(()));
}

#[test]
fn generated_packets_have_their_header_and_enter_ingress_at_each_expiry() {
    let mut chip = Chip::new();
    chip.forward(GENERATOR, SEND, 2);
    start_generator(&mut chip, "periodic");
    let due = |chip: &Chip| chip.fixture.service.poll_timeout();
    assert_eq!(due(&chip), Some(1000));
    let Chip { fixture, .. } = &mut chip;
    assert!(!fixture.service.handle_timeout(&mut fixture.server, 999));
    assert!(fixture.service.handle_timeout(&mut fixture.server, 1000));
    let sent = chip.sent();
    let headers: Vec<&[u8]> = sent.iter().map(|(_, frame)| &frame[2..8]).collect();
    let header = |batch, packet| vec![5, 0, 0, batch, 0, packet];
    assert_eq!(
        headers,
        [header(0, 0), header(0, 1), header(1, 0), header(1, 1)]
    );
    for (port, frame) in &sent {
        assert_eq!((*port, &frame[8..]), (2, &[0xab; 32][..]));
    }
    assert_eq!(chip.field("pktgen.app_cfg", 5, "trigger_counter"), long(1));
    assert_eq!(chip.field("pktgen.app_cfg", 5, "batch_counter"), long(2));
    assert_eq!(chip.field("pktgen.app_cfg", 5, "pkt_counter"), long(4));
    assert_eq!(due(&chip), Some(2000));
    // Packets of late expiries are generated, unless they are very late.
    let Chip { fixture, .. } = &mut chip;
    let second = 1_000_000_000;
    assert!(fixture.service.handle_timeout(&mut fixture.server, 10_500));
    assert_eq!(due(&chip), Some(3000));
    let Chip { fixture, .. } = &mut chip;
    assert!(fixture.service.handle_timeout(&mut fixture.server, second));
    assert_eq!(chip.sent().len(), 8);
    assert_eq!(due(&chip), Some(second - second / 10));
    let off = ("app_enable", Value::BoolVal(false));
    assert_eq!(
        chip.set(Type::Modify, "pktgen.app_cfg", &[5], &[off]),
        Ok(())
    );
    assert_eq!(due(&chip), None);
}

#[test]
fn one_shot_application_expires_once_and_is_off_without_its_port() {
    let mut chip = Chip::new();
    chip.forward(GENERATOR, SEND, 2);
    start_generator(&mut chip, "one_shot");
    let buffer = chip.get(
        "pktgen.pkt_buffer",
        vec![
            exact(1, &160u32.to_be_bytes()),
            exact(2, &4u32.to_be_bytes()),
        ],
    );
    assert_eq!(buffer[0][0].1, numbers(&[0xab; 4]));
    let port = u32::from(GENERATOR);
    let off = ("pktgen_enable", Value::BoolVal(false));
    assert_eq!(
        chip.set(Type::Modify, "pktgen.port_cfg", &[port], &[off]),
        Ok(())
    );
    assert_eq!(chip.fixture.service.poll_timeout(), None);
    let on = ("pktgen_enable", Value::BoolVal(true));
    assert_eq!(
        chip.set(Type::Modify, "pktgen.port_cfg", &[port], &[on]),
        Ok(())
    );
    let Chip { fixture, .. } = &mut chip;
    assert!(fixture.service.handle_timeout(&mut fixture.server, 5000));
    assert_eq!(chip.sent().len(), 4);
    assert_eq!(chip.fixture.service.poll_timeout(), None);

    let wrong_port = ("pktgen_enable", Value::BoolVal(true));
    let refused = chip.set(Type::Modify, "pktgen.port_cfg", &[3], &[wrong_port]);
    assert_eq!(refused, Err(Code::InvalidArgument));
    let beyond = ("buffer", Value::Stream(vec![0; 32]));
    let refused = chip.set(Type::Modify, "pktgen.pkt_buffer", &[16_384, 32], &[beyond]);
    assert_eq!(refused, Err(Code::InvalidArgument));
}

#[test]
fn length_in_egress_is_that_of_the_received_frame_with_its_check_sequence() {
    let mut chip = Chip::new();
    chip.forward(0, SEND, 1);
    chip.forward(GENERATOR, SHORTEN, 1);
    chip.fixture.server.frame_in(0, &[7; 64], 0);
    assert_eq!(chip.sent()[0].1[..2], [0, 68]);
    // Ingress has removed the header of the generated packet.
    start_generator(&mut chip, "one_shot");
    let Chip { fixture, .. } = &mut chip;
    assert!(fixture.service.handle_timeout(&mut fixture.server, 1000));
    let sent = chip.sent();
    assert_eq!(sent[0].1.len(), 2 + 32);
    assert_eq!(sent[0].1[..2], [0, 32 + 6 + 4]);
}

#[test]
fn packet_is_replicated_by_group_0_if_the_program_has_set_it() {
    let mut chip = Chip::new();
    chip.forward(0, REPLICATE, 0);
    chip.forward(3, SEND, 1);
    assert!(chip.packet(0).is_empty());
    let rid = ("$MULTICAST_RID", Value::Stream(vec![0, 1]));
    let ports = ("$DEV_PORT", numbers(&[1, 2]));
    assert_eq!(
        chip.set(Type::Insert, "$pre.node", &[9], &[rid, ports]),
        Ok(())
    );
    let table = chip.table("$pre.mgid");
    let node = DataField {
        field_id: id_of(table, "$MULTICAST_NODE_ID"),
        value: Some(numbers(&[9])),
    };
    let group = of(table, vec![exact(1, &[0, 0])], "", vec![node]);
    assert_eq!(chip.fixture.entry(Type::Insert, group), Ok(()));
    assert_eq!(chip.packet(0), [1, 2]);
    assert_eq!(chip.packet(3), [1]);
}
