//! Which address every subsystem chose on every host, the odd one marked, and who cannot reach whom.

mod connects;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::views::escape;
use crate::views::report::{AddressRow, AddressTable};
use crate::views::tui::theme::{Theme, Tone};
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

use super::window;

/// Columns of a cell at most.
const CELL: usize = 30;

pub(in crate::views::tui) struct HostTable<'a>(pub(in crate::views::tui) Scene<'a>);

impl Widget for &HostTable<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene { ui, snapshot, .. } = self.0;
        let mut pen = Pen::new(buf, area, ui.theme);
        let table = AddressTable::of(&snapshot.job);
        let (selected, hosts) = (ui.host_row(snapshot), table.rows.len());
        let failed = &snapshot.job.connects;
        pen.put(Tone::Plain, " ");
        pen.put(Tone::Strong, &words::count(hosts, "host"));
        let odd = table.rows.iter().filter(|row| row.odd).count();
        if odd > 0 {
            pen.put(Tone::Bad, &format!("  > {odd} unlike the others"));
        } else if table.subsystems.is_empty() {
            let none = match self.0.status.part_played() {
                Some(_) => "  none has printed an address so far",
                None => "  none printed an address (NCCL_DEBUG=INFO prints them)",
            };
            pen.put(Tone::Quiet, none);
        }
        pen.down();
        // Connects get what the hosts do not need, and a third of the rows in any case.
        let rows = pen.rows_left();
        let need = if failed.is_empty() {
            0
        } else {
            failed.len() + 2 + usize::from(snapshot.job.more_connects > 0)
        };
        let below = need.min(rows.saturating_sub(hosts + 1).max(rows / 3));
        if hosts > 0 {
            let at = selected.min(hosts - 1);
            let shown = &table.rows[window(at, hosts, (rows - below).saturating_sub(1))];
            let here = table.rows.get(selected).map(std::ptr::from_ref);
            chosen(&mut pen, &table, shown, here, ui.theme);
        }
        if need > 0 && below > 2 {
            let at = selected.checked_sub(hosts);
            connects::draw(&mut pen, &snapshot.job, at, ui.theme);
        }
    }
}

/// The hosts and what they chose.
fn chosen(
    pen: &mut Pen<'_>,
    table: &AddressTable,
    shown: &[AddressRow],
    selected: Option<*const AddressRow>,
    theme: Theme,
) {
    let wide = |text: &str| escape::width(&escape::fit(text, CELL, theme.glyphs));
    let widest = |heading: usize, cells: &mut dyn Iterator<Item = usize>| {
        cells.max().unwrap_or(0).max(heading) + 2
    };
    let ranks = |row: &AddressRow| words::ranges(row.ranks.iter().copied());
    let usual = table.usual();
    let host = widest(4, &mut shown.iter().map(|row| wide(&row.host)));
    let of_ranks = widest(5, &mut shown.iter().map(|row| wide(&ranks(row))));
    let widths: Vec<usize> = table
        .subsystems
        .iter()
        .enumerate()
        .map(|(at, name)| {
            widest(
                wide(name),
                &mut shown.iter().map(|row| wide(&row.cells[at])),
            ) + 1
        })
        .collect();
    pen.cell(Tone::Plain, "", 3);
    pen.cell(Tone::Quiet, "host", host);
    pen.cell(Tone::Quiet, "ranks", of_ranks - 1);
    for (name, width) in table.subsystems.iter().zip(&widths) {
        pen.cell(Tone::Quiet, &format!(" {name}"), *width);
    }
    pen.down();
    for row in shown {
        let tone = if row.odd { Tone::Bad } else { Tone::Plain };
        pen.cell(tone, if row.odd { " >" } else { "" }, 3);
        pen.cell(tone, &row.host, host - 1);
        pen.cell(tone, "", 1);
        pen.cell(tone, &ranks(row), of_ranks - 2);
        pen.cell(tone, "", 1);
        for (at, width) in widths.iter().enumerate() {
            let cell = if row.cells[at].is_empty() {
                "-"
            } else {
                &row.cells[at]
            };
            let (tone, mark) = if row.stands_out(at, usual[at]) {
                (Tone::Bad, "!")
            } else {
                (Tone::Plain, " ")
            };
            pen.cell(tone, mark, 1);
            pen.cell(tone, cell, width - 2);
            pen.cell(tone, "", 1);
        }
        if selected == Some(std::ptr::from_ref(row)) {
            pen.tint(Tone::Selected);
        }
        pen.down();
    }
}
