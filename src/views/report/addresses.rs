//! Which address every subsystem chose on every host, as a table.

use crate::engine::snapshot::{AddressView, HostView, JobView, Snapshot};
use crate::engine::vocab::Class;
use crate::views::escape::{self, Glyphs};
use crate::views::words;

/// The order in which a job uses its subsystems; others follow by name.
const ORDER: [&str; 6] = ["ray", "c10d", "gloo", "bootstrap", "net", "oob"];

/// Fewer hosts that are alike keep rows of their own.
const GROUP: usize = 3;

/// Hosts × subsystems.
#[derive(Debug)]
pub struct AddressTable {
    /// Subsystems that anybody printed an address of: the columns.
    pub subsystems: Vec<String>,
    /// One row per host, in the order of the snapshot.
    pub rows: Vec<AddressRow>,
}

/// One host of the table.
#[derive(Debug)]
pub struct AddressRow {
    /// The host's name as printed.
    pub host: String,
    /// Its ranks.
    pub ranks: Vec<u32>,
    /// True if its choice is unlike the other hosts'.
    pub odd: bool,
    /// One cell per subsystem; empty if it printed none.
    pub cells: Vec<String>,
}

impl AddressTable {
    /// The table of a job.
    #[must_use]
    pub fn of(job: &JobView) -> Self {
        let mut subsystems: Vec<String> = Vec::new();
        for address in job.hosts.iter().flat_map(|h| &h.addresses) {
            if !subsystems.contains(&address.subsystem) {
                subsystems.push(address.subsystem.clone());
            }
        }
        subsystems.sort_by_key(|s| {
            (
                ORDER.iter().position(|o| o == s).unwrap_or(ORDER.len()),
                s.clone(),
            )
        });
        let rows = job
            .hosts
            .iter()
            .map(|host| AddressRow::of(host, &subsystems))
            .collect();
        Self { subsystems, rows }
    }

    /// True if a host is unlike the others, so that the table explains something.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.rows.iter().any(|row| row.odd)
    }

    /// True if the table explains something: a host is unlike the others, or the verdict is about addresses.
    #[must_use]
    pub fn explains(&self, snapshot: &Snapshot) -> bool {
        let about = matches!(
            snapshot.verdict.class,
            Class::WrongInterface | Class::NetworkUnreachable
        );
        let several = snapshot.job.hosts.len() > 1 && !self.subsystems.is_empty();
        self.differs() || (about && several)
    }

    /// Hosts that chose alike, in one network, as one row: `node-[0-2,4]  data0 10.20.0.*`.
    #[must_use]
    pub fn grouped(self) -> Self {
        let mut groups: Vec<(Vec<String>, Vec<AddressRow>)> = Vec::new();
        for row in self.rows {
            let key: Vec<String> = std::iter::once(row.odd.to_string())
                .chain(row.cells.iter().map(|cell| network(cell).to_owned()))
                .collect();
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        let rows = groups.into_iter().flat_map(|(_, rows)| {
            if rows.len() < GROUP {
                rows
            } else {
                vec![AddressRow::together(&rows)]
            }
        });
        Self {
            rows: rows.collect(),
            subsystems: self.subsystems,
        }
    }

    /// The rows to show where only `limit` fit: odd ones first of all, at least one other to compare
    /// with, in the order of the table; and how many are left out.
    #[must_use]
    pub fn most_telling(&self, limit: usize) -> (Vec<&AddressRow>, usize) {
        let odd = self
            .rows
            .iter()
            .filter(|row| row.odd)
            .count()
            .min(limit.saturating_sub(1));
        let mut left = [limit - odd.min(limit), odd];
        let shown: Vec<&AddressRow> = self
            .rows
            .iter()
            .filter(|row| {
                let left = &mut left[usize::from(row.odd)];
                let take = *left > 0;
                *left -= usize::from(take);
                take
            })
            .collect();
        let hidden = self.rows.len() - shown.len();
        (shown, hidden)
    }
}

impl AddressTable {
    /// By subsystem the interface and network that more than half of the hosts chose, if any did.
    #[must_use]
    pub fn usual(&self) -> Vec<Option<&str>> {
        let most = |at: usize| {
            let mut chosen: Vec<&str> = self.rows.iter().map(|r| network(&r.cells[at])).collect();
            chosen.sort_unstable();
            let alike = chosen
                .chunk_by(|a, b| a == b)
                .max_by_key(|alike| alike.len())?;
            (alike.len() * 2 > chosen.len()).then_some(alike[0])
        };
        (0..self.subsystems.len()).map(most).collect()
    }

    /// Widths of the host's column and of every subsystem's, two blanks apart, in `width` columns.
    pub(super) fn columns(&self, rows: &[&AddressRow], width: usize, glyphs: Glyphs) -> Vec<usize> {
        let wide = |text: &str| escape::width(&escape::harmless(text, glyphs));
        let widest = |heading: usize, cells: &mut dyn Iterator<Item = &String>| {
            cells
                .map(|cell| wide(cell))
                .max()
                .unwrap_or(0)
                .max(heading)
                .max(1)
        };
        let mut columns = vec![widest(0, &mut rows.iter().map(|row| &row.host))];
        for (at, name) in self.subsystems.iter().enumerate() {
            columns.push(widest(
                wide(name),
                &mut rows.iter().map(|row| &row.cells[at]),
            ));
        }
        narrow(
            &mut columns,
            width.saturating_sub(2 * self.subsystems.len()),
        );
        columns
    }
}

/// Takes columns from the widest until all fit.
fn narrow(columns: &mut [usize], width: usize) {
    let mut surplus = columns.iter().sum::<usize>().saturating_sub(width);
    while let Some(widest) = columns.iter_mut().max().filter(|c| surplus > 0 && **c > 1) {
        *widest -= 1;
        surplus -= 1;
    }
}

impl AddressRow {
    /// True if this cell is what makes the host odd: another interface or network than the usual one.
    #[must_use]
    pub fn stands_out(&self, at: usize, usual: Option<&str>) -> bool {
        let cell = &self.cells[at];
        self.odd && !cell.is_empty() && usual.is_some_and(|usual| network(cell) != usual)
    }

    /// Rows that are alike as one.
    fn together(rows: &[Self]) -> Self {
        let cells = (0..rows[0].cells.len()).map(|at| {
            let (first, rest) = (&rows[0].cells[at], &rows[1..]);
            if rest.iter().all(|row| row.cells[at] == *first) {
                first.clone()
            } else {
                format!("{}.*", network(first))
            }
        });
        Self {
            host: words::hosts(rows.iter().map(|row| row.host.as_str())),
            ranks: rows.iter().flat_map(|row| row.ranks.clone()).collect(),
            odd: rows[0].odd,
            cells: cells.collect(),
        }
    }

    fn of(host: &HostView, subsystems: &[String]) -> Self {
        let cell = |subsystem: &String| {
            let chosen = host.addresses.iter().filter(|a| a.subsystem == *subsystem);
            chosen.map(written).collect::<Vec<_>>().join(", ")
        };
        Self {
            host: host.name.clone(),
            ranks: host.ranks.clone(),
            odd: host.odd,
            cells: subsystems.iter().map(cell).collect(),
        }
    }
}

/// A cell without the last number of an IPv4 address; other cells as they are.
fn network(cell: &str) -> &str {
    match cell.rsplit_once('.') {
        Some((net, host)) if !host.is_empty() && host.bytes().all(|b| b.is_ascii_digit()) => net,
        _ => cell,
    }
}

fn written(address: &AddressView) -> String {
    match &address.interface {
        Some(interface) if !interface.is_empty() => format!("{interface} {}", address.address),
        _ => address.address.clone(),
    }
}
