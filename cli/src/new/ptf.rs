//! `alfirk new ptf`: writes PTF tests of a program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use alfirk_bf_rt_json::Schema;
use alfirk_p4runtime::p4::config::v1::{
    action_ref, match_field, Action, ActionProfile, MatchField, P4Info, Table,
};
use scapy::p4::Program as Layers;
use scapy::Mask;

use super::samples::{Keys, Program, Sample, TryError, INGRESS_PORT, SAMPLES};
use super::{bfrt, PtfArgs};
use crate::exit::{print, Failure, Outcome};
use crate::program::{bf_rt_schema_of, compile_source, is_json};
use crate::ptf::{new_folder, PORTS};
use crate::run::Control;

/// Classes of `alfirk_ptf.client` that tests use.
const CLIENT_CLASSES: [&str; 4] = ["Action", "Member", "OneShot", "Rule"];
/// Number of hexadecimal digits of a packet in a line.
const DIGITS_PER_LINE: usize = 80;

/// Runs `alfirk new ptf`.
pub fn run(args: &PtfArgs) -> Outcome {
    let program = &args.program;
    if is_json(program) {
        return Err(Failure::bad_input(format_args!(
            "{}: expected P4 source",
            program.display()
        )));
    }
    let folder = args.output.clone().unwrap_or_else(|| new_folder(program));
    if folder.exists() {
        return Err(Failure::bad_input(format_args!(
            "{} exists; name another folder with --output",
            folder.display()
        )));
    }
    let options = args.source.options(program)?;
    let control = control(args)?;
    let compiled = compile_source(&options)?;
    let schema = match control {
        Control::P4runtime => None,
        Control::Bfrt => Some(bf_rt_schema_of(&options)?),
    };
    let name = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let json = compiled.json.to_text();
    let suite = Suite::new(&name, &compiled.p4info, &json, schema.as_ref());
    if suite.tests.is_empty() {
        return Err(Failure::failed(format_args!(
            "{}: no test can be written: it has no tables, and does not process packets here",
            program.display()
        )));
    }
    let flags = flags(args);
    let module = format!("{}.py", suite.module);
    let folder_argument = match &args.output {
        Some(output) => format!(" {}", output.display()),
        None => String::new(),
    };
    let readme = readme(&suite, &flags, &folder_argument);
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        fs::write(&path, text).map_err(|error| {
            Failure::failed(format_args!("cannot write {}: {error}", path.display()))
        })
    };
    fs::create_dir_all(&folder).map_err(|error| {
        Failure::failed(format_args!("cannot create {}: {error}", folder.display()))
    })?;
    write(&module, &suite.text())?;
    write("README.md", &readme)?;
    let tests = suite.tests.len();
    print(format_args!(
        "{}: {tests} tests; run them: alfirk ptf{flags} {}{folder_argument}\n",
        folder.join(module).display(),
        program.display()
    ))
}

/// The control interface of the tests.
fn control(args: &PtfArgs) -> Result<Control, Failure> {
    let is_tofino = args.source.arch != "v1model";
    match (args.control, is_tofino) {
        (Some(Control::Bfrt), false) => Err(Failure::bad_input(
            "--control bfrt: BfRuntime is the interface of Tofino; add --arch tna or t2na",
        )),
        (Some(control), _) => Ok(control),
        (None, true) => Ok(Control::Bfrt),
        (None, false) => Ok(Control::P4runtime),
    }
}

/// The flags of the source, for the command line of `alfirk ptf`, with a space before each.
fn flags(args: &PtfArgs) -> String {
    let source = &args.source;
    let mut text = String::new();
    if source.arch != "v1model" {
        text += &format!(" --arch {}", source.arch);
    }
    for folder in &source.include {
        text += &format!(" -I {}", folder.display());
    }
    for one in &source.define {
        text += &format!(" -D {one}");
    }
    text
}

/// The tests of a program.
struct Suite {
    /// Name of the program's file.
    program: String,
    /// Name of the Python module.
    module: String,
    tests: Vec<Test>,
    control: Control,
    /// Packets that the tests send.
    samples: Vec<Sample>,
}

/// A test: a Python class.
struct Test {
    class: String,
    /// First line of its documentation.
    title: String,
    /// Further lines of its documentation.
    notes: Vec<String>,
    /// Statements of the method `runTest`.
    body: Vec<String>,
}

impl Suite {
    fn new(program: &str, info: &P4Info, json: &str, schema: Option<&Schema>) -> Suite {
        let stem = Path::new(program)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        let mut writer = Writer::new(info, json, schema);
        let mut tests = Vec::from_iter(writer.without_entries());
        tests.extend(info.tables.iter().map(|table| writer.of_table(table)));
        for array in schema.map(bfrt::arrays).unwrap_or_default() {
            tests.push(Test {
                class: writer.class(array.name),
                title: format!("{} {}: a cell is written and read.", array.kind, array.name),
                notes: array.notes(),
                body: array.body(),
            });
        }
        let samples = SAMPLES
            .into_iter()
            .filter(|sample| writer.used.contains(sample.name));
        Suite {
            program: program.to_owned(),
            module: format!("{}_tests", identifier(&stem)),
            samples: samples.collect(),
            tests,
            control: match schema {
                None => Control::P4runtime,
                Some(_) => Control::Bfrt,
            },
        }
    }

    /// The Python module.
    fn text(&self) -> String {
        let body: Vec<&str> = self
            .tests
            .iter()
            .flat_map(|test| test.body.iter().map(String::as_str))
            .collect();
        let uses = |name: &str| body.iter().any(|line| line.contains(&format!("{name}(")));
        let imports = |module: &str, names: &[&str]| {
            let used: Vec<&str> = names.iter().copied().filter(|name| uses(name)).collect();
            match used.is_empty() {
                true => String::new(),
                false => format!("from {module} import {}\n", used.join(", ")),
            }
        };
        let mut text = format!(
            "\"\"\"Packet tests of {}: `alfirk ptf` runs them.\n\n\
             Written by `alfirk new ptf`. What packets cause is what the program did then: change it to what it shall do.\n\"\"\"\n\n",
            self.program
        );
        text += &imports("alfirk_ptf.client", &CLIENT_CLASSES);
        let (base_module, base) = base_class(self.control);
        let _ = writeln!(text, "from {base_module} import {base}");
        text += &imports(
            "ptf.testutils",
            &["send_packet", "verify_no_other_packets", "verify_packet"],
        );
        let layers: BTreeSet<&str> = self
            .samples
            .iter()
            .flat_map(|sample| sample.layers)
            .copied()
            .collect();
        if !layers.is_empty() {
            let layers: Vec<&str> = layers.into_iter().collect();
            text += &format!("from scapy.all import {}\n", layers.join(", "));
        }
        if !self.samples.is_empty() {
            text.push('\n');
        }
        for sample in &self.samples {
            let layers: Vec<&str> = sample.expression.split(" / ").collect();
            text += &format!("{} = (\n    {}\n)\n", sample.name, layers.join("\n    / "));
        }
        for test in &self.tests {
            let _ = write!(text, "\n\nclass {}({base}):\n", test.class);
            match test.notes.is_empty() {
                true => {
                    let _ = write!(text, "    \"\"\"{}\"\"\"\n\n", test.title);
                }
                false => {
                    let _ = write!(text, "    \"\"\"{}\n\n", test.title);
                    for note in &test.notes {
                        let _ = writeln!(text, "    {note}");
                    }
                    text += "    \"\"\"\n\n";
                }
            }
            text += "    def runTest(self):\n";
            for line in &test.body {
                match line.is_empty() {
                    true => text.push('\n'),
                    false => {
                        let _ = writeln!(text, "        {line}");
                    }
                }
            }
        }
        text
    }
}

/// Writer of the tests of a program.
struct Writer<'a> {
    info: &'a P4Info,
    /// BfRuntime schema, for tests that use BfRuntime; `None` for P4Runtime.
    schema: Option<&'a Schema>,
    program: Program<'a>,
    /// Headers of the program; `None` if packets are compared without them.
    layers: Option<Layers>,
    /// For each table, the first packet to which it is applied, and the values of its keys then.
    reached: BTreeMap<String, (Sample, BTreeMap<String, String>)>,
    /// Names of the packets that tests send.
    used: BTreeSet<&'static str>,
    classes: BTreeSet<String>,
}

/// The entry of a test in the languages of Python and of STF.
struct Entry {
    /// Name and value of each key, the value in Python.
    match_: Vec<(String, String)>,
    /// All keys, in STF.
    stf_keys: String,
    has_priority: bool,
}

impl<'a> Writer<'a> {
    fn new(info: &'a P4Info, json: &'a str, schema: Option<&'a Schema>) -> Writer<'a> {
        let program = Program { json };
        let mut reached = BTreeMap::new();
        for sample in SAMPLES {
            let Ok(frame) = sample.frame() else { continue };
            let Ok((outcome, _)) = program.outcome(&[], &frame) else {
                continue;
            };
            let keys: Keys = outcome.keys;
            for (table, values) in keys {
                reached.entry(table).or_insert((sample, values));
            }
        }
        Writer {
            info,
            schema,
            program,
            layers: Layers::from_json(json).ok(),
            reached,
            used: BTreeSet::new(),
            classes: reserved().collect(),
        }
    }

    /// The test of a packet on the program without entries; `None` if the program cannot be tried.
    fn without_entries(&mut self) -> Option<Test> {
        Some(Test {
            body: self.packet(SAMPLES[0], &[])?,
            class: self.class("WithoutEntries"),
            title: "The program without table entries.".to_owned(),
            notes: Vec::new(),
        })
    }

    fn of_table(&mut self, table: &Table) -> Test {
        let name = name_of(table.preamble.as_ref());
        let actions = self.actions(table);
        let mut notes = Vec::new();
        for key in &table.match_fields {
            notes.push(format!(
                "Key {}: {}, {}.",
                key.name,
                kind_name(key),
                bits(key.bitwidth)
            ));
        }
        for (action, _) in &actions {
            let params: Vec<String> = action
                .params
                .iter()
                .map(|param| format!("{}: {}", param.name, bits(param.bitwidth)))
                .collect();
            let name = name_of(action.preamble.as_ref());
            notes.push(format!("Action {name}({}).", params.join(", ")));
        }
        let (title, body) = self.table_body(table, &name, &actions);
        Test {
            class: self.class(&name),
            title: format!("Table {name}: {title}"),
            notes,
            body,
        }
    }

    /// What the test of a table does, and its statements.
    fn table_body(
        &mut self,
        table: &Table,
        name: &str,
        actions: &[(&'a Action, action_ref::Scope)],
    ) -> (&'static str, Vec<String>) {
        let read = self.read(name);
        if table.is_const_table {
            let body = vec![
                "# The entries are constant.".to_owned(),
                format!("self.assertTrue({read})"),
            ];
            return ("its constant entries are read.", body);
        }
        if table.match_fields.is_empty() {
            return self.default_body(table, name, actions);
        }
        let unsupported = |why: &str| {
            let body = vec![
                format!("# No entry is inserted: {why}."),
                format!("self.assertEqual([], {read})"),
            ];
            ("it has no entries.", body)
        };
        let of_entries = |scope: &action_ref::Scope| *scope != action_ref::Scope::DefaultOnly;
        let Some(action) = chosen(actions, of_entries) else {
            return unsupported("no action can be that of an entry");
        };
        let mut values = action.params.iter().map(|param| param.bitwidth);
        let has_text =
            values.any(|bits| bits == 0) || table.match_fields.iter().any(|key| key.bitwidth == 0);
        if has_text {
            return unsupported("a value is text for controllers (@p4runtime_translation)");
        }
        let sample = self.reached.get(name).map(|(sample, _)| *sample);
        let values = self.reached.get(name).map(|(_, values)| values.clone());
        let entry = entry(table, &values.unwrap_or_default());
        let profile = self.info.action_profiles.iter().find(|profile| {
            let id = profile.preamble.as_ref().map_or(0, |preamble| preamble.id);
            table.implementation_id != 0 && id == table.implementation_id
        });
        let mut body = match self.schema {
            Some(schema) => bfrt::entry(schema, name, action, &entry.match_),
            None => rule(name, action, profile, &entry),
        };
        let priority = if entry.has_priority { " 1" } else { "" };
        let command = format!(
            "add {}{priority} {} {}",
            quoted(name),
            entry.stf_keys,
            stf_call(action)
        );
        let frame = sample.unwrap_or(SAMPLES[0]).frame();
        if let Ok(frame) = frame {
            let tried = self.program.outcome(std::slice::from_ref(&command), &frame);
            if let (Err(TryError::Rejected(why)), None) = (tried, profile) {
                let why = why.lines().next().unwrap_or_default().to_owned();
                return unsupported(&format!("the switch rejects it ({why})"));
            }
        }
        let Some(sample) = sample else {
            body.push(String::new());
            body.push(
                "# None of the packets that were tried reaches this table: send one that does."
                    .to_owned(),
            );
            return ("an entry is inserted and read.", body);
        };
        let Some(packet) = self.packet(sample, &[command]) else {
            return ("an entry is inserted and read.", body);
        };
        body.push(String::new());
        body.extend(packet);
        ("an entry is inserted, read, and applied to a packet.", body)
    }

    /// The test of a table without keys.
    fn default_body(
        &mut self,
        table: &Table,
        name: &str,
        actions: &[(&'a Action, action_ref::Scope)],
    ) -> (&'static str, Vec<String>) {
        let of_default = |scope: &action_ref::Scope| *scope != action_ref::Scope::TableOnly;
        let is_fixed = table.const_default_action_id != 0 || table.implementation_id != 0;
        let action = chosen(actions, of_default)
            .filter(|action| !is_fixed && action.params.iter().all(|param| param.bitwidth > 0));
        let Some(action) = action else {
            let body = vec![format!("self.assertEqual([], {})", self.read(name))];
            return ("it has neither keys nor entries.", body);
        };
        let mut body = match self.schema {
            Some(schema) => bfrt::default(schema, name, action),
            None => default_action(name, action),
        };
        if let Some((sample, _)) = self.reached.get(name).cloned() {
            let command = format!("setdefault {} {}", quoted(name), stf_call(action));
            if let Some(packet) = self.packet(sample, &[command]) {
                body.push(String::new());
                body.extend(packet);
            }
        }
        ("its default action is set and read.", body)
    }

    /// The expression of all entries of a table.
    fn read(&self, name: &str) -> String {
        match self.schema {
            Some(schema) => bfrt::read(schema, name),
            None => format!("self.switch.entries({})", quoted(name)),
        }
    }

    /// Statements that send a packet and check what leaves; `None` if the program cannot be tried.
    fn packet(&mut self, sample: Sample, commands: &[String]) -> Option<Vec<String>> {
        let frame = sample.frame().ok()?;
        let (outcome, is_fixed) = self.program.outcome(commands, &frame).ok()?;
        self.used.insert(sample.name);
        let mut body = vec![format!(
            "send_packet(self, {INGRESS_PORT}, {})",
            sample.name
        )];
        if !is_fixed {
            body.push(
                "# What leaves depends on the time or on random numbers, so it is not checked."
                    .to_owned(),
            );
            return Some(body);
        }
        for (port, out) in &outcome.packets {
            if *port >= PORTS {
                body.push(format!(
                    "# Also leaves port {port}, which has no interface in the test."
                ));
                continue;
            }
            if *out == frame {
                body.push(format!("verify_packet(self, {}, {port})", sample.name));
                continue;
            }
            body.extend(self.differences(&frame, out));
            body.push("expected = bytes.fromhex(".to_owned());
            let digits = scapy::hex(out);
            for line in digits.as_bytes().chunks(DIGITS_PER_LINE) {
                body.push(format!("    \"{}\"", String::from_utf8_lossy(line)));
            }
            body.push(")".to_owned());
            body.push(format!("verify_packet(self, expected, {port})"));
        }
        if outcome.packets.is_empty() {
            body.push("# The packet is dropped.".to_owned());
        }
        body.push("verify_no_other_packets(self)".to_owned());
        Some(body)
    }

    /// Comments with the fields in which a packet that leaves differs from the one that was sent.
    fn differences(&self, sent: &[u8], left: &[u8]) -> Vec<String> {
        let mask = Mask::default();
        let found = match &self.layers {
            Some(layers) => scapy::diff(&layers.dissect(sent), &layers.dissect(left), &mask),
            None => scapy::diff_frames(sent, left, &mask),
        };
        let line = |difference: scapy::Difference| {
            let field = difference.field.map(|field| format!(".{field}"));
            let name = format!("{}{}", difference.layer, field.unwrap_or_default());
            let text = format!(
                "# {name}: {} becomes {}",
                difference.expected, difference.received
            );
            text.chars().take(100).collect()
        };
        found.into_iter().map(line).collect()
    }

    /// The actions of a table, with their scopes.
    fn actions(&self, table: &Table) -> Vec<(&'a Action, action_ref::Scope)> {
        let find = |id: u32| {
            let mut actions = self.info.actions.iter();
            actions.find(|action| action.preamble.as_ref().is_some_and(|own| own.id == id))
        };
        let refs = table.action_refs.iter();
        refs.filter_map(|one| Some((find(one.id)?, one.scope())))
            .collect()
    }

    /// A class name that no other test has.
    fn class(&mut self, name: &str) -> String {
        let mut class = String::new();
        for word in name.split(|c: char| !c.is_ascii_alphanumeric()) {
            let mut letters = word.chars();
            class.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            class.extend(letters);
        }
        if !class.starts_with(|c: char| c.is_ascii_alphabetic()) {
            class.insert_str(0, "Table");
        }
        let taken = (2..).map(|number| format!("{class}{number}"));
        let mut names = std::iter::once(class.clone()).chain(taken);
        let free = names
            .find(|name| !self.classes.contains(name))
            .unwrap_or(class);
        self.classes.insert(free.clone());
        free
    }
}

/// Lines of a dictionary of Python with these items, with what is before and after it.
pub(super) fn dictionary(before: &str, items: &[String], after: &str) -> Vec<String> {
    match items {
        [one] => vec![format!("{before}{{{one}}}{after}")],
        several => {
            let items = several.iter().map(|item| format!("    {item},"));
            let first = std::iter::once(format!("{before}{{"));
            first.chain(items).chain([format!("}}{after}")]).collect()
        }
    }
}

/// Statements that insert an entry and read it, by P4Runtime.
fn rule(
    name: &str,
    action: &Action,
    profile: Option<&ActionProfile>,
    entry: &Entry,
) -> Vec<String> {
    let call = python_call(action);
    let mut body = Vec::new();
    let entry_action = match profile {
        None => call,
        Some(profile) if profile.with_selector => format!("OneShot([({call}, 1)])"),
        Some(profile) => {
            let profile = quoted(&name_of(profile.preamble.as_ref()));
            body.push(format!("self.switch.add_members({profile}, {{1: {call}}})"));
            "Member(1)".to_owned()
        }
    };
    body.push("rule = Rule(".to_owned());
    body.push(format!("    {},", quoted(name)));
    let keys = entry.match_.iter();
    let keys: Vec<String> = keys
        .map(|(key, value)| format!("{}: {value}", quoted(key)))
        .collect();
    let keys = dictionary("", &keys, ",");
    body.extend(keys.iter().map(|line| format!("    {line}")));
    body.push(format!("    {entry_action},"));
    if entry.has_priority {
        body.push("    priority=1,".to_owned());
    }
    body.push(")".to_owned());
    body.push("self.switch.add(rule)".to_owned());
    let read = format!("self.switch.entries({})", quoted(name));
    body.push(format!("self.assertIn(rule, {read})"));
    body
}

/// Statements that set a default action and read it, by P4Runtime.
fn default_action(name: &str, action: &Action) -> Vec<String> {
    let name = quoted(name);
    vec![
        format!("action = {}", python_call(action)),
        format!("self.switch.set_default({name}, action)"),
        format!("self.assertEqual(action, self.switch.default_action({name}))"),
    ]
}

/// Module and name of the base class of tests.
fn base_class(control: Control) -> (&'static str, &'static str) {
    match control {
        Control::P4runtime => ("alfirk_ptf.program", "ProgramTest"),
        Control::Bfrt => ("alfirk_ptf.bfrt.program", "BfRtTest"),
    }
}

/// Names that no test can have: keywords of Python, and names that the module imports.
fn reserved() -> impl Iterator<Item = String> {
    let layers = SAMPLES.iter().flat_map(|sample| sample.layers).copied();
    let names = CLIENT_CLASSES.into_iter().chain(layers);
    let names = names.chain(["ProgramTest", "BfRtTest", "True", "False", "None"]);
    names.map(str::to_owned)
}

/// The action of an entry: one that names a port, else one with parameters, else the first one.
fn chosen<'a>(
    actions: &[(&'a Action, action_ref::Scope)],
    is_allowed: impl Fn(&action_ref::Scope) -> bool,
) -> Option<&'a Action> {
    let allowed = || {
        let actions = actions.iter().filter(|(_, scope)| is_allowed(scope));
        actions.map(|(action, _)| *action)
    };
    let names_port = |action: &&Action| {
        let mut params = action.params.iter();
        params.any(|param| param.name.to_lowercase().contains("port"))
    };
    allowed()
        .find(names_port)
        .or_else(|| allowed().find(|action| !action.params.is_empty()))
        .or_else(|| allowed().next())
}

/// Value of every action parameter: as a port, one to which the tests send nothing.
pub(super) const ARGUMENT: u32 = 1;

/// The parameters of an action, each followed by this separator and its value.
pub(super) fn arguments(action: &Action, separator: &str) -> String {
    let params = action.params.iter();
    let params: Vec<String> = params
        .map(|param| format!("{}{separator}{ARGUMENT}", quoted(&param.name)))
        .collect();
    params.join(", ")
}

fn python_call(action: &Action) -> String {
    let name = quoted(&name_of(action.preamble.as_ref()));
    format!("Action({name}, {{{}}})", arguments(action, ": "))
}

fn stf_call(action: &Action) -> String {
    let name = quoted(&name_of(action.preamble.as_ref()));
    format!("{name}({})", arguments(action, ":"))
}

/// The entry that matches these values of the keys; those that are not known are 0.
fn entry(table: &Table, values: &BTreeMap<String, String>) -> Entry {
    let mut python = Vec::new();
    let mut stf = Vec::new();
    let mut has_priority = false;
    for key in &table.match_fields {
        let value = values.get(&key.name).map_or("0x0", String::as_str);
        let width = key.bitwidth;
        let (in_python, in_stf) = match kind(key) {
            match_field::MatchType::Lpm => {
                (format!("({value}, {width})"), format!("{value}/{width}"))
            }
            match_field::MatchType::Ternary => {
                let mask = ones(width);
                (format!("({value}, {mask})"), format!("{value}&&&{mask}"))
            }
            match_field::MatchType::Range => {
                (format!("({value}, {value})"), format!("{value}..{value}"))
            }
            _ => (value.to_owned(), value.to_owned()),
        };
        has_priority |= matches!(
            kind(key),
            match_field::MatchType::Ternary
                | match_field::MatchType::Range
                | match_field::MatchType::Optional
        );
        python.push((key.name.clone(), in_python));
        stf.push(format!("{}:{in_stf}", quoted(&key.name)));
    }
    Entry {
        match_: python,
        stf_keys: stf.join(" "),
        has_priority,
    }
}

/// A number of `bits` ones, hexadecimal with `0x`.
fn ones(bits: i32) -> String {
    let bits = usize::try_from(bits).unwrap_or(0);
    let first = ["", "1", "3", "7"][bits % 4];
    format!("0x{first}{}", "f".repeat(bits / 4))
}

fn kind(key: &MatchField) -> match_field::MatchType {
    match key.r#match {
        Some(match_field::Match::MatchType(kind)) => kind.try_into().unwrap_or_default(),
        _ => match_field::MatchType::Unspecified,
    }
}

fn kind_name(key: &MatchField) -> &'static str {
    match kind(key) {
        match_field::MatchType::Exact => "exact",
        match_field::MatchType::Lpm => "longest prefix",
        match_field::MatchType::Ternary => "ternary",
        match_field::MatchType::Range => "range",
        match_field::MatchType::Optional => "optional",
        match_field::MatchType::Unspecified => "of a kind of the architecture",
    }
}

pub(super) fn bits(width: i32) -> String {
    match width {
        0 => "text".to_owned(),
        1 => "1 bit".to_owned(),
        width => format!("{width} bits"),
    }
}

pub(super) fn name_of(preamble: Option<&alfirk_p4runtime::p4::config::v1::Preamble>) -> String {
    preamble.map_or_else(String::new, |preamble| preamble.name.clone())
}

/// Text in quotes, in Python and in STF.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The name as an identifier of Python.
fn identifier(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{name}"),
        false => name,
    }
}

/// The rows of the README's table of statements that use P4Runtime.
const STATEMENTS: &str = "\
    | `self.switch.add(Rule(table, match, action))` | inserts an entry; `match` has a value for each key, or a pair: value and prefix length, value \
    and mask, or both ends of a range |\n\
    | `self.switch.set_default(table, Action(name, params))` | sets a default action |\n\
    | `self.switch.entries(table)` | reads the entries |\n\
    | `self.switch.counter(name, index)`, `self.switch.register(name, index)` | reads a counter (packets, bytes) or a register |\n\
    | `self.switch.insert_multicast(...)`, `self.switch.add_clone_session(...)` | replicates packets |\n\
    | `self.switch.packet_out(bytes, **metadata)`, `self.switch.packet_in()` | packets of the controller |\n";

/// Text of the README. `flags` and `folder` are arguments of `alfirk ptf`, each with a space before it.
fn readme(suite: &Suite, flags: &str, folder: &str) -> String {
    let Suite {
        program, module, ..
    } = suite;
    let last_port = PORTS - 1;
    let last = suite.tests.last().map_or("", |test| test.class.as_str());
    let (_, base) = base_class(suite.control);
    let statements = match suite.control {
        Control::P4runtime => STATEMENTS,
        Control::Bfrt => bfrt::STATEMENTS,
    };
    let mut rows = String::new();
    for test in &suite.tests {
        let _ = writeln!(rows, "| `{}` | {} |", test.class, test.title);
    }
    format!(
        "# Packet tests of {program}\n\n\
         ```sh\n\
         sudo alfirk ptf{flags} {program}{folder}                    # all tests\n\
         sudo alfirk ptf{flags} {program}{folder} {module}.{last}   # one test\n\
         ```\n\n\
         Without root, `alfirk ptf` needs a kernel that allows user namespaces.\n\n\
         | test in `{module}.py` | what it does |\n|---|---|\n{rows}\n\
         ## How a test is written\n\n\
         A test is a class derived from `{base}`, with a method `runTest`. It starts with the program as loaded: without entries, all \
         registers and counters 0.\n\n\
         | statement | what it does |\n|---|---|\n\
         {statements}\
         | `send_packet(self, port, packet)` | sends a packet into a port, 0 to {last_port} |\n\
         | `verify_packet(self, packet, port)`, `verify_no_other_packets(self)` | what leaves the switch |\n\n\
         Packets are those of [scapy](https://scapy.readthedocs.io); `ptf.mask.Mask` leaves out fields. A failed test prints the fields that \
         differ, and the trace of the packet through the program.\n"
    )
}
