//! The P4Info of the pipeline, also changed to other table sizes.

use std::sync::LazyLock;

use alfirk_p4runtime::p4::config::v1::{Action, P4Info, Preamble, Register, Table};
use alfirk_p4runtime::text;

/// P4Info of `p4src/v1model`.
pub(crate) fn p4info() -> P4Info {
    static P4INFO: LazyLock<P4Info> = LazyLock::new(|| {
        text::parse(alfirk_contract::P4INFO).expect("the compiler has written it")
    });
    P4INFO.clone()
}

/// The P4Info with other maximum numbers of groups and paths.
pub(super) fn sized(groups: i64, paths: i32) -> P4Info {
    let mut p4info = p4info();
    let cells = groups * i64::from(paths);
    for table in &mut p4info.tables {
        match name(&table.preamble) {
            "ingress.group_lookup.groups" => table.size = groups,
            "ingress.group_lookup.mft" => table.size = cells,
            _ => {}
        }
    }
    register(&mut p4info, "egress.retransmission_filter.acked").size =
        i32::try_from(cells).expect("tests ask for small sizes");
    p4info
}

/// The P4Info of the core profile, as far as the controller uses it: without strategies, datagram groups and ECN marks.
pub(super) fn core() -> P4Info {
    let mut p4info = p4info();
    let optional = [
        "ingress.datagram_multicast.groups",
        "egress.ecn_marking.profiles",
    ];
    p4info
        .tables
        .retain(|table| !optional.contains(&name(&table.preamble)));
    let set_group = action(&mut p4info, "ingress.group_lookup.set_group_with_limits");
    let parameters = ["group_index", "paths", "virtual_qpn", "window"];
    set_group
        .params
        .retain(|parameter| parameters.contains(&&*parameter.name));
    let preamble = set_group.preamble.as_mut();
    preamble.expect("each action has one").name =
        "ingress.group_lookup.set_group_with_window".to_owned();
    p4info
}

/// A register array of a P4Info by its name.
pub(super) fn register<'a>(p4info: &'a mut P4Info, wanted: &str) -> &'a mut Register {
    let mut registers = p4info.registers.iter_mut();
    let found = registers.find(|register| name(&register.preamble) == wanted);
    found.expect("there is such an array")
}

/// A table of a P4Info by its name.
pub(super) fn table<'a>(p4info: &'a mut P4Info, wanted: &str) -> &'a mut Table {
    let mut tables = p4info.tables.iter_mut();
    let found = tables.find(|table| name(&table.preamble) == wanted);
    found.expect("there is such a table")
}

/// An action of a P4Info by its name.
pub(super) fn action<'a>(p4info: &'a mut P4Info, wanted: &str) -> &'a mut Action {
    let mut actions = p4info.actions.iter_mut();
    let found = actions.find(|action| name(&action.preamble) == wanted);
    found.expect("there is such an action")
}

/// The id of a counter array by its name.
pub(super) fn counter(wanted: &str) -> u32 {
    let p4info = p4info();
    let mut preambles = p4info.counters.iter().flat_map(|array| &array.preamble);
    let found = preambles.find(|preamble| preamble.name == wanted);
    found.expect("there is such an array").id
}

fn name(preamble: &Option<Preamble>) -> &str {
    preamble.as_ref().map_or("", |preamble| &preamble.name)
}
