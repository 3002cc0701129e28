//! Every rank as a letter, grouped by host, at any number of ranks.
//!
//! ```text
//!  labelled   node-0  0b  1b     node-5  10b! 11b!      a few ranks: number, letter, mark
//!  compact    node-0 bbbbbbbb    node-1 bbbb!bbb        hosts side by side, a letter a rank
//!  dense          0 CCCCCCCCCCCCCCCCCCCCCCCCCC          a cell for several ranks: the worst of them
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use rustc_hash::FxHashMap;

use crate::engine::snapshot::{RankView, Snapshot};
use crate::engine::vocab::{Phase, State};
use crate::views::escape;
use crate::views::tui::theme::{Theme, Tone};
use crate::views::words;

use super::pen::Pen;

/// The mark of a rank at fault.
const GUILTY: char = '!';
/// Columns of a host's name.
const NAME: usize = 16;

/// The ranks of a snapshot, laid out for a width and a height.
pub(in crate::views::tui) struct Grid<'a> {
    theme: Theme,
    ranks: Vec<&'a RankView>,
    layout: Layout<'a>,
}

enum Layout<'a> {
    /// Number and letter per rank; hosts side by side.
    Labelled(Blocks<'a>),
    /// A letter per rank; hosts side by side.
    Compact(Blocks<'a>),
    /// `per_cell` ranks per letter, `per_row` letters per row.
    Dense {
        per_cell: usize,
        per_row: usize,
        label: usize,
    },
}

struct Blocks<'a> {
    hosts: Vec<(&'a str, Vec<usize>)>,
    name: usize,
    cell: usize,
    /// Columns of a block with the gap behind it.
    block: usize,
    /// Blocks side by side.
    across: usize,
    /// Rows of one block.
    rows: usize,
    /// Ranks in one row of a block.
    per_row: usize,
}

impl<'a> Grid<'a> {
    /// The grid that tells most in `width` columns and `height` rows.
    pub(in crate::views::tui) fn new(
        snapshot: &'a Snapshot,
        theme: Theme,
        width: usize,
        height: usize,
    ) -> Self {
        let ranks: Vec<&RankView> = snapshot.job.ranks.iter().collect();
        let hosts = by_host(&ranks);
        let digits = ranks
            .iter()
            .filter_map(|r| r.rank)
            .max()
            .unwrap_or(0)
            .to_string()
            .len();
        let fitting = [digits + 3, 1].into_iter().find_map(|cell| {
            let blocks = Blocks::fitted(&hosts, theme, cell, width, height)?;
            Some(if cell > 1 {
                Layout::Labelled(blocks)
            } else {
                Layout::Compact(blocks)
            })
        });
        let layout = fitting.unwrap_or_else(|| {
            let label = digits + 2;
            let room = width.saturating_sub(label).max(1);
            // Round numbers: a row starts at a multiple of eight, as hosts do.
            let per_row = if room > 8 { room - room % 8 } else { room };
            let per_cell = ranks
                .len()
                .div_ceil(per_row * height.max(1))
                .next_power_of_two();
            Layout::Dense {
                per_cell,
                per_row,
                label,
            }
        });
        Self {
            theme,
            ranks,
            layout,
        }
    }

    /// Rows that it takes.
    pub(in crate::views::tui) fn rows(&self) -> usize {
        match &self.layout {
            Layout::Labelled(b) | Layout::Compact(b) => b.hosts.len().div_ceil(b.across) * b.rows,
            Layout::Dense {
                per_cell, per_row, ..
            } => self.ranks.len().div_ceil(per_cell * per_row),
        }
    }

    /// What the letters mean and how often they occur: `b bootstrap 14`, guilty ones first.
    pub(in crate::views::tui) fn legend(&self, state: State) -> Vec<(Tone, String)> {
        let count = |is: &dyn Fn(&RankView) -> bool| self.ranks.iter().filter(|r| is(r)).count();
        let guilty = count(&|r| r.guilty);
        let absent = count(&|r| r.absent);
        let mut out = Vec::new();
        if guilty > 0 {
            out.push((
                Tone::Guilty,
                format!(
                    "{GUILTY} {} {}",
                    words::guilt(state),
                    words::thousands(guilty as u64)
                ),
            ));
        }
        if absent > 0 {
            out.push((
                Tone::Warn,
                format!(
                    "{} absent {}",
                    words::ABSENT,
                    words::thousands(absent as u64)
                ),
            ));
        }
        for phase in Phase::ALL {
            let n = count(&|r| r.phase == *phase && !r.absent);
            if n > 0 {
                let text = format!(
                    "{} {phase} {}",
                    words::letter(*phase),
                    words::thousands(n as u64)
                );
                out.push((Tone::Phase(*phase), text));
            }
        }
        if let Layout::Dense { per_cell, .. } = self.layout
            && per_cell > 1
        {
            out.push((
                Tone::Quiet,
                format!("(a letter is {per_cell} ranks, the worst of them)"),
            ));
        }
        out
    }
}

impl Widget for &Grid<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let mut pen = Pen::new(buf, area, self.theme);
        match &self.layout {
            Layout::Labelled(blocks) | Layout::Compact(blocks) => self.blocks(blocks, &mut pen),
            Layout::Dense {
                per_cell,
                per_row,
                label,
            } => self.dense(*per_cell, *per_row, *label, &mut pen),
        }
    }
}

impl Grid<'_> {
    fn blocks(&self, blocks: &Blocks<'_>, pen: &mut Pen<'_>) {
        for line in blocks.hosts.chunks(blocks.across) {
            for row in 0..blocks.rows {
                for (at, (host, ranks)) in line.iter().enumerate() {
                    pen.column(at * blocks.block);
                    pen.cell(
                        Tone::Quiet,
                        if row == 0 { host } else { "" },
                        blocks.name + 1,
                    );
                    for rank in ranks.iter().skip(row * blocks.per_row).take(blocks.per_row) {
                        let (tone, letter) = sign(self.ranks[*rank]);
                        if blocks.cell == 1 {
                            pen.put(tone, &letter.to_string());
                        } else {
                            self.labelled(self.ranks[*rank], blocks.cell, pen);
                        }
                    }
                }
                pen.down();
            }
        }
    }

    /// `10b! `, with the number at the right of its column.
    fn labelled(&self, rank: &RankView, cell: usize, pen: &mut Pen<'_>) {
        let digits = cell - 3;
        let number = rank.rank.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let phase = if rank.absent {
            words::ABSENT
        } else {
            words::letter(rank.phase)
        };
        let mark = if rank.guilty { GUILTY } else { ' ' };
        let tone = sign(rank).0;
        if rank.guilty {
            pen.put(tone, &format!("{number:>digits$}{phase}{mark}"));
        } else {
            pen.put(Tone::Quiet, &format!("{number:>digits$}"));
            pen.put(tone, &format!("{phase}{mark}"));
        }
        pen.put(Tone::Plain, " ");
    }

    fn dense(&self, per_cell: usize, per_row: usize, label: usize, pen: &mut Pen<'_>) {
        for row in self.ranks.chunks(per_cell * per_row) {
            let first = row[0]
                .rank
                .map_or_else(|| "?".to_owned(), |n| n.to_string());
            pen.cell(
                Tone::Quiet,
                &format!("{first:>width$} ", width = label - 1),
                label,
            );
            for cell in row.chunks(per_cell) {
                let worst = cell
                    .iter()
                    .max_by_key(|r| severity(r))
                    .expect("chunks are not empty");
                let (tone, letter) = sign(worst);
                pen.put(tone, &letter.to_string());
            }
            pen.down();
        }
    }
}

impl<'a> Blocks<'a> {
    /// The blocks, if they fit.
    fn fitted(
        hosts: &[(&'a str, Vec<usize>)],
        theme: Theme,
        cell: usize,
        width: usize,
        height: usize,
    ) -> Option<Self> {
        let wide = |host: &str| escape::width(&escape::fit(host, NAME, theme.glyphs));
        let name = hosts.iter().map(|(host, _)| wide(host)).max()?;
        let most = hosts.iter().map(|(_, ranks)| ranks.len()).max()?;
        let room = width.checked_sub(name + 1).filter(|room| *room >= cell)?;
        let per_row = most.min(room / cell);
        let rows = most.div_ceil(per_row);
        let block = name + 1 + per_row * cell + 2;
        // As many side by side as fit, then evenly over the lines that this makes.
        let lines = hosts.len().div_ceil(((width + 2) / block).max(1));
        let across = hosts.len().div_ceil(lines);
        let fits = hosts.len().div_ceil(across) * rows <= height;
        fits.then(|| Self {
            hosts: hosts.to_vec(),
            name,
            cell,
            block,
            across,
            rows,
            per_row,
        })
    }
}

/// The ranks of every host, hosts in the order of their first rank.
fn by_host<'a>(ranks: &[&'a RankView]) -> Vec<(&'a str, Vec<usize>)> {
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    let mut hosts: Vec<(&str, Vec<usize>)> = Vec::new();
    for (at, rank) in ranks.iter().enumerate() {
        let host = rank.host.as_deref().unwrap_or("?");
        let place = *places.entry(host).or_insert_with(|| {
            hosts.push((host, Vec::new()));
            hosts.len() - 1
        });
        hosts[place].1.push(at);
    }
    hosts
}

fn sign(rank: &RankView) -> (Tone, char) {
    match rank {
        r if r.guilty => (Tone::Guilty, GUILTY),
        r if r.absent => (Tone::Warn, words::ABSENT),
        r => (Tone::Phase(r.phase), words::letter(r.phase)),
    }
}

/// Which of several ranks stands for them: the one that most needs a look.
fn severity(rank: &RankView) -> (bool, bool, u8) {
    let phase = match rank.phase {
        Phase::Died => 250,
        Phase::Failed => 249,
        Phase::Silent => 248,
        // The one that is least far holds the others up.
        phase => 100 - phase as u8,
    };
    (rank.guilty, rank.absent, phase)
}
