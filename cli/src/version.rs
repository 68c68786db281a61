//! `alfirk version`: versions of the command, and of formats and protocols.

use serde_json::json;

use crate::exit::{print, Outcome};

/// Output options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: alfirk version --json")]
pub struct Args {
    /// Print the versions as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Formats and protocols, each with the version that is read and written.
const SPOKEN: [(&str, &str); 4] = [
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
        for (what, number) in SPOKEN {
            object[what] = number.into();
        }
        return print(format_args!("{object}\n"));
    }
    let mut text = format!("alfirk {version}\n");
    for (what, number) in SPOKEN {
        text += &format!("{what:<10} {number}\n");
    }
    print(text)
}
