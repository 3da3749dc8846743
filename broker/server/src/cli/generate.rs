//! `tautwire generate`: generates source code from contracts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tautwire_contracts::Catalogue;
use tautwire_generate::{Document, GenerateError, Language, Options, Sources};

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::{CommandExit, Exit, print};
use crate::contracts;

pub(crate) static COMMAND: Command = Command {
    name: "generate",
    usage: &[
        "--lang typescript|go|rust|python|c --out DIR [--path DIR] [--package NAME] [--blocking] [--check]",
        "--asyncapi [--out FILE] [--path DIR] [--title TEXT] [--api-version TEXT] [--check]",
    ],
    about: "Generates types and typed functions for clients, or an AsyncAPI 3.0 document, from a contracts folder.",
    groups: &[OptionGroup {
        title: "Options",
        options: &[
            value(None, "lang", "typescript|go|rust|python|c", "Language of the client."),
            flag(None, "asyncapi", "Generate an AsyncAPI 3.0 document in JSON."),
            value(
                None,
                "out",
                "PATH",
                "The output directory, or the output file of --asyncapi, which defaults to standard output.",
            ),
            value(None, "path", "DIR", "The contracts folder. Default: contracts."),
            value(
                None,
                "package",
                "NAME",
                "The name of the Go package, and the prefix of names in C. Default: contracts.",
            ),
            flag(None, "blocking", "Rust and Python: generate code for the blocking client instead of async code."),
            value(None, "title", "TEXT", "The title of the document. Default: Contracts."),
            value(None, "api-version", "TEXT", "The API version in the document. Default: 1.0.0."),
            flag(None, "check", "Write nothing; fail if the existing files are out of date."),
        ],
    }],
    notes: &[
        "The output is deterministic. Existing files are replaced only if they were generated; otherwise the command\n\
         fails.",
        "Exit codes: 0 done; 1 invalid arguments or contracts, or --check found a difference.",
    ],
};

/// Text near the beginning of generated files.
const MARK: &str = "tautwire generate";
const MARK_WITHIN_BYTES: usize = 200;

struct GenerateOptions {
    language: Option<Language>,
    is_asyncapi: bool,
    out: Option<PathBuf>,
    path: PathBuf,
    options: Options,
    document: Document,
    is_check: bool,
}

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let request = read(Arguments::new(&COMMAND, parser))?;
    let catalogue = contracts::load(&request.path).map_err(|errors| {
        CommandExit::failure(Exit::Usage, contracts::format_errors(&request.path, &errors).join("\n"))
    })?;
    let failed = |error: GenerateError| CommandExit::failure(Exit::Usage, error);
    match (request.language, &request.out) {
        (Some(language), Some(out)) => {
            let sources = tautwire_generate::generate(&catalogue, language, &request.options).map_err(failed)?;
            write(out, &sources, request.is_check)
        }
        _ => asyncapi(&catalogue, &request),
    }
}

fn asyncapi(catalogue: &Catalogue, request: &GenerateOptions) -> Result<ExitCode, CommandExit> {
    let text = tautwire_generate::asyncapi(catalogue, &request.document)
        .map_err(|error| CommandExit::failure(Exit::Usage, error))?;
    let Some(out) = &request.out else { return Ok(print(&text)) };
    let name = out.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| CommandExit::failure(Exit::Usage, format!("{}: not a file name", out.display())))?;
    let folder = out.parent().unwrap_or_else(|| Path::new(""));
    write(folder, &Sources::from([(name.to_owned(), text)]), request.is_check)
}

fn read(mut arguments: Arguments) -> Result<GenerateOptions, CommandExit> {
    let mut request = GenerateOptions {
        language: None,
        is_asyncapi: false,
        out: None,
        path: PathBuf::from("contracts"),
        options: Options::default(),
        document: Document::default(),
        is_check: false,
    };
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("lang") => request.language = Some(arguments.choice(&Language::ALL)?),
            Argument::Option("asyncapi") => request.is_asyncapi = true,
            Argument::Option("out") => request.out = Some(PathBuf::from(arguments.os_string()?)),
            Argument::Option("path") => request.path = PathBuf::from(arguments.os_string()?),
            Argument::Option("package") => request.options.package = arguments.string()?,
            Argument::Option("blocking") => request.options.blocking = true,
            Argument::Option("title") => request.document.title = arguments.string()?,
            Argument::Option("api-version") => request.document.version = arguments.string()?,
            Argument::Option("check") => request.is_check = true,
            Argument::Option(_) => {}
            Argument::Positional(text) => {
                return Err(arguments.command_failure(&format!("unexpected argument \"{text}\"")));
            }
        }
    }
    match (request.language, request.is_asyncapi, &request.out) {
        (Some(_), true, _) => Err(arguments.command_failure("--lang and --asyncapi exclude each other")),
        (None, false, _) => Err(arguments.command_failure("write what to generate: --lang LANGUAGE or --asyncapi")),
        (Some(_), _, None) => Err(arguments.command_failure("write the output directory: --out DIR")),
        (_, _, None) if request.is_check => Err(arguments.command_failure("write the output to check: --out PATH")),
        _ => Ok(request),
    }
}

/// Writes new and changed files.
fn write(folder: &Path, sources: &Sources, is_check: bool) -> Result<ExitCode, CommandExit> {
    let mut changed = Vec::new();
    for (name, text) in sources {
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Ok(found) if found == *text => continue,
            Ok(found)
                if !found
                    .bytes()
                    .take(MARK_WITHIN_BYTES)
                    .collect::<Vec<_>>()
                    .windows(MARK.len())
                    .any(|part| part == MARK.as_bytes()) =>
            {
                let message = format!("{} exists and was not generated; choose another --out", path.display());
                return Err(CommandExit::failure(Exit::Usage, message));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot("read", &path, &error)),
            _ => changed.push((path, text)),
        }
    }
    if let (true, Some((path, _))) = (is_check, changed.first()) {
        let more = if changed.len() > 1 { format!(", and {} more", changed.len() - 1) } else { String::new() };
        let message = format!("{}{more}: out of date; run the command without --check", path.display());
        return Err(CommandExit::failure(Exit::Usage, message));
    }
    if !changed.is_empty() && !folder.as_os_str().is_empty() {
        fs::create_dir_all(folder).map_err(|error| cannot("create", folder, &error))?;
    }
    for (path, text) in changed {
        fs::write(&path, text).map_err(|error| cannot("write", &path, &error))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cannot(action: &str, path: &Path, error: &io::Error) -> CommandExit {
    CommandExit::failure(Exit::Usage, format!("cannot {action} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::{arguments, message};
    use super::*;

    #[test]
    fn target_and_output_are_required() {
        for (given, why) in [
            (&[][..], "write what to generate"),
            (&["--lang", "go"], "write the output directory"),
            (&["--lang", "go", "--asyncapi", "--out", "x"], "exclude each other"),
            (&["--asyncapi", "--check"], "write the output to check"),
            (&["--lang", "cobol", "--out", "x"], "expected one of typescript, go, rust, python, c"),
            (&["--asyncapi", "x"], "unexpected argument \"x\""),
        ] {
            let failure = read(arguments(&COMMAND, given)).err().expect("refused");
            assert!(message(failure).contains(why), "{given:?}");
        }
    }
}
