//! Completes the last word of an input line of `alfirk cli`.

use super::commands::{self, Arg};
use super::program::ProgramNames;

/// Returns the byte offset of the last word of `line`, and its possible completions.
pub fn candidates(program: &ProgramNames, line: &str) -> (usize, Vec<String>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| {
        at + line[at..].chars().next().map_or(0, char::len_utf8)
    });
    let word = &line[start..];
    let before: Vec<&str> = line[..start].split_whitespace().collect();
    (start, matching(program, &before, word))
}

fn matching(program: &ProgramNames, before: &[&str], word: &str) -> Vec<String> {
    let Some((command, given)) = before.split_first() else {
        return starting(command_names(), word);
    };
    if *command == "help" {
        return match given {
            [] => starting(command_names(), word),
            _ => Vec::new(),
        };
    }
    let arg = commands::find(command).and_then(|command| command.args.get(given.len()));
    match arg {
        Some(arg) => names(program, *arg, given.first().copied(), word),
        None => Vec::new(),
    }
}

fn command_names() -> impl Iterator<Item = &'static str> {
    commands::all()
        .into_iter()
        .map(|command| command.name)
        .chain(["exit", "help", "quit", "shell"])
}

/// Names that complete the argument `arg` with the prefix `word`. `first`: first argument of the command.
fn names(program: &ProgramNames, arg: Arg, first: Option<&str>, word: &str) -> Vec<String> {
    let actions: &[String] = match (arg, first) {
        (Arg::TableAction, Some(table)) => program.table(table).map_or(&[], |t| &t.actions),
        (Arg::ProfileAction, Some(profile)) => program.profile(profile).map_or(&[], |p| &p.actions),
        _ => &[],
    };
    match arg {
        Arg::Table => matching_names(program.tables.keys(), word),
        Arg::TableAction | Arg::ProfileAction => matching_names(actions.iter(), word),
        Arg::Profile => matching_names(program.profiles.keys(), word),
        Arg::Meter => matching_names(program.meters.keys(), word),
        Arg::Counter => matching_names(program.counters.keys(), word),
        Arg::Register => matching_names(program.registers.keys(), word),
        Arg::ValueSet => matching_names(program.value_sets.keys(), word),
        Arg::CustomCrc(width) => {
            let hashes = program.custom_crcs.iter();
            let of_width = hashes.filter(|(_, found)| **found == width);
            starting(of_width.map(|(name, _)| name.as_str()), word)
        }
        Arg::Other(_) => Vec::new(),
    }
}

fn starting<'n>(names: impl Iterator<Item = &'n str>, word: &str) -> Vec<String> {
    let mut found: Vec<String> = names
        .filter(|name| name.starts_with(word))
        .map(str::to_owned)
        .collect();
    found.sort();
    found
}

/// Names that start with `word`; if there are none, names with a part after a dot that starts with it.
fn matching_names<'n>(names: impl Iterator<Item = &'n String> + Clone, word: &str) -> Vec<String> {
    let full = starting(names.clone().map(String::as_str), word);
    if !full.is_empty() {
        return full;
    }
    let part = format!(".{word}");
    let mut found: Vec<String> = names.filter(|name| name.contains(&part)).cloned().collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime_cli::program::tests::sample;

    fn complete(line: &str) -> Vec<String> {
        candidates(&sample(), line).1
    }

    #[test]
    fn commands_are_completed_first() {
        assert_eq!(candidates(&sample(), "mc_no").0, 0);
        assert_eq!(
            complete("mc_no"),
            [
                "mc_node_associate",
                "mc_node_create",
                "mc_node_destroy",
                "mc_node_dissociate",
                "mc_node_update"
            ]
        );
        assert_eq!(complete("help swa"), ["swap_configs"]);
        assert!(complete("nothing ").is_empty());
    }

    #[test]
    fn completion_offers_names_valid_for_the_argument() {
        assert_eq!(candidates(&sample(), "table_add MyE").0, 10);
        assert_eq!(complete("table_add MyE"), ["MyEgress.route"]);
        assert_eq!(complete("table_dump ac"), ["MyIngress.acl"]);
        assert_eq!(complete("table_add acl "), ["MyIngress.drop"]);
        assert_eq!(
            complete("table_add MyIngress.route f"),
            ["MyIngress.forward"]
        );
        assert!(complete("table_add acl drop ").is_empty());
        assert_eq!(complete("act_prof_dump "), ["MyIngress.hops"]);
        assert_eq!(complete("register_read "), ["MyIngress.r"]);
        assert_eq!(complete("counter_read "), ["MyIngress.c"]);
        assert_eq!(complete("set_crc16_parameters "), ["calc"]);
        assert!(complete("set_crc32_parameters ").is_empty());
    }
}
