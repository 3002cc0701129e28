//! Connects that failed, as arrows: `ranks 6-7 -> 172.17.0.1 (docker0 on all 8 hosts)  refused, 22 times`.

use crate::engine::snapshot::{ConnectView, JobView};
use crate::views::tui::theme::{Theme, Tone};
use crate::views::tui::widget::pen::Pen;
use crate::views::{escape, words};

use super::super::window;

/// Columns of those who try at most.
const FROM: usize = 28;
/// Columns of where they try to connect to at least: an address and its port.
const TO: usize = 18;
/// A terminal in which there is room for totals.
const WIDE: usize = 110;

/// Draws them below a blank row, in the rows that are left.
pub(super) fn draw(pen: &mut Pen<'_>, job: &JobView, selected: Option<usize>, theme: Theme) {
    pen.down();
    pen.put(Tone::Strong, " Connects that failed");
    pen.line(Tone::Quiet, "  ! gave up");
    let all = &job.connects;
    let rows = pen.rows_left();
    let rows = rows.saturating_sub(usize::from(all.len() > rows || job.more_connects > 0));
    let shown = window(selected.unwrap_or(0), all.len(), rows);
    let hidden = all.len() - shown.len() + job.more_connects;
    let from: Vec<String> = all[shown.clone()].iter().map(who).collect();
    let to: Vec<String> = all[shown.clone()].iter().map(|c| target(c, job)).collect();
    let total = pen.width() >= WIDE;
    let often: Vec<String> = all[shown.clone()]
        .iter()
        .map(|c| how_often(c, total))
        .collect();
    let widest = |texts: &[String]| {
        let wide = |text: &String| escape::width(&escape::harmless(text, theme.glyphs));
        texts.iter().map(wide).max().unwrap_or(0)
    };
    let arrow = theme.glyphs.pick(" → ", " -> ");
    // Where it is narrow the name of the address gives way, not what became of it.
    let of_from = widest(&from).min(FROM);
    let taken = 3 + of_from + escape::width(arrow) + 2 + widest(&often);
    let of_to = widest(&to).min(pen.width().saturating_sub(taken).max(TO));
    for (row, at) in shown.enumerate() {
        let connect = &all[at];
        let tone = if connect.gave_up {
            Tone::Bad
        } else {
            Tone::Warn
        };
        pen.cell(tone, if connect.gave_up { " !" } else { "" }, 3);
        pen.cell(tone, &from[row], of_from);
        pen.put(tone, arrow);
        pen.cell(tone, &to[row], of_to);
        pen.put(tone, &format!("  {}", often[row]));
        if selected == Some(at) {
            pen.tint(Tone::Selected);
        }
        pen.down();
    }
    if hidden > 0 {
        pen.line(
            Tone::Quiet,
            &format!("   and {}", words::count(hidden, "further one")),
        );
    }
}

/// Who tries: ranks, or hosts where the ranks are not known.
fn who(connect: &ConnectView) -> String {
    match (connect.ranks.is_empty(), connect.hosts.is_empty()) {
        (false, _) => words::ranks(connect.ranks.iter().copied()),
        (true, false) => format!(
            "a rank on {}",
            words::hosts(connect.hosts.iter().map(String::as_str))
        ),
        (true, true) => "a rank".to_owned(),
    }
}

/// `172.17.0.1:45459 (docker0 on all 8 hosts)`
fn target(connect: &ConnectView, job: &JobView) -> String {
    let Some(address) = &connect.address else {
        return "an address that is not printed".to_owned();
    };
    let place = match connect.port {
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
        None => address.clone(),
    };
    if connect.subsystem == "c10d" {
        return format!("{place} (the store)");
    }
    match owner(address, job) {
        Some(owner) => format!("{place} ({owner})"),
        None => place,
    }
}

/// Whose address it is by what the hosts printed: `docker0 on all 8 hosts`.
fn owner(address: &str, job: &JobView) -> Option<String> {
    let mut interfaces: Vec<&str> = Vec::new();
    let mut hosts: Vec<&str> = Vec::new();
    for host in &job.hosts {
        let mut its = host
            .addresses
            .iter()
            .filter(|a| a.address == address)
            .peekable();
        if its.peek().is_some() {
            hosts.push(&host.name);
        }
        interfaces.extend(its.filter_map(|a| a.interface.as_deref()));
    }
    interfaces.sort_unstable();
    interfaces.dedup();
    let on = match hosts.len() {
        0 => return None,
        n if n > 1 && n == job.hosts.len() => format!("all {n} hosts"),
        _ => words::hosts(hosts),
    };
    Some(if interfaces.is_empty() {
        on
    } else {
        format!("{} on {on}", interfaces.join(", "))
    })
}

/// `refused, 22 times`
fn how_often(connect: &ConnectView, total: bool) -> String {
    let times = |n: u64| match n {
        1 => "once".to_owned(),
        n => format!("{} times", words::thousands(n)),
    };
    let reason = connect.reason.trim_end_matches('.');
    let mut text = reason
        .strip_prefix("Connection ")
        .unwrap_or(reason)
        .to_owned();
    if !text.is_empty() {
        text.push_str(", ");
    }
    if connect.ranks.len() + connect.hosts.len() < 2 || connect.most == connect.count {
        text.push_str(&times(connect.most));
        return text;
    }
    text.push_str(&match connect.most {
        1 => "once each".to_owned(),
        most => format!("up to {} each", times(most)),
    });
    if total {
        text.push_str(&format!(", {} in all", words::thousands(connect.count)));
    }
    text
}
