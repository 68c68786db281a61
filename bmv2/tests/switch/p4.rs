//! P4 programs of these tests, compiled on use. [`crate::builder`] is for programs that compilers do not generate.

use std::sync::Arc;

use alfirk_bmv2::{LoadedProgram, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;

/// The test-specific parts of a v1model program.
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
    /// States of the parser; by default, `hdr.h` is extracted.
    pub states: &'p str,
    /// Statements that verify checksums.
    pub verify: &'p str,
    /// Declarations in the ingress control.
    pub locals: &'p str,
    /// Statements of the ingress control.
    pub ingress: &'p str,
    /// Statements of the egress control.
    pub egress: &'p str,
    /// Statements that update checksums.
    pub update: &'p str,
    /// Statements of the deparser, if it does not emit `hdr.h`.
    pub deparser: Option<&'p str>,
}

impl P4<'_> {
    /// Returns a switch that runs the program.
    pub fn switch(&self) -> Switch {
        run(self.program())
    }

    /// Returns the program, for tests in which several switches run it.
    pub fn program(&self) -> Arc<LoadedProgram> {
        let program = LoadedProgram::from_json(&self.text());
        Arc::new(program.expect("it is BMv2 JSON"))
    }

    /// Returns the program as BMv2 JSON.
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

/// Returns a switch that runs a program.
pub fn run(program: Arc<LoadedProgram>) -> Switch {
    run_with(program, SwitchOptions::default())
}

/// Returns a switch with options that runs a program.
pub fn run_with(program: Arc<LoadedProgram>, options: SwitchOptions) -> Switch {
    let mut switch = Switch::new(options);
    crate::builder::load(&mut switch, program);
    switch
}
