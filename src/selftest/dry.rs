//! The dry run: a ring all-reduce over TCP between the ranks, on the interface that NCCL would take. It tests
//! names, routes, ports and firewalls, and is no evidence about NCCL.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::launcher::Place;
use super::team::{Team, connect, seconds};
use crate::error::in_words;
use crate::probe::host::Host;
use crate::probe::interfaces::{self, Settings};

/// Numbers that each rank brings.
const COUNT: usize = 1 << 20;
/// In front of the data: who connects.
const HELLO: usize = 12;
/// Says that it is one of ours.
const MAGIC: [u8; 8] = *b"unhang\x00\x01";

/// One rank, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// The interface that it listens on.
    pub interface: Option<String>,
    /// Where.
    pub address: Option<SocketAddr>,
    /// Why it cannot.
    pub fault: Option<String>,
}

/// What a step came to, for one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Word {
    fault: Option<String>,
    /// The fault is that nothing came from another rank, since this turn of the ring: an effect, where that one
    /// says why, says nothing, or waits since an earlier turn.
    waits: Option<usize>,
    seconds: f64,
}

/// What came out, the same on every rank that could meet the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Who came, by rank.
    pub members: Vec<Option<Member>>,
    /// What is wrong, the cause first; empty if all went well.
    pub faults: Vec<String>,
    /// Steps that every rank ended.
    pub done: Vec<&'static str>,
    /// Bytes that each rank brought, and the slowest rank's seconds.
    pub reduced: Option<(usize, f64)>,
}

/// Runs this rank's part.
#[must_use]
pub fn run(host: &Host, place: &Place, patience: Duration) -> Answer {
    let mut answer = Answer::default();
    let (own, listener) = introduce(host);
    let mut team = match Team::meet(place, patience) {
        Ok(team) => team,
        Err(why) => {
            answer
                .faults
                .push(format!("rank {} on {}: {why}", place.rank, own.host));
            return answer;
        }
    };
    match team.exchange(own, patience) {
        Ok(members) => answer.members = members,
        Err(why) => {
            answer.faults.push(format!("rank {}: {why}", place.rank));
            return answer;
        }
    }
    answer.faults = absent(&answer.members, place, patience);
    if !answer.faults.is_empty() {
        return answer;
    }
    answer.done.push("all ranks came");
    let (mut next, mut previous, mut word) = (None, None, Word::default());
    match (listener, ring(&answer.members, place, patience)) {
        (Some(listener), Ok(stream)) => {
            next = Some(stream);
            match accept(&listener, place, patience) {
                Ok(stream) => previous = Some(stream),
                Err(why) => {
                    word.fault = Some(why);
                    word.waits = Some(0);
                }
            }
        }
        (_, Err(why)) => word.fault = Some(why),
        (None, Ok(_)) => {}
    }
    if !settle(&mut answer, &mut team, word, place, patience) {
        return answer;
    }
    answer.done.push("neighbours connected");
    let started = Instant::now();
    let mut word = Word::default();
    if let (Some(next), Some(previous)) = (next, previous)
        && let Err((why, waits)) = all_reduce(next, previous, place, patience)
    {
        word.fault = Some(why);
        word.waits = waits;
    }
    word.seconds = started.elapsed().as_secs_f64();
    let slowest = match team.exchange(word, patience * 2) {
        Ok(words) => take(&mut answer, &words),
        Err(why) => {
            answer.faults.push(format!("rank {}: {why}", place.rank));
            0.0
        }
    };
    if answer.faults.is_empty() {
        answer.done.push("all-reduce right");
        answer.reduced = Some((COUNT * 8, slowest));
    }
    answer
}

/// The interface as NCCL would take it, and a port on it.
fn introduce(host: &Host) -> (Member, Option<TcpListener>) {
    let variables = host.variables();
    let value = |name: &str| variables.get(name).map(String::as_str);
    let found = interfaces::interfaces(host);
    let settings = Settings {
        ifname: value("NCCL_SOCKET_IFNAME"),
        family: value("NCCL_SOCKET_FAMILY"),
        ..Settings::default()
    };
    let mut member = Member {
        host: host.hostname().unwrap_or_else(|| "unknown".to_owned()),
        pid: std::process::id(),
        interface: None,
        address: None,
        fault: None,
    };
    let chosen = interfaces::nccl_choice(&found, &host.addresses(), settings);
    let Some((name, address)) = chosen.into_iter().next() else {
        let there: Vec<String> = found
            .iter()
            .filter(|i| !i.addresses.is_empty())
            .take(8)
            .map(|i| {
                format!(
                    "{}{}",
                    i.name,
                    if i.running == Some(false) {
                        " (no link)"
                    } else {
                        ""
                    }
                )
            })
            .collect();
        let set = settings
            .ifname
            .map_or("no interface is usable".to_owned(), |list| {
                format!("NCCL_SOCKET_IFNAME={list} matches no usable interface")
            });
        member.fault = Some(format!("{set}; there are {}", there.join(", ")));
        return (member, None);
    };
    member.interface = Some(name);
    match bind(address) {
        Ok((listener, at)) => {
            member.address = Some(at);
            (member, Some(listener))
        }
        Err(error) => {
            member.fault = Some(format!("cannot listen at {address}: {}", in_words(&error)));
            (member, None)
        }
    }
}

fn bind(address: IpAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((address, 0))?;
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    Ok((listener, at))
}

fn absent(members: &[Option<Member>], place: &Place, patience: Duration) -> Vec<String> {
    let mut faults = Vec::new();
    for (rank, member) in members.iter().enumerate() {
        match member {
            None => faults.push(format!(
                "rank {rank} never came to rank 0 at {} port {} in {}: it was not started, ended, or cannot reach it",
                place.master,
                place.port,
                seconds(patience)
            )),
            Some(member) => {
                if let Some(fault) = &member.fault {
                    faults.push(format!("rank {rank} on {}: {fault}", member.host));
                }
            }
        }
    }
    faults
}

/// Connects to the next rank of the ring and says who it is.
fn ring(
    members: &[Option<Member>],
    place: &Place,
    patience: Duration,
) -> Result<TcpStream, String> {
    let next = (place.rank + 1) % place.world;
    let member = members.get(next as usize).and_then(Option::as_ref);
    let Some(address) = member.and_then(|member| member.address) else {
        return Err(format!("rank {next} has no address"));
    };
    let interface = member
        .and_then(|m| m.interface.as_deref())
        .unwrap_or_default();
    let at = |why: &str| {
        format!(
            "rank {next} at {} ({interface}) port {}: {why}",
            address.ip(),
            address.port()
        )
    };
    let mut stream = connect(address, Instant::now() + patience).map_err(|why| at(&why))?;
    let mut hello = [0; HELLO];
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..].copy_from_slice(&place.rank.to_le_bytes());
    stream
        .set_write_timeout(Some(patience))
        .and_then(|()| stream.write_all(&hello))
        .map_err(|error| at(&in_words(&error)))?;
    Ok(stream)
}

/// Waits for the rank before this one; whoever else connects is turned away.
fn accept(listener: &TcpListener, place: &Place, patience: Duration) -> Result<TcpStream, String> {
    let previous = (place.rank + place.world - 1) % place.world;
    // The rank before may need its own deadline to get here.
    let until = Instant::now() + patience;
    while Instant::now() < until {
        match listener.accept() {
            Ok((mut stream, _)) => {
                let mut hello = [0; HELLO];
                let heard = stream
                    .set_nonblocking(false)
                    .and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(2))))
                    .and_then(|()| stream.read_exact(&mut hello));
                if heard.is_ok() && hello[..8] == MAGIC && hello[8..] == previous.to_le_bytes() {
                    return Ok(stream);
                }
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
    Err(format!(
        "rank {previous} did not connect to it in {}",
        seconds(patience)
    ))
}

/// Hears how the step went for all.
fn settle(
    answer: &mut Answer,
    team: &mut Team,
    word: Word,
    place: &Place,
    patience: Duration,
) -> bool {
    match team.exchange(word, patience * 2) {
        Ok(words) => {
            take(answer, &words);
        }
        Err(why) => answer.faults.push(format!("rank {}: {why}", place.rank)),
    }
    answer.faults.is_empty()
}

/// Takes everybody's word; the slowest one's seconds. Whoever only waits is not named where another one says why
/// or says nothing; of those that wait alone, the first to wait is next to the fault.
fn take(answer: &mut Answer, words: &[Option<Word>]) -> f64 {
    let is_cause = |word: &Option<Word>| {
        word.as_ref()
            .is_none_or(|w| w.fault.is_some() && w.waits.is_none())
    };
    let known = words.iter().any(is_cause);
    let first = words.iter().flatten().filter_map(|word| word.waits).min();
    let mut slowest: f64 = 0.0;
    for (rank, word) in words.iter().enumerate() {
        match word {
            None => answer.faults.push(format!(
                "nothing more came from rank {rank} to rank 0: it hangs, or its process or host is gone"
            )),
            Some(word) => {
                slowest = slowest.max(word.seconds);
                let effect = word.waits.is_some() && (known || word.waits > first);
                if let Some(fault) = word.fault.as_ref().filter(|_| !effect) {
                    answer.faults.push(format!("from rank {rank}: {fault}"));
                }
            }
        }
    }
    slowest
}

/// Ring all-reduce: `world - 1` steps that add, as many that pass the sums on. Every number is checked. Where a
/// neighbour is to blame, the error says since which step.
fn all_reduce(
    next: TcpStream,
    previous: TcpStream,
    place: &Place,
    patience: Duration,
) -> Result<(), (String, Option<usize>)> {
    let world = place.world as usize;
    let rank = place.rank as usize;
    if world == 1 {
        return Ok(());
    }
    let mut data: Vec<u64> = (0..COUNT).map(|at| at as u64 * 3 + rank as u64).collect();
    let part = COUNT.div_ceil(world);
    let bounds = |chunk: usize| (chunk * part).min(COUNT)..((chunk + 1) * part).min(COUNT);
    let timeouts = next
        .set_write_timeout(Some(patience))
        .and_then(|()| previous.set_read_timeout(Some(patience)));
    timeouts.map_err(|error| (in_words(&error), None))?;
    let (mut next, mut previous) = (next, previous);
    for step in 0..2 * (world - 1) {
        let adds = step < world - 1;
        // The part that came in one step goes out in the next.
        let sent = bounds((rank + 2 * world - step % world) % world);
        let got = bounds((rank + 2 * world - step % world - 1) % world);
        let bytes: Vec<u8> = data[sent].iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut heard = vec![0; got.len() * 8];
        // Both at once: a ring in which all write first would stand still.
        let (wrote, read) = thread::scope(|scope| {
            let writer = scope.spawn(|| next.write_all(&bytes));
            let read = previous.read_exact(&mut heard);
            (writer.join(), read)
        });
        let of = |rank: usize| rank % world;
        read.map_err(|error| {
            let (from, how) = (of(rank + world - 1), waited(&error, patience));
            (
                format!("nothing more came from rank {from}: {how}"),
                Some(step),
            )
        })?;
        match wrote {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let (to, how) = (of(rank + 1), waited(&error, patience));
                return Err((format!("rank {to} takes nothing more: {how}"), Some(step)));
            }
            Err(_) => return Err(("the writer ended".to_owned(), None)),
        }
        for (at, number) in got.zip(heard.chunks_exact(8)) {
            let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
            data[at] = if adds {
                data[at].wrapping_add(number)
            } else {
                number
            };
        }
    }
    let ranks = world as u64;
    let wrong = data
        .iter()
        .enumerate()
        .find(|(at, sum)| **sum != *at as u64 * 3 * ranks + ranks * (ranks - 1) / 2);
    match wrong {
        None => Ok(()),
        Some((at, sum)) => Err((format!("the sum is wrong: element {at} is {sum}"), None)),
    }
}

fn waited(error: &std::io::Error, patience: Duration) -> String {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            format!("for {}", seconds(patience))
        }
        _ => in_words(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[Option<Word>]) -> Vec<String> {
        let mut answer = Answer::default();
        take(&mut answer, words);
        answer.faults
    }

    fn waits(step: usize, what: &str) -> Option<Word> {
        Some(Word {
            fault: Some(what.to_owned()),
            waits: Some(step),
            seconds: 4.0,
        })
    }

    #[test]
    fn who_waits_for_the_guilty_one_is_not_named() {
        // Rank 1 hangs: the ring behind it stands still, one turn later at each rank.
        let mut words = [
            waits(2, "nothing more came from rank 3"),
            None,
            waits(0, "nothing more came from rank 1"),
            waits(1, "nothing more came from rank 2"),
        ];
        let faults = named(&words);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("nothing more came from rank 1 to rank 0"));
        // It is there, and its data is lost on the way to rank 2.
        words[1] = waits(3, "nothing more came from rank 0");
        assert_eq!(
            named(&words),
            ["from rank 2: nothing more came from rank 1"]
        );
        // It says itself what is wrong.
        words[1] = Some(Word {
            fault: Some("no route".to_owned()),
            ..Word::default()
        });
        assert_eq!(named(&words), ["from rank 1: no route"]);
    }
}
