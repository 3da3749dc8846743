//! The command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// `[--rounds N] [--quick] [--output FILE]` and the options of a program.
#[derive(Debug)]
pub struct Arguments {
    pub rounds: usize,
    /// The file for the samples.
    pub output: Option<PathBuf>,
    others: BTreeMap<&'static str, String>,
}

impl Arguments {
    /// Parses the arguments after the program name. `others`: the program's own options, each with a value.
    ///
    /// # Errors
    /// A message for the first invalid argument.
    pub fn parse(
        words: impl IntoIterator<Item = String>,
        rounds: usize,
        quick_rounds: usize,
        others: &[&'static str],
    ) -> Result<Self, String> {
        let mut words = words.into_iter();
        let mut arguments = Self { rounds, output: None, others: BTreeMap::new() };
        while let Some(word) = words.next() {
            let mut value = |what: &str| words.next().ok_or(format!("{word} needs a {what}"));
            match word.as_str() {
                "--quick" => arguments.rounds = quick_rounds,
                "--rounds" => {
                    let rounds = value("number")?.parse().ok().filter(|&rounds| rounds > 0);
                    arguments.rounds = rounds.ok_or("--rounds needs a number above 0")?;
                }
                "--output" => arguments.output = Some(value("file")?.into()),
                word => {
                    let other =
                        others.iter().find(|&&other| other == word).ok_or(format!("unknown argument {word}"))?;
                    arguments.others.insert(other, value("value")?);
                }
            }
        }
        Ok(arguments)
    }

    /// The value of one of the program's own options.
    pub fn other(&self, option: &str) -> Option<&str> {
        self.others.get(option).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned), 21, 5, &["--case"])
    }

    #[test]
    fn options_are_parsed() {
        let arguments = parse("--quick --case c --output f").expect("is right");
        assert_eq!((arguments.rounds, arguments.other("--case")), (5, Some("c")));
        assert_eq!(arguments.output, Some("f".into()));
        assert_eq!(parse("--rounds 7").expect("is right").rounds, 7);
        assert_eq!(parse("").expect("is right").rounds, 21);
    }

    #[test]
    fn invalid_options_are_reported() {
        for (line, message) in [
            ("--rounds 0", "--rounds needs a number above 0"),
            ("--rounds", "--rounds needs a number"),
            ("--case", "--case needs a value"),
            ("--slow", "unknown argument --slow"),
        ] {
            assert_eq!(parse(line).expect_err(line), message);
        }
    }
}
