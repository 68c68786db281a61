//! Commands for the whole switch: its program, ports and state, and hashes with configurable CRCs.

use std::fs;
use std::path::Path;

use alfirk_thrift::standard::{BmCrc16Config, BmCrc32Config};
use num_traits::ToPrimitive;

use super::{at_least, exactly, number, Arg, Command, Session};
use crate::runtime_cli::error::{Error, Result};
use crate::runtime_cli::format;
use crate::runtime_cli::program::ProgramNames;
use crate::runtime_cli::values::integer;

const FILE: Arg = Arg::Other("<file>");
const CRC: Arg = Arg::Other(
    "<polynomial> <initial remainder> <final xor value> <reflect data?> <reflect remainder?>",
);

/// Commands for the switch as a whole.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "load_new_config_file",
        args: &[Arg::Other("<JSON file>")],
        help: "Loads another program while the current one runs; swap_configs activates it.",
        run: load_new_config_file,
    },
    Command {
        name: "swap_configs",
        args: &[],
        help: "Activates the program of load_new_config_file.",
        run: |session, _| {
            writeln!(session.out, "Swapping configs")?;
            Ok(session.connection.standard().bm_swap_configs()?)
        },
    },
    Command {
        name: "write_config_to_file",
        args: &[FILE],
        help: "Writes the JSON of the running program to a file.",
        run: |session, args| {
            let [file] = exactly(args)?;
            let config = session.connection.standard().bm_get_config()?;
            write_file(file, &config)
        },
    },
    Command {
        name: "serialize_state",
        args: &[FILE],
        help: "Writes the contents of tables and arrays to a file.",
        run: |session, args| {
            let [file] = exactly(args)?;
            let state = session.connection.standard().bm_serialize_state()?;
            write_file(file, &state)
        },
    },
    Command {
        name: "reset_state",
        args: &[],
        help: "Resets tables, registers and all other state; the program stays.",
        run: |session, args| {
            exactly::<0>(args)?;
            Ok(session.connection.standard().bm_reset_state()?)
        },
    },
    Command {
        name: "port_add",
        args: &[Arg::Other("<interface> <port> [pcap file]")],
        help: "Attaches an interface to a port.",
        run: |session, args| {
            at_least(args, 2)?;
            let port: i32 = number(args[1], "port_num, must be an integer")?;
            let pcap = args.get(2).copied().unwrap_or_default();
            let mut client = session.connection.standard();
            Ok(client.bm_dev_mgr_add_port(args[0], port, pcap)?)
        },
    },
    Command {
        name: "port_remove",
        args: &[Arg::Other("<port>")],
        help: "Detaches a port's interface.",
        run: |session, args| {
            let [port] = exactly(args)?;
            let port: i32 = number(port, "port_num, must be an integer")?;
            Ok(session.connection.standard().bm_dev_mgr_remove_port(port)?)
        },
    },
    Command {
        name: "show_ports",
        args: &[],
        help: "Lists the ports with their interfaces.",
        run: |session, args| {
            exactly::<0>(args)?;
            let ports = session.connection.standard().bm_dev_mgr_show_ports()?;
            Ok(write!(session.out, "{}", format::ports(&ports))?)
        },
    },
    Command {
        name: "switch_info",
        args: &[],
        help: "Shows the switch's device id and addresses.",
        run: |session, args| {
            exactly::<0>(args)?;
            let info = session.connection.standard().bm_mgmt_get_info()?;
            Ok(write!(session.out, "{}", format::switch_info(&info))?)
        },
    },
    Command {
        name: "set_crc16_parameters",
        args: &[Arg::CustomCrc(16), CRC],
        help: "Changes the CRC of a crc16_custom hash.",
        run: |session, args| {
            let [name, numbers @ .., data, remainder] = exactly::<6>(args)?;
            let name = session.program.custom_crc(name, 16)?;
            let [polynomial, initial, last] =
                parse_crc_numbers::<u16>(numbers)?.map(|number| number as i16);
            let config = BmCrc16Config {
                polynomial,
                initial_remainder: initial,
                final_xor_value: last,
                data_reflected: parse_bool(data)?,
                remainder_reflected: parse_bool(remainder)?,
            };
            let mut client = session.connection.standard();
            Ok(client.bm_set_crc16_custom_parameters(0, name, config)?)
        },
    },
    Command {
        name: "set_crc32_parameters",
        args: &[Arg::CustomCrc(32), CRC],
        help: "Changes the CRC of a crc32_custom hash.",
        run: |session, args| {
            let [name, numbers @ .., data, remainder] = exactly::<6>(args)?;
            let name = session.program.custom_crc(name, 32)?;
            let [polynomial, initial, last] =
                parse_crc_numbers::<u32>(numbers)?.map(|number| number as i32);
            let config = BmCrc32Config {
                polynomial,
                initial_remainder: initial,
                final_xor_value: last,
                data_reflected: parse_bool(data)?,
                remainder_reflected: parse_bool(remainder)?,
            };
            let mut client = session.connection.standard();
            Ok(client.bm_set_crc32_custom_parameters(0, name, config)?)
        },
    },
    Command {
        name: "set_toeplitz_hash_key",
        args: &[Arg::Other("<name> <key in hexadecimal digits>")],
        help: "Sets the key of a Toeplitz hash, a multiple of 4 bytes.",
        run: |session, args| {
            let [name, key] = exactly(args)?;
            let key = toeplitz_key(key)?;
            let mut client = session.connection.standard();
            Ok(client.bm_set_toeplitz_hash_key(0, *name, key)?)
        },
    },
];

fn load_new_config_file(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let [file] = exactly(args)?;
    if !Path::new(file).is_file() {
        return Err(Error::input("Not a valid filename"));
    }
    writeln!(session.out, "Loading new Json config")?;
    let text =
        fs::read_to_string(file).map_err(|error| Error::input(format_args!("{file}: {error}")))?;
    let program = ProgramNames::from_json(&text)
        .map_err(|what| Error::input(format_args!("Not a valid JSON file: {what}")))?;
    session.connection.standard().bm_load_new_config(text)?;
    session.program = program;
    Ok(())
}

fn write_file(file: &str, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| Error::input(format_args!("{file}: {error}")))
}

/// Parses polynomial, initial remainder and final XOR value of a CRC. Values with the top bit set become negative,
/// because Thrift's integers are signed.
fn parse_crc_numbers<T: TryFrom<u64>>(texts: &[&str; 3]) -> Result<[T; 3]> {
    let bits = 8 * size_of::<T>() as u32;
    let one = |text: &str| {
        let number = integer(text).ok_or_else(|| {
            Error::input(format_args!(
                "{text} is not an integer, try in hex with 0x prefix"
            ))
        })?;
        let number = number.to_i64().map(|number| match number {
            ..0 if number >= -(1 << (bits - 1)) => number + (1 << bits),
            number => number,
        });
        let number = number.and_then(|number| T::try_from(number.try_into().ok()?).ok());
        number.ok_or_else(|| Error::input(format_args!("Integer cannot fit within {bits} bits")))
    };
    Ok([one(texts[0])?, one(texts[1])?, one(texts[2])?])
}

fn parse_bool(text: &str) -> Result<bool> {
    match text {
        "true" | "True" => Ok(true),
        "false" | "False" => Ok(false),
        text => match integer(text) {
            Some(number) => Ok(number != 0.into()),
            None => Err(Error::input("Invalid bool parameter")),
        },
    }
}

fn toeplitz_key(text: &str) -> Result<Vec<u8>> {
    let wrong = || Error::input("Toeplitz hash key must be a hex string");
    if text.len() % 2 != 0 || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let pairs = (0..text.len()).step_by(2);
    let key: Vec<u8> = pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong()))
        .collect::<Result<_>>()?;
    match key.len() % 4 {
        0 => Ok(key),
        _ => Err(Error::input(
            "Toeplitz hash key must be a multiple of 4 bytes in length",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_crc_fit_its_width() {
        assert_eq!(
            parse_crc_numbers::<u16>(&["0x8005", "65535", "-1"]).unwrap(),
            [0x8005, 0xffff, 0xffff]
        );
        assert_eq!(
            parse_crc_numbers::<u32>(&["0x04c11db7", "0xffffffff", "0"]).unwrap(),
            [0x04c1_1db7, 0xffff_ffff, 0]
        );
        let error = |text| {
            parse_crc_numbers::<u16>(&[text, "0", "0"])
                .unwrap_err()
                .to_string()
        };
        for wrong in ["0x10000", "-32769", "99999999999999999999"] {
            assert_eq!(error(wrong), "Error: Integer cannot fit within 16 bits");
        }
        assert_eq!(
            error("x"),
            "Error: x is not an integer, try in hex with 0x prefix"
        );
    }

    #[test]
    fn booleans_are_words_or_numbers() {
        assert!(parse_bool("True").unwrap() && parse_bool("0x2").unwrap());
        assert!(!parse_bool("false").unwrap() && !parse_bool("0").unwrap());
        assert!(parse_bool("yes").is_err());
    }

    #[test]
    fn toeplitz_keys_are_multiples_of_4_bytes() {
        assert_eq!(toeplitz_key("6d5a56da").unwrap(), [0x6d, 0x5a, 0x56, 0xda]);
        for wrong in ["6d5a56", "6d5a56d", "6d5a56dg", "éé"] {
            assert!(toeplitz_key(wrong).is_err(), "{wrong}");
        }
    }
}
