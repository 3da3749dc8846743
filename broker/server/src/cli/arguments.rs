//! Tables that describe the commands, from which parsing, help and suggestions derive.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::str::FromStr;

use lexopt::ValueExt as _;

use super::{CommandExit, Exit};
use crate::nearest::nearest;

/// A command: its name, its purpose and its options.
pub(crate) struct Command {
    /// As typed after `tautwire`, for example `config check`.
    pub(crate) name: &'static str,
    /// Usage lines, without `tautwire` and the name.
    pub(crate) usage: &'static [&'static str],
    pub(crate) about: &'static str,
    pub(crate) groups: &'static [OptionGroup],
    /// Text after the options in the help: exit codes, formats, examples.
    pub(crate) notes: &'static [&'static str],
}

/// A group of options with a heading.
pub(crate) struct OptionGroup {
    pub(crate) title: &'static str,
    pub(crate) options: &'static [OptionSpec],
}

/// An option of a command.
pub(crate) struct OptionSpec {
    pub(crate) name: &'static str,
    pub(crate) short: Option<char>,
    /// Placeholder for its values in the help, for example `HOST`; `None` for a flag.
    pub(crate) values: Option<&'static str>,
    pub(crate) help: &'static str,
}

/// An option without a value.
pub(crate) const fn flag(short: Option<char>, name: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, short, values: None, help }
}

/// An option with a value.
pub(crate) const fn value(
    short: Option<char>,
    name: &'static str,
    values: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { name, short, values: Some(values), help }
}

/// An option of similar programs that is rejected here, with the reason.
struct UnsupportedOption {
    short: char,
    names: &'static [&'static str],
    reason: &'static str,
}

const UNSUPPORTED: &[UnsupportedOption] = &[UnsupportedOption {
    short: 'P',
    names: &["password", "pw", "pass"],
    reason: "a password on the command line can be read by every user of this machine; \
             put it in a file and use --password-file FILE, or in the environment variable TAUTWIRE_PASSWORD",
}];

/// Column at which the help of an option starts.
const HELP_COLUMN: usize = 32;
/// Longest line of the help.
const HELP_COLUMNS: usize = 100;

impl Command {
    pub(super) fn options(&self) -> impl Iterator<Item = &'static OptionSpec> {
        self.groups.iter().flat_map(|group| group.options)
    }

    /// The subcommands, such as `show` of `cluster config`; empty if any argument is allowed.
    pub(super) fn actions(&self) -> Vec<&'static str> {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let firsts = self.usage.iter().flat_map(|usage| usage.split(' ').next().unwrap_or_default().split('|'));
        let words: Vec<&str> = firsts.collect();
        if words.iter().all(|word| is_word(word)) { words } else { Vec::new() }
    }

    /// The text of `--help`.
    pub(crate) fn help(&self) -> String {
        let mut text = String::new();
        for (index, usage) in self.usage.iter().enumerate() {
            let lead = if index == 0 { "Usage:" } else { "      " };
            let space = if self.name.is_empty() || usage.is_empty() { "" } else { " " };
            let _ = writeln!(text, "{lead} tautwire {}{space}{usage}", self.name);
        }
        let _ = write!(text, "\n{}\n", self.about);
        for group in self.groups {
            let _ = write!(text, "\n{}:\n", group.title);
            for option in group.options {
                push_option(&mut text, option);
            }
        }
        for note in self.notes {
            let _ = write!(text, "\n{note}\n");
        }
        text
    }
}

fn push_option(text: &mut String, option: &OptionSpec) {
    let mut left = match option.short {
        Some(short) => format!("  -{short}, --{}", option.name),
        None => format!("      --{}", option.name),
    };
    if let Some(values) = option.values {
        left.push(' ');
        left.push_str(values);
    }
    let mut column = left.chars().count();
    text.push_str(&left);
    if column + 2 > HELP_COLUMN {
        text.push('\n');
        column = 0;
    }
    let mut line_started = false;
    for word in option.help.split(' ') {
        if line_started && column + 1 + word.chars().count() > HELP_COLUMNS {
            text.push('\n');
            column = 0;
            line_started = false;
        }
        if line_started {
            text.push(' ');
            column += 1;
        } else {
            text.extend(std::iter::repeat_n(' ', HELP_COLUMN - column));
            column = HELP_COLUMN;
            line_started = true;
        }
        text.push_str(word);
        column += word.chars().count();
    }
    text.push('\n');
}

/// A parser for the arguments of a command.
pub(crate) struct Arguments {
    command: &'static Command,
    parser: lexopt::Parser,
    /// The current option, as typed, for messages.
    current: String,
}

/// The next argument.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// An option, by its long name; its value has not been read yet.
    Option(&'static str),
    Positional(String),
}

impl Arguments {
    pub(crate) fn new(command: &'static Command, parser: lexopt::Parser) -> Self {
        Self { command, parser, current: String::new() }
    }

    /// Reads the next argument.
    ///
    /// # Errors
    /// [`CommandExit::Text`] with the help for `--help`; a usage error for an unknown option.
    pub(crate) fn next(&mut self) -> Result<Option<Argument>, CommandExit> {
        let (command, current) = (self.command, &mut self.current);
        let found = match self.parser.next() {
            Ok(None) => return Ok(None),
            Ok(Some(lexopt::Arg::Value(text))) => {
                let text = text.string().map_err(|error| usage_failure(command, &error.to_string()))?;
                return Ok(Some(Argument::Positional(text)));
            }
            Ok(Some(lexopt::Arg::Long("help"))) => return Err(CommandExit::Text(command.help())),
            Ok(Some(lexopt::Arg::Long(name))) => {
                *current = format!("--{name}");
                let refused = UNSUPPORTED.iter().find(|refused| refused.names.contains(&name));
                command.options().find(|option| option.name == name).ok_or_else(|| (refused, Some(name.to_owned())))
            }
            Ok(Some(lexopt::Arg::Short(short))) => {
                *current = format!("-{short}");
                let refused = UNSUPPORTED.iter().find(|refused| refused.short == short);
                command.options().find(|option| option.short == Some(short)).ok_or((refused, None))
            }
            Err(error) => return Err(usage_failure(command, &error.to_string())),
        };
        match found {
            Ok(option) => Ok(Some(Argument::Option(option.name))),
            Err((Some(refused), _)) => Err(self.failure(refused.reason)),
            Err((None, name)) => Err(self.unknown_option(name.as_deref())),
        }
    }

    fn unknown_option(&self, name: Option<&str>) -> CommandExit {
        let known = self.command.options().map(|option| option.name);
        let mut message = format!("unknown option {}", self.current);
        if let Some(near) = name.and_then(|name| nearest(name, known)) {
            message.push_str(&format!("; did you mean --{near}?"));
        }
        usage_failure(self.command, &message)
    }

    /// Reads the value of the current option as text.
    pub(crate) fn string(&mut self) -> Result<String, CommandExit> {
        self.os_string()?.into_string().map_err(|_| self.failure("expected UTF-8 text"))
    }

    /// Reads the value of the current option as the operating system passed it.
    pub(crate) fn os_string(&mut self) -> Result<OsString, CommandExit> {
        self.parser.value().map_err(|_| self.failure("expected a value"))
    }

    /// Reads the value of the current option as an integer in `range`.
    pub(crate) fn number<T: TryFrom<u64>>(&mut self, range: RangeInclusive<u64>) -> Result<T, CommandExit> {
        let text = self.string()?;
        u64::from_str(&text)
            .ok()
            .filter(|number| range.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| {
                self.failure(&format!(
                    "expected a whole number from {} to {}, found \"{text}\"",
                    range.start(),
                    range.end()
                ))
            })
    }

    /// Reads the value of the current option as seconds, with or without a fraction.
    pub(crate) fn seconds(&mut self) -> Result<std::time::Duration, CommandExit> {
        let text = self.string()?;
        f64::from_str(&text)
            .ok()
            .and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok())
            .filter(|duration| duration.as_secs() <= SECONDS_MAX)
            .ok_or_else(|| self.failure(&format!("expected seconds from 0 to {SECONDS_MAX}, found \"{text}\"")))
    }

    /// Reads the value of the current option as one of `choices`.
    pub(crate) fn choice<T: Copy>(&mut self, choices: &[(&'static str, T)]) -> Result<T, CommandExit> {
        let text = self.string()?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(*choice);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        Err(self.failure(&format!("expected one of {}, found \"{text}\"", names.join(", "))))
    }

    /// A usage error for the current option.
    pub(crate) fn failure(&self, message: &str) -> CommandExit {
        usage_failure(self.command, &format!("{}: {message}", self.current))
    }

    /// A usage error for the command.
    pub(crate) fn command_failure(&self, message: &str) -> CommandExit {
        usage_failure(self.command, message)
    }
}

/// Maximum of options with seconds: about 136 years, the range of a session expiry interval.
const SECONDS_MAX: u64 = u32::MAX as u64;

fn usage_failure(command: &Command, message: &str) -> CommandExit {
    let space = if command.name.is_empty() { "" } else { " " };
    CommandExit::Failure {
        exit: Exit::Usage,
        message: format!("{message}\nTry `tautwire {}{space}--help`.", command.name),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Arguments as a shell passes them after the name of the command.
    pub(in crate::cli) fn arguments(command: &'static Command, given: &[&str]) -> Arguments {
        Arguments::new(command, lexopt::Parser::from_args(given.iter().map(OsString::from)))
    }

    pub(in crate::cli) fn message(stop: CommandExit) -> String {
        match stop {
            CommandExit::Failure { exit: Exit::Usage, message } => message,
            other => panic!("expected a usage failure, found {other:?}"),
        }
    }

    static DEMO: Command = Command {
        name: "demo",
        usage: &["[OPTION]… TOPIC"],
        about: "Does nothing.",
        groups: &[OptionGroup {
            title: "Options",
            options: &[
                value(Some('h'), "host", "HOST", "The host."),
                flag(
                    None,
                    "retain",
                    "Whether the message is retained. This help is so long that it continues on a second line of its own.",
                ),
            ],
        }],
        notes: &[],
    };

    #[test]
    fn long_short_joined_and_separate_options_are_equivalent() {
        for given in [&["--host", "a"][..], &["--host=a"], &["-h", "a"], &["-ha"]] {
            let mut arguments = arguments(&DEMO, given);
            assert_eq!(arguments.next().expect("parses"), Some(Argument::Option("host")));
            assert_eq!(arguments.string().expect("parses"), "a");
            assert_eq!(arguments.next().expect("parses"), None);
        }
    }

    #[test]
    fn arguments_after_two_dashes_are_positional() {
        let mut arguments = arguments(&DEMO, &["--", "--host"]);
        assert_eq!(arguments.next().expect("parses"), Some(Argument::Positional("--host".into())));
    }

    #[test]
    fn an_unknown_option_is_reported_with_the_nearest() {
        let failure = arguments(&DEMO, &["--retian"]).next().expect_err("refused");
        assert_eq!(message(failure), "unknown option --retian; did you mean --retain?\nTry `tautwire demo --help`.");
        let failure = arguments(&DEMO, &["-z"]).next().expect_err("refused");
        assert_eq!(message(failure), "unknown option -z\nTry `tautwire demo --help`.");
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_with_the_reason() {
        for given in ["-P", "-Psecret", "--password=secret", "--pw"] {
            let text = message(arguments(&DEMO, &[given]).next().expect_err("refused"));
            assert!(text.contains("--password-file") && text.contains("TAUTWIRE_PASSWORD"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn a_missing_or_unexpected_value_is_refused() {
        let mut missing = arguments(&DEMO, &["--host"]);
        let _ = missing.next();
        assert!(message(missing.string().expect_err("refused")).starts_with("--host: expected a value"));
        let mut unwanted = arguments(&DEMO, &["--retain=yes"]);
        let _ = unwanted.next();
        assert!(unwanted.next().is_err());
    }

    #[test]
    fn help_lists_every_option_within_its_width() {
        let help = DEMO.help();
        assert!(help.starts_with("Usage: tautwire demo [OPTION]… TOPIC\n"), "{help}");
        assert!(help.contains("  -h, --host HOST               The host.\n"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= HELP_COLUMNS), "{help}");
        assert!(matches!(arguments(&DEMO, &["--help"]).next(), Err(CommandExit::Text(text)) if text == help));
    }
}
