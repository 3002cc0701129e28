//! What the name of a source tells: weak, content beats it.

use super::Hint;
use super::bytes::{number, trailing_number, whole_number};

/// The hints of a path. Only layouts that a launcher writes give a world rank.
pub(super) fn hints(name: &str) -> Vec<Hint> {
    let mut hints = Vec::new();
    let parts: Vec<&str> = name.split('/').filter(|p| !p.is_empty()).collect();
    let Some((file, folders)) = parts.split_last() else {
        return hints;
    };
    folders_of(folders, &mut hints);
    let named = stem(file);
    if !(nccl(named, &mut hints)
        || ray(named, &mut hints)
        || nemo(named, &mut hints)
        || prte(file, &mut hints))
    {
        single_number(named, &mut hints);
    }
    hints.sort();
    hints.dedup();
    hints
}

fn folders_of(folders: &[&str], hints: &mut Vec<Hint>) {
    for (at, folder) in folders.iter().enumerate() {
        if let Some(attempt) = folder.strip_prefix("attempt_").and_then(all) {
            hints.push(Hint::Attempt(attempt));
            if let Some(local) = folders.get(at + 1).and_then(|f| all(f)) {
                hints.push(Hint::LocalRank(local));
            }
        }
        if let Some(rank) = folder.strip_prefix("rank.").and_then(all) {
            hints.push(Hint::WorldRank(rank));
        }
        if let Some(node) = numbered(folder, &["node", "host"]) {
            hints.push(Hint::Node(node));
        }
    }
}

/// The file's name without what rotation, compression and kind put behind it.
fn stem(file: &str) -> &str {
    let mut name = file;
    loop {
        let Some((before, end)) = name.rsplit_once('.') else {
            return name;
        };
        if !matches!(
            end,
            "log" | "out" | "err" | "txt" | "gz" | "zst" | "stdout" | "stderr" | "json"
        ) {
            return name;
        }
        name = before;
    }
}

/// `nccl.HOST.PID` of `NCCL_DEBUG_FILE=nccl.%h.%p.log`.
fn nccl(name: &str, hints: &mut Vec<Hint>) -> bool {
    let Some(rest) = name
        .get(..4)
        .filter(|p| p.eq_ignore_ascii_case("nccl"))
        .map(|_| &name[4..])
    else {
        return false;
    };
    let rest = rest.trim_start_matches(['.', '-', '_']);
    let rest = rest
        .strip_prefix("debug")
        .unwrap_or(rest)
        .trim_start_matches(['.', '-', '_']);
    let Some((host, pid)) = rest.rsplit_once(['.', '-', '_']) else {
        return false;
    };
    let Some(pid) = all(pid) else {
        return false;
    };
    if host.is_empty() || !host.bytes().any(|b| b.is_ascii_alphabetic()) {
        return false;
    }
    hints.push(Hint::Host(
        host.split('.').next().unwrap_or(host).to_owned(),
    ));
    hints.push(Hint::Pid(pid));
    true
}

/// `worker-<56 hex>-<job>-<pid>` and `python-core-worker-<id>_<pid>`.
fn ray(name: &str, hints: &mut Vec<Hint>) -> bool {
    let Some(rest) = name
        .strip_prefix("worker-")
        .or_else(|| name.strip_prefix("python-core-worker-"))
    else {
        return false;
    };
    let id = rest.split(['-', '_']).next().unwrap_or("");
    if id.len() < 28 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return false;
    }
    if let Some(pid) = rest.rsplit(['-', '_']).next().and_then(all) {
        hints.push(Hint::Pid(pid));
    }
    true
}

/// `nemo_log_globalrank-3_localrank-1`.
fn nemo(name: &str, hints: &mut Vec<Hint>) -> bool {
    let Some((_, rest)) = name.split_once("globalrank-") else {
        return false;
    };
    let Some((rank, rest)) = number(rest.as_bytes()) else {
        return false;
    };
    hints.push(Hint::WorldRank(rank));
    if let Some((local, _)) = rest.strip_prefix(b"_localrank-").and_then(number) {
        hints.push(Hint::LocalRank(local));
    }
    true
}

/// `F.prterun-HOST-PID@1.RANK.out` of Open MPI 5.
fn prte(file: &str, hints: &mut Vec<Hint>) -> bool {
    let Some((_, job)) = file.split_once("prterun-") else {
        return false;
    };
    let Some(rank) = job
        .split_once('@')
        .and_then(|(_, r)| r.split('.').nth(1))
        .and_then(all)
    else {
        return false;
    };
    hints.push(Hint::WorldRank(rank));
    true
}

/// A node's name, or the one number of the file's name; the last if there are several
/// (`job-1234-3.log`: what varies between tasks stands last).
fn single_number(name: &str, hints: &mut Vec<Hint>) {
    if let Some(node) = numbered(name, &["node", "host"]) {
        hints.push(Hint::Node(node));
        return;
    }
    if let Some(at) = name.rfind("rank")
        && let Some((rank, _)) = number(
            name[at + 4..]
                .trim_start_matches(['-', '_', '.', '='])
                .as_bytes(),
        )
    {
        hints.push(Hint::FileNumber(rank));
        return;
    }
    let last = name.bytes().rposition(|b| b.is_ascii_digit());
    if let Some(end) = last
        && let Some((_, number)) = trailing_number(&name.as_bytes()[..=end])
    {
        hints.push(Hint::FileNumber(number));
    }
}

/// `node-3`, `node3`, `node_3`.
fn numbered(name: &str, words: &[&str]) -> Option<u32> {
    words
        .iter()
        .find_map(|word| all(name.strip_prefix(word)?.trim_start_matches(['-', '_'])))
}

fn all(text: &str) -> Option<u32> {
    whole_number(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Hint::{Attempt, FileNumber, Host, LocalRank, Node, Pid, WorldRank};

    #[test]
    fn names_of_launchers_and_people() {
        let table: &[(&str, &[Hint])] = &[
            ("rank3.log", &[FileNumber(3)]),
            ("logs/rank_12.log.gz", &[FileNumber(12)]),
            ("3.out", &[FileNumber(3)]),
            ("slurm-4711.out", &[FileNumber(4711)]),
            ("train-4711-3.log", &[FileNumber(3)]),
            ("node-1.log", &[Node(1)]),
            ("node1.log", &[Node(1)]),
            ("host_7.txt", &[Node(7)]),
            (
                "logs/none_e5gtt61l/attempt_0/1/stdout.log",
                &[LocalRank(1), Attempt(0)],
            ),
            ("out/1/rank.03/stdout", &[WorldRank(3)]),
            ("out.prterun-vm-15041@1.3.out", &[WorldRank(3)]),
            ("20261130120000_rank5.log", &[FileNumber(5)]),
            (
                "nemo_log_globalrank-9_localrank-1.txt",
                &[WorldRank(9), LocalRank(1)],
            ),
            ("nccl.node-0.1067.log", &[Host("node-0".into()), Pid(1067)]),
            (
                "worker-12ab4b3f123616295c123cc8b21ead57df1c3471b6071923885cb1f0-01000000-16958.out",
                &[Pid(16958)],
            ),
            ("job.log", &[]),
            ("stdin", &[]),
            ("", &[]),
        ];
        for (name, expected) in table {
            assert_eq!(hints(name), *expected, "{name}");
        }
    }
}
