//! Writes lines to standard error.
//!
//! `eprintln!` writes each piece of its format separately, because standard error is not buffered, so the lines of two programs that share
//! a terminal or a log file would mix. It also panics if the reader is gone.

use std::fmt;
use std::io::Write;

/// Writes a line to standard error in one write. Errors are ignored.
pub(crate) fn write_line(line: fmt::Arguments<'_>) {
    write_whole(&mut std::io::stderr(), line);
}

fn write_whole(out: &mut impl Write, line: fmt::Arguments<'_>) {
    let _ = out.write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records each write separately.
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_write() {
        let mut writes = Writes(Vec::new());
        write_whole(&mut writes, format_args!("subscribed {} (QoS {})", "a/b", 1));
        assert_eq!(writes.0, [b"subscribed a/b (QoS 1)\n"]);
    }
}
