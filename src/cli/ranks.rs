//! `--ranks 0-7,12`: what is shown, not what is diagnosed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::engine::snapshot::Snapshot;

/// A set of ranks as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks(Vec<RangeInclusive<u32>>);

impl FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no list of ranks such as 0-7,12");
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let range = |part: &str| {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first <= last {
                Ok(first..=last)
            } else {
                Err(wrong())
            }
        };
        text.split(',')
            .map(range)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Ranks {
    /// True if the rank is in the set.
    #[must_use]
    pub(crate) fn contains(&self, rank: u32) -> bool {
        self.0.iter().any(|range| range.contains(&rank))
    }

    /// Its members in the order in which they were typed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().cloned().flatten()
    }

    /// The snapshot with only these ranks and the findings about them or about nobody in particular.
    /// The verdict and the finding it rests on stay.
    #[must_use]
    pub(crate) fn narrow(&self, snapshot: &Snapshot) -> Snapshot {
        let mut snapshot = snapshot.clone();
        let lead = snapshot.verdict.finding;
        let mut moved = BTreeMap::new();
        let mut kept = Vec::new();
        for (ix, finding) in snapshot.findings.into_iter().enumerate() {
            let shown =
                finding.ranks.is_empty() || finding.ranks.iter().any(|rank| self.contains(*rank));
            if shown || Some(ix) == lead {
                moved.insert(ix, kept.len());
                kept.push(finding);
            }
        }
        snapshot.findings = kept;
        snapshot.verdict.finding = lead.and_then(|ix| moved.get(&ix).copied());
        snapshot
            .job
            .ranks
            .retain(|rank| rank.rank.is_some_and(|rank| self.contains(rank)));
        for rank in &mut snapshot.job.ranks {
            rank.finding = rank.finding.and_then(|ix| moved.get(&ix).copied());
        }
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let ranks: Ranks = "0-7, 12".parse().unwrap();
        assert!(ranks.contains(7) && ranks.contains(12) && !ranks.contains(8));
        for text in ["", "a", "7-0", "1-", "-1", "1,,2", "4294967296"] {
            assert!(text.parse::<Ranks>().is_err(), "{text}");
        }
    }
}
