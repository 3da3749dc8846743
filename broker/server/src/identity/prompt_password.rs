//! Reads a password from a terminal, from a pipe or from a file.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read, Write as _};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tautwire_identity::Secret;
use tautwire_identity::limits::PASSWORD_BYTES_MAX;

/// Reads a password from a file, without a trailing line end.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn from_file(path: &Path) -> Result<Secret, String> {
    let describe = |error: io::Error| format!("cannot read the password file {}: {error}", path.display());
    let bytes = File::open(path).and_then(read_limited).map_err(describe)?;
    Ok(without_line_end(bytes))
}

/// Prompts for a password twice on a terminal without echo, or reads the first line of standard input.
///
/// # Errors
/// There is no password, or the two inputs differ.
pub(crate) fn prompt_password(user: &str) -> Result<Secret, String> {
    let describe = |error: io::Error| format!("cannot read the password from standard input: {error}");
    if !io::stdin().is_terminal() {
        let mut line = Vec::new();
        io::stdin().lock().take(PASSWORD_BYTES_MAX as u64 + 3).read_until(b'\n', &mut line).map_err(describe)?;
        return match line.is_empty() {
            true => Err("standard input has no password; use --password-file FILE or TAUTWIRE_PASSWORD".to_owned()),
            false => Ok(without_line_end(line)),
        };
    }
    let first = read_hidden(&format!("Password for {user}: ")).map_err(describe)?;
    let second = read_hidden("Repeat: ").map_err(describe)?;
    if first.is(second.expose()) { Ok(first) } else { Err("the two passwords differ".to_owned()) }
}

fn read_limited(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(PASSWORD_BYTES_MAX as u64 + 3).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn without_line_end(mut bytes: Vec<u8>) -> Secret {
    if bytes.pop_if(|byte| *byte == b'\n').is_some() {
        let _ = bytes.pop_if(|byte| *byte == b'\r');
    }
    Secret::new(bytes)
}

/// Reads a line without echo.
fn read_hidden(prompt: &str) -> io::Result<Secret> {
    io::stderr().write_all(prompt.as_bytes())?;
    let guard = EchoGuard::new()?;
    let mut line = Vec::new();
    io::stdin().lock().take(PASSWORD_BYTES_MAX as u64 + 3).read_until(b'\n', &mut line)?;
    drop(guard);
    io::stderr().write_all(b"\n")?;
    Ok(without_line_end(line))
}

/// Disables the terminal's echo until dropped. Ctrl-C is disabled as well, or it would leave the terminal without echo.
struct EchoGuard(Termios);

impl EchoGuard {
    fn new() -> io::Result<EchoGuard> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(EchoGuard(before))
    }
}

impl Drop for EchoGuard {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
