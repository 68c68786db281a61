//! Parses the input lines of `alfirk cli`.

/// A parsed input line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'l> {
    /// Nothing to execute: a comment, or an empty line without a previous command.
    Nothing,
    /// `help` or `?`, with an optional topic.
    Help(Option<&'l str>),
    /// `!` or `shell`, with a command for the system's shell.
    Shell(&'l str),
    /// `quit`, `exit` or `EOF`.
    Quit,
    /// Anything else: a command with its arguments.
    Command(&'l str, Vec<&'l str>),
    /// A line that does not have the form of a command.
    Unknown(&'l str),
}

/// Parser of input lines. It remembers the previous line, because an empty line repeats it, as in BMv2's CLI.
#[derive(Default)]
pub struct Lines {
    previous: String,
}

impl Lines {
    /// Parses a line; splits a command into its name and arguments.
    pub fn read<'l>(&'l mut self, text: &'l str) -> Line<'l> {
        let text = match text.trim() {
            "" => self.previous.as_str(),
            text => {
                text.clone_into(&mut self.previous);
                text
            }
        };
        if text.is_empty() || text.starts_with('#') {
            return Line::Nothing;
        }
        if let Some(topic) = text.strip_prefix('?') {
            return Line::Help(topic.split_whitespace().next());
        }
        if let Some(command) = text.strip_prefix('!') {
            return Line::Shell(command.trim());
        }
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        match word {
            "" => Line::Unknown(text),
            "help" => Line::Help(rest.split_whitespace().next()),
            "shell" => Line::Shell(rest.trim()),
            "quit" | "exit" | "EOF" => Line::Quit,
            word => Line::Command(word, rest.split_whitespace().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_into_name_and_arguments() {
        let mut lines = Lines::default();
        assert_eq!(
            lines.read(" table_add t a 1 => \n"),
            Line::Command("table_add", vec!["t", "a", "1", "=>"])
        );
        assert_eq!(
            lines.read("mc_dump(1)"),
            Line::Command("mc_dump", vec!["(1)"])
        );
        assert_eq!(lines.read("=> 1"), Line::Unknown("=> 1"));
        assert_eq!(lines.read("é"), Line::Unknown("é"));
    }

    #[test]
    fn an_empty_line_repeats_the_previous_command() {
        let mut lines = Lines::default();
        assert_eq!(lines.read(""), Line::Nothing);
        lines.read("mc_node_create 1 2");
        assert_eq!(
            lines.read(" "),
            Line::Command("mc_node_create", vec!["1", "2"])
        );
        lines.read("# a comment");
        assert_eq!(lines.read(""), Line::Nothing);
    }

    #[test]
    fn built_in_words_are_parsed() {
        let mut lines = Lines::default();
        assert_eq!(lines.read("help"), Line::Help(None));
        assert_eq!(lines.read("? table_add x"), Line::Help(Some("table_add")));
        assert_eq!(lines.read("!ls -l"), Line::Shell("ls -l"));
        assert_eq!(lines.read("shell ls"), Line::Shell("ls"));
        for end in ["quit", "exit", "EOF"] {
            assert_eq!(lines.read(end), Line::Quit);
        }
    }
}
