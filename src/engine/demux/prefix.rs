//! One prefix off the front of a line: what launchers, containers and frameworks put there.
//!
//! A *strong* prefix is known by its shape alone. A *weak* one (`[3] `, `3: `, `host: `, `name | `)
//! looks like ordinary text; [`super::learn`] or a known form behind it decides.

use super::bytes::{is_word, number, shaped, split, trailing_number, whole_number};
use super::torch;

/// What a prefix says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer<'a> {
    /// A time, nothing of who.
    Stamp,
    /// `NAME/CONTAINER` of kubectl.
    Pod(&'a [u8]),
    /// A host (pdsh, syslog).
    Host(&'a [u8]),
    /// A node's index.
    Node(u32),
    /// A compose service.
    Service(&'a [u8]),
    /// A launcher's task number.
    Label {
        rank: u32,
        host: Option<&'a [u8]>,
        pid: Option<u32>,
    },
    /// torchrun's tee.
    Tee {
        role: &'a [u8],
        local: u32,
        world: Option<u32>,
        host: Option<&'a [u8]>,
    },
    /// A process by name (vLLM, SGLang, Ray, syslog's unit).
    Named {
        name: &'a [u8],
        pid: Option<u32>,
        address: Option<&'a [u8]>,
    },
    /// PyTorch's global rank.
    Rank(u32),
}

/// A prefix that is known by its shape, and the rest.
pub(super) fn strong(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    match *text.first()? {
        b'[' => bracket(text),
        b'(' => parenthesis(text),
        b'<' => redirected(text).map(|rest| (Layer::Stamp, rest)),
        b'0'..=b'9' => rfc3339(text).map(|rest| (Layer::Stamp, rest)),
        b'A'..=b'Z' => ctime(text)
            .map(|rest| (Layer::Stamp, rest))
            .or_else(|| syslog(text)),
        _ => None,
    }
}

fn bracket(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    match *text.get(1)? {
        b'r' => torch::rank(text)
            .map(|(rank, rest)| (Layer::Rank(rank), rest))
            .or_else(|| tee(text)),
        b'p' => pod(text).or_else(|| tag(text)).or_else(|| tee(text)),
        b'n' => node(text).or_else(|| tee(text)),
        b'0'..=b'9' => tag(text).or_else(|| sglang(text)),
        b'A'..=b'Z' if shaped(&text[1..], b"aaa aaa _0 00:00:00 0000]") => {
            Some((Layer::Stamp, text.get(26..)?))
        }
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => tee(text).or_else(|| tag(text)),
        _ => None,
    }
}

/// kubectl: `[pod/NAME/CONTAINER] `.
fn pod(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    let (name, rest) = split(text.strip_prefix(b"[pod/")?, b']', 600)?;
    Some((
        Layer::Pod(name),
        rest.strip_prefix(b" ")
            .or_else(|| rest.is_empty().then_some(rest))?,
    ))
}

/// Kubeflow: `[node-0]: `.
fn node(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    let (node, rest) = number(text.strip_prefix(b"[node-")?)?;
    let rest = rest.strip_prefix(b"]:")?;
    Some((Layer::Node(node), rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// `[JOB,RANK]<stdout>:`, `[RANK]<stderr>: `, `[JOB,RANK][HOST:PID]<stdout>: ` of Open MPI, PRRTE and Horovod.
pub(super) fn tag(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    let (body, mut rest) = split(text.strip_prefix(b"[")?, b']', 300)?;
    let rank = match memchr::memrchr(b',', body) {
        Some(comma) => whole_number(&body[comma + 1..])?,
        None => whole_number(body)?,
    };
    let mut host = None;
    let mut pid = None;
    if let Some(inside) = rest.strip_prefix(b"[") {
        let (detail, behind) = split(inside, b']', 300)?;
        if let Some((name, id)) = split(detail, b':', 300) {
            pid = whole_number(id);
            host = pid.map(|_| name);
        }
        rest = behind;
    }
    Some((Layer::Label { rank, host, pid }, redirected(rest)?))
}

/// `<stdout>:` with or without a space behind.
fn redirected(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"<std")?;
    let rest = rest
        .strip_prefix(b"out")
        .or_else(|| rest.strip_prefix(b"err"))
        .or_else(|| rest.strip_prefix(b"diag"))?;
    let rest = rest.strip_prefix(b">:")?;
    Some(rest.strip_prefix(b" ").unwrap_or(rest))
}

/// torchrun: `[default0]:`, `[trainer1]:`, and templates such as `[default1/1@vm]: `.
fn tee(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    let (body, rest) = split(&text[1..], b']', 160)?;
    let rest = rest.strip_prefix(b":")?;
    let (body, host) = match split(body, b'@', 160) {
        Some((body, host)) => (body, Some(host)),
        None => (body, None),
    };
    let (head, second) = match split(body, b'/', 160) {
        Some((head, second)) => (head, Some(whole_number(second)?)),
        None => (body, None),
    };
    let (role, first) = trailing_number(head)?;
    if role.is_empty() || !role.iter().all(|b| is_word(*b) || *b == b'.') {
        return None;
    }
    // `[Rank0]:` is a program's own way to say something else.
    if role.eq_ignore_ascii_case(b"rank") {
        return None;
    }
    // The order is the user's, but a global rank is never below the local one.
    let (local, world) = match second {
        Some(second) => (first.min(second), Some(first.max(second))),
        None => (first, None),
    };
    let layer = Layer::Tee {
        role,
        local,
        world,
        host,
    };
    if second.is_some() || host.is_some() {
        return Some((layer, rest.strip_prefix(b" ").unwrap_or(rest)));
    }
    Some((layer, rest))
}

/// SGLang: `[2025-03-08 12:29:11 TP0] `.
fn sglang(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    const STAMP: &[u8] = b"[0000-00-00 00:00:00";
    if !shaped(text, STAMP) {
        return None;
    }
    let mut rest = &text[STAMP.len()..];
    if shaped(rest, b".000") {
        rest = &rest[4..];
    }
    let (name, rest) = split(rest.strip_prefix(b" ")?, b']', 64)?;
    let fits = |t: &[u8]| {
        trailing_number(t).is_some_and(|(d, _)| {
            !d.is_empty() && d.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
        })
    };
    if !name.split(|b| *b == b' ').all(fits) {
        return None;
    }
    Some((
        Layer::Named {
            name,
            pid: None,
            address: None,
        },
        rest.strip_prefix(b" ")?,
    ))
}

/// vLLM and Ray: `(NAME pid=N) `, `(NAME pid=N, ip=A) `, `(raylet) `, `(raylet, ip=A) `, `(autoscaler +12s) `.
fn parenthesis(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    let head = &text[1..text.len().min(200)];
    let close = |rest: &'_ [u8]| -> Option<usize> {
        let rest = rest.strip_prefix(b")")?;
        match rest.first() {
            None => Some(1),
            Some(b' ') => Some(2),
            Some(_) => None,
        }
    };
    let (name, pid, mut at) = if let Some(pid_at) = pid_at(head) {
        let name = head[..pid_at]
            .strip_suffix(b" ")
            .or_else(|| (pid_at == 0).then_some(&head[..0]))?;
        let (pid, rest) = number(&head[pid_at + 4..])?;
        (name, Some(pid), head.len() - rest.len())
    } else {
        let name: &[u8] = [&b"raylet"[..], b"autoscaler", b"gcs_server"]
            .into_iter()
            .find(|n| head.starts_with(n))?;
        (name, None, name.len())
    };
    let mut address = None;
    if let Some(rest) = head[at..].strip_prefix(b", ip=") {
        let (ip, _) = split(rest, b')', 64)?;
        address = Some(ip);
        at += 5 + ip.len();
    } else if head[at..].starts_with(b" +") {
        at += memchr::memchr(b')', &head[at..])?;
    }
    let end = 1 + at + close(&head[at..])?;
    Some((Layer::Named { name, pid, address }, &text[end..]))
}

fn pid_at(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'=', text).find_map(|at| text[..at].strip_suffix(b"pid").map(<[u8]>::len))
}

/// `2026-11-30T19:34:20.123456789Z ` in front (docker, kubectl --timestamps).
pub(super) fn rfc3339(text: &[u8]) -> Option<&[u8]> {
    const STAMP: &[u8] = b"0000-00-00T00:00:00";
    if !shaped(text, STAMP) {
        return None;
    }
    let (zone, rest) = split(&text[STAMP.len()..], b' ', 20)?;
    let zone = match zone.strip_prefix(b".") {
        Some(fraction) => &fraction[fraction.iter().take_while(|b| b.is_ascii_digit()).count()..],
        None => zone,
    };
    (zone == b"Z" || shaped(zone, b"+00:00") || shaped(zone, b"-00:00")).then_some(rest)
}

/// `Mon Nov 30 19:54:42 2026` directly in front of a tag (Open MPI 4, Horovod).
pub(super) fn ctime(text: &[u8]) -> Option<&[u8]> {
    const STAMP: &[u8] = b"aaa aaa _0 00:00:00 0000";
    if !shaped(text, STAMP) {
        return None;
    }
    let rest = &text[STAMP.len()..];
    matches!(rest.first(), Some(b'[' | b'<')).then_some(rest)
}

/// `Nov 30 12:00:00 host unit[pid]: `.
fn syslog(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    const STAMP: &[u8] = b"aaa _0 00:00:00 ";
    if !shaped(text, STAMP) {
        return None;
    }
    let (host, unit) = split(&text[STAMP.len()..], b' ', 256)?;
    let (_, _) = split(unit, b':', 256).filter(|(u, _)| !u.contains(&b' '))?;
    (!host.is_empty()).then_some((Layer::Host(host), unit))
}

/// The unit behind a syslog host: `python3[1234]: `.
pub(super) fn unit(text: &[u8]) -> Option<(Layer<'_>, &[u8])> {
    let (unit, rest) = split(text, b':', 256).filter(|(u, _)| !u.contains(&b' '))?;
    let rest = rest.strip_prefix(b" ")?;
    let (name, pid) = match split(unit, b'[', 256) {
        Some((name, id)) => (name, Some(whole_number(id.strip_suffix(b"]")?)?)),
        None => (unit, None),
    };
    Some((
        Layer::Named {
            name,
            pid,
            address: None,
        },
        rest,
    ))
}

/// The families of weak prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weak {
    /// MPICH and Intel: `[3] `, `[3@host] `.
    Bracket,
    /// srun: `  3: `.
    Colon,
    /// pdsh: `host: `.
    Host,
    /// compose: `name-1  | `.
    Pipe,
}

/// A prefix that may as well be text.
pub(super) fn weak(text: &[u8]) -> Option<(Weak, Layer<'_>, &[u8])> {
    match *text.first()? {
        b'[' => {
            let (body, rest) = split(&text[1..], b']', 80)?;
            let (rank, behind) = number(body)?;
            let host = match behind.strip_prefix(b"@") {
                Some(host) => Some(split(host, b' ', 80).map_or(host, |(host, _)| host)),
                None if behind.is_empty() => None,
                None => return None,
            };
            let rest = rest
                .strip_prefix(b" ")
                .or_else(|| rest.is_empty().then_some(rest))?;
            // What looks like a rank but is seconds since 1970 is a stamp.
            (rank < 1_000_000).then_some((
                Weak::Bracket,
                Layer::Label {
                    rank,
                    host,
                    pid: None,
                },
                rest,
            ))
        }
        b' ' | b'0'..=b'9' => {
            let (rank, rest) = number(text.trim_ascii_start())?;
            let rest = rest
                .strip_prefix(b":")
                .filter(|r| r.is_empty() || r[0] == b' ')?;
            let rest = rest.strip_prefix(b" ").unwrap_or(rest);
            (rank < 1_000_000).then_some((
                Weak::Colon,
                Layer::Label {
                    rank,
                    host: None,
                    pid: None,
                },
                rest,
            ))
        }
        b'a'..=b'z' | b'A'..=b'Z' => {
            let name_len = text
                .iter()
                .take(128)
                .take_while(|b| is_word(**b) || **b == b'.')
                .count();
            let (name, rest) = text.split_at(name_len);
            if let Some(rest) = rest.strip_prefix(b": ") {
                return Some((Weak::Host, Layer::Host(name), rest));
            }
            let bar = rest.iter().take(64).take_while(|b| **b == b' ').count();
            let rest = rest.get(bar..)?.strip_prefix(b"|")?;
            let rest = rest
                .strip_prefix(b" ")
                .or_else(|| rest.is_empty().then_some(rest))?;
            (bar > 0).then_some((Weak::Pipe, Layer::Service(name), rest))
        }
        _ => None,
    }
}
