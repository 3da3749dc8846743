//! A password from somebody who types it, from a pipe or from a file.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read, Write as _};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tautwire_identity::Secret;
use tautwire_identity::limits::PASSWORD_BYTES_MAX;

/// The password in a file; a line end behind it does not count.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn from_file(path: &Path) -> Result<Secret, String> {
    let told = |error: io::Error| format!("the password file {} cannot be read: {error}", path.display());
    let bytes = File::open(path).and_then(limited).map_err(told)?;
    Ok(without_line_end(bytes))
}

/// The password of whoever runs the program: typed twice, without being shown, at a terminal; else the first line of standard input.
///
/// # Errors
/// There is none, or the two are different.
pub(crate) fn prompt_password(user: &str) -> Result<Secret, String> {
    let told = |error: io::Error| format!("the password cannot be read from standard input: {error}");
    if !io::stdin().is_terminal() {
        let mut line = Vec::new();
        io::stdin().lock().take(PASSWORD_BYTES_MAX as u64 + 3).read_until(b'\n', &mut line).map_err(told)?;
        return match line.is_empty() {
            true => {
                Err("no password came by standard input; use --password-file FILE, or TAUTWIRE_PASSWORD".to_owned())
            }
            false => Ok(without_line_end(line)),
        };
    }
    let first = typed(&format!("Password of {user}: ")).map_err(told)?;
    let second = typed("Once more: ").map_err(told)?;
    if first.is(second.expose()) { Ok(first) } else { Err("the two passwords are different".to_owned()) }
}

fn limited(reader: impl Read) -> io::Result<Vec<u8>> {
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

/// A line that is typed and not shown.
fn typed(prompt: &str) -> io::Result<Secret> {
    io::stderr().write_all(prompt.as_bytes())?;
    let hidden = EchoGuard::new()?;
    let mut line = Vec::new();
    io::stdin().lock().take(PASSWORD_BYTES_MAX as u64 + 3).read_until(b'\n', &mut line)?;
    drop(hidden);
    io::stderr().write_all(b"\n")?;
    Ok(without_line_end(line))
}

/// The terminal shows nothing that is typed, until this is dropped. Ctrl-C does nothing meanwhile, or the terminal would stay so.
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
