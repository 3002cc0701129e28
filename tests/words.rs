//! What a report says fits the job: a fix is for a framework that is there, a word agrees with its
//! number, and the way back leads to what was there before.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regex::Regex;
use unhang::engine::finding::Finding;
use unhang::engine::snapshot::Snapshot;

#[path = "common/drive.rs"]
mod drive;
#[path = "common/jobs.rs"]
mod jobs;

use jobs::Case;

/// Every recorded job with what unhang says of it.
fn answers() -> Vec<(Case, Snapshot)> {
    let cases = ["cases", "healthy"].into_iter().flat_map(jobs::recorded);
    cases
        .map(|case| {
            let logs: Vec<(&str, &[u8])> = case
                .logs
                .iter()
                .map(|log| (log.name.as_str(), log.bytes.as_slice()))
                .collect();
            let answer = drive::diagnose(&logs, case.stuck);
            (case, answer)
        })
        .collect()
}

/// Everything that a rule's texts say in a finding, without what its title quotes from the logs.
fn said(finding: &Finding) -> Vec<String> {
    let mut all = vec![finding.explanation.clone()];
    all.extend(finding.missing.iter().cloned());
    for fix in &finding.fixes {
        all.push(fix.text.clone());
        all.extend(fix.env.keys().cloned());
        all.extend(fix.caution.iter().chain(&fix.undo).cloned());
    }
    all
}

fn contains(case: &Case, text: &str) -> bool {
    let mut finds = case.logs.iter().map(|log| &log.bytes);
    finds.any(|bytes| memchr::memmem::find(bytes, text.as_bytes()).is_some())
}

#[test]
fn a_fix_is_for_a_framework_that_is_there() {
    const TORCH: [&str; 6] = [
        "TORCH_",
        "torch.",
        "torchrun",
        "new_group",
        "init_process_group",
        "DDP",
    ];
    let (mut without_torch, mut without_nccl, mut report) = (0, 0, String::new());
    for (case, answer) in answers() {
        let no_torch = !contains(&case, "torch") && !contains(&case, "c10d");
        // PyTorch's log has no such word where it only prints `[rank0]:` in front of an exception.
        let no_torch = no_torch && case.dumps.is_empty() && !contains(&case, "[rank");
        let no_nccl = !contains(&case, "NCCL");
        without_torch += usize::from(no_torch);
        without_nccl += usize::from(no_nccl);
        for (finding, text) in answer
            .findings
            .iter()
            .flat_map(|f| said(f).into_iter().map(move |text| (f, text)))
        {
            let torch = no_torch && TORCH.iter().any(|word| text.contains(word));
            if torch || (no_nccl && text.contains("NCCL does not compare calls")) {
                writeln!(report, "{} {}: {text}", case.name, finding.id).expect("a string");
            }
        }
    }
    assert!(
        without_torch >= 20 && without_nccl >= 10,
        "{without_torch} and {without_nccl} jobs"
    );
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn words_agree_with_their_numbers() {
    let odd = [
        r"\b[Rr]ank \d+ (use|have|are|were|do) ",
        // Not `the log of ranks 2, 3 is`, `printed by ranks 2, 3 is`.
        r"(^|[^fy] )[Rr]anks \d+(-|, )[0-9, -]*\d (uses|has|is|was|does) ",
        r"\b1 (GPUs|ranks|bytes|lines|hosts|processes)\b",
        r"\b([2-9]|\d\d+) (GPU|rank|host) (is|was|has)\b",
        r"\[\[|\]\]|(^| )\(\)| ,|  ",
        r"\. (rank|ranks|host) ",
    ];
    let odd: Vec<Regex> = odd.iter().map(|o| Regex::new(o).expect("sound")).collect();
    let mut report = String::new();
    for (case, answer) in answers() {
        let titles = answer.findings.iter().map(|f| f.title.clone());
        let texts = answer.findings.iter().flat_map(said);
        let all = titles.chain(texts).chain([answer.verdict.summary.clone()]);
        for text in all.filter(|text| odd.iter().any(|odd| odd.is_match(text))) {
            writeln!(report, "{}: {text}", case.name).expect("a string");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn the_way_back_leads_to_what_was_there() {
    let undo: BTreeMap<String, String> = answers()
        .into_iter()
        .filter_map(|(case, answer)| {
            let lead = answer.findings.into_iter().next()?;
            let undo = lead.fixes.into_iter().find_map(|fix| fix.undo)?;
            Some((case.name, undo))
        })
        .collect();
    let back = |name: &str| undo.get(&format!("cases/{name}")).map(String::as_str);
    assert_eq!(back("iface-auto"), Some("unset NCCL_SOCKET_IFNAME"));
    assert_eq!(
        back("iface-disjoint"),
        Some("export NCCL_SOCKET_IFNAME=mgmt0")
    );
    assert_eq!(
        back("iface-missing-one-rank"),
        Some("export NCCL_SOCKET_IFNAME='=ib7'")
    );
    // One host had another value than the others, and Gloo's variable was not set.
    assert_eq!(
        back("iface-lo-one-rank"),
        Some("unset GLOO_SOCKET_IFNAME; export NCCL_SOCKET_IFNAME=lo")
    );
}

/// To NCCL `eth1` is `eth10` too, and Gloo takes no `=`.
#[test]
fn a_fix_names_one_interface() {
    let mut named = 0;
    for (case, answer) in answers() {
        let fixes = answer.findings.iter().flat_map(|f| &f.fixes);
        for (name, value) in fixes.flat_map(|fix| &fix.env) {
            if name.ends_with("_SOCKET_IFNAME") && !value.contains('<') {
                let exact = value.starts_with('=');
                assert_eq!(
                    exact,
                    name == "NCCL_SOCKET_IFNAME",
                    "{}: {name}={value}",
                    case.name
                );
                named += 1;
            }
        }
    }
    assert!(named > 0);
}

#[test]
fn where_a_rank_is_shows_its_own_last_line() {
    let last: BTreeMap<String, Vec<String>> = answers()
        .into_iter()
        .filter_map(|(case, answer)| {
            let lead = answer.findings.into_iter().next()?;
            let lines = lead.evidence.into_iter().map(|e| e.text).collect();
            Some((case.name, lines))
        })
        .collect();
    for (name, line) in [
        ("ddp-uneven-inputs", "[job] rank 2 epoch done"),
        ("missing-rank-init", "[job] rank 1 loading weights"),
        ("new-group-one-side", "[job] rank 1 step 1 ok"),
        ("rank-killed-16", "[job] rank 6 step 1 ok"),
        ("v2.31.2-skip", "[job] rank 1 step 2 sum 2.0"),
    ] {
        let lines = &last[&format!("cases/{name}")];
        assert!(
            lines.iter().any(|text| text == line),
            "{name} shows {lines:#?}"
        );
    }
}
