//! Text of the command `help` of `alfirk cli`.

use super::commands;

/// Width of the list of commands in characters.
const WIDTH: usize = 80;

/// Help of the command `topic`; without a topic, the list of all commands.
pub fn text(topic: Option<&str>) -> String {
    let Some(topic) = topic else {
        return overview();
    };
    if let Some(command) = commands::find(topic) {
        return format!("{}\n{}\n", command.usage(), command.help);
    }
    match topic {
        "help" | "?" => "help [command]\nLists the commands, or explains one.\n".to_owned(),
        "shell" | "!" => {
            "shell <command>, or !<command>\nRuns a command of the system's shell.\n".to_owned()
        }
        "quit" | "exit" | "EOF" => {
            "quit\nEnds the session; so do exit and the end of the input.\n".to_owned()
        }
        _ => format!("*** No help on {topic}\n"),
    }
}

fn overview() -> String {
    let mut names: Vec<&str> = commands::all().iter().map(|command| command.name).collect();
    names.extend(["exit", "help", "quit", "shell"]);
    names.sort_unstable();
    let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let columns = (WIDTH / (longest + 2)).max(1);
    let rows = names.len().div_ceil(columns);
    let mut out = "Commands (help <command> describes one):\n".to_owned();
    for row in 0..rows {
        let line: Vec<String> = names[row..]
            .iter()
            .step_by(rows)
            .map(|name| format!("{name:longest$}"))
            .collect();
        out += line.join("  ").trim_end();
        out.push('\n');
    }
    out += "An empty line repeats the one before; # begins a comment; tab completes.\n";
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_command_once_and_fits_the_screen() {
        let overview = text(None);
        for command in commands::all() {
            let times = overview
                .split_whitespace()
                .filter(|word| *word == command.name)
                .count();
            assert_eq!(times, 1, "{}", command.name);
        }
        assert!(
            overview.lines().all(|line| line.len() <= WIDTH),
            "{overview}"
        );
    }

    #[test]
    fn command_is_shown_with_its_arguments() {
        assert!(
            text(Some("mirroring_add")).starts_with("mirroring_add <mirror id> <egress port>\n")
        );
        assert_eq!(text(Some("fly")), "*** No help on fly\n");
    }
}
