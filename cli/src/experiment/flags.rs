//! The flags of `alfirk run` that an experiment may use, taken from clap's definitions.

use std::any::TypeId;
use std::path::PathBuf;

use clap::{Args as _, Command, FromArgMatches};

use super::setting::Setting;
use crate::run;

/// Form of the value that a flag of `alfirk run` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No value: the flag is on if it is given.
    Switch,
    Value,
    /// Several values, separated by commas.
    List,
    /// Path of a file.
    File,
    /// Not permitted in experiments, with the reason.
    Refused(&'static str),
}

/// The flags of `alfirk run`.
pub struct Flags(Vec<(String, Kind)>);

impl Flags {
    /// Lists the flags of `alfirk run` with their forms, from its clap definition.
    pub fn new() -> Flags {
        let command = command();
        let flags = command.get_arguments().filter_map(|argument| {
            let name = argument.get_long()?;
            let file = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
            let kind = match name {
                "json" | "list-algorithms" | "list-host-models" => Kind::Refused("selects what is printed, and points print their results"),
                "pcap" | "trace" => {
                    Kind::Refused("records one run; take the command of a point from `alfirk experiment list` and add it there")
                }
                "help" | "version" => return None,
                _ if !argument.get_action().takes_values() => Kind::Switch,
                _ if argument.get_value_delimiter().is_some() => Kind::List,
                _ if file => Kind::File,
                _ => Kind::Value,
            };
            Some((name.to_owned(), kind))
        });
        Flags(flags.collect())
    }

    /// Form of the flag's value; `None` if `alfirk run` has no such flag.
    pub fn kind(&self, name: &str) -> Option<Kind> {
        let found = self.0.iter().find(|(flag, _)| flag == name);
        found.map(|(_, kind)| *kind)
    }

    /// Names of all permitted flags.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let allowed = self
            .0
            .iter()
            .filter(|(_, kind)| !matches!(kind, Kind::Refused(_)));
        allowed.map(|(name, _)| name.as_str())
    }
}

/// Converts settings to command-line arguments, such as `--size=1MiB`. Switches that are off are left out.
pub fn words(settings: &[Setting]) -> Vec<String> {
    let given = settings.iter().filter_map(|setting| {
        let flag = &setting.flag;
        Some(match setting.value.as_ref()?.as_str() {
            "" => format!("--{flag}"),
            value => format!("--{flag}={value}"),
        })
    });
    given.collect()
}

/// The shell command of `alfirk run` with these settings.
pub fn command_line(settings: &[Setting]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,%@+".contains(c);
    let words = words(settings)
        .into_iter()
        .map(|word| match word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', "'\\''")),
        });
    ["alfirk run".to_owned()]
        .into_iter()
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Parses settings as flags of `alfirk run`, with clap.
///
/// # Errors
/// The first line of clap's message, which names the wrong value.
pub fn parse(settings: &[Setting]) -> Result<run::Args, String> {
    let words = ["alfirk run".to_owned()].into_iter().chain(words(settings));
    let matches = command().try_get_matches_from(words);
    let args = matches.and_then(|matches| run::Args::from_arg_matches(&matches));
    args.map_err(|error| {
        let text = error.to_string();
        let lines = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.is_empty());
        let line = lines.collect::<Vec<_>>().join(" ");
        line.strip_prefix("error: ").unwrap_or(&line).to_owned()
    })
}

/// The clap definition of `alfirk run`.
fn command() -> Command {
    let mut command = run::Args::augment_args(Command::new("alfirk run"));
    command.build();
    command
}
