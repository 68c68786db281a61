//! Commands for tables with direct actions, and those common to all tables.

use alfirk_bmv2_json::TableType;
use alfirk_thrift::standard::BmAddEntryOptions;

use super::profiles::dump_profile;
use super::{at_least, exactly, number, Arg, Command, Session};
use crate::runtime_cli::error::{Error, Result};
use crate::runtime_cli::format::{action_entry, added_data, added_key, entry, labelled_line};
use crate::runtime_cli::program::{match_type_name, Table};
use crate::runtime_cli::values::{action_data, match_key};

const HANDLE: Arg = Arg::Other("<entry handle>");

/// Commands for tables with direct actions, and those common to all tables.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "show_tables",
        args: &[],
        help: "Lists the program's tables with their keys.",
        run: |session, args| {
            exactly::<0>(args)?;
            for table in session.program.tables.values() {
                writeln!(session.out, "{}", table.summary())?;
            }
            Ok(())
        },
    },
    Command {
        name: "show_actions",
        args: &[],
        help: "Lists the program's actions with their parameters.",
        run: |session, args| {
            exactly::<0>(args)?;
            for action in session.program.actions.values() {
                writeln!(session.out, "{}", action.summary())?;
            }
            Ok(())
        },
    },
    Command {
        name: "table_show_actions",
        args: &[Arg::Table],
        help: "Lists the actions that entries of a table may hold.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let table = session.program.table(name)?;
            let lines = session.program.action_lines(&table.actions);
            Ok(write!(session.out, "{lines}")?)
        },
    },
    Command {
        name: "table_info",
        args: &[Arg::Table],
        help: "Shows a table's key and actions.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let table = session.program.table(name)?;
            let lines = session.program.action_lines(&table.actions);
            let stars = "*".repeat(80);
            Ok(write!(session.out, "{}\n{stars}\n{lines}", table.summary())?)
        },
    },
    Command {
        name: "table_num_entries",
        args: &[Arg::Table],
        help: "Counts a table's entries.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let table = session.program.table(name)?;
            let mut client = session.connection.standard();
            let count = client.bm_mt_get_num_entries(0, &*table.name)?;
            Ok(writeln!(session.out, "{count}")?)
        },
    },
    Command {
        name: "table_clear",
        args: &[Arg::Table],
        help: "Removes all entries of a table; the default entry stays.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let table = session.program.table(name)?;
            let mut client = session.connection.standard();
            Ok(client.bm_mt_clear_entries(0, &*table.name, false)?)
        },
    },
    Command {
        name: "table_set_default",
        args: &[
            Arg::Table,
            Arg::TableAction,
            Arg::Other("<action parameters>"),
        ],
        help: "Sets the default entry of a table.",
        run: set_default,
    },
    Command {
        name: "table_reset_default",
        args: &[Arg::Table],
        help: "Resets the default entry of a table to that of the program.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let table = session.program.table(name)?;
            let mut client = session.connection.standard();
            Ok(client.bm_mt_reset_default_entry(0, &*table.name)?)
        },
    },
    Command {
        name: "table_add",
        args: &[
            Arg::Table,
            Arg::TableAction,
            Arg::Other("<match fields> => <action parameters> [priority]"),
        ],
        help: "Adds an entry and prints its handle.\n\
            A field is written VALUE if it is matched exactly, VALUE/LENGTH by prefix, VALUE&&&MASK ternary, and LOW->HIGH as a range.\n\
            Values are numbers, or IPv4, IPv6 and MAC addresses where the width is right.\n\
            Tables with a ternary field or a range need a priority; the lowest number wins.",
        run: add,
    },
    Command {
        name: "table_set_timeout",
        args: &[Arg::Table, HANDLE, Arg::Other("<timeout in ms>")],
        help: "Sets the idle timeout of an entry; the table must support timeouts.",
        run: set_timeout,
    },
    Command {
        name: "table_modify",
        args: &[
            Arg::Table,
            Arg::TableAction,
            HANDLE,
            Arg::Other("[action parameters]"),
        ],
        help: "Changes the action and arguments of an entry.",
        run: modify,
    },
    Command {
        name: "table_delete",
        args: &[Arg::Table, HANDLE],
        help: "Removes an entry.",
        run: |session, args| {
            let [name, handle] = exactly(args)?;
            let table = session.program.table(name)?;
            let handle: i32 = number(handle, "entry handle")?;
            writeln!(session.out, "Deleting entry {handle} from {name}")?;
            let mut client = session.connection.standard();
            Ok(client.bm_mt_delete_entry(0, &*table.name, handle)?)
        },
    },
    Command {
        name: "table_dump",
        args: &[Arg::Table],
        help: "Shows a table's entries, its members and groups if it has an action profile, and its default entry.",
        run: dump,
    },
    Command {
        name: "table_dump_entry",
        args: &[Arg::Table, HANDLE],
        help: "Shows one entry.",
        run: |session, args| {
            let [name, handle] = exactly(args)?;
            let table = session.program.table(name)?;
            let handle = number(handle, "entry handle")?;
            let mut client = session.connection.standard();
            let found = client.bm_mt_get_entry(0, &*table.name, handle)?;
            Ok(write!(session.out, "{}", entry(table, &found))?)
        },
    },
    Command {
        name: "table_dump_entry_from_key",
        args: &[Arg::Table, Arg::Other("<match fields> [priority]")],
        help: "Shows the entry with this key.",
        run: |session, args| {
            at_least(args, 1)?;
            let table = session.program.table(args[0])?;
            let (args, options) = split_priority(table, args)?;
            // The priority may have been the only argument.
            let fields = args.get(1..).unwrap_or_default();
            let key = match_key(table, args.first().unwrap_or(&""), fields)?;
            let mut client = session.connection.standard();
            let found = client.bm_mt_get_entry_from_key(0, &*table.name, key, options)?;
            Ok(write!(session.out, "{}", entry(table, &found))?)
        },
    },
];

/// Splits off the last argument as the priority of an entry, if entries of the table have priorities.
pub fn split_priority<'a, 't>(
    table: &Table,
    args: &'a [&'t str],
) -> Result<(&'a [&'t str], BmAddEntryOptions)> {
    let (args, priority) = match (table.has_priorities(), args) {
        (true, [before @ .., last]) => {
            let priority = number(last, "priority").map_err(|_| {
                Error::input("Table is ternary, but could not extract a valid priority from args")
            })?;
            (before, priority)
        }
        _ => (args, 0),
    };
    let options = BmAddEntryOptions {
        priority: Some(priority),
    };
    Ok((args, options))
}

/// Splits arguments at `=>`. Without `=>`, the second part is empty and the last argument is dropped, as in BMv2's CLI.
pub fn split_at_arrow<'a, 't>(args: &'a [&'t str]) -> (&'a [&'t str], &'a [&'t str]) {
    let arrow = args.iter().position(|arg| *arg == "=>");
    let at = arrow.unwrap_or(args.len().saturating_sub(1));
    (&args[..at], args.get(at + 1..).unwrap_or_default())
}

fn set_default(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    at_least(args, 2)?;
    let program = &session.program;
    let table = program.table(args[0])?;
    let action = program.table_action(table, args[0], args[1])?;
    let data = action_data(action, &args[2..])?;
    write!(
        session.out,
        "Setting default action of {}\n{}{}",
        args[0],
        labelled_line("action:", args[1]),
        labelled_line("runtime data:", &added_data(&data))
    )?;
    let mut client = session.connection.standard();
    Ok(client.bm_mt_set_default_action(0, &*table.name, &*action.name, data)?)
}

fn add(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    at_least(args, 3)?;
    let program = &session.program;
    let table = program.table(args[0])?;
    let action = program.table_action(table, args[0], args[1])?;
    let (args, options) = split_priority(table, args)?;
    let (fields, params) = split_at_arrow(&args[2..]);
    if fields.len() != table.keys.len() {
        // Checked before the action's arguments, as in BMv2's CLI.
        match_key(table, args[0], fields)?;
    }
    let data = action_data(action, params)?;
    let key = match_key(table, args[0], fields)?;
    write!(
        session.out,
        "Adding entry to {} match table {}\n{}{}{}",
        match_type_name(table.match_type),
        args[0],
        labelled_line("match key:", &added_key(&key)),
        labelled_line("action:", args[1]),
        labelled_line("runtime data:", &added_data(&data))
    )?;
    let mut client = session.connection.standard();
    let handle = client.bm_mt_add_entry(0, &*table.name, key, &*action.name, data, options)?;
    Ok(writeln!(
        session.out,
        "Entry has been added with handle {handle}"
    )?)
}

fn set_timeout(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, handle, timeout] = exactly(args)?;
    let table = session.program.table(name)?;
    if !table.support_timeout {
        return Err(Error::input(format_args!(
            "Table {name} does not support entry timeouts"
        )));
    }
    let handle: i32 = number(handle, "entry handle")?;
    let timeout: i32 = number(timeout, "timeout")?;
    writeln!(
        session.out,
        "Setting a {timeout} ms timeout for entry {handle}"
    )?;
    let mut client = session.connection.standard();
    Ok(client.bm_mt_set_entry_ttl(0, &*table.name, handle, timeout)?)
}

fn modify(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    at_least(args, 3)?;
    let program = &session.program;
    let table = program.table(args[0])?;
    let action = program.table_action(table, args[0], args[1])?;
    let handle: i32 = number(args[2], "entry handle")?;
    let data = action_data(action, without_arrow(&args[3..]))?;
    writeln!(
        session.out,
        "Modifying entry {handle} for {} match table {}",
        match_type_name(table.match_type),
        args[0]
    )?;
    let mut client = session.connection.standard();
    Ok(client.bm_mt_modify_entry(0, &*table.name, handle, &*action.name, data)?)
}

/// Skips an optional `=>` before the arguments of an action, as `table_add` has.
pub fn without_arrow<'a, 't>(args: &'a [&'t str]) -> &'a [&'t str] {
    match args {
        ["=>", rest @ ..] => rest,
        all => all,
    }
}

fn dump(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name] = exactly(args)?;
    let table = session.program.table(name)?;
    let mut client = session.connection.standard();
    let entries = client.bm_mt_get_entries(0, &*table.name)?;
    write!(session.out, "==========\nTABLE ENTRIES\n")?;
    for found in &entries {
        write!(session.out, "**********\n{}", entry(table, found))?;
    }
    if let (TableType::Indirect | TableType::IndirectWs, Some(profile)) =
        (table.kind, &table.profile)
    {
        let profile = session.program.profile(profile)?;
        write!(session.out, "{}", dump_profile(&mut client, profile)?)?;
    }
    let default = client.bm_mt_get_default_entry(0, &*table.name)?;
    Ok(write!(
        session.out,
        "==========\nDumping default entry\n{}==========\n",
        action_entry(&default)
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime_cli::program::tests::sample;

    #[test]
    fn arguments_follow_an_arrow() {
        assert_eq!(
            split_at_arrow(&["1", "=>", "2", "3"]),
            (&["1"][..], &["2", "3"][..])
        );
        assert_eq!(split_at_arrow(&["1", "=>"]), (&["1"][..], &[][..]));
        assert_eq!(split_at_arrow(&["=>"]), (&[][..], &[][..]));
        assert_eq!(split_at_arrow(&["1", "2"]), (&["1"][..], &[][..]));
        assert_eq!(split_at_arrow(&[]), (&[][..], &[][..]));
        assert_eq!(without_arrow(&["=>", "1"]), ["1"]);
    }

    #[test]
    fn only_tables_with_priorities_accept_a_priority() {
        let program = sample();
        let (rest, options) =
            split_priority(&program.tables["MyIngress.acl"], &["1", "7"]).unwrap();
        assert_eq!((rest, options.priority), (&["1"][..], Some(7)));
        let route = &program.tables["MyIngress.route"];
        let (rest, options) = split_priority(route, &["1", "7"]).unwrap();
        assert_eq!((rest, options.priority), (&["1", "7"][..], Some(0)));
        let error = split_priority(&program.tables["MyIngress.acl"], &["x"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Error: Table is ternary, but could not extract a valid priority from args"
        );
    }
}
