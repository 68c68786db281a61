//! Compilation of a program, and the interface that the page's forms need.

use std::collections::BTreeMap;

use alfirk_bmv2_json::BmV2Json;
use alfirk_compiler::arch::Arch;
use alfirk_compiler::bmv2::graphs;
use alfirk_compiler::diag::{Diagnostic, Severity, SourceMap};
use alfirk_compiler::driver::{CompileOptions, Session as Compilation};
use alfirk_p4runtime::p4::config::v1::{match_field, P4Info};
use alfirk_stf::{Records, Session};
use scapy::p4::Program;
use serde::Serialize;

use crate::files::{Document, Library, Loader};
use crate::graph::{place, Ways};
use crate::run::Place;

/// A message about a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `error`, `warning` or `info`.
    pub severity: &'static str,
    /// The message with its notes, in one or more lines.
    pub text: String,
    /// The position in the source; `None` for the program as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A table of a program, as a form for entries needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Name in tests.
    pub name: String,
    /// The key fields.
    pub keys: Vec<Key>,
    /// The actions that an entry may have.
    pub actions: Vec<Action>,
    /// Whether entries cannot be changed.
    pub is_const: bool,
    /// Whether entries have a priority.
    pub has_priority: bool,
}

/// A key field of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Name in tests.
    pub name: String,
    /// Width in bits.
    pub bits: i32,
    /// Match kind: `exact`, `lpm`, `ternary`, `range` or `optional`.
    pub kind: &'static str,
}

/// An action of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// Name in tests.
    pub name: String,
    /// The parameters that the control plane sets.
    pub parameters: Vec<Parameter>,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: String,
    /// Width in bits.
    pub bits: i32,
}

/// A program that is ready to run.
pub(crate) struct Prepared {
    /// The switch with the program, before any command.
    pub session: Session,
    /// The program's headers.
    pub program: Option<Program>,
    /// Control-flow graphs.
    pub ways: Ways,
    /// Positions of parser states, by name.
    pub states: BTreeMap<String, Place>,
    /// Warnings of the compiler.
    pub messages: Vec<Message>,
}

impl Prepared {
    /// The tables of the program.
    pub fn tables(&self) -> Vec<Table> {
        tables(self.session.info())
    }
}

/// Compiles a program and starts a switch with it.
///
/// # Errors
/// Errors of the compiler or of the switch; at least one.
pub(crate) fn prepare(document: &Document, library: &Library) -> Result<Prepared, Vec<Message>> {
    let global = |text: String| Message {
        severity: "error",
        text,
        place: None,
    };
    let loader = Loader { document, library };
    let arch = arch_of(document, &loader).map_err(|text| vec![global(text)])?;
    let mut compilation = Compilation::new(options(document, arch));
    let elaborated = compilation.elaborated(&loader);
    let elaborated = elaborated.map_err(|error| vec![global(error.to_string())])?;
    let json = elaborated.and_then(|program| compilation.json(&program));
    compilation.diagnostics.sort();
    let messages = compilation.diagnostics.iter();
    let messages: Vec<Message> = messages
        .map(|diagnostic| message(diagnostic, &compilation.sources))
        .collect();
    let Ok(json) = json else {
        return Err(messages);
    };
    let text = json.to_text();
    let records = Records {
        traces: true,
        blocks: true,
        ..Records::default()
    };
    let session = Session::start(&text, 0, records).map_err(|text| vec![global(text)])?;
    Ok(Prepared {
        session,
        program: Program::from_json(&text).ok(),
        ways: Ways::new(graphs(&json)),
        states: states(&json),
        messages,
    })
}

pub(crate) fn options(document: &Document, arch: Arch) -> CompileOptions {
    let mut options = CompileOptions::new(&document.main);
    options.preprocessor.include_dirs = Library::include_dirs().map(Into::into).into();
    options.actions_share_names = true;
    options.set_arch(arch);
    options
}

/// Returns the architecture whose file the program includes; v1model by default.
pub(crate) fn arch_of(document: &Document, loader: &Loader<'_>) -> Result<Arch, String> {
    let mut compilation = Compilation::new(options(document, Arch::V1MODEL));
    let read = compilation.tokens(loader);
    read.map_err(|error| format!("{}: {error}", document.main))?;
    let includes = |file: &str| {
        let mut files = compilation.sources.files();
        files.any(|source| source.name.ends_with(file))
    };
    Ok(match () {
        () if includes("/tna.p4") => Arch::TNA,
        () if includes("/t2na.p4") => Arch::T2NA,
        () => Arch::V1MODEL,
    })
}

fn message(diagnostic: &Diagnostic, sources: &SourceMap) -> Message {
    let mut text = diagnostic.message.clone();
    if !diagnostic.label.is_empty() {
        text += &format!(": {}", diagnostic.label);
    }
    for note in &diagnostic.notes {
        text += &format!("\nnote: {note}");
    }
    for help in &diagnostic.helps {
        text += &format!("\nhelp: {help}");
    }
    Message {
        severity: match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        },
        text,
        place: diagnostic.span.map(|span| {
            let location = sources.location(sources.reported_span(span));
            Place {
                file: location.file,
                line: location.line.into(),
                column: location.column.into(),
            }
        }),
    }
}

/// Returns the positions of the states of all parsers, by name.
fn states(json: &BmV2Json) -> BTreeMap<String, Place> {
    let states = json.parsers.iter().flat_map(|parser| &parser.parse_states);
    let places = states.filter_map(|state| {
        let place = place(state.source_info.as_ref()?);
        Some((state.name.clone(), place))
    });
    places.collect()
}

fn tables(info: &P4Info) -> Vec<Table> {
    let name = |preamble: &Option<alfirk_p4runtime::p4::config::v1::Preamble>| {
        let preamble = preamble.as_ref();
        preamble
            .map(|preamble| preamble.name.clone())
            .unwrap_or_default()
    };
    let actions: BTreeMap<u32, &alfirk_p4runtime::p4::config::v1::Action> = info
        .actions
        .iter()
        .filter_map(|action| Some((action.preamble.as_ref()?.id, action)))
        .collect();
    let all = info.tables.iter().map(|table| {
        let keys: Vec<Key> = table
            .match_fields
            .iter()
            .map(|key| Key {
                name: key.name.clone(),
                bits: key.bitwidth,
                kind: kind(key.r#match.as_ref()),
            })
            .collect();
        let of_table = table.action_refs.iter();
        let of_table = of_table.filter_map(|action| actions.get(&action.id));
        Table {
            name: name(&table.preamble),
            has_priority: keys
                .iter()
                .any(|key| matches!(key.kind, "ternary" | "range" | "optional")),
            keys,
            actions: of_table
                .map(|action| Action {
                    name: name(&action.preamble),
                    parameters: action
                        .params
                        .iter()
                        .map(|parameter| Parameter {
                            name: parameter.name.clone(),
                            bits: parameter.bitwidth,
                        })
                        .collect(),
                })
                .collect(),
            is_const: table.is_const_table,
        }
    });
    // Tables without a key are mostly those that the compiler makes for actions.
    all.filter(|table| !table.keys.is_empty()).collect()
}

fn kind(kind: Option<&match_field::Match>) -> &'static str {
    use match_field::{Match, MatchType};
    let known = match kind {
        Some(Match::MatchType(number)) => MatchType::try_from(*number).ok(),
        _ => None,
    };
    match known {
        Some(MatchType::Lpm) => "lpm",
        Some(MatchType::Ternary) => "ternary",
        Some(MatchType::Range) => "range",
        Some(MatchType::Optional) => "optional",
        Some(MatchType::Exact | MatchType::Unspecified) | None => "exact",
    }
}
