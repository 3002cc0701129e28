//! What of a long line of a log is worth its place on a page.

use std::sync::LazyLock;

use regex::Regex;

use crate::views::escape::{self, Glyphs};

/// Takes out of a line that does not fit `lines` lines of `room` columns what says nothing to a person,
/// as far as needed: addresses of buffers and where files are installed; then times and places in the source that stand
/// in front of the message; then its middle, for the end often names what the beginning is about. A
/// line of a call, and an entry of a dump, says what counts at its beginning: it is left to be cut at its end.
pub(super) fn shortened(text: &str, room: usize, lines: usize, glyphs: Glyphs) -> String {
    let text = escape::harmless(text, glyphs);
    let fits = |text: &str| escape::wrap(text, room.max(1), glyphs).len() <= lines;
    if fits(&text) {
        return text.into_owned();
    }
    let dots = glyphs.ellipsis();
    let text = without_places(&text, dots);
    if fits(&text) {
        return text;
    }
    let text = without_head(&text);
    if fits(&text) {
        return text;
    }
    let call = text.contains(" opCount ") || text.contains(" call ");
    if call {
        return text;
    }
    without_middle(&text, dots, &fits)
}

/// Pointers become `0x…`, except what NCCL prints as a commId, which is a name; long paths of source files and of
/// Python's packages lose their beginning.
fn without_places(text: &str, dots: &str) -> String {
    let mut named = false;
    let text = BUFFERS.replace(text, dots);
    let words = text.split(' ').map(|word| {
        let names = std::mem::replace(&mut named, word == "commId");
        if word.starts_with("0x") && word.len() > 10 && !names {
            return format!("0x{dots}");
        }
        if let Some((before, rest)) = word.split_once("/site-packages/")
            && before.starts_with('"')
        {
            return format!("\"{dots}/{rest}");
        }
        let Some(start) = word.find('/').filter(|at| *at <= 1) else {
            return word.to_owned();
        };
        match word.rfind('/') {
            Some(last) if is_source(&word[last..]) && last - start > 12 => {
                format!("{}{dots}{}", &word[..start], &word[last..])
            }
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// `/pair.cc:152]`
fn is_source(name: &str) -> bool {
    let stem = name.split(':').next().unwrap_or_default();
    [".cc", ".cpp", ".cu", ".h", ".py"]
        .iter()
        .any(|end| stem.ends_with(end))
        && stem.len() < name.len()
}

/// The buffers of a call.
static BUFFERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"sendbuff \S+ recvbuff \S+").expect("a sound pattern"));

/// Times and places in front of a message, with the one who says it in the middle of them.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    let head = r"(?x) ^
        (?: \[\d{4}-\d\d-\d\d[ \ T][\d:.,]+\]\  )?
        (?P<who> \[\w+\]: | [\w.-]+:\d+:\d+\ \[\d+\]\  | )
        (?: \[[IWEF]\d{4,8}\ [\d:.]+\ [^\]]+\]             # PyTorch
          | [\w./-]+:\d+\ (?:\([^)]*\)\ )? (?P<nccl>NCCL\ ) )?";
    Regex::new(head).expect("a sound pattern")
});

/// `[2026-11-30 19:50:19] node-0:2601:2625 [0] os/linux.cc:804 (f) NCCL WARN Error` →
/// `node-0:2601:2625 [0] NCCL WARN Error`; `[rank1]:[E1130 20:46:27.129 ProcessGroupGloo.cpp:67] Gloo` →
/// `[rank1]: Gloo`.
fn without_head(text: &str) -> String {
    HEAD.replace(text, "$who$nccl").trim_start().to_owned()
}

/// Words of the beginning and of the end, as many as fit.
fn without_middle(text: &str, dots: &str, fits: &dyn Fn(&str) -> bool) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let (mut first, mut last) = (0, 0);
    let shown = |first: usize, last: usize| {
        let end = &words[words.len() - last..];
        format!("{} {dots} {}", words[..first].join(" "), end.join(" "))
    };
    let mut best = None;
    // In turns, and where the next word of one side does not fit, the other side's.
    while first + last + 1 < words.len() {
        let more = [(first + 1, last), (first, last + 1)];
        let turn = usize::from(first > last);
        let fitting = [more[turn], more[1 - turn]]
            .into_iter()
            .find(|(a, b)| fits(shown(*a, *b).trim()));
        let Some((a, b)) = fitting else {
            break;
        };
        (first, last, best) = (a, b, Some(shown(a, b)));
    }
    match best {
        Some(best) if first > 0 && last > 0 => best,
        // One word is as long as all there is room for.
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_the_fault_stays() {
        let cut = |text: &str| shortened(text, 60, 2, Glyphs::Unicode);
        for (line, kept) in [
            (
                "[2026-11-30 19:50:19] node-0:2601:2625 [0] os/linux.cc:804 (ncclOsShmOpen) NCCL WARN Error: \
                 failed to extend /dev/shm/nccl-KbsAnr to 34210188 bytes, error: No space left on device (28)",
                "node-0:2601:2625 [0] NCCL WARN Error: failed to extend \
                 … to 34210188 bytes, error: No space left on device (28)",
            ),
            (
                "node-0:1112:1112 [0] NCCL INFO ncclCommInitRankConfig comm 0x3fec14e0a0 rank 0 nranks 2 \
                 cudaDev 0 nvmlDev 0 busId 60 commId 0xec9620d93a6f7af0 - Init START",
                "node-0:1112:1112 [0] NCCL INFO ncclCommInitRankConfig comm 0x… rank \
                 … 0 busId 60 commId 0xec9620d93a6f7af0 - Init START",
            ),
            (
                "[rank1]:[E1130 20:46:27.129882895 ProcessGroupGloo.cpp:67] Gloo connectFullMesh failed with \
                 [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: \
                 Connection refused, remote=[127.0.0.1]:39333",
                "[rank1]: Gloo connectFullMesh failed with \
                 … out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:39333",
            ),
            ("short", "short"),
        ] {
            assert_eq!(cut(line), kept);
        }
        // One long word is left to be cut by whoever draws it.
        let long = "x".repeat(500);
        assert_eq!(cut(&long), long);
    }
}
