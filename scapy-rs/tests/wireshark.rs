//! Check that the table of registration packets (MRP) for Wireshark's dissector matches the wire format in Rust.
//!
//! `make contract` regenerates the file.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use alfirk_roce::rc::AckTimeout;
use alfirk_roce::registration::RetryTimeout;
use alfirk_roce::wire::mrp::{self, Refusal};
use scapy::protocols::{MRP, MRP_NODE};
use scapy::{Kind, Protocol};

const FILE: &str = "editors/wireshark/alfirk_mrp.lua";

/// Writes the fields of a header: name, offset and width in bits, form, and names of values.
fn fields(out: &mut String, name: &str, protocol: &Protocol) {
    let _ = writeln!(out, "  {name} = {{");
    for field in protocol.fields.iter() {
        let _ = write!(
            out,
            "    {{ name = \"{}\", offset = {}, bits = {}",
            field.name, field.offset, field.width
        );
        match field.kind {
            Kind::Hex => out.push_str(", form = \"hex\""),
            Kind::Ipv4 => out.push_str(", form = \"ipv4\""),
            Kind::Named(names) => {
                let names = names
                    .iter()
                    .map(|(number, name)| format!("[{number}] = \"{name}\""));
                let names: Vec<String> = names.collect();
                let _ = write!(out, ",\n      names = {{ {} }}", names.join(", "));
            }
            _ => {}
        }
        out.push_str(" },\n");
    }
    out.push_str("  },\n");
}

/// Bits that are set in any of the values, as a mask of the flags of a Register.
fn mask(values: impl Iterator<Item = RetryTimeout>) -> u8 {
    values.fold(0, |mask, value| mask | value.bits())
}

fn table() -> String {
    let mut out = String::from(
        "-- Registration packets of groups (MRP), from `roce/src/wire/mrp.rs` and `scapy-rs/src/protocols/roce.rs`.\n\
         -- Written by `make contract`; change them there. Offsets and widths of fields are in bits.\n\
         return {\n",
    );
    for (name, number) in [
        ("VERSION", usize::from(mrp::VERSION)),
        ("METADATA_BYTES", mrp::METADATA_LEN),
        ("NODE_BYTES", mrp::NODE_LEN),
        ("MAX_NODES", mrp::MAX_NODES),
        ("MAX_LOG2_LEN", usize::from(mrp::MAX_LOG2_LEN)),
    ] {
        let _ = writeln!(out, "  {name} = {number},");
    }
    fields(&mut out, "metadata", &MRP);
    fields(&mut out, "node", &MRP_NODE);
    out.push_str("  node_flags = {\n");
    for (name, bit) in [
        ("IS_GROUP", mrp::NODE_IS_GROUP),
        ("HAS_REGION", mrp::NODE_HAS_REGION),
        ("ONLY_RECEIVES", mrp::NODE_ONLY_RECEIVES),
        ("IS_LEADER", mrp::NODE_IS_LEADER),
    ] {
        let _ = writeln!(out, "    {name} = {bit:#04x},");
    }
    out.push_str("  },\n  refusals = {\n");
    for number in 0..=u8::MAX {
        match Refusal::from_bits(number) {
            Refusal::Other(_) => {}
            reason => {
                let _ = writeln!(out, "    [{number}] = \"{reason}\",");
            }
        }
    }
    let retries = mask((0..8).map(|count| RetryTimeout::new(AckTimeout::new(0), count)));
    let exponents = mask((0..32).map(|exponent| RetryTimeout::new(AckTimeout::new(exponent), 0)));
    let _ = writeln!(
        out,
        "  }},\n  -- Masks of the flags of a REGISTER: retry count, and exponent of the local ACK timeout.\n  \
           RETRY_COUNT_MASK = {retries:#04x},\n  ACK_TIMEOUT_MASK = {exponents:#04x},\n}}"
    );
    out
}

#[test]
fn generated_table_matches_the_wire_format() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(FILE);
    let expected = table();
    if std::env::var_os("ALFIRK_WRITE_CONTRACT").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{FILE} differs from what is generated from the wire format: run `make contract`, and review the changes"
    );
}
