//! Small inputs that stand for much, and inputs that never come: the answer comes all the same, in bounded memory and
//! time, and nothing else is lost.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use unhang::app::report;
use unhang::engine::catalog::Catalog;
use unhang::engine::vocab::State;
use unhang::engine::{Engine, Options};

const LINE: &str = "node-1:41:41 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n";

/// The binary, ended if it takes more CPU time or address space than this.
fn within(seconds: u32, mib: u32, args: &[&str], folder: &Path) -> Output {
    let limits = format!(
        "ulimit -t {seconds} && ulimit -v {} && exec \"$0\" \"$@\"",
        mib << 10
    );
    Command::new("sh")
        .args(["-c", &limits, env!("CARGO_BIN_EXE_unhang")])
        .args(args)
        .current_dir(folder)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    let text = String::from_utf8_lossy(&output.stderr);
    output
        .status
        .code()
        .unwrap_or_else(|| panic!("{output:?} {text}"))
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn report(path: &Path) -> report::Report {
    let plan = report::Plan {
        paths: vec![path.to_owned()],
        ..Default::default()
    };
    report::run(&plan, Engine::new(Catalog::builtin(), Options::default()))
}

/// Writes a pickle by hand: what no recorder writes.
#[derive(Default)]
struct Pickle(Vec<u8>);

impl Pickle {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let len = u32::try_from(text.len()).unwrap();
        self.raw(b"X").raw(&len.to_le_bytes()).raw(text.as_bytes())
    }

    fn int(&mut self, value: usize) -> &mut Self {
        let value = i32::try_from(value).unwrap();
        self.raw(b"J").raw(&value.to_le_bytes())
    }
}

/// A dump of `calls` calls that all name one list of 4,096 tensors of 64 dimensions.
fn shared_shapes(calls: usize, distinct: bool) -> Vec<u8> {
    let mut out = Pickle::default();
    out.raw(b"\x80\x02}(").text("dims").raw(b"]q\0(");
    out.raw(&b"K\x03".repeat(64)).raw(b"e");
    out.text("tensors").raw(b"]q\x01(");
    out.raw(&b"h\0".repeat(4_096)).raw(b"e");
    out.text("version").text("2.10");
    out.text("pg_config").raw(b"}(").text("0").raw(b"}(");
    out.text("name").text("0").text("desc").text("default_pg");
    out.text("ranks").text("[0, 1]").raw(b"uu");
    out.text("entries").raw(b"](");
    for n in 0..calls {
        out.raw(b"}(").text("record_id").int(n);
        out.text("process_group")
            .raw(b"(")
            .text("0")
            .text("default_pg")
            .raw(b"t");
        out.text("collective_seq_id").int(n + 1);
        let name = format!("nccl:op{}", if distinct { n } else { 0 });
        out.text("profiling_name").text(&name);
        out.text("input_sizes").raw(b"h\x01");
        out.text("output_sizes").raw(b"h\x01");
        out.text("state").text("scheduled").raw(b"u");
    }
    out.raw(b"eu.");
    out.0
}

#[test]
fn a_dump_that_names_one_list_again_and_again_is_read_up_to_a_bound() {
    for (calls, distinct) in [(1_000, true), (100_000, false)] {
        let dir = tempfile::tempdir().unwrap();
        let bytes = shared_shapes(calls, distinct);
        fs::write(dir.path().join("fr_rank_0"), bytes).unwrap();
        fs::write(dir.path().join("rank1.log"), LINE).unwrap();
        let output = within(60, 1_024, &["report", "--format", "json", "."], dir.path());
        assert_eq!(code(&output), 3, "{}", err(&output));
        let text = err(&output);
        let told = format!("of {calls} calls were read: it names the same lists again and again");
        assert!(
            text.contains("only its newest ") && text.contains(&told),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            json["job"]["world_size"], 2,
            "the calls that were read count"
        );
    }
}

/// The newest calls are the ones that matter.
#[test]
fn of_such_a_dump_the_newest_calls_are_kept() {
    use unhang::engine::dump::{self, Common};
    let dump = dump::read(&shared_shapes(1_000, true), &mut Common::default()).unwrap();
    assert!(dump.entries.len() > 10, "{}", dump.entries.len());
    assert_eq!(dump.entries.last().unwrap().record_id, 999);
    assert_eq!(dump.unread, 1_000 - dump.entries.len());
    let few = dump::read(&shared_shapes(10, true), &mut Common::default()).unwrap();
    assert_eq!((few.entries.len(), few.unread), (10, 0));
}

#[test]
fn a_dump_that_says_nothing_adds_no_rank() {
    let healthy = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/healthy/ddp-healthy");
    let dir = tempfile::tempdir().unwrap();
    for entry in walk(&healthy) {
        let to = dir.path().join(entry.strip_prefix(&healthy).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(&entry, to).unwrap();
    }
    let plain = report(dir.path()).snapshot;
    assert_eq!(plain.verdict.state, State::Completed);
    let mut nothing = Pickle::default();
    nothing.raw(b"\x80\x02}(").text("version").text("2.10");
    nothing
        .text("pg_config")
        .raw(b"}")
        .text("entries")
        .raw(b"]u.");
    // Beyond the world, and within it.
    for rank in [160, 2] {
        let file = dir.path().join(format!("fr_rank_{rank}"));
        fs::write(&file, &nothing.0).unwrap();
        let report = report(dir.path());
        let with = &report.snapshot;
        assert_eq!(report.problems, [], "an empty dump is a whole one");
        assert_eq!(with.verdict.state, State::Completed, "rank {rank}");
        assert_eq!(with.verdict.summary, plain.verdict.summary, "rank {rank}");
        assert_eq!(with.job.world_size, plain.job.world_size, "rank {rank}");
        assert_eq!(with.job.ranks.len(), plain.job.ranks.len(), "rank {rank}");
        assert!(with.findings.iter().any(|f| f.id == "FR004"), "it is told");
        fs::remove_file(file).unwrap();
    }
}

/// Every file below a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// One line of RAS may name every rank there is; it is kept once.
#[test]
fn ranks_that_one_line_names_share_it() {
    let dir = tempfile::tempdir().unwrap();
    let list = "1, ".repeat(5_000);
    let text = format!(
        "NCCL version 2.28.9 compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n\nJob summary\n===========\n\n#0-0 (fdcb716592c917a7) INCOMPLETE\n  \
         The missing rank(s): 0-4294967295, {list}1\n\nWarnings\n========\n\n"
    );
    fs::write(dir.path().join("ras.txt"), text).unwrap();
    let output = within(5, 320, &["report", "."], dir.path());
    assert_eq!(code(&output), 12, "{}", err(&output));
}

/// Nobody writes to the first pipes; what can be read is reported.
#[test]
fn pipes_without_a_writer_are_told_and_the_rest_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = vec![];
    for name in ["a", "b"] {
        let pipe = dir.path().join(name);
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        paths.push(pipe);
    }
    paths.push(dir.path().join("rank0.log"));
    fs::write(&paths[2], LINE).unwrap();
    let plan = report::Plan {
        paths,
        pipe_patience: Duration::from_millis(100),
        ..Default::default()
    };
    let report = report::run(&plan, Engine::new(Catalog::builtin(), Options::default()));
    assert_eq!(report.problems.len(), 2);
    for problem in &report.problems {
        assert!(problem.why.contains("nobody wrote to"), "{problem}");
        assert!(problem.hint.is_some());
    }
    assert_eq!(report.snapshot.inputs.lines, 1);
}

#[test]
fn what_is_no_whole_journal_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journals/p2p-off.journal");
    let whole = fs::read(whole).unwrap();
    fs::create_dir(dir.path().join("only")).unwrap();
    fs::create_dir(dir.path().join("none")).unwrap();
    fs::write(dir.path().join("only/a.journal"), &whole).unwrap();
    fs::write(dir.path().join("empty"), b"").unwrap();
    for len in [4, 8, 13, 14, 15, 16, 20] {
        fs::write(dir.path().join(format!("cut{len}")), &whole[..len]).unwrap();
    }
    for (name, why) in [
        ("empty", "it is empty"),
        ("cut4", "cut off within its first bytes"),
        ("cut8", "cut off within its first bytes"),
        ("cut13", "cut off within its first bytes"),
        ("cut14", "cut off within its first bytes"),
        ("cut15", "cut off within its first bytes"),
        ("cut16", "cut off before its first record"),
        ("cut20", "cut off before its first record"),
        ("only", "there is only a journal"),
        ("none", "there is none"),
    ] {
        let output = within(20, 1_024, &["replay", name], dir.path());
        let text = err(&output);
        assert_eq!(code(&output), 3, "{name}: {text}");
        assert!(
            text.contains(why) && text.contains("\nhint: "),
            "{name}: {text}"
        );
        assert!(output.stdout.is_empty(), "{name}");
    }
}

/// CPU time of this thread for one report, in seconds; the better of two.
fn cpu(file: &str, text: &str) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(file), text).unwrap();
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        let time = usage.user_time();
        time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
    };
    let once = || {
        let before = used();
        let report = report(dir.path());
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        used() - before
    };
    once().min(once())
}

/// A job of `n` ranks in one stream: each makes the calls that `calls` prints.
fn job(n: u32, calls: impl Fn(u32, &mut dyn FnMut(&str, u32))) -> String {
    let mut text = String::new();
    for rank in 0..n {
        let head = format!(
            "[rank{rank}]: node-{}:{}:{} [{}] NCCL INFO",
            rank / 8,
            1_000 + rank,
            1_000 + rank,
            rank % 8
        );
        for end in ["START", "COMPLETE"] {
            text.push_str(&format!(
                "{head} ncclCommInitRankConfig comm 0x55 rank {rank} nranks {n} cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init {end}\n"
            ));
        }
        let mut ordinal = 0;
        calls(rank, &mut |function, number| {
            text.push_str(&format!(
                "{head} {function}: opCount {ordinal:x} sendbuff 0x7f0000000000 recvbuff 0x7f0000000000 count {} datatype 7 op 0 root {} comm 0x55 [nranks={n}] stream 0x56\n",
                if function == "AllReduce" { number } else { 4 },
                if function == "AllReduce" { 0 } else { number },
            ));
            ordinal += 1;
        });
    }
    text
}

/// NCCL RAS, all of whose ranks have an error.
fn answer(n: u32) -> String {
    let rank = |rank: u32| {
        format!(
            "{{\"rank\": {rank}, \"host\": \"10.0.0.1\", \"pid\": {}, \"status\": {{\"async_error\": 6}}, \"collective_counts\": {{\"AllReduce\": {}}}}}",
            1_000 + rank,
            7 - rank % 2
        )
    };
    let ranks: Vec<String> = (0..n).map(rank).collect();
    format!(
        "{{\"nccl_version\": \"2.28.9\", \"communicators\": [{{\"hash\": \"0xabc\", \"size\": {n}, \"ranks\": [{}]}}]}}\n",
        ranks.join(",\n")
    )
}

/// Four times the ranks take some four times as long, never sixteen times.
#[test]
fn time_grows_with_the_input_and_no_faster() {
    type Make = fn(u32) -> String;
    let makes: [(&str, &str, Make); 4] = [
        ("one behind", "job.log", |n| {
            job(n, |rank, call| {
                call("AllReduce", 8);
                if rank != 5 {
                    call("AllReduce", 8);
                }
            })
        }),
        ("each another size", "job.log", |n| {
            job(n, |rank, call| call("AllReduce", rank + 1))
        }),
        ("one sends to all", "job.log", |n| {
            job(n, |rank, call| {
                if rank == 0 {
                    (1..n).for_each(|peer| call("Send", peer));
                }
            })
        }),
        ("errors in RAS", "ras.json", answer),
    ];
    for (name, file, make) in makes {
        let (few, many) = (3_000, 12_000);
        let once = cpu(file, &make(few)).max(0.02);
        let four = cpu(file, &make(many));
        let ratio = four / once;
        assert!(
            ratio < 9.0,
            "{name}: {ratio:.1} times as long: {once} s, {four} s"
        );
    }
}

/// One stream may be of every rank of the largest job.
#[test]
fn sixteen_thousand_ranks_in_one_stream_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let text = job(16_384, |rank, call| {
        call("AllReduce", 8);
        if rank != 16_000 {
            call("AllReduce", 8);
        }
    });
    fs::write(dir.path().join("job.log"), text).unwrap();
    let verdict = &report(dir.path()).snapshot.verdict;
    assert_eq!(verdict.ranks, [16_000]);
}
