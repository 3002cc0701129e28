//! Recorded output of launchers.

use unhang::engine::demux::Hint::WorldRank;

use crate::support::{run, text, told};

#[test]
fn recorded_launchers_name_the_rank_of_every_line() {
    let recorded = include_bytes!("launchers.txt");
    let mut out = String::new();
    let mut sections = Vec::new();
    for line in recorded.split_inclusive(|b| *b == b'\n') {
        match line.strip_prefix(b"== ") {
            Some(name) => sections.push((text(name), Vec::new())),
            None => sections
                .last_mut()
                .expect("the file begins with a name")
                .1
                .extend_from_slice(line),
        }
    }
    for (name, bytes) in &sections {
        out += &format!("== {name}{}", told(&run(bytes)));
        // What each tagged line says of its own rank is what its writer is taken for.
        if name.contains("tag") || name.contains("output-rank") || name.contains("xml") {
            let run = run(bytes);
            for at in 0..run.lines.len() {
                if let Some((_, rank)) = run.lines[at].text.rsplit_once("from rank ") {
                    let rank = rank
                        .trim_end()
                        .parse()
                        .expect("the program printed its rank");
                    assert!(
                        run.hints(at).contains(&WorldRank(rank)),
                        "{name}{:?}",
                        run.lines[at]
                    );
                }
            }
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn recorded_ray_driver() {
    insta::assert_snapshot!(told(&run(include_bytes!("ray.txt"))));
}
