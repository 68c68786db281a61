//! Commands for meters, counters, registers and parser value sets.

use alfirk_thrift::standard::BmCounterValue;

use super::{at_least, exactly, number, rates, Arg, Command, Session};
use crate::runtime_cli::error::{Error, Result};
use crate::runtime_cli::values::{float, hex, value_set_member};

const INDEX: Arg = Arg::Other("<index>");

/// Commands for meters, counters, registers and parser value sets.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "meter_array_set_rates",
        args: &[Arg::Meter, Arg::Other("<rate>:<burst> <rate>:<burst>")],
        help: "Sets the rates of all meters of an array.\n\
            Rates are in packets or bytes per microsecond, bursts in packets or bytes.",
        run: |session, args| {
            at_least(args, 1)?;
            let meter = session.program.meter(args[0])?;
            let rates = rates(meter, &args[1..])?;
            let mut client = session.connection.standard();
            Ok(client.bm_meter_array_set_rates(0, &*meter.name, rates)?)
        },
    },
    Command {
        name: "meter_set_rates",
        args: &[
            Arg::Meter,
            INDEX,
            Arg::Other("<rate>:<burst> <rate>:<burst>"),
        ],
        help: "Sets the rates of one meter; of a direct meter the index is the entry's handle.\n\
            Rates are in packets or bytes per microsecond, bursts in packets or bytes.",
        run: |session, args| {
            at_least(args, 2)?;
            let meter = session.program.meter(args[0])?;
            let index = number(args[1], "index")?;
            let rates = rates(meter, &args[2..])?;
            let mut client = session.connection.standard();
            match &meter.table {
                Some(table) => client.bm_mt_set_meter_rates(0, &**table, index, rates)?,
                None => client.bm_meter_set_rates(0, &*meter.name, index, rates)?,
            }
            Ok(())
        },
    },
    Command {
        name: "meter_get_rates",
        args: &[Arg::Meter, INDEX],
        help: "Shows the rates of one meter; of a direct meter the index is the entry's handle.",
        run: meter_get_rates,
    },
    Command {
        name: "counter_read",
        args: &[Arg::Counter, INDEX],
        help: "Shows one counter; of a direct counter the index is the entry's handle.",
        run: counter_read,
    },
    Command {
        name: "counter_write",
        args: &[Arg::Counter, INDEX, Arg::Other("<packets> <bytes>")],
        help: "Sets one counter; of a direct counter the index is the entry's handle.",
        run: counter_write,
    },
    Command {
        name: "counter_reset",
        args: &[Arg::Counter],
        help: "Sets all counters of an array to 0, or those of all entries of a table.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let counter = session.program.counter(name)?;
            let mut client = session.connection.standard();
            match &counter.table {
                Some(table) => {
                    writeln!(session.out, "this is the direct counter for table {table}")?;
                    client.bm_mt_reset_counters(0, &**table)?;
                }
                None => client.bm_counter_reset_all(0, &*counter.name)?,
            }
            Ok(())
        },
    },
    Command {
        name: "register_read",
        args: &[Arg::Register, Arg::Other("[index]")],
        help: "Shows one register, or all of an array.",
        run: register_read,
    },
    Command {
        name: "register_write",
        args: &[Arg::Register, INDEX, Arg::Other("<value>")],
        help: "Sets one register.",
        run: |session, args| {
            let [name, index, value] = exactly(args)?;
            let register = session.program.register(name)?;
            let index = number(index, "index")?;
            let value = number(value, "value, must be an integer")?;
            let mut client = session.connection.standard();
            Ok(client.bm_register_write(0, &*register.name, index, value)?)
        },
    },
    Command {
        name: "register_reset",
        args: &[Arg::Register],
        help: "Sets all registers of an array to 0.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let register = session.program.register(name)?;
            let mut client = session.connection.standard();
            Ok(client.bm_register_reset(0, &*register.name)?)
        },
    },
    Command {
        name: "show_pvs",
        args: &[],
        help: "Lists the program's parser value sets.",
        run: |session, args| {
            exactly::<0>(args)?;
            for set in session.program.value_sets.values() {
                writeln!(session.out, "{}", set.summary())?;
            }
            Ok(())
        },
    },
    Command {
        name: "pvs_add",
        args: &[Arg::ValueSet, Arg::Other("<value>")],
        help: "Adds a value to a parser value set. Adding an existing value is not an error.",
        run: |session, args| {
            let [name, value] = exactly(args)?;
            let set = session.program.value_set(name)?;
            let value = value_set_member(value, set.bits)?;
            let mut client = session.connection.standard();
            Ok(client.bm_parse_vset_add(0, &*set.name, value)?)
        },
    },
    Command {
        name: "pvs_remove",
        args: &[Arg::ValueSet, Arg::Other("<value>")],
        help: "Removes a value from a parser value set. Removing a missing value is not an error.",
        run: |session, args| {
            let [name, value] = exactly(args)?;
            let set = session.program.value_set(name)?;
            let value = value_set_member(value, set.bits)?;
            let mut client = session.connection.standard();
            Ok(client.bm_parse_vset_remove(0, &*set.name, value)?)
        },
    },
    Command {
        name: "pvs_get",
        args: &[Arg::ValueSet],
        help: "Shows the values of a parser value set, one per line.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let set = session.program.value_set(name)?;
            let mut client = session.connection.standard();
            for value in client.bm_parse_vset_get(0, &*set.name)? {
                writeln!(session.out, "{}", hex(&value, ""))?;
            }
            Ok(())
        },
    },
    Command {
        name: "pvs_clear",
        args: &[Arg::ValueSet],
        help: "Removes all values from a parser value set.",
        run: |session, args| {
            let [name] = exactly(args)?;
            let set = session.program.value_set(name)?;
            let mut client = session.connection.standard();
            Ok(client.bm_parse_vset_clear(0, &*set.name)?)
        },
    },
];

fn meter_get_rates(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, index] = exactly(args)?;
    let meter = session.program.meter(name)?;
    let index = number(index, "index")?;
    let mut client = session.connection.standard();
    let rates = match &meter.table {
        Some(table) => client.bm_mt_get_meter_rates(0, &**table, index)?,
        None => client.bm_meter_get_rates(0, &*meter.name, index)?,
    };
    if rates.len() != meter.rate_count {
        writeln!(
            session.out,
            "WARNING: expected {} rates but only received {}",
            meter.rate_count,
            rates.len()
        )?;
    }
    for (index, rate) in rates.iter().enumerate() {
        writeln!(
            session.out,
            "{index}: info rate = {}, burst size = {}",
            float(rate.units_per_micros),
            rate.burst_size
        )?;
    }
    Ok(())
}

fn counter_read(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, index] = exactly(args)?;
    let counter = session.program.counter(name)?;
    let index: i32 = number(index, "index")?;
    let mut client = session.connection.standard();
    let value = match &counter.table {
        Some(table) => {
            writeln!(session.out, "this is the direct counter for table {table}")?;
            client.bm_mt_read_counter(0, &**table, index)?
        }
        None => client.bm_counter_read(0, &*counter.name, index)?,
    };
    Ok(writeln!(
        session.out,
        "{name}[{index}]= ({} bytes, {} packets)",
        value.bytes, value.packets
    )?)
}

fn counter_write(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [name, index, packets, bytes] = exactly(args)?;
    let counter = session.program.counter(name)?;
    let index: i32 = number(index, "index")?;
    let value = BmCounterValue {
        packets: number(packets, "packets")?,
        bytes: number(bytes, "bytes")?,
    };
    let mut client = session.connection.standard();
    match &counter.table {
        Some(table) => {
            writeln!(session.out, "writing to direct counter for table {table}")?;
            client.bm_mt_write_counter(0, &**table, index, value)?;
        }
        None => client.bm_counter_write(0, &*counter.name, index, value)?,
    }
    Ok(writeln!(session.out, "{name}[{index}] has been updated")?)
}

fn register_read(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    at_least(args, 1)?;
    let register = session.program.register(args[0])?;
    let mut client = session.connection.standard();
    let shown = match args {
        [name, index] => {
            let index = number(index, "index")?;
            let value = client.bm_register_read(0, &*register.name, index)?;
            format!("{name}[{index}]= {value}")
        }
        [name] => {
            // To stderr, as scripts read stdout.
            eprintln!("register index omitted, reading entire array");
            let values = client.bm_register_read_all(0, &*register.name)?;
            let values: Vec<String> = values.iter().map(i64::to_string).collect();
            format!("{name}= {}", values.join(", "))
        }
        _ => {
            return Err(Error::input(format_args!(
                "Wrong number of args, expected 2 but got {}",
                args.len()
            )));
        }
    };
    Ok(writeln!(session.out, "{shown}")?)
}
