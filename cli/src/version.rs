//! `alfirk version`: prints the versions of the command, and of the formats and protocols that it implements.

use serde_json::json;

use crate::exit::{print, Outcome};

/// Flags of `alfirk version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: alfirk version --json")]
pub struct Args {
    /// Print the versions as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Formats and protocols that alfirk implements, each with its version.
const FORMATS: [(&str, &str); 4] = [
    ("p4_16", "1.2.5"),
    ("bmv2_json", "2.23"),
    ("p4runtime", "1.5.0"),
    ("rocev2", "IBTA 1.7, annex A17"),
];

/// Runs `alfirk version`.
pub fn run(args: Args) -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    if args.json {
        let mut object = json!({ "alfirk": version });
        for (what, number) in FORMATS {
            object[what] = number.into();
        }
        return print(format_args!("{object}\n"));
    }
    let mut text = format!("alfirk {version}\n");
    for (what, number) in FORMATS {
        text += &format!("{what:<10} {number}\n");
    }
    print(text)
}
