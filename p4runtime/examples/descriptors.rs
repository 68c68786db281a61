//! Writes the encoded descriptors of all P4Runtime messages to standard output, for tests in other languages.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(alfirk_p4runtime::descriptor::FILE_DESCRIPTOR_SET)
}
