//! `alfirk lsp`: the language server for editors.

use crate::exit::{Failure, Outcome};

/// Run the P4 language server for an editor, over standard input and output.
///
/// Provides diagnostics with fixes while typing, hover, go to definition, references, rename, completion, outline and
/// formatting. Editors start it themselves; the book shows how for VS Code, Neovim and Helix.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, in Neovim:
  :lua vim.lsp.start({ name = 'alfirk lsp', cmd = { 'alfirk', 'lsp' } })

Initialization options, all of them optional:
  {\"main\": \"p4src/main.p4\", \"arch\": \"tna\", \"includeDirs\": [\"include\"], \"defines\": [\"PATH_BITS=5\"]}")]
pub struct Args {
    /// Accepted because editors pass it; standard input and output are the only transport
    #[arg(long)]
    stdio: bool,
}

/// Runs `alfirk lsp` until the editor closes the connection.
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
        "this alfirk was built without the language server, as `make quick` does; build it with `make build`",
    ))
}
