//! The debug adapter: requests of the editor in, responses and events out.

mod breakpoints;
mod live;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alfirk_bmv2::{LoadOptions, LoadedProgram};
use alfirk_bmv2_json::{BmV2Json, Parser};
use alfirk_compiler::preproc::normalize;
use alfirk_stf::{Command, Line, Records, Session};
use serde::Deserialize;
use serde_json::{json, Value};

use self::live::Live;
pub use self::live::{Attach, ParseFilter, Released};
use crate::navigation::{self, Breakpoint, Direction, Halt, Step};
use crate::recording::{Passes, Recording};
use crate::scopes::{Group, Scopes};

/// The only thread: the packets of the test, one after the other.
const THREAD: u64 = 1;

/// Reads the programs and tests that an editor names.
pub trait Host {
    /// Compiles a program, or reads a compiled one, and returns it as BMv2 JSON.
    ///
    /// # Errors
    /// The program cannot be read or has errors; the text shows them.
    fn program(&self, launch: &Launch) -> Result<String, String>;

    /// Reads a text file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn text(&self, path: &Path) -> Result<String, String>;

    /// Reads the frames of a capture.
    ///
    /// # Errors
    /// The file cannot be read, or is not a capture.
    fn capture(&self, path: &Path) -> Result<Vec<Vec<u8>>, String>;
}

/// A host without files, for debuggers whose program is given.
struct NoFiles;

impl Host for NoFiles {
    fn program(&self, _: &Launch) -> Result<String, String> {
        Err("a program can only be attached to".to_owned())
    }

    fn text(&self, path: &Path) -> Result<String, String> {
        Err(format!("{}: not on this side", path.display()))
    }

    fn capture(&self, path: &Path) -> Result<Vec<Vec<u8>>, String> {
        self.text(path).map(|_| Vec::new())
    }
}

/// Arguments of the request `launch`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// The P4 program, or its compiled BMv2 JSON. A fabric has its own.
    #[serde(default)]
    pub program: PathBuf,
    /// The test in the STF language.
    pub test: Option<PathBuf>,
    /// A capture, whose frames are the packets.
    pub capture: Option<PathBuf>,
    /// Commands in the STF language that precede the packets of a capture, such as table entries.
    pub commands: Option<PathBuf>,
    /// Ingress port of the frames of a capture.
    #[serde(default)]
    pub port: u32,
    /// Whether to stop at the first statement.
    #[serde(default)]
    pub stop_on_entry: bool,
    /// A table, an action or a parser state to stop at, as by a function breakpoint.
    pub stop_at: Option<String>,
    /// Whether to ignore breakpoints.
    #[serde(default)]
    pub no_debug: bool,
    /// Seed of the switch's random numbers.
    #[serde(default)]
    pub seed: u64,
    /// Folders for included files.
    #[serde(default)]
    pub include_dirs: Vec<PathBuf>,
    /// Macros, as `NAME` or `NAME=VALUE`.
    #[serde(default)]
    pub defines: Vec<String>,
    /// Architecture: `v1model`, `tna` or `t2na`.
    pub arch: Option<String>,
}

/// Messages for the editor.
pub type Reply = Vec<Value>;

/// A debugger of one editor.
pub struct Debugger {
    host: Box<dyn Host + Send>,
    /// State of the debugger of a running switch; `None` for tests and fabrics.
    live: Option<Live>,
    /// A fabric whose run has not started, and the BMv2 JSON of its switches.
    fabric: Option<(Box<dyn Passes + Send>, String)>,
    /// Whether this is the debugger of a fabric.
    is_of_fabric: bool,
    /// Whether the debugger runs forward to the next breakpoint; see [`Debugger::advance`].
    is_running: bool,
    seq: u64,
    launch: Option<Launch>,
    run: Option<Run>,
    /// Breakpoints by the requests that replace them: the path of a file, or the kind.
    breakpoints: BTreeMap<String, Vec<Breakpoint>>,
    next_id: u64,
    groups: Vec<Group>,
    supports_invalidated: bool,
    exit_code: Option<i32>,
    is_done: bool,
}

/// A running test.
struct Run {
    recording: Recording,
    scopes: Scopes,
    /// Lines at which the debugger can stop, by file as the compiler names it.
    lines: BTreeMap<String, BTreeSet<u64>>,
    states: BTreeSet<String>,
    has_ended: bool,
}

type Answer = Result<Value, String>;

/// Returns the response to the request `command` with the number `seq`: a body, or the first line of an error.
fn response(seq: i64, command: &str, answer: Answer) -> Value {
    let mut response = json!({
        "type": "response",
        "request_seq": seq,
        "command": command,
        "success": answer.is_ok(),
    });
    match answer {
        Ok(Value::Null) => {}
        Ok(body) => response["body"] = body,
        Err(error) => {
            let line = error.lines().next().unwrap_or_default();
            response["message"] = json!(line);
            response["body"] = json!({"error": {"id": 1, "format": line, "showUser": true}});
        }
    }
    response
}

/// Loads a program, given as BMv2 JSON, with notes. Also returns its parsers.
fn load(json: &str) -> Result<(Arc<LoadedProgram>, Vec<Parser>), String> {
    let parsed = BmV2Json::from_text(json).map_err(|error| error.to_string())?;
    let options = LoadOptions {
        notes: true,
        ..LoadOptions::default()
    };
    let program = LoadedProgram::with_options(&parsed, options);
    let program = program.map_err(|error| error.to_string())?;
    Ok((Arc::new(program), parsed.parsers))
}

fn arguments<T: for<'a> Deserialize<'a>>(request: &Value) -> Result<T, String> {
    let arguments = request.get("arguments").cloned().unwrap_or(json!({}));
    serde_json::from_value(arguments).map_err(|error| format!("wrong arguments: {error}"))
}

impl Debugger {
    /// Creates a debugger that reads programs and tests through `host`.
    pub fn new(host: Box<dyn Host + Send>) -> Debugger {
        Debugger {
            host,
            live: None,
            fabric: None,
            is_of_fabric: false,
            is_running: false,
            seq: 0,
            launch: None,
            run: None,
            breakpoints: BTreeMap::new(),
            next_id: 0,
            groups: Vec::new(),
            supports_invalidated: false,
            exit_code: None,
            is_done: false,
        }
    }

    /// Creates the debugger of a fabric in virtual time. `json`: BMv2 JSON of the program of its switches.
    pub fn of_fabric(passes: Box<dyn Passes + Send>, json: String) -> Debugger {
        Debugger {
            fabric: Some((passes, json)),
            is_of_fabric: true,
            ..Debugger::new(Box::new(NoFiles))
        }
    }

    /// Whether the debugger runs to the next breakpoint of a fabric: [`Debugger::advance`] continues the run.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Runs a part of the way to the next breakpoint, and returns the messages to send.
    pub fn advance(&mut self) -> Reply {
        let mut events = Vec::new();
        if self.is_running {
            self.is_running = false;
            if let Err(error) = self.go_forward(&mut events) {
                events.push(output("stderr", &format!("{error}\n")));
            }
        }
        self.numbered(events)
    }

    fn go_forward(&mut self, events: &mut Reply) -> Result<(), String> {
        self.travel(events, |recording, breakpoints, scopes, log| {
            navigation::run(recording, Direction::Forward, breakpoints, scopes, log)
        })
    }

    fn numbered(&mut self, mut messages: Reply) -> Reply {
        for message in &mut messages {
            self.seq += 1;
            message["seq"] = json!(self.seq);
        }
        messages
    }

    /// Whether the editor has ended the session.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the exit code of the test, as of `alfirk stf`: 0 if it passed, 1 if it failed; `None` before its end.
    pub fn exit_code(&self) -> Option<i32> {
        self.exit_code
    }

    /// Handles a message of the editor, and returns the messages to send.
    ///
    /// # Errors
    /// The message is not a request of the protocol.
    pub fn handle(&mut self, message: &Value) -> Result<Reply, String> {
        let kind = message.get("type").and_then(Value::as_str);
        if matches!(kind, Some("response" | "event")) {
            return Ok(Vec::new());
        }
        let (Some("request"), Some(seq), Some(command)) = (
            kind,
            message.get("seq").and_then(Value::as_i64),
            message.get("command").and_then(Value::as_str),
        ) else {
            let mut text = message.to_string();
            text.truncate(text.char_indices().nth(60).map_or(text.len(), |(at, _)| at));
            return Err(format!(
                "expected a request of the Debug Adapter Protocol, found {text}"
            ));
        };
        let mut events = Vec::new();
        let answer = self.answer(command, message, &mut events);
        let mut messages = vec![response(seq, command, answer)];
        messages.extend(events);
        Ok(self.numbered(messages))
    }

    /// Returns the messages that refuse a request for the reason `why`, which is that of the debugger's driver.
    pub fn refuse(&mut self, request: &Value, why: String) -> Reply {
        let seq = request["seq"].as_i64().unwrap_or(0);
        let command = request["command"].as_str().unwrap_or_default();
        self.numbered(vec![response(seq, command, Err(why))])
    }

    fn answer(&mut self, command: &str, request: &Value, events: &mut Reply) -> Answer {
        match command {
            "initialize" => {
                let asked = request.pointer("/arguments/supportsInvalidatedEvent");
                self.supports_invalidated = asked.and_then(Value::as_bool).unwrap_or(false);
                Ok(capabilities())
            }
            "launch" => {
                let launch: Launch = arguments(request)?;
                self.start(launch, events)?;
                events.push(event("initialized", Value::Null));
                Ok(Value::Null)
            }
            "attach" => {
                self.attach(request)?;
                events.push(event("initialized", Value::Null));
                Ok(Value::Null)
            }
            "setBreakpoints" => self.set_breakpoints(request),
            "setFunctionBreakpoints" => self.set_function_breakpoints(request),
            "setExceptionBreakpoints" => self.set_exception_breakpoints(request),
            "dataBreakpointInfo" => self.data_breakpoint_info(request),
            "setDataBreakpoints" => self.set_data_breakpoints(request),
            "configurationDone" => {
                self.begin(events)?;
                Ok(Value::Null)
            }
            "threads" => {
                let name = match (&self.live, self.is_of_fabric) {
                    (Some(_), _) => "packets of the switch",
                    (None, true) => "packets of the fabric",
                    (None, false) => "packets of the test",
                };
                Ok(json!({"threads": [{"id": THREAD, "name": name}]}))
            }
            "stackTrace" => self.stack_trace(request),
            "scopes" => self.scopes(),
            "variables" => self.variables(request),
            "setVariable" => self.set_variable(request, events),
            "setExpression" => self.set_expression(request, events),
            "evaluate" => self.evaluate(request),
            "completions" => self.completions(request),
            "continue" => {
                self.go_forward(events)?;
                Ok(json!({"allThreadsContinued": true}))
            }
            "reverseContinue" => {
                self.travel(events, |recording, breakpoints, scopes, log| {
                    navigation::run(recording, Direction::Backward, breakpoints, scopes, log)
                })?;
                Ok(Value::Null)
            }
            "next" => self.step(Step::Over, events),
            "stepIn" => self.step(Step::In, events),
            "stepOut" => self.step(Step::Out, events),
            "stepBack" => self.step(Step::Back, events),
            "pause" => {
                self.running()?;
                self.is_running = false;
                if self.pause_live() {
                    return Ok(Value::Null);
                }
                events.push(stopped("pause", "", None));
                Ok(Value::Null)
            }
            "restart" => {
                if self.live.is_some() || self.is_of_fabric {
                    return Err("only a test can be restarted".to_owned());
                }
                let launch = self.launch.clone().ok_or("there is no test to restart")?;
                self.start(launch, events)?;
                self.begin(events)?;
                Ok(Value::Null)
            }
            "loadedSources" => {
                let run = self.running()?;
                let sources: Vec<Value> = run.lines.keys().map(|file| source(file)).collect();
                Ok(json!({ "sources": sources }))
            }
            "source" => {
                let path = request
                    .pointer("/arguments/source/path")
                    .and_then(Value::as_str);
                let path = path.ok_or("the source has no path")?;
                Ok(json!({"content": self.host.text(Path::new(path))?}))
            }
            "disconnect" | "terminate" => {
                self.is_done = command == "disconnect";
                if command == "terminate" {
                    events.push(event("terminated", Value::Null));
                }
                self.run = None;
                self.is_running = false;
                self.release_all();
                Ok(Value::Null)
            }
            other => Err(format!("the request `{other}` is not supported")),
        }
    }

    fn running(&mut self) -> Result<&mut Run, String> {
        let run = self.run.as_mut();
        run.ok_or_else(|| "no test is running; use the request `launch`".to_owned())
    }

    /// Compiles the program and starts the switch.
    fn start(&mut self, launch: Launch, events: &mut Reply) -> Result<(), String> {
        self.run = None;
        let started = self.open(&launch);
        self.launch = Some(launch);
        match started {
            Ok(run) => self.run = Some(run),
            Err(error) => {
                events.push(output("stderr", &format!("{}\n", error.trim_end())));
                events.push(event("exited", json!({"exitCode": 1})));
                events.push(event("terminated", Value::Null));
                self.exit_code = Some(1);
                return Err(first_error(&error));
            }
        }
        Ok(())
    }

    fn open(&mut self, launch: &Launch) -> Result<Run, String> {
        if let Some((passes, json)) = self.fabric.take() {
            let (program, parsers) = load(&json)?;
            let recording = Recording::of_fabric(passes, program.clone(), &parsers);
            return Ok(Run::new(recording, &program));
        }
        if self.live.is_some() || self.is_of_fabric {
            return Err("this run cannot be launched again".to_owned());
        }
        if launch.program.as_os_str().is_empty() {
            return Err("the launch configuration needs `program`, a P4 program".to_owned());
        }
        let lines = self.lines(launch)?;
        let json = self.host.program(launch)?;
        let at_program = |error: String| format!("{}: {error}", launch.program.display());
        let records = Records {
            traces: true,
            ..Records::default()
        };
        let session = Session::start(&json, launch.seed, records).map_err(at_program)?;
        let program = session.switch().program().cloned();
        let program = program.ok_or_else(|| at_program("the switch has no program".to_owned()))?;
        let parsed = BmV2Json::from_text(&json).map_err(|error| at_program(error.to_string()))?;
        let recording = Recording::of_test(session, lines, &parsed.parsers);
        Ok(Run::new(recording, &program))
    }

    /// Reads the test: an STF file, or a capture after the commands of one.
    fn lines(&self, launch: &Launch) -> Result<Vec<Line>, String> {
        let read = |path: &Path| {
            let text = self.host.text(path)?;
            alfirk_stf::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
        };
        match (&launch.test, &launch.capture) {
            (Some(test), None) => read(test),
            (None, Some(capture)) => {
                let mut lines = match &launch.commands {
                    Some(commands) => read(commands)?,
                    None => Vec::new(),
                };
                let first = lines.last().map_or(1, |line| line.number + 1);
                let packets = (first..).zip(self.host.capture(capture)?);
                lines.extend(packets.map(|(number, data)| Line {
                    number,
                    command: Command::Packet {
                        port: launch.port,
                        data,
                    },
                }));
                Ok(lines)
            }
            (None, None) => Err("the launch configuration needs `test`, an STF file, or `capture`, a pcap file".to_owned()),
            (Some(_), Some(_)) => Err("the launch configuration has both `test` and `capture`; use `commands` for the entries of a capture".to_owned()),
        }
    }

    /// Runs to the first stop.
    fn begin(&mut self, events: &mut Reply) -> Result<(), String> {
        if self.live.is_some() {
            return self.begin_live();
        }
        let launch = self.launch.clone().unwrap_or_default();
        let Some(run) = self.run.as_mut() else {
            return Err("no test is running; use the request `launch`".to_owned());
        };
        if launch.no_debug {
            return Self::end(run, &launch, &mut self.exit_code, events);
        }
        if let Some(name) = &launch.stop_at {
            self.stop_at(name)?;
        }
        let run = self.running()?;
        if launch.stop_on_entry {
            let mut at = run.recording.first();
            while let Some(here) = at.filter(|here| run.recording.place(*here).is_none()) {
                at = run.recording.after(here);
            }
            if let Some(at) = at {
                run.recording.move_to(at);
                events.push(stopped("entry", "", None));
                return Ok(());
            }
        }
        self.go_forward(events)
    }

    fn step(&mut self, step: Step, events: &mut Reply) -> Answer {
        self.travel(events, |recording, breakpoints, scopes, log| {
            navigation::step(recording, step, breakpoints, scopes, log)
        })?;
        Ok(Value::Null)
    }

    /// Moves in the recording, and sends the events of the arrival.
    fn travel(
        &mut self,
        events: &mut Reply,
        movement: impl FnOnce(&mut Recording, &mut [Breakpoint], &Scopes, &mut Vec<String>) -> Halt,
    ) -> Result<(), String> {
        let launch = self.launch.clone().unwrap_or_default();
        self.groups.clear();
        let mut breakpoints = BreakpointsOf::take(&mut self.breakpoints);
        let mut log = Vec::new();
        let run = self.run.as_mut();
        let halt = run.map(|run| {
            movement(
                &mut run.recording,
                &mut breakpoints.all,
                &run.scopes,
                &mut log,
            )
        });
        breakpoints.put_back(&mut self.breakpoints);
        events.extend(
            log.iter()
                .map(|line| output("console", &format!("{line}\n"))),
        );
        match halt.ok_or("no test is running; use the request `launch`")? {
            Halt::Step => events.push(stopped("step", "", None)),
            Halt::Beginning => events.push(stopped("entry", "the recording begins here", None)),
            Halt::Breakpoint(id, reason, text) => events.push(stopped(reason, &text, Some(id))),
            Halt::Unfinished => self.is_running = true,
            Halt::End if self.live.is_some() => self.go_on_live(events),
            Halt::End => {
                let run = self.run.as_mut().ok_or("no test is running")?;
                Self::end(run, &launch, &mut self.exit_code, events)?;
            }
        }
        Ok(())
    }

    /// Reports the results of the test.
    fn end(
        run: &mut Run,
        launch: &Launch,
        exit_code: &mut Option<i32>,
        events: &mut Reply,
    ) -> Result<(), String> {
        if run.has_ended {
            events.push(stopped("step", "the test ends here", None));
            return Ok(());
        }
        run.has_ended = true;
        let test = launch.test.as_ref().or(launch.capture.as_ref());
        let test = test
            .map(|test| test.display().to_string())
            .unwrap_or_default();
        let (failures, summary, code) = run.recording.result(&test);
        for failure in failures {
            events.push(output("stderr", &(failure + "\n")));
        }
        let end = if summary.ends_with('\n') { "" } else { "\n" };
        events.push(output("stdout", &(summary + end)));
        *exit_code = Some(code);
        events.push(event("exited", json!({ "exitCode": code })));
        events.push(event("terminated", Value::Null));
        Ok(())
    }
}

impl Run {
    fn new(recording: Recording, program: &LoadedProgram) -> Run {
        let mut by_file: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        let tables = (0..u16::MAX).map_while(|table| {
            program.table_name(table)?;
            Some(program.table_source(table).cloned())
        });
        let statements = program.statement_positions();
        for source in statements.into_iter().chain(tables.flatten()) {
            by_file.entry(source.file).or_default().insert(source.line);
        }
        for place in recording.parser_places() {
            by_file
                .entry(place.file.clone())
                .or_default()
                .insert(place.line);
        }
        Run {
            states: recording.state_names().map(str::to_owned).collect(),
            recording,
            scopes: Scopes::of(program),
            lines: by_file,
            has_ended: false,
        }
    }
}

/// All breakpoints in one list, and the number of those of each request.
struct BreakpointsOf {
    all: Vec<Breakpoint>,
    sizes: Vec<usize>,
}

impl BreakpointsOf {
    fn take(lists: &mut BTreeMap<String, Vec<Breakpoint>>) -> BreakpointsOf {
        let sizes = lists.values().map(Vec::len).collect();
        let all = lists.values_mut().flat_map(std::mem::take).collect();
        BreakpointsOf { all, sizes }
    }

    fn put_back(self, lists: &mut BTreeMap<String, Vec<Breakpoint>>) {
        let mut rest = self.all.into_iter();
        for (list, size) in lists.values_mut().zip(self.sizes) {
            list.extend(rest.by_ref().take(size));
        }
    }
}

/// Returns the first message of a compiler's report, with its place.
fn first_error(report: &str) -> String {
    let mut lines = report
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("the program cannot be compiled");
    match lines.next().and_then(|line| line.strip_prefix("--> ")) {
        Some(place) => format!("{place}: {first}"),
        None => first.to_owned(),
    }
}

fn capabilities() -> Value {
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsFunctionBreakpoints": true,
        "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true,
        "supportsLogPoints": true,
        "supportsDataBreakpoints": true,
        "supportsEvaluateForHovers": true,
        "supportsStepBack": true,
        "supportsSetVariable": true,
        "supportsSetExpression": true,
        "supportsRestartRequest": true,
        "supportsTerminateRequest": true,
        "supportsLoadedSourcesRequest": true,
        "supportsCompletionsRequest": true,
        "completionTriggerCharacters": ["."],
        "exceptionBreakpointFilters": [
            {"filter": "drop", "label": "Packet dropped", "default": false},
            {"filter": "assert", "label": "Assertion failed", "default": true},
            {"filter": "miss", "label": "Table misses", "default": false},
        ],
    })
}

fn event(name: &str, body: Value) -> Value {
    let mut event = json!({"type": "event", "event": name});
    if !body.is_null() {
        event["body"] = body;
    }
    event
}

fn output(category: &str, text: &str) -> Value {
    event("output", json!({"category": category, "output": text}))
}

fn stopped(reason: &str, text: &str, breakpoint: Option<u64>) -> Value {
    let mut body = json!({"reason": reason, "threadId": THREAD, "allThreadsStopped": true});
    if !text.is_empty() {
        body["description"] = json!(text);
        body["text"] = json!(text);
    }
    if let Some(id) = breakpoint {
        body["hitBreakpointIds"] = json!([id]);
    }
    event("stopped", body)
}

/// Returns the protocol's description of a source file.
fn source(file: &str) -> Value {
    let path = normalize(Path::new(file));
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    json!({"name": name.unwrap_or_default(), "path": path.display().to_string()})
}
