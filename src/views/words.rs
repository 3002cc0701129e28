//! How numbers, ranks, hosts and commands are written, the same in every view.

mod gpu;
mod guilty;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::finding::Fix;
use crate::engine::snapshot::{RankView, Verdict};
use crate::engine::vocab::{Class, Phase, State};
use crate::sources::progress::Progress;

use super::escape::{Glyphs, harmless};

pub use gpu::{gpu_cell, gpu_lines, gpu_means, pair, process_line, process_state, together};
pub use guilty::guilty;

/// Ranks as ranges: `0-5,7-15`. Order and repetition do not matter.
#[must_use]
pub fn ranges(ranks: impl IntoIterator<Item = u32>) -> String {
    spans(ranks, |n| n.to_string())
}

/// `rank 3`, `ranks 0-5,7`, or nothing.
#[must_use]
pub fn ranks(ranks: impl IntoIterator<Item = u32>) -> String {
    let list = ranges(ranks);
    match list.as_str() {
        "" => list,
        one if one.bytes().all(|b| b.is_ascii_digit()) => format!("rank {list}"),
        _ => format!("ranks {list}"),
    }
}

/// Hosts, numbered ones together: `node-[0-3,5], login`.
#[must_use]
pub fn hosts<'a>(hosts: impl IntoIterator<Item = &'a str>) -> String {
    // Names that differ in their last number only; leading zeros make a number as wide as it is printed.
    let mut groups: BTreeMap<(&str, usize), Vec<u32>> = BTreeMap::new();
    let mut plain: Vec<&str> = Vec::new();
    for host in hosts.into_iter().filter(|h| !h.is_empty()) {
        let stem = host.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &host[stem.len()..];
        match digits.parse() {
            Ok(n) if !stem.is_empty() => {
                let padded = if digits.len() > 1 && digits.starts_with('0') {
                    digits.len()
                } else {
                    0
                };
                groups.entry((stem, padded)).or_default().push(n);
            }
            _ => plain.push(host),
        }
    }
    plain.sort_unstable();
    plain.dedup();
    let mut out: Vec<String> = Vec::new();
    for ((stem, padded), numbers) in groups {
        let list = spans(numbers, |n| format!("{n:0padded$}"));
        let many = list.contains(['-', ',']);
        out.push(if many {
            format!("{stem}[{list}]")
        } else {
            format!("{stem}{list}")
        });
    }
    out.extend(plain.iter().map(ToString::to_string));
    out.join(", ")
}

/// `1 rank`, `2 ranks`, `1,024 ranks`.
#[must_use]
pub fn count(n: usize, noun: &str) -> String {
    let number = thousands(n as u64);
    match (n, noun) {
        (1, _) => format!("{number} {noun}"),
        (_, n) if n.ends_with('x') || n.ends_with("ch") => format!("{number} {n}es"),
        (_, n) if n.ends_with('y') => format!("{number} {}ies", n.trim_end_matches('y')),
        _ => format!("{number} {noun}s"),
    }
}

/// `16,384`.
#[must_use]
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `312 B`, `4.0 KiB`, `1.2 GiB`.
#[must_use]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `0.4s`, `12s`, `3m05s`, `2h07m`, `3d04h`.
#[must_use]
pub fn duration(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0..=9 if d.subsec_millis() >= 50 => format!("{:.1}s", d.as_secs_f64()),
        0..=59 => format!("{s}s"),
        60..=3599 => format!("{}m{:02}s", s / 60, s % 60),
        3600..=86_399 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

/// `reading: 1.2 of 7.9 GiB, 300 of 1,024 files, 310.0 MiB/s, 22s left`.
#[must_use]
pub fn loading(progress: &Progress, took: Duration) -> String {
    let Progress {
        bytes: read,
        of,
        files,
        of_files,
    } = *progress;
    let mut text = format!(
        "reading: {} of {}, {} of {}",
        bytes(read),
        bytes(of),
        thousands(files as u64),
        count(of_files, "file")
    );
    let rate = read as f64 / took.as_secs_f64().max(0.001);
    if read > 0 && took >= Duration::from_secs(1) {
        text.push_str(&format!(", {}/s", bytes(rate as u64)));
        let left = Duration::try_from_secs_f64(of.saturating_sub(read) as f64 / rate);
        text.push_str(&left.map_or_else(
            |_| String::new(),
            |left| format!(", {} left", duration(left)),
        ));
    }
    text
}

/// The state in capitals, for the top of everything.
#[must_use]
pub fn headline(state: State) -> &'static str {
    match state {
        State::Healthy => "HEALTHY",
        State::Completed => "COMPLETED",
        State::Degraded => "DEGRADED",
        State::WrongResults => "WRONG RESULTS",
        State::Waiting => "WAITING",
        State::Hung => "HUNG",
        State::Failed => "FAILED",
        State::Inconclusive => "CANNOT TELL",
    }
}

/// What a fix does to the fault. What sets nothing and cures nothing finds out more.
#[must_use]
pub fn effect(fix: &Fix) -> &'static str {
    match fix {
        Fix { cures: true, .. } => "cures it",
        Fix { env, unset, .. } if env.is_empty() && unset.is_empty() => "next step",
        _ => "works around it",
    }
}

/// What the state of a verdict means, in one line.
#[must_use]
pub fn gloss_of(verdict: &Verdict) -> &'static str {
    match (verdict.state, verdict.class) {
        (State::Waiting, Class::MismatchedCollective) => {
            "ranks called different things; nothing shows yet whether that hangs or goes on with wrong numbers"
        }
        (state, _) => gloss(state),
    }
}

/// What a state means, in one line.
#[must_use]
pub fn gloss(state: State) -> &'static str {
    match state {
        State::Healthy => "nothing wrong was seen; the end is not in the logs",
        State::Completed => "nothing wrong was seen, and the ranks ended well",
        State::Degraded => "it works, slower than it could",
        State::WrongResults => "it went on with wrong numbers",
        State::Waiting => {
            "some ranks wait for others; nothing proves yet that it is stuck (--stuck if you know)"
        }
        State::Hung => "it stands still, or did when the logs were taken",
        State::Failed => "it ended with an error",
        State::Inconclusive => "the logs do not say enough",
    }
}

/// What the ranks and hosts of a verdict are to it.
#[must_use]
pub fn guilt(state: State) -> &'static str {
    match state {
        State::Waiting => "waited for",
        _ => "at fault",
    }
}

/// One letter per phase: small ones until a rank is ready, capitals from there.
#[must_use]
pub fn letter(phase: Phase) -> char {
    match phase {
        Phase::Launched => 'l',
        Phase::Rendezvous => 'r',
        Phase::Bootstrap => 'b',
        Phase::Network => 'n',
        Phase::Topology => 't',
        Phase::Connect => 'c',
        Phase::Ready => 'R',
        Phase::Collective => 'C',
        Phase::Finished => 'F',
        Phase::Failed => 'X',
        Phase::Died => 'D',
        Phase::Silent => 'S',
    }
}

/// The letter of a rank of which nothing was seen.
pub const ABSENT: char = '-';

/// How far a rank has got: `bootstrap`, `AllReduce #3`, `absent`.
#[must_use]
pub fn progress(rank: &RankView) -> String {
    if rank.absent {
        return "absent".to_owned();
    }
    if rank.phase != Phase::Collective {
        return rank.phase.name().to_owned();
    }
    let function = rank.function.as_deref().unwrap_or("collective");
    match rank.collective {
        Some(n) => format!("{function} #{}", thousands(n)),
        None => function.to_owned(),
    }
}

/// What a rank, or a writer whose rank is not known, is called.
#[must_use]
pub fn rank_name(rank: &RankView) -> String {
    match (rank.rank, &rank.name, rank.pid) {
        (Some(n), _, _) => n.to_string(),
        (None, Some(name), _) => name.clone(),
        (None, None, Some(pid)) => format!("pid {pid}"),
        (None, None, None) => "?".to_owned(),
    }
}

/// The same in a sentence: `rank 3`, or what its writer is called.
#[must_use]
pub fn rank_noun(rank: &RankView) -> String {
    match rank.rank {
        Some(n) => format!("rank {n}"),
        None => rank_name(rank),
    }
}

/// The first two sentences of a longer text.
#[must_use]
pub fn two_sentences(text: &str) -> &str {
    let mut ends = text.match_indices(['.', '!', '?']).filter(|(at, _)| {
        let mut rest = text[at + 1..].chars();
        rest.next().is_none_or(char::is_whitespace)
            && rest
                .find(|c| !c.is_whitespace())
                .is_none_or(|c| !c.is_lowercase())
    });
    let end = ends.nth(1).map_or(text.len(), |(at, _)| at + 1);
    text[..end].trim()
}

/// The lines to paste into a shell for the variables of a fix.
///
/// Values can come from a log, so they are quoted, and what is no variable name is no command.
#[must_use]
pub fn exports(fix: &Fix) -> Vec<String> {
    let mut out = Vec::new();
    for (name, value) in &fix.env {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if plain && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) {
            out.push(format!("export {name}={}", quoted(value)));
        }
    }
    if !fix.unset.is_empty() {
        out.push(format!("unset {}", fix.unset.join(" ")));
    }
    out
}

/// A word as a shell reads it back, without control characters.
#[must_use]
pub fn quoted(value: &str) -> String {
    let value = harmless(value, Glyphs::Unicode);
    let safe = |b: u8| b.is_ascii_alphanumeric() || b"_-.,:/+=@%^".contains(&b);
    // zsh takes `=` in front for the path of a command.
    if value.bytes().all(safe) && !value.is_empty() && !value.starts_with('=') {
        return value.into_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// A sentence in `room` columns at most, cut between words; a list of ranks that is cut says how many more.
#[must_use]
pub fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let words: Vec<&str> = text.split(' ').collect();
    let cut = (1..words.len()).rev().map(|kept| cut_at(&words, kept));
    let mut fitting = cut.filter(|cut| cut.chars().count() <= room);
    fitting.next().unwrap_or_else(|| format!("{}…", words[0]))
}

/// The first words of a sentence, and how much of a list is missing.
fn cut_at(words: &[&str], kept: usize) -> String {
    let head = |kept: usize| words[..kept].join(" ");
    let left = rest_of_list(words, kept);
    if left == 0 {
        return format!("{}…", head(kept).trim_end_matches([',', ';', ':']));
    }
    let dots = if list_ends(words, kept) { "" } else { " …" };
    if words[kept - 1] == "ranks" {
        // Nothing of the list is left: its length says more than its noun.
        let text = format!("{} {} ranks{dots}", head(kept - 1), thousands(left));
        return text.trim_start().to_owned();
    }
    let head = head(kept);
    format!(
        "{} and {} more{dots}",
        head.trim_end_matches(','),
        thousands(left)
    )
}

/// How many numbers of the list that word `at` stands in are left from there on.
fn rest_of_list(words: &[&str], at: usize) -> u64 {
    let inside = words[at - 1].ends_with(',') && numbers_in(words[at - 1]) > 0;
    if !inside && words[at - 1] != "ranks" {
        return 0;
    }
    let mut left = 0;
    for word in &words[at..] {
        left += numbers_in(word);
        if numbers_in(word) == 0 || !word.ends_with(',') {
            break;
        }
    }
    left
}

/// True if nothing follows the list that word `at` stands in.
fn list_ends(words: &[&str], at: usize) -> bool {
    words[at..].iter().all(|word| numbers_in(word) > 0)
}

/// Numbers that an item of a list stands for: `3,` and `4-7;`.
fn numbers_in(word: &str) -> u64 {
    let word = word.trim_end_matches([',', ';', ':', '.', ')', ']']);
    let number = |t: &str| t.parse::<u64>().ok();
    match word.split_once('-') {
        Some((from, to)) => match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => to - from + 1,
            _ => 0,
        },
        None => u64::from(number(word).is_some()),
    }
}

fn spans(numbers: impl IntoIterator<Item = u32>, print: impl Fn(u32) -> String) -> String {
    let mut numbers: Vec<u32> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut out = String::new();
    for run in numbers.chunk_by(|a, b| a + 1 == *b) {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(&print(run[0]));
        if run.len() > 1 {
            out.push('-');
            out.push_str(&print(run[run.len() - 1]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_written_as_ranges() {
        assert_eq!(ranges([7, 8, 9, 0, 1, 2, 2, 5]), "0-2,5,7-9");
        assert_eq!(ranks([10, 11]), "ranks 10-11");
        assert_eq!(ranks([3]), "rank 3");
        assert_eq!(ranks([]), "");
    }

    #[test]
    fn hosts_are_written_as_ranges() {
        let names = [
            "node-5", "node-0", "node-1", "node-2", "login", "gpu07", "gpu08", "gpu09", "10",
        ];
        assert_eq!(hosts(names), "gpu[07-09], node-[0-2,5], 10, login");
        assert_eq!(hosts(["node-5"]), "node-5");
    }

    #[test]
    fn numbers() {
        assert_eq!(thousands(16_384), "16,384");
        assert_eq!(thousands(100), "100");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1 << 20), "1.0 MiB");
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(duration(Duration::from_millis(400)), "0.4s");
        assert_eq!(duration(Duration::from_secs(185)), "3m05s");
        assert_eq!(count(2, "entry"), "2 entries");
        assert_eq!(count(2, "fix"), "2 fixes");
    }

    #[test]
    fn a_value_from_a_log_is_no_command() {
        let fix = Fix {
            kind: crate::engine::vocab::FixKind::Env,
            text: String::new(),
            env: [("A", "data0"), ("B", "x'; rm -rf /\n"), ("C D", "1")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            unset: vec![],
            ranks: vec![],
            cures: true,
            caution: None,
            undo: None,
        };
        assert_eq!(
            exports(&fix),
            ["export A=data0", r"export B='x'\''; rm -rf /^J'"]
        );
    }

    #[test]
    fn a_cut_list_says_how_many_more() {
        let text = "the watchdog gave up on ranks 0-5, 7, 9, 11-15";
        assert_eq!(shortened(text, 80), text);
        assert_eq!(
            shortened(text, 44),
            "the watchdog gave up on ranks 0-5 and 7 more"
        );
        let text = "rank 6 never called it; ranks 0-5, 7, 9 called it and got no further";
        assert_eq!(
            shortened(text, 50),
            "rank 6 never called it; ranks 0-5, 7, 9 called it…"
        );
        assert_eq!(
            shortened("Connection closed by somebody", 20),
            "Connection closed…"
        );
        assert_eq!(shortened("wwwwwwwwwwwwwwwwwww", 5), "wwwwwwwwwwwwwwwwwww…");
    }

    #[test]
    fn sentences() {
        assert_eq!(
            two_sentences("One is 192.168.1.1 e.g. this. Two! Three."),
            "One is 192.168.1.1 e.g. this. Two!"
        );
        assert_eq!(two_sentences("One"), "One");
    }

    #[test]
    fn letters_of_phases_differ() {
        let mut letters: Vec<char> = Phase::ALL.iter().map(|p| letter(*p)).collect();
        letters.push(ABSENT);
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), Phase::ALL.len() + 1);
    }
}
