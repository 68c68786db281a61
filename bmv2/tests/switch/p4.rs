//! Programs of these tests in P4, compiled where they are used: what a switch does with what a compiler writes. Programs of
//! [`crate::builder`] are for what no compiler writes, or not in this form.

use std::sync::Arc;

use alfirk_bmv2::{LoadedProgram, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;

/// The parts of a program of v1model that a test has of its own.
#[derive(Clone, Copy, Default)]
pub struct P4<'p> {
    /// Fields of the header type `h_t`; `hdr.h` is one.
    pub fields: &'p str,
    /// Other header types.
    pub types: &'p str,
    /// Other members of `hdr`.
    pub headers: &'p str,
    /// Members of `meta`.
    pub metadata: &'p str,
    /// States of the parser; without any `hdr.h` is extracted.
    pub states: &'p str,
    /// Statements that verify checksums.
    pub verify: &'p str,
    /// Declarations in the ingress control.
    pub locals: &'p str,
    /// What the ingress control does.
    pub ingress: &'p str,
    /// What the egress control does.
    pub egress: &'p str,
    /// Statements that update checksums.
    pub update: &'p str,
    /// What the deparser does, if it does not emit `hdr.h`.
    pub deparser: Option<&'p str>,
}

impl P4<'_> {
    /// A switch that runs the program.
    pub fn switch(&self) -> Switch {
        run(self.program())
    }

    /// The program, for tests that have many switches run it.
    pub fn program(&self) -> Arc<LoadedProgram> {
        let program = LoadedProgram::from_json(&self.text());
        Arc::new(program.expect("it is BMv2 JSON"))
    }

    /// The program as BMv2 JSON.
    pub fn text(&self) -> String {
        let P4 {
            fields,
            types,
            headers,
            metadata,
            states,
            verify,
            locals,
            ingress,
            egress,
            update,
            deparser,
        } = self;
        let states = match *states {
            "" => "state start { pkt.extract(hdr.h); transition accept; }",
            states => states,
        };
        let deparser = deparser.unwrap_or("pkt.emit(hdr.h);");
        let source = format!(
            "#include <core.p4>
#include <v1model.p4>
header h_t {{ {fields} }}
{types}
struct headers_t {{ h_t h; {headers} }}
struct metadata_t {{ {metadata} }}
parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    {states}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ {ingress} }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    apply {{ {egress} }}
}}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {update} }} }}
control D(packet_out pkt, in headers_t hdr) {{ apply {{ {deparser} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
        );
        let mut loader = MemoryLoader::default();
        loader.add("test.p4", &source);
        let compiled = compile_with(&CompileOptions::new("test.p4"), &loader);
        let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
        compiled.json.to_text()
    }
}

/// A switch that runs a program.
pub fn run(program: Arc<LoadedProgram>) -> Switch {
    run_with(program, SwitchOptions::default())
}

/// The same with options.
pub fn run_with(program: Arc<LoadedProgram>, options: SwitchOptions) -> Switch {
    let mut switch = Switch::new(options);
    switch.load(program);
    switch
}
