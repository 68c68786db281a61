//! The compiler command `alfirk p4c` as a program of its own, without the other commands of `alfirk`.

fn main() {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: alfirk_compiler::driver::P4cArgs,
    }
    let words = alfirk_compiler::driver::with_long_options(std::env::args_os());
    let cli = <Cli as clap::Parser>::parse_from(words);
    let code =
        alfirk_compiler::driver::run(&cli.args, &mut std::io::stdout(), &mut std::io::stderr());
    std::process::exit(code.into());
}
