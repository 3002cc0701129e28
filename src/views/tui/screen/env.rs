//! Which settings and versions the ranks have: those that differ first, each value with its ranks.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::engine::catalog::variables::{self, Kind};
use crate::engine::snapshot::{JobView, ValuesView};
use crate::views::escape;
use crate::views::tui::theme::Tone;
use crate::views::tui::view::Scene;
use crate::views::tui::widget::pen::Pen;
use crate::views::words;

use super::window;

/// Columns of a name, of a value and of ranks at most.
const NAME: usize = 34;
const VALUE: usize = 24;
const RANKS: usize = 20;

/// One value of one name.
pub(in crate::views::tui) struct Row<'a> {
    name: &'a str,
    value: &'a str,
    ranks: String,
    /// The first rank that has it.
    pub(in crate::views::tui) rank: Option<u32>,
    differs: bool,
    /// The first of its name.
    first: bool,
}

/// What differs comes first, else versions before settings, each in the order of names.
#[must_use]
pub(in crate::views::tui) fn rows<'a>(job: &'a JobView) -> Vec<Row<'a>> {
    let mut all: Vec<&ValuesView> = job.versions.iter().chain(&job.env).collect();
    all.sort_by_key(|values| values.values.len() < 2);
    all.into_iter()
        .flat_map(|of| {
            let differs = of.values.len() > 1;
            let row = move |(at, (value, ranks)): (usize, &'a (String, Vec<u32>))| Row {
                name: &of.name,
                value,
                ranks: match ranks.as_slice() {
                    [] => "-".to_owned(),
                    ranks => words::ranges(ranks.iter().copied()),
                },
                rank: ranks.first().copied(),
                differs,
                first: at == 0,
            };
            of.values.iter().enumerate().map(row)
        })
        .collect()
}

/// What a variable is for, where the name is NCCL's.
fn meaning(name: &str) -> Option<(bool, String)> {
    let known = variables::find(name)?;
    let what = match known.kind {
        Kind::Workaround => format!("workaround: {}", known.meaning),
        Kind::Removed => format!("not read since {}", known.last),
        _ => known.meaning.to_owned(),
    };
    Some((matches!(known.kind, Kind::Workaround | Kind::Removed), what))
}

pub(in crate::views::tui) struct Environment<'a>(pub(in crate::views::tui) Scene<'a>);

impl Widget for &Environment<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let Scene { ui, snapshot, .. } = self.0;
        let mut pen = Pen::new(buf, area, ui.theme);
        let rows = rows(&snapshot.job);
        if rows.is_empty() {
            let none = " no rank said what it uses (NCCL_DEBUG=INFO and ENV in NCCL_DEBUG_SUBSYS print it)";
            pen.put(Tone::Plain, none);
            return;
        }
        let (versions, env) = (snapshot.job.versions.len(), snapshot.job.env.len());
        let versions = words::count(versions, "version");
        pen.put(Tone::Strong, &format!(" {}", words::count(env, "setting")));
        pen.put(Tone::Strong, &format!(", {versions}"));
        let odd = rows.iter().filter(|row| row.differs && row.first).count();
        if odd > 0 {
            let differ = if odd == 1 { "differs" } else { "differ" };
            pen.put(Tone::Bad, &format!("  > {odd} {differ} between ranks"));
        }
        pen.down();
        let selected = ui.env.min(rows.len() - 1);
        let room = pen.rows_left().saturating_sub(1);
        let shown = &rows[window(selected, rows.len(), room)];
        let wide = |texts: Vec<&str>, most: usize| {
            let fit = |text: &str| escape::width(&escape::fit(text, most, ui.theme.glyphs));
            texts.into_iter().map(fit).max().unwrap_or(0) + 2
        };
        let column = |of: for<'r> fn(&'r Row<'_>) -> &'r str, head| {
            shown.iter().map(of).chain([head]).collect::<Vec<&str>>()
        };
        let name = wide(column(|row| row.name, "name"), NAME);
        let value = wide(column(|row| row.value, "value"), VALUE);
        let ranks = wide(column(|row| &row.ranks, "ranks"), RANKS);
        pen.cell(Tone::Plain, "", 3);
        for (head, width) in [("name", name), ("value", value), ("ranks", ranks)] {
            pen.cell(Tone::Quiet, head, width);
        }
        pen.put(Tone::Quiet, "what it is");
        pen.down();
        for row in shown {
            let tone = if row.differs { Tone::Bad } else { Tone::Plain };
            let (mark, what) = (if row.differs { " >" } else { "" }, meaning(row.name));
            pen.cell(tone, mark, 3);
            // At the top of the screen a value stands with its name, too.
            let named = row.first || std::ptr::eq(row, &shown[0]);
            for (text, width) in [
                (if named { row.name } else { "" }, name),
                (row.value, value),
                (&row.ranks, ranks),
            ] {
                pen.cell(tone, text, width - 1);
                pen.cell(tone, "", 1);
            }
            if let Some((warned, what)) = what.filter(|_| named) {
                let tone = if warned { Tone::Strong } else { Tone::Quiet };
                pen.put(tone, &escape::fit(&what, pen.room(), ui.theme.glyphs));
            }
            if std::ptr::eq(row, &rows[selected]) {
                pen.tint(Tone::Selected);
            }
            pen.down();
        }
    }
}
