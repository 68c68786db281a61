//! The page of the book about instructions is generated from their table.

use crate::exec::ops::{Operand, Row, ROWS};
use expect_test::expect_file;
use std::fmt::Write;

const HEAD: &str = "# The switch's instructions

<!-- Generated from bmv2/src/exec/ops.rs: UPDATE_EXPECT=1 tools/cargo test -p alfirk-bmv2 --lib disassembly -->

The switch compiles a program to instructions, which work on the packet's words of 64 bits:
fields, parameters of the running action, temporaries and constants.
`alfirk switch --disassemble program.json` prints a program's code in the notation of the column *Instruction*.
`a[low +: bits]` is `bits` bits of `a` from bit `low` on; `<u` and `<s` compare unsigned and signed numbers.

## Instructions

The loader emits these.
*Writes* and *reads* are the operands that are words of the packet.
An operand in parentheses is written under a condition, and `..` follows the first of several words.
*Effects* are all other changes.

| name | instruction | writes | reads | effects | description |
|---|---|---|---|---|---|
";

const FUSED: &str = "
## Fused instructions

Each has the effect of several consecutive instructions, or of a special form of one.
The last pass of the loader creates them.

| name | instruction | replaces | description |
|---|---|---|---|
";

/// Returns the operands of a role, each as `before`, name, `after`.
fn operands(row: &Row, roles: &[(&str, &str, &str)]) -> String {
    let mut names = Vec::new();
    for (name, role) in row.operands {
        for (wanted, before, after) in roles {
            if role == wanted {
                names.push(format!("{before}`{name}`{after}"));
            }
        }
    }
    names.join(", ")
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let escaped = |text: &str| text.replace(['{', '}'], "").replace('|', "\\|");
    for row in ROWS.0 {
        let writes = [
            ("Result", "", ""),
            ("Def", "", ""),
            ("OptionalDef", "(", ")"),
            ("MayDef", "(", ")"),
            ("DefWords", "", " .."),
        ];
        let reads = [("Word", "", ""), ("Words", "", " ..")];
        writeln!(
            page,
            "| `{}` | `{}` | {} | {} | {} | {} |",
            row.name,
            escaped(row.text),
            operands(row, &writes),
            operands(row, &reads),
            row.notes.join(", ").to_lowercase(),
            row.documentation.trim(),
        )
        .unwrap();
    }
    page += FUSED;
    for row in ROWS.1 {
        writeln!(
            page,
            "| `{}` | `{}` | {} | {} |",
            row.name,
            escaped(row.text),
            row.notes.join(", "),
            row.documentation.trim(),
        )
        .unwrap();
    }
    while page.contains("|  |") {
        page = page.replace("|  |", "| |");
    }
    page
}

#[test]
fn the_book_has_all_instructions() {
    expect_file!["../../../docs/book/src/instructions.md"].assert_eq(&page());
}

/// A text names only operands, and every word of the packet among them.
#[test]
fn texts_name_the_operands() {
    let words = [
        "Result",
        "Def",
        "MayDef",
        "OptionalDef",
        "DefWords",
        "Word",
        "Words",
    ];
    assert!(words.iter().all(|role| Operand::ROLES.contains(role)));
    for row in ROWS.0.iter().chain(ROWS.1) {
        let named: Vec<&str> = row
            .text
            .split('{')
            .skip(1)
            .map(|part| part.split(['}', '.']).next().unwrap())
            .collect();
        for name in &named {
            let known = row.operands.iter().any(|(operand, _)| operand == name);
            assert!(known, "{} has no operand {name}", row.name);
        }
        for (operand, role) in row.operands {
            let is_word = words.contains(role);
            assert!(
                !is_word || named.contains(operand),
                "{}: {operand}",
                row.name
            );
        }
    }
}
