//! Byte offsets as lines and columns.

/// The offsets at which lines begin.
#[derive(Debug)]
pub(super) struct LineIndex<'t> {
    text: &'t str,
    line_starts: Vec<u32>,
}

impl<'t> LineIndex<'t> {
    /// `text` is shorter than 4 GiB.
    pub(super) fn of(text: &'t str) -> Self {
        let behind = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32 + 1);
        Self { text, line_starts: std::iter::once(0).chain(behind).collect() }
    }

    /// The line number, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start as usize <= offset)
    }

    /// Line and column, both from 1, the column in characters.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.line(offset);
        let start = self.line_starts.get(line - 1).map_or(0, |&start| start as usize);
        (line, self.text.get(start..offset).map_or(0, |before| before.chars().count()) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::LineIndex;

    #[test]
    fn lines_and_columns_count_from_one() {
        let places = LineIndex::of("ab\n\nüc\n");
        let positions = [0, 1, 2, 3, 4, 6, 7, 8, 99].map(|offset| places.position(offset));
        assert_eq!(positions, [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2), (3, 3), (4, 1), (4, 1)]);
    }
}
