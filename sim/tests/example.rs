//! The example `group` runs.

#[path = "../examples/group.rs"]
mod group;

#[test]
fn example_runs() {
    group::main();
}
