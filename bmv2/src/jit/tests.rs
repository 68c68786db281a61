//! What the tests of both engines cannot reach: operands that no loader emits, code that is too long, and the memory of the code.

use super::Compiled;
use crate::exec::ops::{FusedOp, Op, Pc};
use crate::program::LoadedProgram;
use crate::switch::{Engine, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile, CompileOptions};
use std::path::Path;
use std::sync::Arc;

fn program() -> LoadedProgram {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/routing.p4");
    let compiled = compile(&CompileOptions::new(source)).expect("the program is valid");
    LoadedProgram::from_json(&compiled.json.to_text()).expect("the compiler writes BMv2 JSON")
}

/// Appends instructions to the code of both engines. Returns the position of the first.
fn append(program: &mut LoadedProgram, ops: impl IntoIterator<Item = Op>) -> Pc {
    let start = program.ops.len() as Pc;
    program.ops.extend(ops);
    let new = &program.ops[start as usize..];
    program.code.extend(new.iter().copied().map(FusedOp::from));
    start
}

#[test]
fn operands_beyond_the_words_are_refused() {
    let words = program().layout.initial.len() as u16;
    let constant = *program()
        .constants
        .keys()
        .next()
        .expect("there are constants");
    for op in [
        Op::Mov { d: words, a: 0 },
        Op::Mov { d: 0, a: words },
        Op::Mov { d: constant, a: 0 },
        Op::Copy {
            d: words - 2,
            a: 0,
            n: 3,
        },
        Op::AddHeader { h: u16::MAX },
        Op::Apply { table: u16::MAX },
        Op::Jump { to: Pc::MAX },
        Op::Mask {
            d: 0,
            a: 0,
            bits: 65,
        },
    ] {
        let mut program = program();
        append(&mut program, [op]);
        assert!(Compiled::new(&program).is_err(), "{op:?}");
    }
}

#[test]
fn code_that_is_too_long_is_interpreted() {
    let mut program = program();
    let port = program.intrinsic.egress_spec.expect("v1model has it").slot;
    let moves = std::iter::repeat_n(
        Op::AddBits {
            d: port,
            a: port,
            b: port,
            bits: 9,
        },
        60_000,
    );
    // The port equals itself, so that it becomes 1.
    let last = Op::Eq {
        d: port,
        a: port,
        b: port,
    };
    program.ingress = append(&mut program, moves.chain([last, Op::End]));
    program.compile().expect("the rest is compiled");
    let program = Arc::new(program);
    for engine in [Engine::Interpreter, Engine::Compiled] {
        let options = SwitchOptions {
            engine,
            ..SwitchOptions::default()
        };
        let mut switch = Switch::new(options);
        switch.load(program.clone());
        let sent = switch.process(3, &[0x5a; 64], 0);
        assert_eq!(sent, [(1, vec![0x5a; 64])], "{engine:?}");
    }
}

#[test]
fn no_page_is_writable_and_executable() {
    let program = program();
    program.compile().expect("this processor is supported");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has the file");
    let permissions = maps.lines().filter_map(|line| line.split(' ').nth(1));
    assert!(permissions.clone().any(|bits| bits.contains("r-x")));
    assert!(permissions.clone().all(|bits| !bits.contains("wx")));
}
