//! Indented source text.

/// Generated lines.
pub(crate) struct Code {
    text: String,
    depth: usize,
    indent: &'static str,
}

impl Code {
    pub(crate) fn new(indent: &'static str) -> Code {
        Code { text: String::new(), depth: 0, indent }
    }

    /// Adds one line, or several with the same indentation.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        for line in line.as_ref().split('\n') {
            if !line.is_empty() {
                for _ in 0..self.depth {
                    self.text.push_str(self.indent);
                }
                self.text.push_str(line);
            }
            self.text.push('\n');
        }
    }

    /// Adds a line and indents the following ones.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// Ends the indentation and adds a line.
    pub(crate) fn close(&mut self, line: impl AsRef<str>) {
        self.depth = self.depth.saturating_sub(1);
        self.line(line);
    }

    /// Begins an indentation without a line.
    pub(crate) fn open_silently(&mut self) {
        self.depth += 1;
    }

    /// Ends the indentation without a line.
    pub(crate) fn close_silently(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Adds a line between two blocks, such as `} else {`.
    pub(crate) fn between(&mut self, line: impl AsRef<str>) {
        self.close(line);
        self.depth += 1;
    }

    /// Adds an empty line, unless there is one, or a block has just begun.
    pub(crate) fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") && !self.text.ends_with("{\n") {
            self.text.push('\n');
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds a wrapped comment.
    pub(crate) fn comment(&mut self, start: &str, text: &str) {
        let width = 100usize.saturating_sub(self.depth * 4 + start.len()).max(40);
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                self.line(format!("{start}{line}"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(format!("{start}{line}").trim_end());
    }

    /// Adds lines whose columns are aligned with spaces, as gofmt does it.
    pub(crate) fn columns(&mut self, rows: &[Vec<String>]) {
        let count = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            rows.iter().filter(|row| row.len() > at + 1).map(|row| row[at].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..count).map(width).collect();
        for row in rows {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                line.push_str(cell);
                if at + 1 < row.len() {
                    line.extend(std::iter::repeat_n(' ', widths[at] + 1 - cell.chars().count()));
                }
            }
            self.line(line);
        }
    }

    pub(crate) fn finish(self) -> String {
        let mut text = self.text;
        while text.ends_with("\n\n") {
            text.pop();
        }
        text
    }
}
