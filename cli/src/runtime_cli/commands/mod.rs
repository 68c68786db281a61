//! All commands, each with its arguments, help and implementation. They send requests to the switch; the other modules
//! of `alfirk cli` need no connection.

mod arrays;
mod multicast;
mod profiles;
mod simple_switch;
mod switch;
mod tables;

use std::io::Write;

use alfirk_thrift::Connection;

use super::error::{Error, Result};
use super::program::{Meter, ProgramNames};
use super::values::decimal;
use super::Pre;

/// State of `alfirk cli`: the connection to a switch, the names of its program, and the output.
pub struct Session<'o> {
    pub connection: Connection,
    pub program: ProgramNames,
    pub pre: Pre,
    pub out: &'o mut dyn Write,
}

/// Kind of a command's argument, for the usage line and for completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    Table,
    /// An action of the table that the first argument names.
    TableAction,
    Profile,
    /// An action of the action profile that the first argument names.
    ProfileAction,
    Meter,
    Counter,
    Register,
    ValueSet,
    /// A hash with a configurable CRC of this width in bits.
    CustomCrc(u32),
    /// An argument without completion; the value is its text in the usage line.
    Other(&'static str),
}

impl Arg {
    fn usage(self) -> &'static str {
        match self {
            Arg::Table => "<table name>",
            Arg::TableAction | Arg::ProfileAction => "<action name>",
            Arg::Profile => "<action profile name>",
            Arg::Other(usage) => usage,
            Arg::Meter | Arg::Counter | Arg::Register | Arg::ValueSet | Arg::CustomCrc(_) => {
                "<name>"
            }
        }
    }
}

/// A command of `alfirk cli`.
pub struct Command {
    pub name: &'static str,
    pub args: &'static [Arg],
    pub help: &'static str,
    /// Executes the command with these arguments.
    pub run: fn(&mut Session<'_>, &[&str]) -> Result<()>,
}

impl Command {
    /// Usage line: the name of the command and its arguments.
    pub fn usage(&self) -> String {
        let args = self.args.iter().map(|arg| arg.usage());
        let words: Vec<&str> = std::iter::once(self.name).chain(args).collect();
        words.join(" ")
    }
}

/// All commands, sorted by name.
pub fn all() -> Vec<&'static Command> {
    let families = [
        tables::COMMANDS,
        profiles::COMMANDS,
        multicast::COMMANDS,
        arrays::COMMANDS,
        switch::COMMANDS,
        simple_switch::COMMANDS,
    ];
    let mut all: Vec<&Command> = families.into_iter().flatten().collect();
    all.sort_by_key(|command| command.name);
    all
}

/// Finds the command with this name.
pub fn find(name: &str) -> Option<&'static Command> {
    all().into_iter().find(|command| command.name == name)
}

/// Returns an error if there are fewer than `count` arguments.
fn at_least(args: &[&str], count: usize) -> Result<()> {
    match args.len() >= count {
        true => Ok(()),
        false => Err(Error::input("Insufficient number of args")),
    }
}

/// Returns the arguments as an array; an error if there are not exactly `N`.
fn exactly<'a, 't, const N: usize>(args: &'a [&'t str]) -> Result<&'a [&'t str; N]> {
    args.try_into().map_err(|_| {
        Error::input(format_args!(
            "Wrong number of args, expected {N} but got {}",
            args.len()
        ))
    })
}

/// Parses a decimal number; `what` names it in the message.
fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T> {
    decimal(text).ok_or_else(|| Error::input(format_args!("Bad format for {what}")))
}

/// Parses the rates of a meter: `RATE:BURST` for each of its colours except the first.
fn rates(meter: &Meter, texts: &[&str]) -> Result<Vec<alfirk_thrift::standard::BmMeterRateConfig>> {
    if texts.len() != meter.rate_count {
        return Err(Error::input(format_args!(
            "Invalid number of rates, expected {} but got {}",
            meter.rate_count,
            texts.len()
        )));
    }
    let rate = |text: &&str| {
        let (rate, burst) = text.split_once(':')?;
        Some(alfirk_thrift::standard::BmMeterRateConfig {
            units_per_micros: rate.parse().ok()?,
            burst_size: decimal(burst)?,
        })
    };
    let rates: Option<Vec<_>> = texts.iter().map(rate).collect();
    rates.ok_or_else(|| Error::input("Error while parsing rates"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime_cli::program::tests::sample;

    #[test]
    fn names_of_commands_are_those_of_bmv2() {
        let names: Vec<&str> = all().iter().map(|command| command.name).collect();
        let mut distinct = names.clone();
        distinct.dedup();
        assert_eq!(names, distinct);
        for name in [
            "act_prof_add_member_to_group",
            "counter_reset",
            "get_time_since_epoch",
            "load_new_config_file",
            "mc_set_lag_membership",
            "meter_array_set_rates",
            "mirroring_add_mc",
            "pvs_clear",
            "set_crc32_parameters",
            "set_queue_rate",
            "show_ports",
            "switch_info",
            "table_dump_entry_from_key",
            "table_indirect_add_with_group",
        ] {
            assert!(names.contains(&name), "{name}");
        }
    }

    #[test]
    fn usage_shows_the_arguments() {
        assert_eq!(
            find("table_add").unwrap().usage(),
            "table_add <table name> <action name> <match fields> => <action parameters> [priority]"
        );
    }

    #[test]
    fn arguments_are_counted() {
        assert!(exactly::<2>(&["a", "b"]).is_ok());
        assert_eq!(
            exactly::<2>(&["a"]).unwrap_err().to_string(),
            "Error: Wrong number of args, expected 2 but got 1"
        );
        assert_eq!(
            at_least(&[], 1).unwrap_err().to_string(),
            "Error: Insufficient number of args"
        );
    }

    #[test]
    fn meters_take_as_many_rates_as_they_have() {
        let program = sample();
        let meter = program.meter("m").unwrap();
        let found = rates(meter, &["0.5:10", "1:20"]).unwrap();
        assert_eq!((found[0].units_per_micros, found[1].burst_size), (0.5, 20));
        assert_eq!(
            rates(meter, &["1:1"]).unwrap_err().to_string(),
            "Error: Invalid number of rates, expected 2 but got 1"
        );
        assert!(rates(meter, &["1:1", "1"]).is_err());
    }
}
