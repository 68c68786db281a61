//! Programs of these tests in P4, compiled where they are used: what a switch does with what a compiler writes. Programs of
//! [`crate::builder`] are for what no compiler writes, or not in this form.

use std::sync::Arc;

use alfirk_bmv2::{LoadedProgram, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;

/// The parts of a program of v1model that a test has of its own. The header `hdr.h` of type `h_t` is extracted first and emitted last.
#[derive(Clone, Copy, Default)]
pub struct P4<'p> {
    /// Fields of `h_t`.
    pub fields: &'p str,
    /// Declarations in the ingress control.
    pub locals: &'p str,
    /// What the ingress control does.
    pub ingress: &'p str,
    /// Statements that verify checksums.
    pub verify: &'p str,
    /// Statements that update checksums.
    pub update: &'p str,
}

impl P4<'_> {
    /// A switch that runs the program.
    pub fn switch(&self) -> Switch {
        run(self.program())
    }

    /// The program, for tests that have many switches run it.
    pub fn program(&self) -> Arc<LoadedProgram> {
        let P4 {
            fields,
            locals,
            ingress,
            verify,
            update,
        } = self;
        let source = format!(
            "#include <core.p4>
#include <v1model.p4>
header h_t {{ {fields} }}
struct headers_t {{ h_t h; }}
struct metadata_t {{ }}
parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    state start {{ pkt.extract(hdr.h); transition accept; }}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ {ingress} }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {update} }} }}
control D(packet_out pkt, in headers_t hdr) {{ apply {{ pkt.emit(hdr.h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
        );
        let mut loader = MemoryLoader::default();
        loader.add("test.p4", &source);
        let compiled = compile_with(&CompileOptions::new("test.p4"), &loader);
        let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
        let program = LoadedProgram::from_json(&compiled.json.to_text());
        Arc::new(program.expect("it is BMv2 JSON"))
    }
}

/// A switch that runs a program.
pub fn run(program: Arc<LoadedProgram>) -> Switch {
    let mut switch = Switch::new(SwitchOptions::default());
    switch.load(program);
    switch
}
