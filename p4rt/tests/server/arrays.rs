//! Indexed counters and meters (P4Runtime § 9.3.2, § 9.4.2).

use alfirk_p4runtime::Code;

use crate::fixture::*;

#[test]
fn counters_are_written_and_read_by_cell_and_as_a_whole() {
    let mut f = Fixture::new();
    let cell = format!("counter_entry {{ counter_id: {COUNTER} index {{ index: 2 }} data {{ packet_count: 5 byte_count: 9 }} }}");
    f.modify(&cell).unwrap();
    assert_eq!(
        f.read(&format!(
            "counter_entry {{ counter_id: {COUNTER} index {{ index: 2 }} }}"
        )),
        [entity(&cell)]
    );
    assert_eq!(f.read("counter_entry {}").len(), 4);
    f.modify(&format!(
        "counter_entry {{ counter_id: {COUNTER} data {{ packet_count: 1 }} }}"
    ))
    .unwrap();
    for entry in f.read(&format!("counter_entry {{ counter_id: {COUNTER} }}")) {
        assert!(alfirk_p4runtime::text::to_string(&entry).contains("packet_count: 1"));
    }
}

#[test]
fn meters_are_written_read_and_reset() {
    let mut f = Fixture::new();
    let of =
        |more: &str| format!("meter_entry {{ meter_id: {METER} index {{ index: 1 }} {more} }}");
    let set = of("config { cir: 1 cburst: 2 pir: 3 pburst: 4 }");
    f.modify(&set).unwrap();
    assert_eq!(f.read(&of("")), [entity(&set)]);
    assert_eq!(f.read("meter_entry {}").len(), 4);
    f.modify(&of("")).unwrap();
    assert_eq!(f.read(&of("")), [entity(&of(""))]);
    assert_rejected(
        f.modify(&of("counter_data {}")),
        Code::Unimplemented,
        "counters per colour",
    );
}

#[test]
fn invalid_cells_are_rejected() {
    let mut f = Fixture::new();
    for (kind, id, field) in [
        ("counter", COUNTER, "counter_id"),
        ("meter", METER, "meter_id"),
        ("register", REGISTER, "register_id"),
    ] {
        let at =
            |index: i64| format!("{kind}_entry {{ {field}: {id} index {{ index: {index} }} }}");
        assert_rejected(f.modify(&at(-1)), Code::InvalidArgument, "negative");
        assert_rejected(f.modify(&at(4)), Code::OutOfRange, "beyond its 4 cells");
        assert_rejected(f.insert(&at(0)), Code::InvalidArgument, "only be modified");
        assert_rejected(f.delete(&at(0)), Code::InvalidArgument, "only be modified");
        assert_eq!(code(&f.try_read(&at(4)).unwrap_err()), Code::OutOfRange);
        assert_rejected(
            f.modify(&format!("{kind}_entry {{ {field}: 3 }}")),
            Code::InvalidArgument,
            "has id 0x00000003",
        );
        assert_eq!(
            code(
                &f.try_read(&format!("{kind}_entry {{ {field}: 3 }}"))
                    .unwrap_err()
            ),
            Code::InvalidArgument
        );
    }
}
