//! The example `group` runs.

#[path = "../examples/group.rs"]
mod group;

#[test]
fn a_group_in_a_fabric() {
    group::main();
}
