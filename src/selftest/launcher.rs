//! Which rank this process is, as its launcher says, and where rank 0 is.

use std::collections::BTreeMap;

/// Where ranks meet if nobody says a port.
const PORT: u16 = 29_555;
/// Ranks that meet over one connection each.
pub const MOST: u32 = 4096;

/// A rank among those of a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// This rank.
    pub rank: u32,
    /// Ranks in all.
    pub world: u32,
    /// Rank on this host: its GPU.
    pub local: Option<u32>,
    /// The host of rank 0, as it was named.
    pub master: String,
    /// The port at which rank 0 waits.
    pub port: u16,
    /// Who says so: the names of the variables.
    pub launcher: &'static str,
}

/// Names of variables for rank, world and rank on the host.
const LAUNCHERS: [(&str, &str, &str, &str); 4] = [
    ("RANK, WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
    ),
    ("PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    (
        "Slurm",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
    ),
];

impl Place {
    /// The place that these variables give; `None` without a launcher.
    ///
    /// # Errors
    /// A fragment that says what is missing or wrong.
    pub fn of(
        variables: &BTreeMap<String, String>,
        port: Option<u16>,
    ) -> Result<Option<Self>, String> {
        let value = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        let launched = LAUNCHERS
            .iter()
            .find(|(_, rank, world, _)| value(rank).is_some() && value(world).is_some());
        let Some((launcher, rank, world, local)) = launched else {
            return Ok(None);
        };
        let number = |name: &str| {
            let text = value(name).map_or("", String::as_str);
            text.parse::<u32>()
                .map_err(|_| format!("{name}={text} is no number"))
        };
        let (rank_name, rank, world_name, world) = (rank, number(rank)?, world, number(world)?);
        if world == 0 || rank >= world {
            return Err(format!(
                "{rank_name}={rank} is no rank of {world_name}={world}"
            ));
        }
        if world > MOST {
            return Err(format!(
                "{world} ranks are more than the {MOST} that can meet here"
            ));
        }
        // Under Slurm rank 0 is on the first node of the step.
        let first = value("SLURM_STEP_NODELIST").or_else(|| value("SLURM_JOB_NODELIST"));
        let master = match (value("MASTER_ADDR"), first) {
            (Some(master), _) => master.clone(),
            (None, Some(list)) if *launcher == "Slurm" => first_host(list),
            (None, _) if world == 1 => "127.0.0.1".to_owned(),
            (None, _) => {
                return Err(format!(
                    "{launcher} says rank {rank} of {world}, and MASTER_ADDR does not say where rank 0 is"
                ));
            }
        };
        let of_store = value("MASTER_PORT").map(|text| {
            let port: Option<u16> = text.parse().ok();
            port.and_then(|port| port.checked_add(1))
                .ok_or_else(|| format!("MASTER_PORT={text} is no port that has one behind it"))
        });
        let port = match (port, of_store) {
            (Some(port), _) => port,
            // The launcher's own store may hold MASTER_PORT itself.
            (None, Some(port)) => port?,
            (None, None) => PORT,
        };
        Ok(Some(Self {
            rank,
            world,
            local: value(local).and_then(|local| local.parse().ok()),
            master,
            port,
            launcher,
        }))
    }
}

/// `node[07-09,12],login` is `node07`.
fn first_host(list: &str) -> String {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (stem, rest) = list.split_at(end);
    let Some(inside) = rest.strip_prefix('[') else {
        return stem.to_owned();
    };
    let end = inside.find([',', '-', ']']).unwrap_or(inside.len());
    let after = inside.split_once(']').map_or("", |(_, after)| after);
    let after = after.split(',').next().unwrap_or_default();
    format!("{stem}{}{after}", &inside[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pairs: &[(&str, &str)]) -> Result<Option<Place>, String> {
        let pairs = pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        Place::of(&pairs.collect(), None)
    }

    #[test]
    fn launchers() {
        assert_eq!(place(&[("HOME", "/")]), Ok(None));
        let torchrun = place(&[
            ("RANK", "3"),
            ("WORLD_SIZE", "4"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node-1"),
            ("MASTER_PORT", "29500"),
        ]);
        let torchrun = torchrun.expect("understood").expect("a place");
        assert_eq!(
            (torchrun.rank, torchrun.world, torchrun.local),
            (3, 4, Some(1))
        );
        assert_eq!(
            (torchrun.master.as_str(), torchrun.port),
            ("node-1", 29_501)
        );
        let slurm = place(&[
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_STEP_NODELIST", "gpu[07-08],gpu12"),
        ]);
        assert_eq!(slurm.expect("understood").expect("a place").master, "gpu07");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |pairs: &[(&str, &str)]| place(pairs).expect_err("an error");
        assert!(
            error(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")])
                .contains("MASTER_ADDR")
        );
        assert!(error(&[("RANK", "x"), ("WORLD_SIZE", "2")]).contains("RANK=x"));
        assert!(error(&[("RANK", "2"), ("WORLD_SIZE", "2")]).contains("no rank of"));
        assert!(
            error(&[
                ("RANK", "0"),
                ("WORLD_SIZE", "2"),
                ("MASTER_ADDR", "a"),
                ("MASTER_PORT", "65535")
            ])
            .contains("MASTER_PORT")
        );
    }

    #[test]
    fn node_lists() {
        for (list, first) in [
            ("node1", "node1"),
            ("node[1-4]", "node1"),
            ("node[007,9]", "node007"),
            ("a,b", "a"),
            ("rack[1-2]-gpu,x", "rack1-gpu"),
        ] {
            assert_eq!(first_host(list), first);
        }
    }
}
