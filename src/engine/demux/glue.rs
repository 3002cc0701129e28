//! Unfinished output with another writer's line directly behind it.

use super::layers::Layers;
use super::names::Names;
use super::prefix::{self, Layer};
use super::torch;

/// Finds `[rank` in lines.
#[derive(Clone, Debug)]
pub(super) struct RankFinder(memchr::memmem::Finder<'static>);

impl Default for RankFinder {
    fn default() -> Self {
        Self(memchr::memmem::Finder::new(b"[rank"))
    }
}

/// Where another writer's line begins behind unfinished output.
pub(super) fn find(text: &[u8], body: usize, names: &Names, rank: &RankFinder) -> Option<usize> {
    let mut from = body;
    while let Some(at) = rank.0.find(&text[from..]) {
        let at = from + at;
        if at > body && torch::rank(&text[at..]).is_some_and(|(_, rest)| begins_message(rest)) {
            return Some(at);
        }
        from = at + 5;
    }
    if !names.tagged() {
        return None;
    }
    let mut from = body;
    while let Some(at) = memchr::memchr2(b'[', b'<', &text[from..]) {
        let at = from + at;
        if at > body
            && let Some(start) = tag_start(text, body, at, names)
        {
            return Some(start);
        }
        from = at + 1;
    }
    None
}

/// What PyTorch prints behind `[rankN]:` when a line of it begins: a log header or a traceback.
fn begins_message(text: &[u8]) -> bool {
    text.starts_with(b"Traceback (") || torch::parse(text, None).is_some()
}

/// Where a tag with the stamp in front of it begins, if there is one at `at`.
fn tag_start(text: &[u8], body: usize, at: usize, names: &Names) -> Option<usize> {
    const STAMP: usize = "Mon Nov 30 19:54:42 2026".len();
    let stamped = at
        .checked_sub(STAMP)
        .filter(|s| *s > body && prefix::ctime(&text[*s..]).is_some());
    if text[at] == b'<' {
        return stamped.filter(|_| prefix::strong(&text[at..]).is_some());
    }
    if names.begins(&text[at..]) {
        return Some(stamped.unwrap_or(at));
    }
    // `[Mon Nov 30 19:54:22 2026][1,0]<stdout>:`.
    match prefix::strong(&text[at..]) {
        Some((Layer::Stamp, rest)) if prefix::tag(rest).is_some() || rest.starts_with(b"<std") => {
            Some(at)
        }
        _ => None,
    }
}

/// Ray's ` [repeated 2x across cluster]` off the end.
/// `keep` bytes of the front stay whatever they hold.
pub(super) fn without_repeat_mark<'a>(
    text: &'a [u8],
    keep: usize,
    layers: &Layers<'_>,
) -> &'a [u8] {
    if !matches!(text.last(), Some(b']' | b')'))
        || !layers
            .as_slice()
            .iter()
            .any(|l| matches!(l, Layer::Named { .. }))
    {
        return text;
    }
    let floor = text.len().saturating_sub(400).max(keep.min(text.len()));
    match memchr::memmem::rfind(&text[floor..], b" [repeated ") {
        Some(at) if memchr::memmem::find(&text[floor + at..], b"x across cluster]").is_some() => {
            &text[..floor + at]
        }
        _ => text,
    }
}
