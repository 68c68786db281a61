//! Runs the example.

#[path = "../examples/switch.rs"]
mod switch;

#[test]
fn a_switch_in_ten_lines() {
    switch::main();
}
