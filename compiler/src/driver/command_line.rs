//! Converts options in the style of GCC, such as `-MD` and `-O2`, to long options for clap.

use std::ffi::OsString;

/// Options with several letters after one dash, and whether they have a value in the next word.
const SEVERAL_LETTERS: [(&str, bool); 11] = [
    ("-MD", false),
    ("-MF", true),
    ("-MG", false),
    ("-MP", false),
    ("-MT", true),
    ("-MQ", true),
    ("-###", false),
    ("-Xpreprocessor", true),
    ("-Xp4c", true),
    ("-Xassembler", true),
    ("-Xlinker", true),
];

/// Options with an optional value in the same word, each with the long option that replaces it.
const OPTIONAL_VALUE: [(&str, &str); 2] = [("-O", "--O="), ("-W", "--W=")];

/// Options whose value is in the same word or the next one; the next word may begin with a dash.
const OTHER_VALUES: [&str; 21] = [
    "-o",
    "--output",
    "-I",
    "-D",
    "-U",
    "-T",
    "--std",
    "-x",
    "--p4v",
    "-a",
    "--arch",
    "-b",
    "--target",
    "--p4runtime-file",
    "--p4runtime-files",
    "--p4runtime-format",
    "--p4runtime-entries-file",
    "--p4runtime-entries-files",
    "--pp",
    "--dump",
    "--top4",
];

/// Converts options of a p4c command line such as `-MD`, `-Wall` and `-O2` to long options: `--MD`, `--W=all`, `--O=2`.
pub fn with_long_options(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else {
            out.push(word);
            continue;
        };
        let exact = SEVERAL_LETTERS.iter().find_map(|(option, has_value)| {
            let rest = text.strip_prefix(option)?;
            let joined = *has_value && rest.starts_with('=');
            (rest.is_empty() || joined).then_some((*option, *has_value, rest))
        });
        if let Some((option, has_value, rest)) = exact {
            // `-###` cannot be the name of a long option.
            let long = match option {
                "-###" => "--test-only".to_owned(),
                _ => format!("-{option}{rest}"),
            };
            match (has_value && rest.is_empty())
                .then(|| words.next())
                .flatten()
            {
                Some(value) => {
                    let mut joined = OsString::from(format!("{long}="));
                    joined.push(value);
                    out.push(joined);
                }
                None => out.push(long.into()),
            }
            continue;
        }
        let optional = OPTIONAL_VALUE
            .iter()
            .find_map(|(option, long)| Some((*option, *long, text.strip_prefix(option)?)));
        match optional {
            // As in p4c, the word after a bare `-W` is its flag.
            Some(("-W", long, "")) => {
                let mut joined = OsString::from(long);
                joined.push(words.next().unwrap_or_default());
                out.push(joined);
            }
            Some((_, long, value)) => out.push(format!("{long}{value}").into()),
            None if text == "-M" => out.push("--M".into()),
            None => {
                let takes_next = OTHER_VALUES.contains(&text);
                out.push(word);
                out.extend(takes_next.then(|| words.next()).flatten());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gcc_style_options_become_long_options() {
        let long = |line: &str| -> String {
            let words = with_long_options(line.split(' ').map(OsString::from));
            let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
            words.join(" ")
        };
        for (line, expected) in [
            ("-MD -MF x.d -MT a -M", "--MD --MF=x.d --MT=a --M"),
            (
                "-O -O2 -Og -Wall -W error",
                "--O= --O=2 --O=g --W=all --W=error",
            ),
            (
                "-### -Xp4c --ndebug -Xp4c=-v",
                "--test-only --Xp4c=--ndebug --Xp4c=-v",
            ),
            ("-o -MD --Werror -DX -Mine", "-o -MD --Werror -DX -Mine"),
            ("-MF", "--MF"),
        ] {
            assert_eq!(long(line), expected);
        }
    }
}
