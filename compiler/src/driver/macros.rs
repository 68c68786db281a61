//! The options `-D` and `-U`, whose relative order matters.

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::preproc::MacroOption;

/// The options `-D` and `-U` of a command line, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Macros(pub Vec<MacroOption>);

impl Macros {
    /// Appends the option `-D` with each of `values`.
    pub(super) fn define<'a>(&mut self, values: impl IntoIterator<Item = &'a String>) {
        let values = values.into_iter();
        self.0
            .extend(values.map(|value| MacroOption::Define(unquoted(value))));
    }
}

const DEFINE: &str = "define";
const UNDEFINE: &str = "undefine";

impl clap::Args for Macros {
    fn augment_args(command: Command) -> Command {
        let option = |id: &'static str, short, value: &'static str, help: &'static str| {
            Arg::new(id)
                .short(short)
                .value_name(value)
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .help_heading("Input")
                .help(help)
        };
        command
            .arg(option(
                DEFINE,
                'D',
                "MACRO",
                "Define a macro: NAME or NAME=VALUE",
            ))
            .arg(option(UNDEFINE, 'U', "NAME", "Undefine a macro"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Macros {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Macros, clap::Error> {
        let given = |id, make: fn(String) -> MacroOption| {
            let values = matches.get_many::<String>(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            places.zip(values.map(move |value| make(unquoted(value))))
        };
        let mut list: Vec<(usize, MacroOption)> = given(DEFINE, MacroOption::Define)
            .chain(given(UNDEFINE, MacroOption::Undefine))
            .collect();
        list.sort_by_key(|(place, _)| *place);
        Ok(Macros(list.into_iter().map(|(_, option)| option).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Removes shell quoting from a word. p4c passes options to the preprocessor through a shell, so command lines contain additional quotes.
fn unquoted(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut chars = word.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('\\', None) => out.extend(chars.next()),
            ('\\', Some('"')) => match chars.peek() {
                Some('"' | '\\' | '$' | '`') => out.extend(chars.next()),
                _ => out.push(c),
            },
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::unquoted;

    #[test]
    fn shell_quotes_are_removed() {
        for (word, read) in [
            ("A=1", "A=1"),
            (r#"S="x y""#, "S=x y"),
            (r#"S=\"x\""#, r#"S="x""#),
            (r#"S='"x"'"#, r#"S="x""#),
            (r#"S="a\"b\c""#, r#"S=a"b\c"#),
        ] {
            assert_eq!(unquoted(word), read);
        }
    }
}
