//! Values of the file, and their errors.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::line_index::LineIndex;
use crate::error::{AccessError, ErrorCode};
use crate::limits::ERRORS_MAX;

/// Reads values and collects errors.
pub(super) struct Reader<'t> {
    file: &'t str,
    places: &'t LineIndex<'t>,
    shift: LineShift,
    errors: Vec<AccessError>,
}

/// Maps positions in the parsed text to the file: offsets at or after `from` are shifted by `by` bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LineShift {
    pub(super) from: usize,
    pub(super) by: usize,
}

/// A string with its range.
pub(super) type Text<'t> = (&'t str, Range<usize>);

impl<'t> Reader<'t> {
    pub(super) fn new(file: &'t str, places: &'t LineIndex<'t>) -> Self {
        Self { file, places, shift: LineShift::default(), errors: Vec::new() }
    }

    pub(super) fn file(&self) -> &'t str {
        self.file
    }

    /// Shifts the positions of everything that is read from now on.
    pub(super) fn shift(&mut self, shift: LineShift) {
        self.shift = shift;
    }

    fn offset(&self, span: &Range<usize>) -> usize {
        span.start + if span.start >= self.shift.from { self.shift.by } else { 0 }
    }

    pub(super) fn line(&self, span: &Range<usize>) -> u32 {
        u32::try_from(self.places.line(self.offset(span))).unwrap_or(u32::MAX)
    }

    pub(super) fn is_faultless(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn take_errors(&mut self) -> Vec<AccessError> {
        std::mem::take(&mut self.errors)
    }

    /// Returns `value` if there were no errors.
    pub(super) fn finish<T>(mut self, value: T) -> Result<T, Vec<AccessError>> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        self.errors.sort_by_key(|error| error.position);
        Err(self.errors)
    }

    pub(super) fn fault(&mut self, code: ErrorCode, span: Range<usize>, message: impl Into<String>) {
        if self.errors.len() < ERRORS_MAX {
            let position = Some(self.places.position(self.offset(&span)));
            self.errors.push(AccessError { code, file: self.file.to_owned(), position, message: message.into() });
        }
    }

    pub(super) fn unknown_key(&mut self, span: Range<usize>, key: &str, known: &[&str]) {
        let message = format!("unknown key {} here; known keys are {}", key.escape_debug(), known.join(", "));
        self.fault(ErrorCode::UnknownKey, span, message);
    }

    pub(super) fn boolean(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<bool> {
        let found = value.get_ref().as_bool();
        if found.is_none() {
            self.fault(ErrorCode::Value, value.span(), format!("{key} must be true or false"));
        }
        found
    }

    /// A string, or a list of strings; empty if there is an error.
    pub(super) fn texts<'v>(&mut self, key: &str, value: &'v Spanned<DeValue<'_>>) -> Vec<Text<'v>> {
        let text = |value: &'v Spanned<DeValue<'_>>| value.get_ref().as_str().map(|text| (text, value.span()));
        let texts = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(text).collect::<Option<Vec<_>>>(),
            _ => text(value).map(|text| vec![text]),
        };
        let texts = texts.unwrap_or_default();
        if texts.is_empty() {
            self.fault(ErrorCode::Value, value.span(), format!("{key} must be a string, or a list of strings"));
        }
        texts
    }
}
