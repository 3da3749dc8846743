//! Values of the file, and what is wrong with them.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::line_index::LineIndex;
use crate::error::{AccessError, ErrorCode};
use crate::limits::ERRORS_MAX;

/// Reads values; collects what is wrong.
pub(super) struct Reader<'t> {
    file: &'t str,
    places: &'t LineIndex<'t>,
    shift: LineShift,
    errors: Vec<AccessError>,
}

/// Where what is read lies in the file: from `from` on, it lies `by` bytes further back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LineShift {
    pub(super) from: usize,
    pub(super) by: usize,
}

/// A text with its place.
pub(super) type Text<'t> = (&'t str, Range<usize>);

impl<'t> Reader<'t> {
    pub(super) fn new(file: &'t str, places: &'t LineIndex<'t>) -> Self {
        Self { file, places, shift: LineShift::default(), errors: Vec::new() }
    }

    pub(super) fn file(&self) -> &'t str {
        self.file
    }

    /// What is read from now on lies elsewhere.
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

    /// `value`, if nothing was wrong.
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
        let message = format!("there is no key {} here; there are {}", key.escape_debug(), known.join(", "));
        self.fault(ErrorCode::UnknownKey, span, message);
    }

    pub(super) fn boolean(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<bool> {
        let found = value.get_ref().as_bool();
        if found.is_none() {
            self.fault(ErrorCode::Value, value.span(), format!("{key} is true or false"));
        }
        found
    }

    /// A text, or a list of some; empty where something is wrong.
    pub(super) fn texts<'v>(&mut self, key: &str, value: &'v Spanned<DeValue<'_>>) -> Vec<Text<'v>> {
        let text = |value: &'v Spanned<DeValue<'_>>| value.get_ref().as_str().map(|text| (text, value.span()));
        let texts = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(text).collect::<Option<Vec<_>>>(),
            _ => text(value).map(|text| vec![text]),
        };
        let texts = texts.unwrap_or_default();
        if texts.is_empty() {
            self.fault(ErrorCode::Value, value.span(), format!("{key} is a string, or a list of strings"));
        }
        texts
    }
}
