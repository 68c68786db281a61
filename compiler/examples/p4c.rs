fn main() {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: alfirk_compiler::driver::P4cArgs,
    }
    let cli = <Cli as clap::Parser>::parse();
    let code =
        alfirk_compiler::driver::run(&cli.args, &mut std::io::stdout(), &mut std::io::stderr());
    std::process::exit(code.into());
}
