//! Which address every subsystem chose on every host; the odd one is marked.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::views::escape;
use crate::views::report::AddressTable;
use crate::views::tui::theme::Tone;
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
        pen.put(Tone::Plain, " ");
        pen.put(Tone::Strong, &words::count(table.rows.len(), "host"));
        let odd = table.rows.iter().filter(|row| row.odd).count();
        if odd > 0 {
            pen.put(Tone::Bad, &format!("  > {odd} unlike the others"));
        } else if table.subsystems.is_empty() {
            pen.put(
                Tone::Quiet,
                "  none printed an address (NCCL_DEBUG=INFO prints them)",
            );
        }
        pen.down();
        let selected = ui.host_row(snapshot);
        let shown = &table.rows[window(
            selected,
            table.rows.len(),
            pen.rows_left().saturating_sub(1),
        )];
        let wide = |text: &str| escape::width(&escape::fit(text, CELL, ui.theme.glyphs));
        let host = shown
            .iter()
            .map(|row| wide(&row.host))
            .max()
            .unwrap_or(0)
            .max(4)
            + 2;
        let ranks = shown
            .iter()
            .map(|row| wide(&words::ranges(row.ranks.iter().copied())))
            .max();
        let ranks = ranks.unwrap_or(0).max(5) + 2;
        let widths: Vec<usize> = table
            .subsystems
            .iter()
            .enumerate()
            .map(|(at, name)| {
                shown
                    .iter()
                    .map(|row| wide(&row.cells[at]))
                    .max()
                    .unwrap_or(0)
                    .max(wide(name))
                    + 2
            })
            .collect();
        pen.cell(Tone::Plain, "", 3);
        pen.cell(Tone::Quiet, "host", host);
        pen.cell(Tone::Quiet, "ranks", ranks);
        for (name, width) in table.subsystems.iter().zip(&widths) {
            pen.cell(Tone::Quiet, name, *width);
        }
        pen.down();
        for row in shown {
            let tone = if row.odd { Tone::Bad } else { Tone::Plain };
            pen.cell(tone, if row.odd { " >" } else { "" }, 3);
            pen.cell(tone, &row.host, host - 1);
            pen.cell(tone, "", 1);
            pen.cell(tone, &words::ranges(row.ranks.iter().copied()), ranks - 1);
            pen.cell(tone, "", 1);
            for (cell, width) in row.cells.iter().zip(&widths) {
                pen.cell(tone, if cell.is_empty() { "-" } else { cell }, width - 1);
                pen.cell(tone, "", 1);
            }
            if std::ptr::eq(row, &table.rows[selected]) {
                pen.tint(Tone::Selected);
            }
            pen.down();
        }
    }
}
