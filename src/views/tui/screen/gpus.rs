//! What the GPUs do, each beside the rank that owns it; all that is known of the selected one below.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::engine::gpu::{Gpu, Pair};
use crate::engine::snapshot::{GpusView, JobView, RankView};
use crate::views::escape::Glyphs;
use crate::views::tui::theme::Tone;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

use super::window;

/// Columns of a bar.
const BAR: usize = 10;
/// Other GPUs that the selected one is compared with.
const PAIRS: usize = 16;
/// Columns for what a GPU's state means, where there is room.
const MEANS: usize = 26;
/// Ranks of the selected GPU whose processes are told.
const OWNERS: usize = 8;

/// One GPU of one host, and the ranks that own it.
pub(in crate::views::tui) struct Row<'a> {
    host: &'a GpusView,
    gpu: &'a Gpu,
    owners: Vec<&'a RankView>,
}

impl Row<'_> {
    /// The ranks that own it.
    pub(in crate::views::tui) fn ranks(&self) -> Vec<u32> {
        self.owners.iter().filter_map(|rank| rank.rank).collect()
    }
}

/// All GPUs that were sampled, by host and index.
#[must_use]
pub(in crate::views::tui) fn rows(job: &JobView) -> Vec<Row<'_>> {
    let mut all = Vec::new();
    for (at, host) in job.gpus.iter().enumerate() {
        for (nth, gpu) in host.sample.gpus.iter().enumerate() {
            let owners = job.ranks.iter().filter(|r| r.gpu_at == Some((at, nth)));
            let owners = owners.collect();
            all.push(Row { host, gpu, owners });
        }
    }
    all
}

/// `████░░░░░░  41%`; what is not known has no bar.
fn bar(share: Option<u64>, glyphs: Glyphs) -> String {
    let Some(percent) = share else {
        return format!("{:BAR$}    ?", "");
    };
    let full = usize::try_from(percent.min(100)).unwrap_or(0) * BAR / 100;
    let (on, off) = glyphs.pick(("█", "░"), ("#", "."));
    format!(
        "{}{} {percent:>3}%",
        on.repeat(full),
        off.repeat(BAR - full)
    )
}

fn share(of: Option<u64>, all: Option<u64>) -> Option<u64> {
    of?.checked_mul(100)?.checked_div(all?)
}

pub(in crate::views::tui) struct GpuTable<'a>(pub(in crate::views::tui) Scene<'a>);

impl Widget for &GpuTable<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene {
            ui,
            snapshot,
            status,
        } = self.0;
        let mut pen = Pen::new(buf, area, ui.theme);
        let rows = rows(&snapshot.job);
        if rows.is_empty() {
            let why = "no GPU was looked at: unhang asks those of the host it runs on while it watches a job there \
                       (report --gpu asks once)";
            pen.put(Tone::Plain, " ");
            pen.wrapped(Tone::Plain, status.no_gpus.as_deref().unwrap_or(why), 1, 3);
            return;
        }
        let hosts = words::count(snapshot.job.gpus.len(), "host");
        let gpus = words::count(rows.len(), "GPU");
        pen.put(Tone::Strong, &format!(" {gpus} on {hosts}"));
        let selected = ui.gpu.min(rows.len() - 1);
        let host = rows[selected].host;
        let driver = host.sample.driver.as_deref().unwrap_or("unknown");
        let cuda = host.sample.cuda.as_deref().unwrap_or("unknown");
        let of = format!("; {} has driver {driver}, CUDA up to {cuda}", host.host);
        pen.line(Tone::Quiet, &of);
        // The table gives way to the details, down to a third of the screen.
        let room = (pen.rows_left() / 3).max(3);
        let shown = &rows[window(selected, rows.len(), room)];
        let host = shown.iter().map(|row| row.host.host.len()).max();
        let host = host.unwrap_or(0).clamp(4, 24) + 2;
        let bars = BAR + 7;
        pen.cell(Tone::Plain, "", 3);
        for (head, width) in [
            ("host", host),
            ("gpu", 5),
            ("ranks", 9),
            ("busy", bars),
            ("power", bars),
            ("memory", bars),
        ] {
            pen.cell(Tone::Quiet, head, width);
        }
        let wide = usize::from(area.width) >= 3 + host + 5 + 9 + 3 * bars + MEANS;
        if wide {
            pen.put(Tone::Quiet, "means");
        }
        pen.down();
        for row in shown {
            let gpu = row.gpu;
            let xids = || row.host.xids.iter().any(|xid| xid.0 == gpu.index);
            let bad = gpu.trouble.is_some() || xids();
            let tone = if bad { Tone::Bad } else { Tone::Plain };
            let ranks = match row.ranks().as_slice() {
                [] => "-".to_owned(),
                ranks => words::ranges(ranks.iter().copied()),
            };
            pen.cell(tone, if bad { " >" } else { "" }, 3);
            pen.cell(tone, &row.host.host, host - 1);
            pen.cell(tone, "", 1);
            pen.cell(tone, &gpu.index.to_string(), 5);
            pen.cell(tone, &ranks, 8);
            pen.cell(tone, "", 1);
            if gpu.trouble.is_some() {
                pen.put(tone, &words::gpu_cell(gpu));
            } else {
                let power = share(
                    gpu.power_mw.map(u64::from),
                    gpu.power_limit_mw.map(u64::from),
                );
                for part in [
                    gpu.busy.map(u64::from),
                    power,
                    share(gpu.memory_used, gpu.memory_total),
                ] {
                    pen.cell(tone, &bar(part, ui.theme.glyphs), bars);
                }
                if wide {
                    pen.put(tone, &words::gpu_means(gpu));
                }
            }
            if std::ptr::eq(row, &rows[selected]) {
                pen.tint(Tone::Selected);
            }
            pen.down();
        }
        pen.down();
        details(&mut pen, &rows[selected]);
    }
}

fn details(pen: &mut Pen<'_>, row: &Row<'_>) {
    let sample = &row.host.sample;
    for (at, line) in words::gpu_lines(row.gpu).iter().enumerate() {
        let tone = if at == 0 { Tone::Strong } else { Tone::Plain };
        pen.put(Tone::Plain, " ");
        pen.wrapped(tone, line, 3, 3);
    }
    for rank in row.owners.iter().take(OWNERS) {
        let Some(process) = &rank.process else {
            continue;
        };
        let words = format!(
            "{}: {}",
            words::rank_noun(rank),
            words::process_line(process)
        );
        pen.put(Tone::Plain, " ");
        pen.wrapped(Tone::Plain, &words, 3, 3);
        if let Some(together) = words::together(process, row.gpu) {
            pen.line(Tone::Plain, &format!(" means {together}"));
        }
    }
    let here = row.gpu.index;
    for (gpu, xid, times) in row.host.xids.iter().filter(|xid| xid.0 == here) {
        let times = words::count(usize::try_from(*times).unwrap_or(usize::MAX), "time");
        pen.line(Tone::Bad, &format!(" > Xid {xid} on GPU {gpu}, {times}"));
    }
    let of = |p: &&Pair| p.a == here || p.b == here;
    for of in sample.pairs.iter().filter(of).take(PAIRS) {
        let other = if of.a == here { of.b } else { of.a };
        pen.put(Tone::Plain, " ");
        let words = format!("to GPU {other}: {}", words::pair(of));
        pen.wrapped(Tone::Plain, &words, 3, 3);
    }
}
