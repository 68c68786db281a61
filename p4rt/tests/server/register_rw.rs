//! Register reads and writes, which official BMv2 does not implement (P4Runtime § 9.7).

use alfirk_p4runtime::Code;

use crate::fixture::*;

fn cell(index: i64, value: &str) -> String {
    format!("register_entry {{ register_id: {REGISTER} index {{ index: {index} }} data {{ bitstring: \"{value}\" }} }}")
}

#[test]
fn cells_are_written_and_read() {
    let mut f = Fixture::new();
    f.modify(&cell(3, r"\x00\x12\x34")).unwrap();
    let read = f.read(&format!(
        "register_entry {{ register_id: {REGISTER} index {{ index: 3 }} }}"
    ));
    assert_eq!(read, [entity(&cell(3, r"\x12\x34"))]);
    let all = f.read(&format!("register_entry {{ register_id: {REGISTER} }}"));
    assert_eq!(all.len(), 4);
    assert_eq!(all[0], entity(&cell(0, r"\x00")));
    assert_eq!(f.read("register_entry {}"), all);
}

#[test]
fn a_write_without_index_sets_all_cells() {
    let mut f = Fixture::new();
    f.modify(&format!(
        "register_entry {{ register_id: {REGISTER} data {{ bitstring: \"\\x07\" }} }}"
    ))
    .unwrap();
    assert_eq!(
        f.read("register_entry {}"),
        (0..4)
            .map(|i| entity(&cell(i, r"\x07")))
            .collect::<Vec<_>>()
    );
}

#[test]
fn values_of_another_type_are_rejected() {
    let mut f = Fixture::new();
    assert_rejected(
        f.modify(&cell(0, r"\x01\x00\x00\x00\x00")),
        Code::InvalidArgument,
        "needs 33 bits",
    );
    let of = |data: &str| {
        format!("register_entry {{ register_id: {REGISTER} index {{ index: 0 }} {data} }}")
    };
    assert_rejected(
        f.modify(&of("data { bool: true }")),
        Code::InvalidArgument,
        "not a bitstring",
    );
    assert_rejected(f.modify(&of("")), Code::InvalidArgument, "data is unset");
}
