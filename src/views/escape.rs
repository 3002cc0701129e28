//! Stand-in until the views are merged.
use std::borrow::Cow;
/// Which characters may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Glyphs {
    /// Any.
    #[default]
    Unicode,
    /// Printable ASCII only.
    Ascii,
}
/// The text with everything harmful shown as a visible escape.
#[must_use]
pub fn harmless(text: &str, _glyphs: Glyphs) -> Cow<'_, str> {
    Cow::Owned(
        text.chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect(),
    )
}
