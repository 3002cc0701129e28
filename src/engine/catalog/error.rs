//! What is wrong with a rule file, shown in the file.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// One fault of a rule file. [`RuleError::render`] points at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The file.
    pub path: String,
    /// What is wrong: a lowercase fragment without a full stop.
    pub message: String,
    /// Where, in bytes of the file.
    pub span: Option<Range<usize>>,
    /// What stands at the place.
    pub label: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The file's text.
    text: String,
}

impl RuleError {
    /// A fault of the file at `path` with the given text.
    #[must_use]
    pub fn new(path: &str, text: &str, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            message: message.into(),
            span: None,
            label: None,
            hint: None,
            text: text.to_owned(),
        }
    }

    /// The same, at a place.
    #[must_use]
    pub fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    /// The same, with words under the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same, with what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message with the lines of the file it is about.
    #[must_use]
    pub fn render(&self, renderer: &Renderer) -> String {
        let mut group = Group::with_title(Level::ERROR.primary_title(self.message.as_str()));
        let snippet = Snippet::source(self.text.as_str()).path(self.path.as_str());
        let span = self.span.clone().map_or(0..0, |s| self.on_boundaries(&s));
        let mut annotation = AnnotationKind::Primary.span(span);
        if let Some(label) = &self.label {
            annotation = annotation.label(label.as_str());
        }
        group = group.element(snippet.annotation(annotation));
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.message(hint.as_str()));
        }
        renderer.render(&[group])
    }

    /// The span within the text, on character boundaries.
    fn on_boundaries(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.text.floor_char_boundary(span.start);
        start..self.text.ceil_char_boundary(span.end).max(start)
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

impl std::error::Error for RuleError {}
