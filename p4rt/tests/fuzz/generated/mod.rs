//! Random P4 programs: what the compiler makes of them sends, in both engines, the frames that an independent evaluation of the program
//! determines.

mod evaluate;
mod generate;
mod program;
mod reduce;
mod text;

use std::mem;
use std::path::Path;
use std::sync::Arc;

use alfirk_bmv2::{Engine, LoadedProgram, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;

use crate::{chance::Chance, run::run};
use evaluate::{evaluate, Registers};
use generate::generate;
use program::Program;
use reduce::reduce;
use text::text;

/// Frames per program.
const FRAMES: usize = 20;
/// Most bytes after the headers.
const MAX_REST: usize = 20;

#[test]
fn both_engines_send_what_generated_programs_mean() {
    run(
        "both_engines_send_what_generated_programs_mean",
        "frames sent",
        || (),
        |(), chance| {
            let program = generate(chance);
            let frames: Vec<Vec<u8>> = (0..FRAMES).map(|_| frame(&program, chance)).collect();
            if let Err(first) = check(&program, &frames) {
                let kind = mem::discriminant(&first);
                let smaller = reduce(program, |program| {
                    check(program, &frames)
                        .is_err_and(|failure| mem::discriminant(&failure) == kind)
                });
                let failure = check(&smaller, &frames).expect_err("a reduced program fails");
                panic!("{failure}\n{}", text(&smaller));
            }
            FRAMES
        },
    );
}

/// What is wrong with a program or the switch.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the program is not compiled: {0}")]
    Rejected(String),
    #[error("the switch does not load the program: {0}")]
    NotLoaded(String),
    #[error("{engine:?} sends {sent:02x?} for {frame:02x?}, and should send {expected:02x?}")]
    Different {
        engine: Engine,
        frame: Vec<u8>,
        sent: Vec<(u32, Vec<u8>)>,
        expected: Vec<(u32, Vec<u8>)>,
    },
}

/// Compares what both engines send for frames with the evaluation of a program.
fn check(program: &Program, frames: &[Vec<u8>]) -> Result<(), Failure> {
    for (engine, mut switch) in switches(&text(program))? {
        let mut registers = Registers::new(program);
        for (time, frame) in frames.iter().enumerate() {
            let sent = switch.process(0, frame, time as u64);
            let expected = vec![(1, evaluate(program, &mut registers, frame))];
            if sent != expected {
                return Err(Failure::Different {
                    engine,
                    frame: frame.clone(),
                    sent,
                    expected,
                });
            }
        }
    }
    Ok(())
}

/// Compiles a program, and loads it into a switch of each engine.
fn switches(source: &str) -> Result<[(Engine, Switch); 2], Failure> {
    let mut loader = MemoryLoader::default();
    loader.add("generated.p4", source);
    let options = CompileOptions::new(Path::new("generated.p4"));
    let compiled =
        compile_with(&options, &loader).map_err(|error| Failure::Rejected(error.to_string()))?;
    let program = LoadedProgram::from_json(&compiled.json.to_text());
    let program = Arc::new(program.map_err(|error| Failure::NotLoaded(error.to_string()))?);
    program
        .compile()
        .map_err(|error| Failure::NotLoaded(error.to_string()))?;
    Ok([Engine::Interpreter, Engine::Compiled].map(|engine| {
        let mut switch = Switch::new(SwitchOptions {
            engine,
            ..SwitchOptions::default()
        });
        switch.load(program.clone());
        (engine, switch)
    }))
}

/// A frame with one or two headers, or a part of the second.
fn frame(program: &Program, chance: &mut Chance) -> Vec<u8> {
    let header = program.header_bytes();
    let length = match chance.below(3) {
        0 => header + chance.below(header + 1),
        _ => 2 * header + chance.below(MAX_REST),
    };
    let mut frame = chance.bytes(length);
    // Typical values make more conditions true.
    for byte in &mut frame {
        if chance.one_in(3) {
            *byte = *chance.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]);
        }
    }
    frame
}
