//! Commands for action profiles, for their members and groups, and for the tables that use them.

use alfirk_bmv2_json::TableType;
use alfirk_thrift::standard::{BmAddEntryOptions, BmMatchParam, Client};

use super::tables::{split_at_arrow, split_priority, without_arrow};
use super::{at_least, exactly, number, Arg, Command, Session};
use crate::runtime_cli::error::{Error, Result};
use crate::runtime_cli::format;
use crate::runtime_cli::program::{Profile, Table};
use crate::runtime_cli::values::{action_data, match_key};

const MEMBER: Arg = Arg::Other("<member handle>");
const GROUP: Arg = Arg::Other("<group handle>");
const ENTRY: Arg = Arg::Other("<entry handle>");
const PARAMS: Arg = Arg::Other("[action parameters]");

/// Commands for action profiles and for indirect tables (tables with an action profile).
pub const COMMANDS: &[Command] = &[
    Command {
        name: "act_prof_create_member",
        args: &[Arg::Profile, Arg::ProfileAction, PARAMS],
        help: "Creates a member of an action profile and prints its handle.",
        run: create_member,
    },
    Command {
        name: "act_prof_delete_member",
        args: &[Arg::Profile, MEMBER],
        help: "Removes a member that no group or entry uses.",
        run: delete_member,
    },
    Command {
        name: "act_prof_modify_member",
        args: &[Arg::Profile, Arg::ProfileAction, MEMBER, PARAMS],
        help: "Changes the action and arguments of a member.",
        run: modify_member,
    },
    Command {
        name: "act_prof_create_group",
        args: &[Arg::Profile],
        help: "Creates an empty group of an action profile with a selector and prints its handle.",
        run: create_group,
    },
    Command {
        name: "act_prof_delete_group",
        args: &[Arg::Profile, GROUP],
        help: "Removes a group that no entry uses.",
        run: delete_group,
    },
    Command {
        name: "act_prof_add_member_to_group",
        args: &[Arg::Profile, MEMBER, GROUP],
        help: "Adds a member to a group.",
        run: add_member_to_group,
    },
    Command {
        name: "act_prof_remove_member_from_group",
        args: &[Arg::Profile, MEMBER, GROUP],
        help: "Removes a member from a group.",
        run: remove_member_from_group,
    },
    Command {
        name: "act_prof_dump",
        args: &[Arg::Profile],
        help: "Shows the members and groups of an action profile.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let profile = session.program.profile(name)?;
            let shown = dump_profile(&mut session.connection.standard(), profile)?;
            Ok(write!(session.out, "{shown}")?)
        },
    },
    Command {
        name: "act_prof_dump_member",
        args: &[Arg::Profile, MEMBER],
        help: "Shows one member.",
        run: dump_member,
    },
    Command {
        name: "act_prof_dump_group",
        args: &[Arg::Profile, GROUP],
        help: "Shows one group.",
        run: dump_group,
    },
    Command {
        name: "table_indirect_create_member",
        args: &[Arg::Table, Arg::TableAction, PARAMS],
        help: "Deprecated form of act_prof_create_member, with a table in place of its action profile.",
        run: |session, args| run_on_table_profile(session, args, Deprecation::ActProf("create_member"), create_member),
    },
    Command {
        name: "table_indirect_delete_member",
        args: &[Arg::Table, MEMBER],
        help: "Deprecated form of act_prof_delete_member, with a table in place of its action profile.",
        run: |session, args| run_on_table_profile(session, args, Deprecation::ActProf("delete_member"), delete_member),
    },
    Command {
        name: "table_indirect_modify_member",
        args: &[Arg::Table, Arg::TableAction, MEMBER, PARAMS],
        help: "Deprecated form of act_prof_modify_member, with a table in place of its action profile.",
        run: |session, args| run_on_table_profile(session, args, Deprecation::ActProf("modify_member"), modify_member),
    },
    Command {
        name: "table_indirect_create_group",
        args: &[Arg::Table],
        help: "Deprecated form of act_prof_create_group, with a table in place of its action profile.",
        run: |session, args| {
            run_on_table_profile(
                session,
                args,
                Deprecation::ActProfGroup("create_group"),
                create_group,
            )
        },
    },
    Command {
        name: "table_indirect_delete_group",
        args: &[Arg::Table, GROUP],
        help: "Deprecated form of act_prof_delete_group, with a table in place of its action profile.",
        run: |session, args| {
            run_on_table_profile(
                session,
                args,
                Deprecation::ActProfGroup("delete_group"),
                delete_group,
            )
        },
    },
    Command {
        name: "table_indirect_add_member_to_group",
        args: &[Arg::Table, MEMBER, GROUP],
        help: "Deprecated form of act_prof_add_member_to_group, with a table in place of its action profile.",
        run: |session, args| {
            let old = Deprecation::ActProfGroup("add_member_to_group");
            run_on_table_profile(session, args, old, add_member_to_group)
        },
    },
    Command {
        name: "table_indirect_remove_member_from_group",
        args: &[Arg::Table, MEMBER, GROUP],
        help: "Deprecated form of act_prof_remove_member_from_group, with a table in place of its action profile.",
        run: |session, args| {
            let old = Deprecation::ActProfGroup("remove_member_from_group");
            run_on_table_profile(session, args, old, remove_member_from_group)
        },
    },
    Command {
        name: "table_dump_member",
        args: &[Arg::Table, MEMBER],
        help: "Shows a member of the table's action profile.",
        run: |session, args| run_on_table_profile(session, args, Deprecation::No, dump_member),
    },
    Command {
        name: "table_dump_group",
        args: &[Arg::Table, GROUP],
        help: "Shows a group of the table's action profile.",
        run: |session, args| run_on_table_profile(session, args, Deprecation::No, dump_group),
    },
    Command {
        name: "table_indirect_add",
        args: &[
            Arg::Table,
            Arg::Other("<match fields> => <member handle> [priority]"),
        ],
        help: "Adds an entry with a member as its action and prints its handle.",
        run: |session, args| {
            let (table, key, member, options) = indirect_entry(session, args, false)?;
            let mut client = session.connection.standard();
            let handle = client.bm_mt_indirect_add_entry(0, table, key, member, options)?;
            Ok(writeln!(
                session.out,
                "Entry has been added with handle {handle}"
            )?)
        },
    },
    Command {
        name: "table_indirect_add_with_group",
        args: &[
            Arg::Table,
            Arg::Other("<match fields> => <group handle> [priority]"),
        ],
        help: "Adds an entry with a group as its action and prints its handle.",
        run: |session, args| {
            let (table, key, group, options) = indirect_entry(session, args, true)?;
            let mut client = session.connection.standard();
            let handle = client.bm_mt_indirect_ws_add_entry(0, table, key, group, options)?;
            Ok(writeln!(
                session.out,
                "Entry has been added with handle {handle}"
            )?)
        },
    },
    Command {
        name: "table_indirect_delete",
        args: &[Arg::Table, ENTRY],
        help: "Removes an entry with a member or group.",
        run: |session, args| {
            let [name, handle] = exactly(args)?;
            let table = session.program.table(name)?;
            check_indirect(table)?;
            let handle: i32 = number(handle, "entry handle")?;
            writeln!(session.out, "Deleting entry {handle} from {name}")?;
            let mut client = session.connection.standard();
            Ok(client.bm_mt_indirect_delete_entry(0, &*table.name, handle)?)
        },
    },
    Command {
        name: "table_indirect_set_default",
        args: &[Arg::Table, MEMBER],
        help: "Sets a member as the default entry.",
        run: |session, args| {
            let (table, member) = indirect_default(session, args, false)?;
            let mut client = session.connection.standard();
            Ok(client.bm_mt_indirect_set_default_member(0, table, member)?)
        },
    },
    Command {
        name: "table_indirect_set_default_with_group",
        args: &[Arg::Table, GROUP],
        help: "Sets a group as the default entry.",
        run: |session, args| {
            let (table, group) = indirect_default(session, args, true)?;
            let mut client = session.connection.standard();
            Ok(client.bm_mt_indirect_ws_set_default_group(0, table, group)?)
        },
    },
    Command {
        name: "table_indirect_reset_default",
        args: &[Arg::Table],
        help: "Resets the default entry of a table with an action profile to that of the program.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let table = session.program.table(name)?;
            let mut client = session.connection.standard();
            Ok(client.bm_mt_indirect_reset_default_entry(0, &*table.name)?)
        },
    },
];

fn create_member(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    at_least(args, 2)?;
    let profile = session.program.profile(args[0])?;
    let action = session.program.profile_action(profile, args[0], args[1])?;
    let data = action_data(action, &args[2..])?;
    let mut client = session.connection.standard();
    let handle = client.bm_mt_act_prof_add_member(0, &*profile.name, &*action.name, data)?;
    Ok(writeln!(
        session.out,
        "Member has been created with handle {handle}"
    )?)
}

fn delete_member(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, member] = exactly(args)?;
    let profile = session.program.profile(name)?;
    let member = number(member, "member handle")?;
    let mut client = session.connection.standard();
    Ok(client.bm_mt_act_prof_delete_member(0, &*profile.name, member)?)
}

fn modify_member(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    at_least(args, 3)?;
    let profile = session.program.profile(args[0])?;
    let action = session.program.profile_action(profile, args[0], args[1])?;
    let member = number(args[2], "member handle")?;
    let data = action_data(action, without_arrow(&args[3..]))?;
    let mut client = session.connection.standard();
    Ok(client.bm_mt_act_prof_modify_member(0, &*profile.name, member, &*action.name, data)?)
}

fn create_group(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name] = exactly(args)?;
    let profile = with_selector(session.program.profile(name)?)?;
    let mut client = session.connection.standard();
    let handle = client.bm_mt_act_prof_create_group(0, profile)?;
    Ok(writeln!(
        session.out,
        "Group has been created with handle {handle}"
    )?)
}

fn delete_group(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, group] = exactly(args)?;
    let profile = with_selector(session.program.profile(name)?)?;
    let group = number(group, "group handle")?;
    let mut client = session.connection.standard();
    Ok(client.bm_mt_act_prof_delete_group(0, profile, group)?)
}

fn add_member_to_group(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, member, group] = exactly(args)?;
    let profile = with_selector(session.program.profile(name)?)?;
    let member = number(member, "member handle")?;
    let group = number(group, "group handle")?;
    let mut client = session.connection.standard();
    Ok(client.bm_mt_act_prof_add_member_to_group(0, profile, member, group)?)
}

fn remove_member_from_group(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, member, group] = exactly(args)?;
    let profile = with_selector(session.program.profile(name)?)?;
    let member = number(member, "member handle")?;
    let group = number(group, "group handle")?;
    let mut client = session.connection.standard();
    Ok(client.bm_mt_act_prof_remove_member_from_group(0, profile, member, group)?)
}

fn dump_member(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, member] = exactly(args)?;
    let profile = session.program.profile(name)?;
    let member = number(member, "member handle")?;
    let mut client = session.connection.standard();
    let member = client.bm_mt_act_prof_get_member(0, &*profile.name, member)?;
    Ok(write!(session.out, "{}", format::member(&member))?)
}

fn dump_group(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, group] = exactly(args)?;
    let profile = session.program.profile(name)?;
    let group = number(group, "group handle")?;
    let mut client = session.connection.standard();
    let group = client.bm_mt_act_prof_get_group(0, &*profile.name, group)?;
    Ok(write!(session.out, "{}", format::group(&group))?)
}

/// Formats all members and groups of an action profile.
pub fn dump_profile(client: &mut Client<'_>, profile: &Profile) -> Result<String> {
    let members = client.bm_mt_act_prof_get_members(0, &*profile.name)?;
    let groups = match profile.with_selector {
        true => Some(client.bm_mt_act_prof_get_groups(0, &*profile.name)?),
        false => None,
    };
    Ok(format::profile(&members, groups.as_deref()))
}

/// Name of the profile; an error if it has no action selector.
fn with_selector(profile: &Profile) -> Result<&str> {
    match profile.with_selector {
        true => Ok(&profile.name),
        false => Err(Error::input(
            "Cannot run this command on an action profile without selector",
        )),
    }
}

/// Returns an error if the table has no action profile.
fn check_indirect(table: &Table) -> Result<()> {
    match table.kind {
        TableType::Indirect | TableType::IndirectWs => Ok(()),
        TableType::Simple => Err(Error::input(
            "Cannot run this command on non-indirect table",
        )),
    }
}

/// Returns an error if the table has no action profile with a selector.
fn check_indirect_ws(table: &Table) -> Result<()> {
    match table.kind {
        TableType::IndirectWs => Ok(()),
        TableType::Simple | TableType::Indirect => Err(Error::input(
            "Cannot run this command on non-indirect table, or on indirect table with no selector",
        )),
    }
}

/// Whether a command is a deprecated form that names a table instead of its action profile. The value is the name of
/// the current command without `act_prof_`.
enum Deprecation {
    No,
    ActProf(&'static str),
    /// A deprecated command that is only for tables with an action selector.
    ActProfGroup(&'static str),
}

/// Runs a command for action profiles on the profile of the table that the first argument names.
fn run_on_table_profile(
    session: &mut Session<'_>,
    args: &[&str],
    deprecation: Deprecation,
    run: fn(&mut Session<'_>, &[&str]) -> Result<()>,
) -> Result<()> {
    at_least(args, 1)?;
    let table = session.program.table(args[0])?;
    match deprecation {
        Deprecation::ActProfGroup(_) => check_indirect_ws(table)?,
        Deprecation::No | Deprecation::ActProf(_) => check_indirect(table)?,
    }
    let profile = table.profile.as_deref().unwrap_or_default();
    let profile = session.program.profile(profile)?;
    if let Deprecation::ActProf(instead) | Deprecation::ActProfGroup(instead) = deprecation {
        if profile.tables > 1 {
            return Err(Error::input(
                "Legacy command does not work with shared action profiles",
            ));
        }
        // To stderr, as scripts read stdout.
        eprintln!("This is a deprecated command, use 'act_prof_{instead}' instead");
    }
    let name = profile.name.clone();
    let mut args = args.to_vec();
    args[0] = &name;
    run(session, &args)
}

/// Parses the arguments of a new entry of an indirect table: table, key, handle of a member (or with `group` of a
/// group), and priority.
fn indirect_entry(
    session: &mut Session<'_>,
    args: &[&str],
    group: bool,
) -> Result<(String, Vec<BmMatchParam>, i32, BmAddEntryOptions)> {
    at_least(args, 2)?;
    let table = session.program.table(args[0])?;
    match group {
        true => check_indirect_ws(table)?,
        false => check_indirect(table)?,
    }
    let (args, options) = split_priority(table, args)?;
    let (fields, behind) = split_at_arrow(args.get(1..).unwrap_or_default());
    let [handle] = behind else {
        return Err(Error::input("Invalid arguments, could not find handle"));
    };
    let handle = number(handle, "handle")?;
    let key = match_key(table, args[0], fields)?;
    writeln!(
        session.out,
        "Adding entry to indirect match table {}",
        table.name
    )?;
    Ok((table.name.clone(), key, handle, options))
}

/// Parses the arguments of a default entry of an indirect table: table, and handle of a member (or with `group` of a
/// group).
fn indirect_default(session: &Session<'_>, args: &[&str], group: bool) -> Result<(String, i32)> {
    let [name, handle] = exactly(args)?;
    let table = session.program.table(name)?;
    match group {
        true => check_indirect_ws(table)?,
        false => check_indirect(table)?,
    }
    Ok((table.name.clone(), number(handle, "handle")?))
}
