//! Variables: workarounds that are on, names that nobody reads.

use super::Trouble;
use crate::engine::catalog::variables;
use crate::engine::vocab::FixKind;
use crate::probe::facts::Facts;
use crate::probe::libraries::version_of;
use crate::probe::variables::What;

pub(super) fn check(facts: &Facts, found: &mut Vec<Trouble>) {
    let version = facts.libraries.nccl_version();
    for set in &facts.variables {
        let value = set.value.as_deref().unwrap_or("(not shown)");
        let setting = format!("{}={value}", set.name);
        match &set.what {
            What::Misspelled(near) => found.push(
                Trouble::wrong(
                    "misspelled",
                    format!("{setting}: nobody reads this variable; {near} is one that is read"),
                )
                .why("it has no effect, and nothing tells")
                .fix(
                    FixKind::Env,
                    format!("unset {}; export {near}={value}", set.name),
                ),
            ),
            What::Workaround(meaning) => found.push(
                Trouble::note("workaround", format!("{setting} is on: {meaning}"))
                    .why("a workaround that was left on costs speed or hides a fault")
                    .fix(
                        FixKind::Env,
                        format!(
                            "unset {} and run `unhang selftest` with and without it",
                            set.name
                        ),
                    ),
            ),
            What::Removed(last) if version.is_none_or(|v| Some(v) > version_of(last)) => found
                .push(Trouble::note(
                    "removed",
                    format!("{setting}: NCCL reads it up to {last} only"),
                )),
            _ => {}
        }
        // Read only by versions that are newer than the one that was found.
        let first = variables::find(&set.name).and_then(|known| version_of(known.first));
        if let (Some(first), Some(version)) = (first, version)
            && version < first
        {
            found.push(Trouble::note(
                "too-new",
                format!(
                    "{setting}: NCCL reads it since {}.{}.{}; here is {}.{}.{}",
                    first.0, first.1, first.2, version.0, version.1, version.2
                ),
            ));
        }
    }
}
