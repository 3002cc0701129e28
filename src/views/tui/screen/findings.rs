//! Why, and what to change: the findings, and one of them in full.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::views::report::who;
use crate::views::tui::task::proof;
use crate::views::tui::theme::Tone;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::finding::{detail, role};
use crate::views::tui::widget::pen::Pen;

use super::window;

/// Columns from which on the detail stands beside the list.
const BESIDE: u16 = 150;

pub(in crate::views::tui) struct FindingList<'a>(pub(in crate::views::tui) Scene<'a>);

impl Widget for &FindingList<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene { ui, snapshot, .. } = self.0;
        if snapshot.findings.is_empty() {
            Pen::new(buf, area, ui.theme).put(Tone::Plain, " nothing was found");
            return;
        }
        let (list, rest) = if area.width >= BESIDE {
            let width = area.width * 2 / 5;
            (
                Rect { width, ..area },
                Rect {
                    x: area.x + width + 1,
                    width: area.width - width - 1,
                    ..area
                },
            )
        } else {
            let rows = u16::try_from(snapshot.findings.len())
                .unwrap_or(u16::MAX)
                .min(area.height / 3)
                .max(1);
            let below = (rows + 1).min(area.height);
            (
                Rect {
                    height: rows,
                    ..area
                },
                Rect {
                    y: area.y + below,
                    height: area.height - below,
                    ..area
                },
            )
        };
        let selected = ui.finding_row(snapshot);
        let mut pen = Pen::new(buf, list, ui.theme);
        let height = pen.height();
        listed(self.0, &mut pen, height);
        let inner = Rect {
            x: rest.x + 1,
            width: rest.width.saturating_sub(2),
            ..rest
        };
        let mut pen = Pen::new(buf, inner.intersection(rest), ui.theme);
        let rows = detail(
            snapshot,
            &snapshot.findings[selected],
            proof(ui, &snapshot.findings[selected]),
            (pen.width(), ui.theme.glyphs),
        );
        let top = ui.findings.top.min(rows.len().saturating_sub(1));
        let height = pen.height();
        let cut = rows.len().saturating_sub(top) > height;
        for row in rows.iter().skip(top).take(if cut {
            height.saturating_sub(1)
        } else {
            height
        }) {
            for (tone, text) in row {
                pen.put(*tone, text);
            }
            pen.down();
        }
        if cut {
            let more = rows.len() - top - height.saturating_sub(1);
            pen.put(Tone::Quiet, &format!("{more} more rows: PgDn"));
        }
    }
}

/// Writes `height` rows at most, one per finding; the selected one is marked.
pub(in crate::views::tui) fn listed(scene: Scene<'_>, pen: &mut Pen<'_>, height: usize) {
    let selected = scene.ui.finding_row(scene.snapshot);
    let findings = &scene.snapshot.findings;
    let shown = window(selected, findings.len(), height);
    let longest = findings.iter().map(|f| f.id.len()).max();
    let ids = longest.unwrap_or_default().max(7) + 1;
    for at in shown {
        let finding = &findings[at];
        pen.put(Tone::Plain, " ");
        pen.cell(Tone::Severity(finding.severity), role(finding.role), 9);
        pen.cell(Tone::Quiet, &finding.id, ids);
        pen.put(Tone::Plain, &finding.title);
        let who = format!("  {}", who(&scene.snapshot.job, finding));
        if who.len() < pen.room() {
            pen.put(Tone::Quiet, &who);
        }
        if selected == at {
            pen.tint(Tone::Selected);
        }
        pen.down();
    }
}
