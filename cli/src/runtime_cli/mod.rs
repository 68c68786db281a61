//! `alfirk cli`: a command line for the tables, arrays, multicast groups and other objects of a running switch, over BMv2's Thrift services.
//!
//! It accepts the options, commands and scripts of BMv2's `simple_switch_CLI`, and prints the same texts. Without a
//! connection, `line` parses lines, `program` resolves names, `values` parses keys and arguments, and `format` formats
//! results. `commands` send requests to the switch; this module reads lines.

mod commands;
mod complete;
mod error;
mod format;
mod help;
mod line;
mod program;
mod values;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use alfirk_thrift::{Connection, DEFAULT_PORT};
use md5::{Digest, Md5};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Context, Editor, Helper, Highlighter, Hinter, Validator};

use crate::exit::{Failure, Outcome};
use commands::Session;
use error::Error;
use line::{Line, Lines};
use program::ProgramNames;

const PROMPT: &str = "RuntimeCmd: ";

/// Control a running switch over Thrift with the commands of BMv2's simple_switch_CLI.
///
/// Reads commands from the terminal, with tab completion, or from a file or pipe, one per line: `table_add`, `table_dump`,
/// `mc_node_create`, `register_read` and others; `help` lists them. Works with `alfirk switch --thrift-port` and simple_switch.
///
/// Exit codes: 0 at the end of the commands, even if some failed; 1 no connection to the switch, or it was lost; 2 wrong usage or
/// unreadable input.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk cli --thrift-port 9090
  alfirk cli --thrift-port 9091 < s2-commands.txt
  echo 'table_dump ipv4_lpm' | alfirk cli")]
pub struct Args {
    /// Port of the switch's Thrift server.
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    thrift_port: u16,

    /// Address or name of the switch's Thrift server.
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    thrift_ip: String,

    /// Read the program's names from this BMv2 JSON instead of the switch.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The switch's replication engine. simple_switch has SimplePreLAG.
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t = Pre::SimpleLag)]
    pre: Pre,
}

/// Kind of the switch's packet replication engine, which determines its Thrift service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pre {
    #[value(name = "None")]
    None,
    #[value(name = "SimplePre")]
    Simple,
    #[value(name = "SimplePreLAG")]
    SimpleLag,
}

/// Runs `alfirk cli`.
pub fn run(args: &Args) -> Outcome {
    let mut out = io::stdout();
    match run_commands(args, &mut out) {
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(Failure::PipeClosed)
        }
        Err(Error::Input(what)) => Err(Failure::bad_input(what)),
        Err(error) => Err(Failure::failed(error)),
        Ok(Connected::No) => Err(Failure::AlreadyReported(1)),
        Ok(Connected::Yes) => Ok(()),
    }
}

/// Whether the connection to the switch was established.
enum Connected {
    Yes,
    No,
}

fn run_commands(args: &Args, out: &mut dyn Write) -> error::Result<Connected> {
    let Ok(mut connection) = Connection::open((args.thrift_ip.as_str(), args.thrift_port)) else {
        // To stdout, as BMv2's CLI does; scripts search for it there.
        writeln!(
            out,
            "Could not connect to thrift client on port {}\n\
             Make sure the switch is running and that you have the right port",
            args.thrift_port
        )?;
        return Ok(Connected::No);
    };
    let json = match &args.json {
        Some(file) => {
            let json = fs::read(file)
                .map_err(|error| Error::input(format_args!("{}: {error}", file.display())))?;
            let running = connection.standard().bm_get_config_md5()?;
            write!(out, "{}", md5_warning(&running, &json))?;
            String::from_utf8_lossy(&json).into_owned()
        }
        None => {
            writeln!(out, "Obtaining JSON from switch...")?;
            let json = connection.standard().bm_get_config()?;
            writeln!(out, "Done")?;
            json
        }
    };
    let program = ProgramNames::from_json(&json).map_err(|what| match &args.json {
        Some(file) => Error::input(format_args!("{}: {what}", file.display())),
        None => Error::Connection(format!("the switch's JSON: {what}")),
    })?;
    writeln!(out, "Control utility for runtime P4 table manipulation")?;
    let session = Session {
        connection,
        program,
        pre: args.pre,
        out,
    };
    match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => run_interactive(session)?,
        false => run_script(session, io::stdin().lock())?,
    }
    Ok(Connected::Yes)
}

/// Warning that the JSON file is not that of the running program, by MD5; empty if it is.
fn md5_warning(running: &[u8], json: &[u8]) -> String {
    let given = Md5::digest(json);
    if given[..] == *running {
        return String::new();
    }
    let stars = "**********";
    format!(
        "{stars}\n\
         WARNING: the JSON files loaded into the switch and the one you just provided to this CLI don't have the same md5 sum. \
         Are you sure they describe the same program?\n\
         {:15}: {}\n{:15}: {}\n{stars}\n",
        "switch md5",
        values::hex(running, ""),
        "CLI input md5",
        values::hex(&given, "")
    )
}

/// Reads commands from a file or a pipe. Prints the prompt before each, as BMv2's CLI does.
fn run_script(mut session: Session<'_>, mut input: impl BufRead) -> error::Result<()> {
    let mut lines = Lines::default();
    let mut bytes = Vec::new();
    loop {
        write!(session.out, "{PROMPT}")?;
        session.out.flush()?;
        bytes.clear();
        if input.read_until(b'\n', &mut bytes)? == 0 {
            writeln!(session.out)?;
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes);
        if execute(&mut session, lines.read(&text))? == NextStep::End {
            return Ok(());
        }
    }
}

/// Reads commands from a terminal, with line editing, completion and history.
fn run_interactive(mut session: Session<'_>) -> error::Result<()> {
    let closed =
        |error: ReadlineError| Error::Connection(format!("cannot read from the terminal: {error}"));
    // As in a shell: the common prefix at the first tab, a list at the second.
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .build();
    let mut editor: Editor<NameCompleter, DefaultHistory> =
        Editor::with_config(config).map_err(closed)?;
    let mut lines = Lines::default();
    loop {
        // The editor needs the names while it reads, the commands while they run.
        editor.set_helper(Some(NameCompleter(std::mem::take(&mut session.program))));
        let read = editor.readline(PROMPT);
        if let Some(names) = editor.helper_mut() {
            session.program = std::mem::take(&mut names.0);
        }
        let text = match read {
            Ok(text) => text,
            // Ctrl-C discards the line.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(closed(error)),
        };
        if !text.trim().is_empty() {
            editor.add_history_entry(text.as_str()).map_err(closed)?;
        }
        if execute(&mut session, lines.read(&text))? == NextStep::End {
            return Ok(());
        }
        session.out.flush()?;
    }
}

/// What follows after a line: the next line, or the end of the session.
#[derive(PartialEq, Eq)]
enum NextStep {
    Continue,
    End,
}

/// Executes a line. Prints the error of a command; returns only errors after which no command can succeed.
fn execute(session: &mut Session<'_>, line: Line<'_>) -> error::Result<NextStep> {
    match line {
        Line::Nothing => {}
        Line::Quit => return Ok(NextStep::End),
        Line::Help(topic) => write!(session.out, "{}", help::text(topic))?,
        Line::Shell(command) => writeln!(session.out, "{}", shell(command))?,
        Line::Unknown(text) => writeln!(session.out, "*** Unknown syntax: {text}")?,
        Line::Command(name, args) => match commands::find(name) {
            None => {
                let words: Vec<&str> = std::iter::once(name).chain(args).collect();
                writeln!(session.out, "*** Unknown syntax: {}", words.join(" "))?;
            }
            Some(command) => match (command.run)(session, &args) {
                Err(error) if error.is_final() => return Err(error),
                Err(error) => writeln!(session.out, "{error}")?,
                Ok(()) => {}
            },
        },
    }
    Ok(NextStep::Continue)
}

/// Runs a shell command and returns its stdout; its stderr is not captured.
fn shell(command: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    match output {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => format!("Error: cannot run sh: {error}"),
    }
}

/// Completer of the line editor, with the names of the program.
#[derive(Helper, Highlighter, Hinter, Validator)]
struct NameCompleter(ProgramNames);

impl Completer for NameCompleter {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete::candidates(&self.0, &line[..position]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_program_causes_a_warning() {
        let running = Md5::digest(b"{}");
        assert_eq!(md5_warning(&running, b"{}"), "");
        let warning = md5_warning(&running, b"{ }");
        assert!(warning.contains("don't have the same md5 sum"), "{warning}");
        assert!(
            warning.contains("switch md5     : 99914b932bd37a50b983c5e7c90ae93b\n"),
            "{warning}"
        );
    }
}
