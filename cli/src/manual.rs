//! `alfirk completions` and `alfirk man`: generate shell completions and manual pages from the definitions of all
//! flags.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Command, ValueEnum};

use crate::exit::{Failure, Outcome};

/// Print the completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk completions bash > /usr/share/bash-completion/completions/alfirk
  alfirk completions zsh > /usr/share/zsh/vendor-completions/_alfirk
  alfirk completions fish > ~/.config/fish/completions/alfirk.fish")]
pub struct CompletionsArgs {
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Write manual pages, one for each verb.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: alfirk man /usr/share/man/man1")]
pub struct ManArgs {
    /// The folder; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `alfirk completions`.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Outcome {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "alfirk", &mut script);
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(&script).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::from(anyhow::Error::from(error)))
}

/// Runs `alfirk man`.
pub fn man(args: &ManArgs, command: Command) -> Outcome {
    let folder = &args.folder;
    let made = fs::create_dir_all(folder);
    made.and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error| {
            Failure::bad_input(format_args!(
                "cannot write manual pages to {}: {error}",
                folder.display()
            ))
        })
}
