//! `alfirk lsp`: the language server of editors.

use crate::exit::{Failure, Outcome};

/// Serve an editor: the Language Server Protocol over standard input and output.
///
/// Messages as one types, with fixes; what a name is, where it is declared and used; other names for it; completion, outline and
/// format. Editors start it themselves: the book says how for VS Code, Neovim and Helix.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Initialization options, all of which may be left out:
  {\"main\": \"p4src/main.p4\", \"arch\": \"tna\", \"includeDirs\": [\"include\"], \"defines\": [\"PATH_BITS=5\"]}")]
pub struct Args {
    /// Taken, as editors give it: there is no other way of speaking
    #[arg(long)]
    stdio: bool,
}

pub fn run(args: &Args) -> Outcome {
    let Args { stdio: _ } = args;
    serve()
}

#[cfg(feature = "lsp")]
fn serve() -> Outcome {
    alfirk_lsp::run_stdio().map_err(Failure::failed)
}

#[cfg(not(feature = "lsp"))]
fn serve() -> Outcome {
    Err(Failure::failed(
        "this alfirk was built without the language server, as `make quick` builds it; build it with `make build`",
    ))
}
